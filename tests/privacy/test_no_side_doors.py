"""Everything that can be read off a private object is public, or has noise, or follows from such facts.

``KIND`` declares what every attribute is; one that is not declared fails. Two proofs stand behind it:

- *public*: fits on data sets that share nothing but their number of rows agree on it, each with noise of its own;
- *noised*: it may depend on the records through the noised answers only. So answers are replaced by fixed numbers, and
  fits on different records must then agree on everything, bit for bit: attributes, files, predictions, words.

Tests `privacy/rounds/labels.py`.
"""

from __future__ import annotations

import inspect
import logging
import pickle
import tempfile
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest

import unpooled as up
from tests.made_up import CUBE, points, regression, sine
from unpooled import privacy
from unpooled.kernels import Gaussian, Polynomial
from unpooled.losses import Huber
from unpooled.privacy import noise

PUBLIC, NOISED = "public", "noised"
SPAN = {
    "basis_digest_": PUBLIC,
    "kernel_": PUBLIC,
    "n_features_in_": PUBLIC,
    "feature_names_in_": PUBLIC,
    "one_target_": PUBLIC,
    "coef_": NOISED,
    "coef_matrix_": NOISED,
    "intercept_": NOISED,
    "predictor_": NOISED,
}
KIND = {
    # Which looks at the labels were taken follows from noised counts, so what was spent is not public beforehand.
    # Without public rows the basis is of rows that are made up from noised counts.
    up.PrivateRegressor: SPAN
    | {"basis_": NOISED, "basis_digest_": NOISED, "kernel_": NOISED, "privacy_": NOISED, "history_": NOISED}
    | {"plan_": PUBLIC, "sites_": PUBLIC},
    up.PrivateSGDRegressor: SPAN
    | {"basis_": PUBLIC, "plan_": PUBLIC, "privacy_": PUBLIC, "sensitivity_": PUBLIC, "sigma_": PUBLIC},
    up.Summary: {
        **dict.fromkeys(("known_basis", "contents", "digest", "folder", "n_rows", "one_target", "order"), PUBLIC),
        **dict.fromkeys(("privacy", "targets", "weight", "loss_sum", "shares", "label_share"), PUBLIC),
        **dict.fromkeys(("sums", "feature_label_sum", "feature_sum", "label_sum", "label_square_sum", "gram"), NOISED),
    },
    up.SummaryRegressor: SPAN
    | {
        **dict.fromkeys(("privacy_", "centering_", "loss_", "n_rounds_", "summary_order_", "targets_"), PUBLIC),
        **dict.fromkeys(("summary_", "floor_", "lam_", "n_features_rule_", "path_", "rounds_", "shift_"), NOISED),
    },
}

N, C = 400, 2.0
U = points(0, 60, between=CUBE)
BASIS = up.bases.EmpiricalFeatures(Gaussian(1.0), 12).fit(U)
SMALL = {"kernel": Gaussian(1.0), "n_features": 12}
CUBIC = up.bases.EmpiricalFeatures(Polynomial(3), 6).fit(U)  # without a bound: a far row is beyond all numbers
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    START = up.SummaryRegressor(lam=0.1).fit_summary(up.Summary.of(CUBIC, U, np.sin(3 * U[:, 0])))


def summary(data, labels, order):
    return up.Summary.of(BASIS, data, labels, order=order, privacy=privacy.PrivacyRequest(1.0, 1e-6, label_bound=C))


def residuals(data, labels, basis, **kappa):
    asked = privacy.PrivacyRequest(1.0, 1e-6, **kappa)
    return up.Summary.of(basis, data, labels, residuals_of=START, loss=Huber(0.5), privacy=asked)


def from_parquet(X, y):
    with tempfile.TemporaryDirectory() as folder:
        pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y}).to_parquet(f"{folder}/rows.parquet")
        return up.Summary.of(
            BASIS, f"{folder}/rows.parquet", "y", privacy=privacy.PrivacyRequest(1.0, 1e-6, label_bound=C)
        )


