"""Private summaries: the bounds hold by force, the noise is what is claimed, and the ledger comes before the data."""

import warnings

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis.extra.numpy import arrays

import unpooled as up
from tests.cases.private_summaries import FALSE_ALARM, Untouchable, basis, before_noise, rows
from unpooled._base import files
from unpooled.losses import Correntropy, Huber, Squared
from unpooled.privacy import Ledger, Overspend, PrivacyRequest
from unpooled.privacy.release import BoundedTarget

pytest.importorskip("opendp")
B = basis()
X, Y = rows(n=400)
LOSSES = {"labels": ("squared", 2.0), "huber": (Huber(0.5), None), "correntropy": (Correntropy(1.5), None)}


def question_of(case, order):
    loss, bound = LOSSES[case]
    return loss, PrivacyRequest(1.0, 1e-6, bound, means=0.25)


@pytest.mark.parametrize("order", [1, 2])
def test_with_next_to_no_noise_it_is_the_summary(order):
    private = up.Summary.of(B, X, Y, order, privacy=PrivacyRequest(1e12, 1e-6, 10.0))
    plain = up.Summary.of(B, X, Y, order)
    assert private.sums.keys() == plain.sums.keys()
    for name, value in plain.sums.items():
        np.testing.assert_allclose(private.sums[name].high, value.high, atol=1e-3, err_msg=name)
    assert private.n_rows == private.weight == 400
    assert plain.privacy is None


def test_residual_sums_with_next_to_no_noise_are_those_without():
    model = up.SummaryRegressor(lam=0.1, fit_intercept=False).fit_summary(up.Summary.of(B, X, Y, loss=Huber(0.5)))
    plain = up.Summary.of(B, X, Y, residuals_of=model, loss=Huber(0.5))
    private = up.Summary.of(B, X, Y, residuals_of=model, loss=Huber(0.5), privacy=PrivacyRequest(1e12, 1e-6))
    assert private.privacy.label_bound == 0.5
    assert private.contents == plain.contents
    assert private.sums.keys() == plain.sums.keys() - {"loss"}  # the loss itself has no bound
    for name in private.sums:
        np.testing.assert_allclose(private.sums[name].high, plain.sums[name].high, atol=1e-3, err_msg=name)


@pytest.mark.parametrize("order", [1, 2])
def test_the_noise_has_the_claimed_size_in_every_field(order):
    large = up.bases.RandomFeatures(up.kernels.Gaussian(1.0), 120).fit(rows(99, n=200)[0])
    privacy = PrivacyRequest(1.0, 1e-6, 2.0)
    noisy = up.Summary.of(large, X, Y, order, privacy=privacy)
    exact = up.Summary.of(large, X, np.clip(Y, -2, 2), order)
    z = []
    for name, sigma in noisy.privacy.sigma.items():
        scale = np.full(exact.sums[name].high.shape, sigma)
        if name == "gram":
            i, j = np.tril_indices(120)
            scale = np.where(i == j, sigma, sigma / np.sqrt(2))
        z.append(((noisy.sums[name].high - exact.sums[name].high) / scale).ravel())
        assert scipy.stats.kstest(z[-1], "norm").pvalue > FALSE_ALARM, name
    z = np.concatenate(z)
    assert scipy.stats.kstest(z, "norm").pvalue > FALSE_ALARM
    tail = scipy.stats.chi2.cdf(np.sum(z**2), len(z))
    assert FALSE_ALARM < tail < 1 - FALSE_ALARM
    delta = 2 * 2.0 * np.hypot(1, 0.25) if order == 1 else None
    if delta:  # analytic Gaussian calibration: σ = Δ/μ on Σyφ, to the overhead of the grid
        assert 1 <= noisy.privacy.sigma["phi_y"] / up.privacy.sigma_for(1.0, 1e-6, delta) < 1.001


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("case", LOSSES)
def test_no_neighbour_moves_the_implemented_sums_further_than_the_sensitivity(case, order):
    """The path that is released, up to the noise: with wild labels and inputs, and climbing from the best pair."""
    if case != "labels" and order == 2:
        pytest.skip("residuals are of order 1")
    loss, privacy = question_of(case, order)
    full = basis("auto", 40)
    rng = np.random.default_rng(3)
    few, y = rows(5, n=4)

    def moved(record, other):
        found = []
        for x, label in (record, other):
            vector, question = before_noise(full, np.vstack([few, x]), np.append(y, label), privacy, order, loss=loss)
            found.append(vector)
        return float(np.linalg.norm(found[0] - found[1])), question.bounds.weighted_sums.sensitivity

    def drawn():
        x = rng.uniform(-1, 1, size=2) * rng.choice([1.0, 1.0, 1e3, 1e100])
        return x, float(rng.choice([-1, 1]) * rng.choice([0.5, 1.5, 2.0, 1e6, 1e100]))

    pairs = [(drawn(), drawn()) for _ in range(60)]
    pairs += [((x, label), (x, -label)) for (x, label), _ in pairs[:30]]
    found = [(moved(*pair)[0], pair) for pair in pairs]
    best, pair = max(found, key=lambda item: item[0])
    for _ in range(60):
        near = tuple(
            (x + 0.1 * rng.normal(size=2), label * rng.choice([0.9, 1.0, 1.0, -1.0, 1.1])) for x, label in pair
        )
        value = moved(*near)[0]
        if value > best:
            best, pair = value, near
    claimed = moved(*pair)[1]
    assert claimed / 2 <= best <= claimed


