"""Models from private sums: noise makes for more regularisation and not for nonsense, and the guarantee goes along."""

import numpy as np
import pytest

import unpooled as up
from tests.cases.private_summaries import basis, rows
from unpooled._base import files
from unpooled._base.files import FileError
from unpooled._solvers.span import noisy_moments
from unpooled.losses import Huber
from unpooled.privacy import PrivacyRequest

pytest.importorskip("opendp")
pytestmark = pytest.mark.filterwarnings(
    "ignore:.* public rows stand in for"
)  # the floor of LESS is not what this is about
B = basis(40, 300)
X, Y = rows(n=4000)
X_NEW, Y_NEW = rows(8, n=1000, noise=0.0)


def error(model):
    return float(np.sqrt(np.mean((model.predict(X_NEW) - Y_NEW) ** 2)))


def summary(order, epsilon, **others):
    return up.Summary.of(B, X, Y, order, privacy=PrivacyRequest(epsilon, 1e-6, 3.0, **others))


@pytest.mark.parametrize("center", [False, True, "public"])
@pytest.mark.parametrize("order", [1, 2])
def test_with_next_to_no_noise_it_is_the_model_without(order, center):
    # A few directions of the smallest eigenvalues tell the noise from none, so λ is not the smallest.
    private = up.SummaryRegressor(lam=1e-2, fit_intercept=center).fit_summary(summary(order, 1e12))
    plain = up.SummaryRegressor(lam=1e-2, fit_intercept=center).fit_summary(up.Summary.of(B, X, Y, order))
    np.testing.assert_allclose(private.predict(X_NEW), plain.predict(X_NEW), atol=1e-4)
    chosen = up.SummaryRegressor(fit_intercept=center).fit_summary(summary(order, 1e12))
    assert (
        error(chosen)
        < error(up.SummaryRegressor(fit_intercept=center).fit_summary(up.Summary.of(B, X, Y, order))) + 0.02
    )


@pytest.mark.parametrize("center", [False, True, "public"])
@pytest.mark.parametrize("order", [1, 2])
def test_more_noise_means_more_regularisation_and_no_nonsense(order, center):
    """At any ε the prediction is hardly worse than a constant, in 50 draws of noise."""
    lams = []
    for epsilon in (1e-3, 0.1, 1.0, 10.0, 1e6):
        found = [up.SummaryRegressor(fit_intercept=center).fit_summary(summary(order, epsilon)) for _ in range(5)]
        lams.append(np.median([model.lam_ for model in found]))
        noise = found[0].summary_.privacy.sigma["y"] / len(X) if center else 0.0
        most = 2.0 + min(3.0, 10 * noise)  # the intercept alone may be off by its noise, and is at most the bound
        assert all(error(model) < most for model in found), (epsilon, [error(model) for model in found])
    assert lams[0] >= 100 * lams[-1]
    assert error(found[0]) < 0.5


@pytest.mark.parametrize("filter", ["iterated-tikhonov", "cutoff", "landweber", "nu"])
def test_every_filter_can_be_used(filter):
    for order in (1, 2):
        for center in (False, True):
            model = up.SummaryRegressor(filter, fit_intercept=center).fit_summary(summary(order, 1.0))
            # a cut-off that lets one more direction in lets all of its noise in
            assert error(model) < (100.0 if filter == "cutoff" else 5.0), (order, center)


def test_a_noisy_gram_that_is_not_positive_is_made_so_and_the_rest_works():
    found = summary(2, 0.05)
    assert np.linalg.eigvalsh(found.gram)[0] < 0
    for center in (False, True):
        model = up.SummaryRegressor(lam=0.1, fit_intercept=center).fit_summary(found)
        assert np.isfinite(model.predict(X_NEW)).all()
        assert model.floor_.operator is None


def test_the_noise_in_the_quadratic_term_is_what_the_docstring_says():
    """E aᵀEa for a = (C + E)₊-ridge of (C + E), by a thousand draws of E against the formula."""
    rng = np.random.default_rng(0)
    M, s, lam = 12, 0.05, 0.1
    values = 0.5 ** np.arange(M)
    C, d = np.diag(values), rng.normal(size=(M, 1)) * values[:, None]
    seen, said = [], []
    for _ in range(20_000):
        E = rng.normal(size=(M, M)) * s
        E = (E + E.T) / 2  # s/√2 beside the diagonal, s on it
        E[np.diag_indices(M)] = rng.normal(size=M) * s
        raw, V = np.linalg.eigh(C + E)
        t, g = V.T @ d, 1 / (np.maximum(raw, 0) + lam)
        a = g[:, None] * t
        seen.append(float((a.T @ (V.T @ E @ V) @ a)[0, 0]))
        said.append(float(s**2 * noisy_moments._stein(g, a, raw, t)[0]))
    gap = np.asarray(seen) - np.asarray(said)
    assert abs(gap.mean()) < 6 * gap.std() / np.sqrt(len(gap))  # six standard errors: 2e-9, with a fixed seed
    assert abs(np.mean(said)) > 20 * gap.std() / np.sqrt(len(gap))  # and the formula is not nothing


