"""The loop that measures: every setting once, with random numbers of its own, and the arrays that come of it."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases.experiments import toy
from unpooled.reproduce import EXPERIMENTS
from unpooled.reproduce.experiment import _measure

GRIDS = (
    st.lists(st.text(max_size=3), min_size=1, max_size=3),
    st.lists(st.integers(2, 99), min_size=1, max_size=3, unique=True),
    st.integers(1, 4),
)


def look(seen):
    """Keep every setting, and answer with a number and an array of its own random numbers."""

    def once(setting):
        seen.append(setting)
        rng = setting.rng()
        return {"number": rng.random(), "array": rng.random(3)}

    return once


@given(*GRIDS, st.booleans())
def test_every_case_size_and_repetition_is_measured_once_and_found_in_its_place(cases, sizes, repetitions, same_data):
    seen, steps = [], []
    data = _measure(look(seen), cases, sizes, repetitions, 7, same_data, lambda: steps.append(1))
    assert len(steps) == len(seen) == len(cases) * len(sizes) * repetitions
    for number, (j, size) in product(range(len(cases)), enumerate(sizes)):
        case = [] if same_data else [number]
        seeds = [[7, *case, size, i] for i in range(repetitions)]
        expected = [np.random.default_rng(seed).random(4) for seed in seeds]
        np.testing.assert_array_equal(data.at("number", number, j), [values[0] for values in expected])
        np.testing.assert_array_equal(data.at("array", number, j), [values[1:] for values in expected])
        np.testing.assert_array_equal(data.over("number", number)[:, j], data.at("number", number, j))
    assert data.over("array").shape == (repetitions, len(sizes), 3)
    assert data.names() == ["number", "array"]


@given(*GRIDS)
def test_settings_share_random_numbers_only_where_the_experiment_says_so(cases, sizes, repetitions):
    settings_of = {}
    for same_data in (False, True):
        seen = []
        _measure(look(seen), cases, sizes, repetitions, 7, same_data)
        settings_of[same_data] = seen
    draws = {same: [setting.rng().random() for setting in seen] for same, seen in settings_of.items()}
    assert len(set(draws[False])) == len(draws[False])
    assert len(set(draws[True])) == len(sizes) * repetitions


def test_a_setting_begins_its_random_numbers_anew_and_has_others_under_another_key():
    seen = []
    _measure(look(seen), (None,), (None,), 1, 7)
    (setting,) = seen
    assert (setting.case, setting.size, setting.seed) == (None, None, (7, 0))
    assert setting.rng().random() == setting.rng().random() != setting.rng(1).random()


def test_a_number_may_be_measured_in_some_settings_only():
    def once(setting):
        return {"always": 1.0} | ({"last": 2.0} if setting.size == 20 and setting.repetition < 2 else {})

    data = _measure(once, (None,), (10, 20), 3, 7)
    assert data.at("last").tolist() == [2.0, 2.0]
    with pytest.raises(KeyError):
        data.at("last", size=0)


def test_a_pair_in_a_protocol_is_its_quick_and_its_full_value():
    experiment = toy(quick={"seed": 1, "sizes": ([2, 3], [2, 3, 4]), "repetitions": 5})
    assert experiment.quick == {"seed": 1, "sizes": [2, 3], "repetitions": 5}
    assert experiment.full == {"seed": 1, "sizes": [2, 3, 4], "repetitions": 5}
    rates = EXPERIMENTS["spectral-rates"]
    assert rates.steps(rates.quick) == 4 * 4 * 12
    assert rates.steps(rates.full) == 11 * 6 * 24