def test_features_are_shrunk_to_the_norm_that_is_asked_for():
    vector, question = before_noise(B, X, Y, PrivacyRequest(1.0, 1e-6, 2.0, kappa=0.1))
    phi = B.transform(X)
    shrunk = phi * np.minimum(1.0, 0.1 / np.linalg.norm(phi, axis=1))[:, None]
    np.testing.assert_allclose(vector[:20], shrunk.T @ np.clip(Y, -2, 2), rtol=1e-10)
    assert question.bounds.kappa == 0.1


wild = st.floats(allow_nan=False, allow_infinity=False, width=64)


@settings(max_examples=200, deadline=None)
@given(arrays(np.float64, (5, 3), elements=wild), st.floats(1e-3, 1e3))
def test_any_features_are_within_the_bound_and_small_ones_untouched(phi, kappa):
    found = BoundedTarget(Squared(), kappa=kappa, label_bound=1.0).features(phi)
    norms = np.linalg.norm(found, axis=1)
    assert np.all(np.isfinite(found))
    assert np.all(norms <= kappa * (1 + 1e-12))
    small = np.max(np.abs(phi), axis=1) < kappa / 2
    np.testing.assert_array_equal(found[small], phi[small])


@settings(max_examples=200, deadline=None)
@given(arrays(np.float64, (6, 1), elements=st.floats(allow_nan=True, allow_infinity=True)), st.floats(1e-3, 1e3))
def test_any_label_and_residual_is_within_the_bound(u, c):
    for loss in (Squared(), Huber(2 * c), Correntropy(c)):
        found = BoundedTarget(loss, kappa=1.0, label_bound=c).push(u, residual=True)
        assert np.all(np.abs(found) <= c)


def test_nothing_but_the_noised_numbers_depends_on_the_data(tmp_path):
    """Two data sets of one size give the same header: no count, no shape, no warning tells them apart."""
    headers = []
    for seed, scale in ((1, 1.0), (2, 1e6)):
        Z, z = rows(seed, n=300)
        path = tmp_path / f"{seed}.summary"
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            up.Summary.of(B, Z, scale * z, 2, privacy=PrivacyRequest(1.0, 1e-6, 1.0)).save(path)
        header, found = files.read(path, "summary")
        headers.append((header, {name: (a.shape, a.dtype) for name, a in found.items()}))
        assert path.stat().st_size == (tmp_path / "1.summary").stat().st_size
    assert headers[0] == headers[1]