def test_a_summary_without_means_fits_without_an_intercept():
    found = summary(1, 10.0, means=0.0)
    assert set(found.sums) == {"weight", "phi_y", "yy"}
    model = up.SummaryRegressor(fit_intercept=False).fit_summary(found)
    assert model.floor_.mean is None
    assert error(model) < 0.5
    assert "‖" not in str(model.floor_)
    for center in (True, "public"):
        with pytest.raises(ValueError, match="no intercept can be fitted: use fit_intercept=False"):
            up.SummaryRegressor(fit_intercept=center).fit_summary(found)


def test_scores_without_noise_do_not_choose_for_a_private_summary():
    model = up.SummaryRegressor(fit_intercept=False).fit_summary(summary(1, 1.0))
    scores = up.Scores.of(model.candidates(), B, X, Y)
    with pytest.raises(ValueError, match="would break the guarantee"):
        up.SummaryRegressor(fit_intercept=False).fit_summary(summary(1, 1.0), scores=scores)


@pytest.mark.parametrize("order", [1, 2])
def test_a_model_says_what_it_promises_and_keeps_it_in_a_file(order, tmp_path):
    total = summary(order, 0.5) + summary(order, 2.0)
    model = up.SummaryRegressor(fit_intercept=True).fit_summary(total)
    assert (model.privacy_.epsilon, model.privacy_.delta) == (2.0, 1e-6)
    up.save(model, tmp_path / "a.model")
    again = up.load(tmp_path / "a.model")
    assert again.privacy_ == model.privacy_
    assert again.summary_.privacy == model.summary_.privacy
    np.testing.assert_array_equal(again.predict(X_NEW), model.predict(X_NEW))
    assert up.SummaryRegressor(fit_intercept=False).fit_summary(up.Summary.of(B, X, Y, 2)).privacy_ is None


def test_a_model_file_that_promises_too_much_is_refused(tmp_path):
    path = tmp_path / "a.model"
    up.save(up.SummaryRegressor(fit_intercept=False).fit_summary(summary(2, 1.0)), path)
    for change in (
        lambda h: h.pop("privacy"),
        lambda h: h["privacy"].update(epsilon=0.5),
        lambda h: h["privacy"].update(spent_on=[]),
        lambda h: h["summary"].pop("privacy"),
        lambda h: h["summary"]["privacy"].update(kappa=50.0),
    ):
        header, arrays = files.read(path, "model")
        content = {name: value for name, value in header.items() if name not in ("format", "kind", "unpooled")}
        change(content)
        files.write(tmp_path / "b.model", "model", content, arrays)
        with pytest.raises(FileError, match="does not hold a complete model"):
            up.load(tmp_path / "b.model")


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize(("loss", "bound"), [(Huber(1.0), None), ("squared", 3.0)])
def test_private_rounds_by_files_learn_and_add_their_costs(loss, bound, center, tmp_path):
    small = up.bases.EmpiricalFeatures(up.kernels.Gaussian(1.0), 15).fit(rows(77, n=40)[0])

    def asked(epsilon):
        return PrivacyRequest(epsilon, 1e-6, bound)

    model = up.SummaryRegressor(lam=0.1, fit_intercept=center, ridge=False)
    model.fit_summary(up.Summary.of(small, X, Y, loss=loss, privacy=asked(300.0)))
    first = error(model)
    for _ in range(4):
        up.save(model, tmp_path / "a.model")
        model = up.load(tmp_path / "a.model")
        up.Summary.of(small, X, Y, residuals_of=model, loss=loss, privacy=asked(300.0)).save(tmp_path / "a.summary")
        model.update(up.Summary.load(tmp_path / "a.summary"), basis=small)
    assert error(model) < 0.7 * first
    assert model.n_rounds_ == 5
    assert len(model.privacy_.spent_on) == 5
    mu = up.privacy.mu_for(300.0, 1e-6)
    assert model.privacy_.epsilon == pytest.approx(up.privacy.epsilon_of(np.sqrt(5) * mu, 1e-6), rel=1e-6)
    assert "5 times" in str(model.privacy_)


def test_rounds_are_all_private_or_none_is():
    def residuals(model, privacy=None):
        return up.Summary.of(B, X, Y, residuals_of=model, loss=Huber(1.0), privacy=privacy)

    asked = PrivacyRequest(1.0, 1e-6)
    private = up.SummaryRegressor(lam=0.1, fit_intercept=False).fit_summary(
        up.Summary.of(B, X, Y, loss=Huber(1.0), privacy=asked)
    )
    plain = up.SummaryRegressor(lam=0.1, fit_intercept=False).fit_summary(up.Summary.of(B, X, Y, loss=Huber(1.0)))
    with pytest.raises(ValueError, match="the model is private, and the residuals are not"):
        private.update(residuals(private))
    with pytest.raises(ValueError, match="the residuals are private, the model is not"):
        plain.update(residuals(plain, asked))
    share = PrivacyRequest(1.0, 1e-6, parties=2)
    with pytest.raises(ValueError, match="holds 1 of 2 shares"):
        private.update(residuals(private, share))


def test_partial_fit_adds_private_summaries():
    model = up.SummaryRegressor(fit_intercept=True)
    for part in (slice(0, 2000), slice(2000, 4000)):
        model.partial_fit(up.Summary.of(B, X[part], Y[part], 2, privacy=PrivacyRequest(3.0, 1e-6, 3.0)))
    assert model.summary_.n_rows == 4000
    assert model.privacy_.epsilon == 3.0
