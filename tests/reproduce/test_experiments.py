"""Every experiment runs as its protocol says, tells what it found, survives its file, and can find a claim wrong."""

import json
from importlib.util import find_spec

import numpy as np
import pytest

from unpooled.reproduce import EXPERIMENTS, PAPERS
from unpooled.reproduce import experiment as running
from unpooled.reproduce.claims import centring, less, private, spectral
from unpooled.reproduce.outcome import FAILS, HOLDS, UNDECIDED
from unpooled.reproduce.page import _describe_figure, _draw_panels, _list_labels

STATUSES = {HOLDS, FAILS, UNDECIDED}
TINY = {  # what is smaller than in the quick protocols
    "less-ridge": {"sizes": [16, 32], "repetitions": 3, "feature_repetitions": 2},
    "less-split": {"size": 12, "public": 20, "sources": [1, 3, 12], "repetitions": 2},
    "less-unlabeled": {"labels": 6, "factors": [1, 4], "repetitions": 2, "draws": 2},
    "less-floor": {"labels": 80, "public": [8, 24], "rounds": [1, 6], "repetitions": 2},
    "spectral-rates": {"sizes": [16, 32], "repetitions": 2, "draws": 2},
    "spectral-saturation": {"sizes": [16, 32], "repetitions": 2, "n_lams": 5, "bias_rows": 64, "bias_lams": [0.4, 0.2]},
    "spectral-blocks": {"cases": [["Brownian", 1.0, "tikhonov"]], "sizes": [32, 64], "repetitions": 2, "draws": 2},
    "spectral-whose-lambda": {"size": 48, "machines": [2, 4], "repetitions": 2, "draws": 2},
    "spectral-rules": {"sizes": [16, 32], "repetitions": 2},
    "centring-constant": {"sizes": [20, 40], "repetitions": 2, "features_of": 60},
    "centring-rate": {"sizes": [16, 32], "repetitions": 2, "regularities": [1.0]},
    "centring-distributed": {"sizes": [16, 32], "repetitions": 2, "draws": 2},
    "centring-unlabeled": {
        "size": 32,
        "machines": 4,
        "times": [1, 2, 4],
        "tried": [2, 8],
        "most_rows": 64,
        "repetitions": 2,
    },
    "correntropy-robust": {"size": 24, "repetitions": 2, "scales": [1.0], "huber": [0.4], "stops": [4, 8]},
    "correntropy-scale": {"sizes": [16, 32], "scales": [2.0, 4.0, 8.0], "repetitions": 2, "draws": 2},
    "correntropy-distributed": {"sizes": [16, 32], "machines": [1, 4], "repetitions": 2, "draws": 2},
    "private-noise": {"sizes": [1000, 10_000]},
    "private-excess": {
        "sizes": [60, 120],
        "epsilons": [1.0],
        "repetitions": 2,
        "descents": 2,
        "public": 30,
        "features": 20,
    },
    "private-frontier": {"size": 120, "epsilons": [1.0], "repetitions": 2, "fresh": 60, "public": 40, "features": 20},
}
NOISED = {"private-excess", "private-frontier"}  # the noise that protects has no seed


@pytest.fixture(scope="module")
def tiny_outcomes():
    """Every experiment at a tiny size: its protocol, what it found, and how often it said that a step was done."""
    result = {}
    for name, experiment in EXPERIMENTS.items():
        if experiment.private and find_spec("opendp") is None:
            continue
        protocol, steps = {**experiment.quick, **TINY[name]}, []
        result[name] = (protocol, experiment.run(protocol, lambda steps=steps: steps.append(1)), len(steps))
    return result


def of(outcomes, name):
    if name not in outcomes:
        pytest.skip("private experiments need the extra privacy")
    return outcomes[name]


def test_every_paper_has_experiments_whose_protocols_say_their_seed():
    assert set(TINY) == set(EXPERIMENTS)
    assert {experiment.paper for experiment in EXPERIMENTS.values()} == set(PAPERS)
    for name, experiment in EXPERIMENTS.items():
        assert experiment.name == name
        for protocol in (experiment.quick, experiment.full):
            assert json.loads(json.dumps(dict(protocol))) == dict(protocol)  # plain data, lists and no tuples
            assert isinstance(protocol["seed"], int)
            assert TINY[name].keys() <= protocol.keys()
        assert set(experiment.quick) == set(experiment.full)
    seeds = [experiment.quick["seed"] for experiment in EXPERIMENTS.values()]
    assert len(set(seeds)) == len(seeds)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_it_runs_and_tells_of_it_in_tables_panels_and_verdicts(tiny_outcomes, name):
    protocol, outcome, steps = of(tiny_outcomes, name)
    assert steps == EXPERIMENTS[name].steps(protocol)
    assert outcome.tables
    assert outcome.panels
    assert outcome.verdicts
    for table in outcome.tables:
        assert all(len(row) == len(table.heads) for row in table.cells())
        assert all("nan" not in cell for row in table.cells() for cell in row)
    for panel in outcome.panels:
        for curve in panel.curves:
            assert len(curve.x) == len(curve.y) > 0
            assert np.all(np.isfinite(curve.y))
    for verdict in outcome.verdicts:
        assert verdict.status in STATUSES
        assert verdict.claim
        assert verdict.evidence
        assert "\n" not in verdict.claim + verdict.evidence
    assert any(panel.title in _describe_figure(outcome) for panel in outcome.panels)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_what_was_found_is_the_same_from_its_file(tiny_outcomes, name, tmp_path):
    protocol, outcome, _ = of(tiny_outcomes, name)
    path = running._path_of(tmp_path, EXPERIMENTS[name], protocol)
    running._write_result(path, EXPERIMENTS[name], protocol, outcome, 1.5)
    assert running._read_result(path, EXPERIMENTS[name], protocol) == (outcome, 1.5)


