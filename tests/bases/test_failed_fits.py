"""A fit of a basis that fails, or is interrupted wherever it may be, changes nothing; columns can be named later.

Tests `_base/fits.py`.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import unpooled as up
from tests.estimators.test_failed_fits import Interrupting
from unpooled.bases import CosineFeatures, EmpiricalFeatures, RandomFeatures
from unpooled.kernels import Gaussian

ROOM = str(Path(up.__file__).parent / "bases")
rng = np.random.default_rng(0)
U = pd.DataFrame(rng.normal(size=(30, 2)), columns=["a", "b"])
OTHER = rng.normal(size=(20, 3))

kinds = pytest.mark.parametrize("kind", [EmpiricalFeatures, RandomFeatures, CosineFeatures])


class State:
    """All that a basis holds: its attributes, its digest, its features to the bit."""

    def __init__(self, basis):
        self.attributes, self.digest, self.features = dict(vars(basis)), basis.digest, basis.transform(U)

    def check(self, basis):
        assert vars(basis).keys() == self.attributes.keys()
        assert all(vars(basis)[name] is value for name, value in self.attributes.items())
        assert basis.digest == self.digest
        np.testing.assert_array_equal(basis.transform(U), self.features)
        assert up.bases.find(self.digest, []) is basis


def fit_basis(kind):
    return kind(Gaussian(1.0), n_features=6).fit(U)


REFUSED = {
    "weights that are no numbers": lambda basis: basis.fit(OTHER, sample_weight=np.full(20, np.nan)),
    "weights of zero": lambda basis: basis.fit(OTHER, sample_weight=np.zeros(20)),
    "no rows": lambda basis: basis.fit(OTHER[:0]),
    "rows that are no numbers": lambda basis: basis.fit(np.full((20, 3), np.nan)),
    "a number of features": lambda basis: basis.set_params(n_features=-3).fit(OTHER),
    "a kernel": lambda basis: basis.set_params(kernel=Gaussian([1.0, 2.0])).fit(OTHER),
}


@kinds
@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_fit_of_a_basis_changes_nothing(kind, name):
    basis = fit_basis(kind)
    given, before = basis.get_params(deep=False), State(basis)
    with pytest.raises(ValueError, match=r"\w"):
        REFUSED[name](basis)
    before.check(basis.set_params(**given))


@kinds
def test_a_refused_first_fit_leaves_a_basis_that_has_learned_nothing(kind):
    basis = kind(Gaussian(1.0), n_features=-3)
    before = dict(vars(basis))
    with pytest.raises(ValueError, match="n_features must be"):
        basis.fit(U)
    assert vars(basis) == before


@kinds
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_a_fit_of_a_basis_that_is_interrupted_at_any_line_changes_nothing(kind, error):
    with Interrupting(room=ROOM) as counting:
        fit_basis(kind).fit(OTHER)
    with Interrupting(room=ROOM) as first:
        basis = fit_basis(kind)
    assert counting.lines > first.lines > 5
    before = State(basis)
    for at in range(1, counting.lines - first.lines):
        with Interrupting(at, error, ROOM), pytest.raises(error):
            basis.fit(OTHER)
        before.check(basis)


@kinds
def test_a_basis_that_was_fitted_again_is_no_longer_found_by_its_old_digest(kind):
    basis = fit_basis(kind)
    old = basis.digest
    basis.fit(OTHER)
    assert up.bases.find(old, []) is None
    assert up.bases.find(basis.digest, []) is basis


@kinds
def test_a_basis_whose_columns_are_named_later_is_the_one_of_a_frame(kind):
    basis = kind(Gaussian(1.0), n_features=6).fit(U.to_numpy())
    assert basis.digest != fit_basis(kind).digest
    basis.name_columns(U.columns)
    assert basis.digest == fit_basis(kind).digest
    np.testing.assert_array_equal(basis.transform(U), fit_basis(kind).transform(U))


@kinds
@pytest.mark.parametrize("names", [["a"], ["a", "b", "c"], ["a", 1]])
def test_names_that_do_not_go_with_the_columns_are_refused_and_change_nothing(kind, names):
    basis = fit_basis(kind)
    before = State(basis)
    with pytest.raises(ValueError, match="names must be one text for each of 2 columns"):
        basis.name_columns(names)
    before.check(basis)