@pytest.mark.parametrize("n", [1, 7, 5000])
def test_noise_does_not_depend_on_the_number_of_rows(n):
    Z, z = rows(n=n)
    found = up.Summary.of(B, Z, z, privacy=PrivacyRequest(1.0, 1e-8, 2.0)).privacy
    assert found.sigma == up.Summary.of(B, X, Y, privacy=PrivacyRequest(1.0, 1e-8, 2.0)).privacy.sigma


def test_the_ledger_refuses_before_the_data_are_touched(tmp_path):
    ledger = Ledger.create(tmp_path / "a.ledger", 1.0, 1e-6, "a")
    up.Summary.of(B, X, Y, privacy=PrivacyRequest(0.9, 1e-6, 2.0, ledger=ledger, purpose="first"))
    with pytest.raises(Overspend, match="second would bring a to"):
        up.Summary.of(
            B,
            Untouchable(),
            Untouchable(),
            privacy=PrivacyRequest(0.9, 1e-6, 2.0, ledger=ledger.path, purpose="second"),
        )
    (charge,) = Ledger(ledger.path).charges()
    assert charge.purpose == "first"
    assert charge.is_released
    assert ledger.epsilon_spent() == pytest.approx(0.9, rel=1e-4)


def test_what_fails_after_the_charge_has_spent_it(tmp_path):
    ledger = Ledger.create(tmp_path / "a.ledger", 1.0, 1e-6, "a")
    broken = X.copy()
    broken[3, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        up.Summary.of(B, broken, Y, privacy=PrivacyRequest(0.5, 1e-6, 2.0, ledger=ledger))
    (charge,) = ledger.charges()
    assert not charge.is_released


def test_a_ledger_that_is_not_there_is_an_error_before_the_data(tmp_path):
    with pytest.raises(up.privacy.LedgerError, match="there is no ledger"):
        up.Summary.of(B, Untouchable(), Untouchable(), privacy=PrivacyRequest(1.0, 1e-6, 2.0, ledger=tmp_path / "none"))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"privacy": 1.0}, "privacy must be up.privacy.PrivacyRequest"),
        ({"privacy": PrivacyRequest(1.0, 1e-6)}, "labels and residuals of the squared loss have no bound"),
        ({"privacy": PrivacyRequest(1.0, 1e-6, 1.0), "sample_weight": np.ones(400)}, "counts as repeated rows"),
        ({"privacy": PrivacyRequest(1.0, 1e-6, 1.0), "order": 3}, "order must be 1 or 2"),
        ({"privacy": PrivacyRequest(1.0, 1e-6, 1.0), "order": 2, "loss": Huber(1.0)}, "order 1"),
        ({"privacy": PrivacyRequest(1.0, 1e-6, 1.0, means=2.0)}, "means must be at most 1"),
    ],
)
def test_what_cannot_be_private_is_refused_before_the_data(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        up.Summary.of(B, Untouchable(), Untouchable(), **arguments)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((0.0, 1e-6), "epsilon must be a positive"),
        ((float("nan"), 1e-6), "epsilon must be"),
        ((1.0, 0.0), "delta must lie between"),
        ((1.0, 1.5), "delta must lie between"),
        ((1.0, 1e-6, -1.0), "label_bound must be a positive"),
        ((1.0, 1e-6, float("inf")), "label_bound must be a positive"),
        ((1.0, 1e-6, True), "label_bound must be a positive"),
        ((1.0, 1e-6, 1.0, {"parties": 0}), "parties must be a whole number"),
        ((1.0, 1e-6, 1.0, {"parties": 3, "missing": 3}), "missing must be less than the 3 parties"),
        ((1.0, 1e-6, 1.0, {"means": -1}), "means must be"),
        ((1.0, 1e-6, 1.0, {"labels": 0}), "labels must be"),
        ((1.0, 1e-6, 1.0, {"purpose": ""}), "purpose must say"),
        ((1.0, 1e-6, 1.0, {"ledger": 3}), "ledger must be a Ledger or the path"),
        ((1.0, 1e-6, 1.0, {"kappa": 0}), "kappa must be"),
    ],
)
def test_what_is_no_privacy_is_refused_in_a_sentence(arguments, sentence):
    *plain, named = arguments if isinstance(arguments[-1], dict) else (*arguments, {})
    with pytest.raises(ValueError, match=sentence):
        PrivacyRequest(*plain, **named)