@pytest.mark.parametrize("name", ["less-split", "spectral-rules", "correntropy-robust"])
def test_a_protocol_gives_the_same_figures_again(tiny_outcomes, name):
    protocol, outcome, _ = tiny_outcomes[name]
    assert name not in NOISED
    assert EXPERIMENTS[name].run(protocol, lambda: None) == outcome


def test_every_experiment_can_be_drawn(tiny_outcomes):
    pytest.importorskip("matplotlib")
    for _, outcome, _ in tiny_outcomes.values():
        figure = _draw_panels(outcome.panels)
        titles = [ax.get_title() for ax in figure.axes if ax.axison]
        assert titles == [panel.title for panel in outcome.panels]
        for ax, panel in zip(figure.axes, outcome.panels):
            labels = [text.get_text() for text in ax.get_legend().get_texts()]
            assert labels == _list_labels(panel)
            assert len(set(labels)) == len(labels)
            assert {curve.label for curve in panel.curves} | {label for label, _ in panel.marks} == set(labels)


def test_identities_and_errata_come_out_at_any_size(tiny_outcomes):
    """Verdicts without chance: centring, the split, u = x, and the formulas that are known to be misprinted."""
    verdicts = {v.claim: v for _, outcome, _ in tiny_outcomes.values() for v in outcome.verdicts}
    known = [v for v in verdicts.values() if v.known_wrong]
    assert len(known) >= 5
    assert all(v.status == FAILS for v in known)
    for start in ("The centred kernel makes", "(7): the split", "With u = x", "Theorem 2 as its proof", "(22): the"):
        (verdict,) = [v for claim, v in verdicts.items() if claim.startswith(start)]
        assert verdict.status == HOLDS


PLANTED = {
    **EXPERIMENTS["spectral-rates"].quick,
    "cases": [["Sobolev 1", 1.0, "tikhonov"]],
    "sizes": [32, 64, 128, 256],
}


def test_a_rate_that_is_wrong_is_found_wrong(monkeypatch):
    """λ that does not fall leaves the bias where it is: Theorem 2 then fails, with the exponent as evidence."""
    good = EXPERIMENTS["spectral-rates"].run(PLANTED, lambda: None)
    assert [v.status for v in good.verdicts] == [HOLDS, HOLDS]
    monkeypatch.setattr(spectral.Target, "lam_from", lambda *_: 1.0)
    bad = EXPERIMENTS["spectral-rates"].run(PLANTED, lambda: None)
    assert [v.status for v in bad.verdicts] == [FAILS, FAILS]
    assert "slower, beyond the interval" in bad.verdicts[0].evidence


def test_a_theory_that_promises_too_much_is_found_wrong(monkeypatch):
    monkeypatch.setattr(spectral.theory, "rate", lambda n, *_, **__: n**-0.9)
    assert EXPERIMENTS["spectral-rates"].run(PLANTED, lambda: None).verdicts[0].status == FAILS


def without_centring(kernel, fit_intercept=True, **more):
    return spectral.SpectralRegressor(kernel, fit_intercept=False, **more)


def with_a_wrong_lam(kernel, lam, fit_intercept):
    return less.SpectralRegressor(kernel, lam=1.01 * lam, fit_intercept=fit_intercept)


@pytest.mark.parametrize(
    ("name", "module", "broken", "fault", "claim"),
    [
        ("centring-constant", centring, "SpectralRegressor", without_centring, "The centred kernel makes"),
        ("less-ridge", less, "LESSRegressor", with_a_wrong_lam, "With u = x"),
        ("private-noise", private.sgd, "wang_guo", private.sgd.wang_guo_as_printed, "Theorem 2 as its proof"),
    ],
)
def test_a_fault_in_the_library_makes_an_identity_fail(monkeypatch, name, module, broken, fault, claim):
    monkeypatch.setattr(module, broken, fault)
    outcome = EXPERIMENTS[name].run({**EXPERIMENTS[name].quick, **TINY[name]}, lambda: None)
    (verdict,) = [v for v in outcome.verdicts if v.claim.startswith(claim)]
    assert verdict.status == FAILS
