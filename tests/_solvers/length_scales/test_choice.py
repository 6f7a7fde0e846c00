"""length_scale="auto": it finds what matters, what must not matter does not, and without labels it refuses."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.utils.estimator_checks import estimator_checks_generator

import unpooled as up
from tests.cases.kernels import SEEDS, few, name_of
from tests.made_up import regression, two_scales
from unpooled import privacy
from unpooled._solvers.length_scales import search as length_scales
from unpooled._solvers.length_scales import search as spanned
from unpooled._solvers.length_scales.path import LONGEST
from unpooled.kernels import Centered, FromFunction, Gaussian, Laplacian, Linear, Matern

ROUNDED = 0.02  # what the last digit of the data may do to a minimum along which the error is flat
AUTO = [Gaussian("auto"), Matern("auto", 1.5), Matern("auto", 2.5), Laplacian("auto")]


def chosen(X, y, kernel=None, **more):
    return up.choose_length_scales(Gaussian("auto") if kernel is None else kernel, X, y, **more)


# What is found


@pytest.mark.parametrize("kernel", AUTO, ids=name_of)
def test_features_that_do_not_matter_get_long_length_scales(kernel):
    X, y = two_scales(n=250)
    found = chosen(X, y, kernel)
    spans = found.length_scale / X.std(axis=0)
    assert spans.shape == (4,)
    assert min(spans[2:]) > 3 * max(spans[:2])
    assert found.search_.taken == "each feature"
    assert type(found) is type(kernel)


def test_new_rows_are_predicted_much_better_than_with_the_median():
    X, y = two_scales(n=300, d=12)
    new, truth = two_scales(1, n=500, noise=0.0, d=12)
    error = {
        scale: np.mean((up.SpectralRegressor(Gaussian(scale), fit_intercept=True).fit(X, y).predict(new) - truth) ** 2)
        for scale in ("auto", "median")
    }
    assert error["auto"] < 0.2 * error["median"]


def test_a_feature_that_never_changes_is_left_out():
    X, y = two_scales()
    X[:, 3] = 7.0
    assert chosen(X, y).length_scale[3] == LONGEST


@pytest.mark.parametrize("n", [100, 620])
def test_many_features_of_nothing_do_not_make_it_worse_than_the_median(n):
    rng = np.random.default_rng(n)
    X, new = rng.normal(size=(n, 40)), rng.normal(size=(1000, 40))
    weak = [0.5 * rows[:, 0] for rows in (X, new)]
    for y, truth in ((rng.normal(size=n), np.zeros(1000)), (weak[0] + rng.normal(size=n), weak[1])):
        error = [
            np.mean((up.SpectralRegressor(Gaussian(scale), fit_intercept=True).fit(X, y).predict(new) - truth) ** 2)
            for scale in ("auto", "median")
        ]
        assert error[0] < error[1] + 0.05  # of labels whose noise has variance one


def test_where_the_median_is_better_it_is_taken_and_that_is_said():
    X, y = regression(n=60, d=30, noise=0.3)
    X[:, 1:] *= 0.01  # what the columns' spread says about them, and nothing else does in so few rows
    found = chosen(X, y)
    assert found == Gaussian("median").resolve(X)
    assert found.search_.taken == "median"
    assert found.search_.held_out["median"] < min(v for k, v in found.search_.held_out.items() if k != "median")
    assert "on held-out rows" in found.search_.why


def many_rows(kernels, X, y):
    """Return the report of the measurement with many rows, for kernels of which the last stands for the median."""
    first, second = (spanned.Rows(X[i::2], y[i::2, None], np.ones(len(X) // 2)) for i in range(2))
    report = length_scales.Search("each feature", "because")
    times = length_scales._rescale_for_many_rows(dict(enumerate(kernels[:-1])), kernels[-1], first, second, report)
    return times, report


def test_with_many_rows_the_best_multiple_is_taken_and_the_median_where_that_is_better():
    X, y = two_scales(n=200)
    good, bad, worse = (Gaussian(times * X.std(axis=0)) for times in (1.0, 0.1, 0.01))
    times, report = many_rows([worse, good, bad], X, y)
    assert times == 1
    assert report.taken == "each feature"
    assert report.many_rows["1 times"] < report.many_rows["median"] < report.many_rows["0 times"]
    times, report = many_rows([worse, bad, good], X, y)
    assert times == 1
    assert report.taken == "median"
    assert "because; with 100 rows to learn from, the median distance was better" in report.why


def test_many_rows_are_looked_at_where_there_are_many(monkeypatch):
    X, y = two_scales(n=300)
    before = chosen(X, y)
    assert before.search_.many_rows == {}
    monkeypatch.setattr(length_scales, "LARGE", 300)
    found = chosen(X, y)
    shares = found.search_.many_rows
    best = min((name for name in shares if name != "median"), key=shares.get)
    assert_allclose(found.length_scale, float(best.split()[0]) * before.length_scale)


@few
@given(seed=SEEDS, n_targets=st.integers(1, 2), weighted=st.booleans())
def test_in_the_span_of_all_rows_it_is_kernel_ridge_regression(seed, n_targets, weighted):
    rng = np.random.default_rng(seed)
    X, Y = rng.normal(size=(30, 2)), rng.normal(size=(30, n_targets))
    weights = rng.uniform(0.5, 2.0, 30) if weighted else np.ones(30)
    seen, held = (spanned.Rows(X[part], Y[part], weights[part]) for part in (slice(20), slice(20, 30)))
    kernel = 2.0 * Laplacian(1.5)
    found = spanned.squared_errors(kernel, 20, seen, held)
    fits = [
        up.SpectralRegressor(kernel, lam=2.0 * lam, fit_intercept=True).fit(seen.X, seen.Y, sample_weight=seen.weights)
        for lam in spanned.LAMS
    ]
    errors = [np.sum((fit.predict(held.X).reshape(10, -1) - held.Y) ** 2, axis=1) for fit in fits]
    assert_allclose(found, min(errors, key=lambda e: held.weights @ e), rtol=1e-6)


def test_the_report_tells_the_leave_one_out_error_and_the_errors_on_rows_held_out():
    X, y = two_scales()
    report = chosen(X, y).search_
    assert report.n_rows == 120
    assert {"median", "one for all", "α = 0.1"} <= set(report.held_out)
    model = up.SpectralRegressor(chosen(X, y), lam=report.lam, fit_intercept=True).fit(X, y)
    near = up.SpectralRegressor(model.kernel_, lam=np.asarray([report.lam]), fit_intercept=True).fit(X, y)
    assert near.path_.criterion[0] / y.var() == pytest.approx(report.leave_one_out, rel=1e-6)


# What must not matter


@pytest.mark.parametrize("folds", [600, 100], ids=["each held out", "some held out"])
def test_scaling_or_shifting_a_column_scales_its_length_scale(folds, monkeypatch):
    monkeypatch.setattr(length_scales, "FOLDED", folds)
    X, y = two_scales(n=200)
    found = chosen(X, y).length_scale
    twos = np.asarray([2.0**-10, 8.0, 1.0, 256.0])  # which round nothing
    assert_array_equal(chosen(X * twos, y).length_scale, twos * found)
    factors = np.asarray([1e-3, 7.0, 1.0, 250.0])
    assert_allclose(chosen(X * factors + 3.0 * factors, y).length_scale, factors * found, rtol=ROUNDED)


def test_scaling_and_shifting_labels_changes_nothing():
    X, y = two_scales()
    found = chosen(X, y).length_scale
    assert_array_equal(chosen(X, -1024.0 * y).length_scale, found)
    for a, b in ((1e-4, 0.0), (37.0, -1e4), (-2.0, 1.0)):
        assert_allclose(chosen(X, a * y + b).length_scale, found, rtol=ROUNDED)


@pytest.mark.parametrize("n", [120, 1000])
def test_the_order_of_rows_and_columns_changes_nothing(n, monkeypatch):
    for name, rows in (("MOST_ROWS", 150), ("MOST_HELD_OUT", 150), ("FOLDED", 140)):
        monkeypatch.setattr(length_scales, name, rows)
    X, y = two_scales(n=n)
    rng = np.random.default_rng(5)
    rows, columns = rng.permutation(n), rng.permutation(4)
    found, other = chosen(X, y), chosen(X[rows][:, columns], y[rows])
    assert_allclose(other.length_scale, found.length_scale[columns], rtol=ROUNDED)


def test_two_searches_give_the_same_bits():
    X, y = two_scales()
    assert_array_equal(chosen(X, y).length_scale, chosen(X, y).length_scale)


def test_the_rows_drawn_do_not_depend_on_labels_and_the_seed_draws_others(monkeypatch):
    monkeypatch.setattr(length_scales, "MOST_ROWS", 60)
    monkeypatch.setattr(length_scales, "MOST_HELD_OUT", 60)
    X, y = two_scales(n=400)
    Z = X / X.std(axis=0)
    assert len(set(length_scales.draw_rows(Z, 120, 0))) == 120
    assert set(length_scales.draw_rows(Z, 120, 0)) != set(length_scales.draw_rows(Z, 120, 1))
    assert not np.array_equal(chosen(X, y).length_scale, chosen(X, y, random_state=1).length_scale)


def test_rows_of_weight_zero_are_as_if_they_were_not_there():
    X, y = two_scales(n=150)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 150)
    weights[::3] = 0.0
    kept = weights > 0
    wrong = np.where(kept, y, 1e3)
    without = chosen(X[kept], y[kept], sample_weight=weights[kept])
    assert_allclose(chosen(X, wrong, sample_weight=weights).length_scale, without.length_scale, rtol=1e-6)
    assert_allclose(chosen(X, wrong, sample_weight=8 * weights).length_scale, without.length_scale, rtol=ROUNDED)
    models = [
        up.SpectralRegressor(Gaussian("auto"), fit_intercept=False).fit(X, wrong, sample_weight=w)
        for w in (weights, weights)
    ]
    assert models[0].kernel_ == models[1].kernel_


def test_rows_that_weigh_nearly_nothing_do_not_choose():
    X, y = two_scales(n=300)
    noisy = np.arange(300) % 2 == 0
    y = np.where(noisy, 5 * np.sin(3 * X[:, 3]), y)
    found = chosen(X, y, sample_weight=np.where(noisy, 1e-6, 1.0))
    assert found.length_scale[3] > 5 * found.length_scale[0]
    assert chosen(X, y).length_scale[3] < 5 * chosen(X, y).length_scale[0]


# What it takes


def test_several_labels_share_length_scales_each_in_its_own_unit():
    X, y = two_scales(n=250)
    other = np.sin(2 * X[:, 2])
    both = chosen(X, np.column_stack([y, 1e6 * other, np.full(250, 3.0)]))
    spans = both.length_scale / X.std(axis=0)
    assert spans[3] > 3 * max(spans[:3])
    in_one_unit = chosen(X, np.column_stack([y, other]))
    assert_allclose(both.length_scale, in_one_unit.length_scale, rtol=ROUNDED)


def test_frames_lists_tensors_and_single_precision_give_the_same_numbers():
    X, y = two_scales()
    X, y = X.astype(np.float32), y.astype(np.float32)
    expected = chosen(X.astype(float), y.astype(float)).length_scale
    for rows, labels in (
        (X, y),
        (pd.DataFrame(X, columns=list("abcd")), pd.Series(y)),
        (X.tolist(), y.tolist()),
        (torch.from_numpy(X), torch.from_numpy(y)),
    ):
        assert_allclose(chosen(rows, labels).length_scale, expected, rtol=1e-5)
    model = up.SpectralRegressor(Gaussian("auto"), fit_intercept=False).fit(torch.from_numpy(X), torch.from_numpy(y))
    assert isinstance(model.predict(torch.from_numpy(X)), torch.Tensor)
    assert_allclose(model.kernel_.length_scale, expected, rtol=1e-5)


def test_sums_products_and_multiples_get_numbers_in_every_free_place_and_nowhere_else():
    X, y = two_scales(n=150)
    kernel = 2.0 * (Gaussian("auto") + Matern("median", 2.5) * Laplacian("auto")) + Linear()
    before = clone(kernel)
    found = chosen(X, y, kernel)
    assert kernel == before
    assert kernel.search_ is None
    inner = found.left.kernel
    assert inner.left.length_scale.shape == inner.right.right.length_scale.shape == (4,)
    assert inner.right.left == Matern("median", 2.5).resolve(X)
    assert found.right == Linear()
    assert not np.array_equal(inner.left.length_scale, inner.right.right.length_scale)


def test_a_kernel_with_nothing_to_choose_is_only_resolved():
    X, y = two_scales()
    found = chosen(X, y, Gaussian("median") + Linear())
    assert found == (Gaussian("median") + Linear()).resolve(X)
    assert found.search_ is None


@pytest.mark.parametrize(
    ("X", "y"),
    [
        (np.arange(12.0).reshape(6, 2), np.arange(6.0)),
        (np.ones((40, 2)), np.arange(40.0)),
        (np.random.default_rng(0).normal(size=(40, 2)), np.ones(40)),
        (np.random.default_rng(0).normal(size=(40, 2)) * 1e160, np.arange(40.0)),
    ],
    ids=["few rows", "rows alike", "labels alike", "squares out of range"],
)
def test_where_there_is_nothing_to_choose_by_it_is_the_median(X, y):
    found = chosen(X, y)
    assert found == Gaussian("median").resolve(X)
    assert found.search_.taken == "median"
    assert found.search_.why


@pytest.mark.parametrize("levels", [2, 3])
def test_rows_on_a_coarse_grid_will_do(levels):
    rng = np.random.default_rng(0)
    X = rng.integers(0, levels, size=(200, 3)).astype(float)
    found = chosen(X, X[:, 0] + 0.1 * rng.normal(size=200))
    assert np.argmin(found.length_scale) == 0


# Estimators


CHECKS = [
    pytest.param(estimator, check, id=check.func.__name__)
    for estimator, check in estimator_checks_generator(up.SpectralRegressor(Gaussian("auto"), fit_intercept=False))
    if "array_api" not in check.func.__name__
]


@pytest.mark.parametrize(("estimator", "check"), CHECKS)
def test_every_check_of_scikit_learn_holds(estimator, check):
    check(estimator)


def test_estimators_that_see_labels_choose_by_themselves():
    X, y = two_scales(n=150)
    expected = chosen(X, y).length_scale
    for model in (
        up.SpectralRegressor(Gaussian("auto"), fit_intercept=False),
        up.SpectralRegressor(Gaussian("auto"), filter="landweber", lam=1e-2, fit_intercept=False),
        up.AveragedRegressor(up.SpectralRegressor(Gaussian("auto"), fit_intercept=False), n_blocks=2),
        up.NystromRegressor(Gaussian("auto"), 50, fit_intercept=False),
    ):
        assert_array_equal(model.fit(X, y).kernel_.length_scale, expected)


def test_wrong_labels_do_not_choose_where_they_are_expected():
    X, y = two_scales(n=250)
    wrong = np.where(np.arange(250) % 50 == 0, 1000.0 * np.sign(X[:, 3]), y)

    def ratio(model):
        scale = model.fit(X, wrong).kernel_.length_scale * np.ones(4) / X.std(axis=0)
        return scale[3] / scale[0]

    averaged = up.AveragedRegressor(up.CorrentropyRegressor(Gaussian("auto"), fit_intercept=True), n_blocks=1)
    assert ratio(up.SpectralRegressor(Gaussian("auto"), fit_intercept=False)) < 1.5
    assert ratio(up.CorrentropyRegressor(Gaussian("auto"), fit_intercept=True)) > 2.5
    assert ratio(averaged) > 2.5


def test_a_file_keeps_the_numbers(tmp_path):
    X, y = two_scales()
    model = up.SpectralRegressor(2.0 * Matern("auto") + Linear(), fit_intercept=True).fit(X, y)
    up.save(model, tmp_path / "a.model")
    restored = up.load(tmp_path / "a.model")
    assert restored.kernel_ == model.kernel_
    assert restored.kernel == model.kernel == 2.0 * Matern("auto") + Linear()
    assert_array_equal(restored.predict(X), model.predict(X))


def test_the_work_is_told_in_as_many_stages_as_were_announced():
    X, y = two_scales()
    told = []
    length_scales.search(Gaussian("auto"), X, y[:, None], None, 0, lambda: told.append(1))
    assert 4 <= len(told) <= length_scales.STAGES


# Where labels may not be seen


NO_LABELS = r"^(public: )?length_scale='auto' is chosen with labels, and there are none here: give numbers"
X, Y = two_scales(n=60)


@pytest.mark.parametrize(
    "use",
    [
        lambda k: k(X),
        lambda k: k.resolve(X),
        lambda k: up.kernels.sample_frequencies(k, 3, 4, np.random.default_rng(0)),
        lambda k: up.bases.EmpiricalFeatures(k).fit(X),
        lambda k: up.bases.RandomFeatures(k).fit(X),
        lambda k: up.theory.dimension_exponent(k, X),
        lambda k: up.LESSRegressor(k, fit_intercept=False).fit(X, Y, public=X),
        lambda k: up.LESSRegressor(k, fit_intercept=False).fit(X, Y),
    ],
)
@pytest.mark.parametrize("kernel", [Gaussian("auto"), Gaussian(1.0) + 2.0 * Matern("auto")], ids=["alone", "in a sum"])
def test_without_labels_it_is_refused_in_a_sentence(use, kernel):
    with pytest.raises(ValueError, match=NO_LABELS):
        use(kernel)


@pytest.mark.parametrize("public", [X[:20], None], ids=["public rows", "none"])
@pytest.mark.parametrize("rows", [X, X.tolist()], ids=["array", "list"])
def test_private_models_refuse_it_before_anything_is_paid(public, rows, tmp_path):
    ledger = privacy.Ledger.create(tmp_path / "a.ledger", 1.0, 1e-6, "a")
    for model in (
        up.PrivateRegressor(1.0, 1e-6, 2.0, kernel=2.0 * Gaussian("auto"), ledger=ledger),
        up.PrivateSGDRegressor(1.0, 1e-6, 2.0, kernel=Gaussian("auto"), ledger=ledger),
    ):
        with pytest.raises(
            ValueError, match="length_scale='auto' would look at private labels: give numbers or 'median'"
        ):
            model.fit(rows, Y, public=public)
    assert ledger.charges() == []
    with pytest.raises(ValueError, match="would look at private labels"):
        privacy.forecast(1000, X, kernel=Gaussian("auto"))


def test_inside_a_kernel_that_does_not_say_how_it_depends_on_it_it_is_refused():
    with pytest.raises(
        ValueError, match="length_scale='auto' cannot be chosen inside Centered, which has no pull_back"
    ):
        chosen(X, Y, Centered(Gaussian("auto"), X[:5]))


def test_beside_a_function_it_is_chosen_all_the_same():
    found = chosen(X, Y, Gaussian("auto") + FromFunction(lambda A, B: A[:, :1] @ B[:, :1].T))
    assert np.shape(found.left.length_scale) in ((), (4,))


@pytest.mark.parametrize("scale", ["Auto", "automatic"])
def test_other_words_are_refused(scale):
    with pytest.raises(ValueError, match="length_scale must be a positive number.*, 'auto' or 'median', got"):
        chosen(X, Y, Gaussian(scale))


def test_the_search_gives_no_warnings_on_labels_of_nothing():
    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        up.SpectralRegressor(Gaussian("auto"), fit_intercept=False).fit(rng.normal(size=(50, 2)), rng.normal(size=50))