FITS = {
    "rounds": lambda X, y: up.PrivateRegressor(5.0, 1e-6, C, **SMALL).fit(X, y, public=U),
    "rounds, no public": lambda X, y: up.PrivateRegressor(5.0, 1e-6, C, **SMALL).fit(X, y),
    "rounds, no bound": lambda X, y: up.PrivateRegressor(5.0, 1e-6, **SMALL).fit(X, y, public=U),
    "rounds, sites": lambda X, y: up.PrivateRegressor(5.0, 1e-6, C, noise="site", **SMALL).fit(
        X, y, public=U, sites=np.arange(N) % 3
    ),
    "rounds, frame": lambda X, y: up.PrivateRegressor(5.0, 1e-6, C, **SMALL).fit(
        pd.DataFrame(X, columns=list("ab")), y
    ),
    "rounds, basis": lambda X, y: up.PrivateRegressor(5.0, 1e-6, C, kernel=BASIS).fit(X, y),
    "tight": lambda X, y: up.PrivateSGDRegressor(5.0, 1e-6, C, **SMALL).fit(X, y, public=U),
    "paper": lambda X, y: up.PrivateSGDRegressor(5.0, 1e-6, C, method="paper", n_steps=200, **SMALL).fit(X, y),
    "summary 1": lambda X, y: summary(X, y, 1),
    "summary 2": lambda X, y: summary(X, y, 2),
    "summary, parquet": from_parquet,
    "summary, shrunk": lambda X, y: up.Summary.of(
        CUBIC, X, y, order=2, privacy=privacy.PrivacyRequest(1.0, 1e-6, label_bound=C, kappa=3.0)
    ),
    "residuals": lambda X, y: residuals(X, y, CUBIC, kappa=3.0),
    "residuals, other basis": lambda X, y: residuals(X, y, BASIS),
    "model of summary 1": lambda X, y: up.SummaryRegressor(center=True).fit_summary(summary(X, y, 1)),
    "model of summary 2": lambda X, y: up.SummaryRegressor(center=True).fit_summary(summary(X, y, 2)),
}

records = partial(regression, n=N, between=CUBE, function=sine(3, slope=0.5))


def tempting():
    """Records of which a program might have something to say."""
    X, y = records(1)
    third = np.arange(N) % 3 == 0
    return {
        "others": records(2),
        "far away": (1e3 * X + 1e4, y),
        "beyond all": (np.where(third[:, None], 1e300, X), y),
        "labels alike": (X, np.ones(N)),
        "labels zero": (X, np.zeros(N)),
        "labels beyond the bound": (X, 1e6 * y),
        "outliers": (X, np.where(third, 1e300, y)),
        "rows alike": (np.ones((N, 2)), y),
        "all zero": (np.zeros((N, 2)), np.zeros(N)),
        "tiny": (1e-300 * X, 1e-300 * y),
        "whole": (np.rint(3 * X).astype(int), np.rint(y).astype(int)),
    }


def attributes(one):
    """Return all public attributes that are not methods; arguments are known to the caller."""
    names = {name for name in dir(one) if not name.startswith("_") and hasattr(one, name)}
    names |= {name for name in vars(one) if not name.startswith("_")}
    given = set(one.get_params()) if hasattr(one, "get_params") else set()
    methods = {name for name in dir(type(one)) if inspect.isroutine(getattr(type(one), name))}
    metadata = {name for name in names if name.startswith("set_") and name.endswith("_request")}
    return {name: getattr(one, name) for name in names - given - methods - metadata}


def bits(value):
    return pickle.dumps(value)


def test_every_attribute_is_declared():
    X, y = records(1)
    for name, fit in FITS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            one = fit(X, y)
        undeclared = set(attributes(one)) - set(KIND[type(one)])
        assert not undeclared, f"{name}: say in KIND whether {sorted(undeclared)} is public or noised, and prove it"


def test_nothing_is_declared_that_is_not_there():
    X, y = records(1)
    seen: dict[type, set[str]] = {}
    for fit in FITS.values():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            one = fit(X, y)
        seen.setdefault(type(one), set()).update(attributes(one))
    assert seen.keys() == KIND.keys()
    for cls, names in seen.items():
        assert set(KIND[cls]) - names <= {"feature_names_in_"}, cls