@pytest.mark.parametrize("kernel", [up.kernels.Linear(), up.kernels.Polynomial(2)])
def test_an_unbounded_kernel_needs_a_norm(kernel):
    unbounded = up.bases.EmpiricalFeatures(kernel, 2).fit(rows(n=50)[0])
    with pytest.raises(
        ValueError, match="has no bound, so one record could move the sums by any amount: use a bounded"
    ):
        up.Summary.of(unbounded, Untouchable(), Untouchable(), privacy=PrivacyRequest(1.0, 1e-6, 1.0))
    found = up.Summary.of(unbounded, X, Y, privacy=PrivacyRequest(1.0, 1e-6, 1.0, kappa=0.5))
    assert found.privacy.kappa == 0.5


def test_squared_residuals_need_a_bound_and_are_moved_into_it():
    model = up.SummaryRegressor(lam=0.1, fit_intercept=False).fit_summary(up.Summary.of(B, X, Y))
    with pytest.raises(ValueError, match="residuals of the squared loss have no bound"):
        up.Summary.of(B, Untouchable(), Untouchable(), residuals_of=model, privacy=PrivacyRequest(1.0, 1e-6))
    vector, _ = before_noise(B, X, Y, PrivacyRequest(1.0, 1e-6, 0.05), residuals_of=model)
    u = np.clip(Y - model.predict(X), -0.05, 0.05)
    np.testing.assert_allclose(vector[:20], B.transform(X).T @ u, rtol=1e-8, atol=1e-9)


def test_one_label_only():
    with pytest.raises(ValueError, match="a private summary has one label, and y has 2"):
        up.Summary.of(B, X, np.column_stack([Y, Y]), privacy=PrivacyRequest(1.0, 1e-6, 1.0))
    two = up.SummaryRegressor(lam=0.1, fit_intercept=False).fit_summary(up.Summary.of(B, X, np.column_stack([Y, Y])))
    with pytest.raises(ValueError, match="residuals_of predicts 2"):
        up.Summary.of(B, Untouchable(), Untouchable(), residuals_of=two, privacy=PrivacyRequest(1.0, 1e-6, 1.0))


def test_a_delta_above_one_in_n_is_warned_of():
    with pytest.warns(UserWarning, match="above 1/n"):
        up.Summary.of(B, X, Y, privacy=PrivacyRequest(1.0, 0.1, 1.0))


def test_a_centred_kernel_is_bounded_by_its_own_norm():
    U = rows(4, n=60)[0]
    centred = up.bases.EmpiricalFeatures(up.kernels.Centered(up.kernels.Gaussian(1.0), U), 10).fit(U)
    assert up.Summary.of(centred, X, Y, privacy=PrivacyRequest(1.0, 1e-6, 1.0)).privacy.kappa == pytest.approx(
        np.sqrt(2)
    )


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_files_give_the_same_sums_before_noise(suffix, tmp_path):
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": Y})
    named = up.bases.EmpiricalFeatures(up.kernels.Gaussian(1.0), 20).fit(table[["a", "b"]][:100])
    path = tmp_path / f"rows.{suffix}"
    table.to_parquet(path) if suffix == "parquet" else table.to_csv(path, index=False)
    asked = PrivacyRequest(1.0, 1e-6, 1.0)
    np.testing.assert_allclose(
        before_noise(named, path, "y", asked, order=2)[0], before_noise(named, table, "y", asked, order=2)[0], rtol=1e-9
    )
    found = up.Summary.of(named, path, "y", privacy=asked, engine="processes" if suffix == "parquet" else None)
    assert found.targets == ("y",)
