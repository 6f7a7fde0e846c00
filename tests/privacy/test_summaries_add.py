"""Private summaries add up, travel in files, and say what they promise; what contradicts itself is refused.

Tests `privacy/noise_record.py`.
"""

import copy
import dataclasses

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings

import unpooled as up
from tests.cases.private_summaries import FALSE_ALARM, basis, rows
from unpooled._base import files
from unpooled._base.files import FileError
from unpooled.losses import Huber
from unpooled.privacy import NoiseRecord, PrivacyRequest

pytest.importorskip("opendp")
B = basis()
X, Y = rows(n=300)


def private(order=1, epsilon=1.0, bound=2.0, **others):
    return up.Summary.of(B, X, Y, order, privacy=PrivacyRequest(epsilon, 1e-6, bound, **others))


@pytest.mark.parametrize("order", [1, 2])
def test_variances_add_and_every_site_keeps_its_guarantee(order):
    sites = [private(order, 0.5), private(order, 0.5), private(order, 2.0)]
    total = sum(sites)
    for name, sigma in total.privacy.sigma.items():
        assert sigma == pytest.approx(np.sqrt(sum(site.privacy.sigma[name] ** 2 for site in sites)))
    assert total.n_rows == 900
    assert total.privacy.shares == 3
    assert sorted((n, one.epsilon) for n, one in total.privacy.guarantees) == [(1, 2.0), (2, 0.5)]
    assert total.privacy.guarantee.epsilon == 2.0
    assert "the sum over 3 sites, each of which added its own noise; ε and δ are the largest" in total.describe()


@settings(max_examples=30, deadline=None)
@given(st.permutations(range(4)))
def test_how_records_are_added_makes_no_difference(order):
    records = [private(2, epsilon).privacy for epsilon in (0.5, 1.0, 1.0, 3.0)]
    a, b, c, d = (records[i] for i in order)
    left, right = ((a + b) + c) + d, (d + c) + (b + a)
    assert left.guarantees == right.guarantees
    assert left.sigma == pytest.approx(right.sigma, rel=1e-14)
    assert NoiseRecord.from_dict(left.to_dict(), 20).guarantees == left.guarantees


def test_private_and_not_private_do_not_add():
    with pytest.raises(ValueError, match="one has privacy noise and the other has none"):
        private() + up.Summary.of(B, X, Y)


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        ({"bound": 3.0}, "labels are bounded by 2 in one summary and 3 in the other"),
        ({"kappa": 0.5}, "features are shrunk to norm 1 in one summary and 0.5 in the other"),
        ({"means": 0.5}, "the weight of means is 0.25 in one summary and 0.5 in the other"),
        ({"parties": 2}, "the number of parties is 1 in one summary and 2 in the other"),
    ],
)
def test_what_was_bounded_or_shared_differently_does_not_add(other, sentence):
    with pytest.raises(ValueError, match=sentence):
        private() + private(**other)


def test_shares_make_up_the_noise_together():
    large = up.bases.RandomFeatures(up.kernels.Gaussian(1.0), 200).fit(rows(9, n=100)[0])
    asked = PrivacyRequest(1.0, 1e-6, 2.0, parties=5, missing=1)
    shares = [up.Summary.of(large, *rows(i, n=100 + i), order=2, privacy=asked) for i in range(5)]
    alone = up.Summary.of(large, X, Y, order=2, privacy=PrivacyRequest(1.0, 1e-6, 2.0))
    total = sum(shares)
    # Four shares have what one site alone would have added; all five a little more.
    assert sum(shares[:4]).privacy.sigma["gram"] == pytest.approx(alone.privacy.sigma["gram"], rel=1e-4)
    exact = sum(up.Summary.of(large, *rows(i, n=100 + i), order=2) for i in range(5))
    i, j = np.tril_indices(200)
    scale = np.where(i == j, 1.0, np.sqrt(0.5)) * total.privacy.sigma["gram"]
    z = (total.sums["gram"].high - exact.sums["gram"].high) / scale
    assert scipy.stats.kstest(z, "norm").pvalue > FALSE_ALARM
    assert FALSE_ALARM < scipy.stats.chi2.cdf(np.sum(z**2), len(z)) < 1 - FALSE_ALARM
    assert total.privacy.is_complete
    assert "provided that nobody sees more than the sum over 5 sites and all but 1" in total.describe()


def test_too_few_shares_make_no_model_and_too_many_do_not_add():
    asked = {"parties": 3, "missing": 1}
    share = private(**asked)
    with pytest.raises(
        ValueError, match="holds 1 of 3 shares of the noise, and the guarantee needs at least 2; add the missing shares"
    ):
        up.SummaryRegressor(fit_intercept=False).fit_summary(share)
    assert "holds 1 of 3 shares of the noise, and the guarantee needs at least 2" in share.describe()
    two = share + private(**asked)
    assert up.SummaryRegressor(fit_intercept=False).fit_summary(two).privacy_.conditions
    with pytest.raises(ValueError, match="more than the 3 shares"):
        two + (share + private(**asked))


def test_shares_for_different_guarantees_do_not_add():
    with pytest.raises(ValueError, match="belong to different guarantees"):
        private(parties=2) + private(epsilon=2.0, parties=2)