@pytest.mark.parametrize("name", FITS)
def test_what_is_public_does_not_depend_on_the_records(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what noise alone may warn of, such as a floor; the next test looks at words
        one, other = FITS[name](*records(1)), FITS[name](*tempting()["labels beyond the bound"])
    kinds = KIND[type(one)]
    known = {attribute: value for attribute, value in attributes(one).items() if kinds[attribute] == PUBLIC}
    assert known
    for attribute, value in known.items():
        assert bits(value) == bits(getattr(other, attribute)), attribute


class Replay:
    """Answers that are the same whatever the records are: numbers of about the size that noise has."""

    def __init__(self, seed):
        self.seed, self.calls = seed, []

    def __call__(self, planned, values):
        values = np.asarray(values)
        assert values.size == planned.size
        assert np.all(np.isfinite(values))
        made = np.random.default_rng([self.seed, len(self.calls)]).normal(size=values.shape)
        self.calls.append(np.array(values))
        # Some of the size of real answers, so that what follows takes the same ways as in a real fit.
        return made * planned.sigma + (self.seed % 2) * np.abs(made) * planned.bound / 10


def replayed(name, data, monkeypatch, capfd, caplog, path, seed):
    """Everything that a fit says and leaves behind, where answers are replayed."""
    replay = Replay(seed)
    monkeypatch.setattr(noise.GridGaussian, "add", lambda self, values: replay(self, values))
    monkeypatch.setattr("unpooled.estimators.private_sgd.draw_rows", lambda n, steps: np.arange(steps) % n)
    capfd.readouterr()
    caplog.clear()
    with warnings.catch_warnings(record=True) as heard, caplog.at_level(logging.DEBUG):
        warnings.simplefilter("always")
        one = FITS[name](*data)
    said = (
        [str(warning.message) for warning in heard],
        capfd.readouterr(),
        [entry.getMessage() for entry in caplog.records],
    )
    if isinstance(one, up.Summary):
        one.save(path)
        told = one.describe()
    else:
        up.save(one, path)
        frame = pd.DataFrame(U, columns=list("ab")) if hasattr(one, "feature_names_in_") else U
        told = repr(one) + str(getattr(one, "privacy_", "")) + str(getattr(one, "plan_", "")) + str(one.predict(frame))
    return one, said, told, path.read_bytes(), replay.calls


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", FITS)
def test_all_else_follows_from_the_noised_answers(name, seed, monkeypatch, capfd, caplog, tmp_path):
    def run(data):
        return replayed(name, data, monkeypatch, capfd, caplog, tmp_path / "file", seed)

    one, said, told, file, seen = run(records(1))
    told_apart = 0
    for kind, data in tempting().items():
        other, other_said, other_told, other_file, other_seen = run(data)
        assert len(seen) == len(other_seen), kind
        told_apart += any(not np.array_equal(a, b) for a, b in zip(seen, other_seen))
        assert said == other_said, kind
        assert told == other_told, kind
        assert file == other_file, kind
        assert vars(one).keys() == vars(other).keys(), kind
        for attribute in vars(one):  # those with an underscore before them as well
            assert bits(vars(one)[attribute]) == bits(vars(other)[attribute]), (kind, attribute)
    assert told_apart > len(tempting()) / 2, "the answers had nothing to tell"


def test_the_replay_would_show_a_side_door(monkeypatch, capfd, caplog, tmp_path):
    """Planted: the mean of the labels, in the place where the learner believes them to lie."""
    from unpooled.privacy.rounds import learner

    original, mean = learner.learn, 0.0

    def leaking(*how):
        found = yield from original(*how)
        found.coef[0] += mean
        return found

    monkeypatch.setattr("unpooled.estimators.private.learn", leaking)
    found = []
    for data in (records(1), records(2)):
        mean = float(np.mean(data[1]))
        found.append(replayed("rounds", data, monkeypatch, capfd, caplog, tmp_path / "file", 0))
    assert found[0][3] != found[1][3]
    assert found[0][0].intercept_ != found[1][0].intercept_