def test_first_order_of_a_private_summary_keeps_the_guarantee(tmp_path):
    found = private(2).to_first_order()
    assert "gram" not in found.privacy.sigma
    found.save(tmp_path / "a.summary")
    again = up.Summary.load(tmp_path / "a.summary")
    assert again.privacy == found.privacy
    with pytest.raises(ValueError, match="sums of order 2 in one summary and 1 in the other"):
        found + private(1)


@pytest.mark.parametrize("case", [{"order": 1}, {"order": 2}, {"means": 0.0}, {"parties": 4, "missing": 2}])
def test_a_file_keeps_all_of_it(case, tmp_path):
    first = private(**case)
    first.save(tmp_path / "a.summary")
    again = up.Summary.load(tmp_path / "a.summary")
    assert again.privacy == first.privacy
    assert again.describe() == first.describe()
    for name, value in first.sums.items():
        np.testing.assert_array_equal(again.sums[name].high, value.high)
    assert (again + private(**case)).privacy.shares == 2


def test_a_round_of_residuals_travels_without_its_loss(tmp_path):
    found = up.Summary.of(B, X, Y, loss=Huber(0.3), privacy=PrivacyRequest(1.0, 1e-6))
    found.save(tmp_path / "a.summary")
    again = up.Summary.load(tmp_path / "a.summary")
    assert again.loss_sum is None
    assert again.privacy.label_bound == 0.3


def test_noise_may_make_a_sum_of_squares_negative(tmp_path):
    few = up.Summary.of(B, X[:2], 0.01 * Y[:2], privacy=PrivacyRequest(0.01, 1e-6, 2.0))
    for sign in (-1.0, 1.0):
        sums = dict(few.sums)
        sums["yy"] = type(sums["yy"]).of(np.asarray([sign * 300.0]))
        changed = dataclasses.replace(few, sums=sums)
        changed.save(tmp_path / "a.summary")
        again = up.Summary.load(tmp_path / "a.summary")
        assert np.isfinite(up.SummaryRegressor(fit_intercept=False).fit_summary(again).predict(X)).all()


def forged(path, change):
    """The file with another header, and the right checksum for it."""
    header, arrays = files.read(path, "summary")
    content = {name: value for name, value in header.items() if name not in ("format", "kind", "unpooled")}
    content = copy.deepcopy(content)
    change(content)
    files.write(path, "summary", content, arrays)


def put(*keys, value):
    def change(header):
        place = header["privacy"]
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda h: h.update(privacy=None), "array"),
        (lambda h: h.update(privacy=[]), "must have the entries"),
        (lambda h: h.update(privacy={"epsilon": 1.0}), "must have the entries"),
        (lambda h: h.update(n_rows=299), "its weight is not its number of rows"),
        (lambda h: h["privacy"].pop("shares"), "must have the entries"),
        (put("guarantees", value=[]), "the guarantee of every site"),
        (put("guarantees", 0, "epsilon", value=0.1), "which is more than the promised"),
        (put("guarantees", 0, "epsilon", value=-1.0), "epsilon must be"),
        (put("guarantees", 0, "spent_on", value=[]), "does not say what was spent"),
        (put("guarantees", 0, "spent_on", 0, "mu", value=0.01), "its noise is less than its guarantee needs"),
        (
            put(
                "guarantees",
                0,
                "spent_on",
                0,
                value={"purpose": "x", "kind": "approximate", "epsilon": 0.1, "delta": 0.0},
            ),
            "not one of Gaussian noise",
        ),
        (put("guarantees", 0, "neighbours", value="add one record"), "these neighbours"),
        (put("guarantees", 0, "mechanism", value="magic"), "of this mechanism"),
        (put("guarantees", 0, "conditions", value=["all goes well"]), "these shares"),
        (put("guarantees", 0, "sites", value=2), "is not the number of sites"),
        (put("guarantees", 0, "sites", value=0), "sites must be a whole number"),
        (put("sigma", value={}), "the standard deviation for every field"),
        (put("sigma", "phi_y", value=1e-3), "its noise is less than its guarantee needs"),
        (put("sigma", "phi_y", value=-1.0), "the noise of phi_y must be"),
        (put("sigma", "loss", value=1.0), "not those that are released together"),
        (put("kappa", value=100.0), "its noise is less than its guarantee needs"),
        (put("label_bound", value=100.0), "its noise is less than its guarantee needs"),
        (put("kappa", value="1"), "kappa must be"),
        (put("order", value=1), "not those that are released together"),
        (put("parties", value=2), "these shares"),
        (put("missing", value=1), "does not agree with the number of parties"),
        (put("shares", value=2), "is not the number of sites"),
        (put("means", value=0.0), "not those that are released together"),
        (put("grid", value=0.0), "grid must be"),
    ],
)
def test_a_header_that_contradicts_itself_is_refused_in_a_sentence(change, sentence, tmp_path):
    path = tmp_path / "a.summary"
    up.Summary.of(B, X, Y, 2, privacy=PrivacyRequest(1.0, 1e-6, 2.0)).save(path)
    if sentence == "array":  # noised sums without their record are sums like others: what is not there cannot be seen
        forged(path, change)
        assert up.Summary.load(path).privacy is None
        return
    forged(path, change)
    with pytest.raises(FileError, match=sentence) as error:
        up.Summary.load(path)
    assert "\n" not in str(error.value)
