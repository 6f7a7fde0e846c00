"""up.plot: axes that hold what their functions say, and one sentence where they cannot be drawn."""

from __future__ import annotations

import builtins
import sys

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import unpooled as up
from tests.cases.reports import basis, models, summaries
from tests.made_up import named_rows
from unpooled.reports.sensitivity import leave_one_out
from unpooled.reports.sites import open_summaries


@pytest.mark.parametrize("kind", ["spectral", "second order", "first order", "less", "correntropy", "averaged"])
def test_a_path_has_the_scores_of_its_model(kind):
    model = models()[kind]
    ax = up.plot.path(model)
    assert isinstance(ax, Axes)
    assert up.plot.path(model.path_).get_ylabel() == ax.get_ylabel()
    drawn = np.concatenate([line.get_ydata() for line in ax.get_lines()])
    scores = getattr(model.path_, "score", None) if kind == "correntropy" else model.path_.criterion
    expected = np.sqrt(scores) if kind not in ("correntropy", "averaged") else scores
    assert np.nanmin(drawn) == pytest.approx(np.nanmin(expected))


def test_given_axes_are_drawn_into_and_others_are_new():
    given = Figure().subplots()
    assert up.plot.path(models()["spectral"], given) is given
    assert up.plot.spectrum(models()["spectral"], given) is given
    assert up.plot.path(models()["spectral"]).figure is not given.figure


def test_new_figures_are_pyplots_only_where_the_user_has_imported_it(monkeypatch):
    monkeypatch.delitem(sys.modules, "matplotlib.pyplot", raising=False)
    assert "matplotlib.pyplot" not in sys.modules
    up.plot.path(models()["spectral"])
    assert "matplotlib.pyplot" not in sys.modules
    monkeypatch.undo()
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    before = plt.get_fignums()
    ax = up.plot.path(models()["spectral"])
    (new,) = set(plt.get_fignums()) - set(before)
    assert plt.figure(new) is ax.figure
    plt.close(new)


def test_a_spectrum_is_that_of_the_sample():
    line = up.plot.spectrum(basis()).get_lines()[0]
    assert line.get_ydata() == pytest.approx(basis().eigenvalues_)
    model = models()["spectral"]
    ax = up.plot.spectrum(model)
    X = model.predictor_.points
    sigma = up.theory.eigenvalues(model.kernel_, X, center=True)
    shown = ax.get_lines()[0].get_ydata()
    assert shown == pytest.approx(sigma[: len(shown)])
    assert ax.get_lines()[1].get_ydata()[0] == model.lam_


def test_a_partition_has_the_best_score_of_every_number_of_blocks_and_the_limit():
    model = models()["averaged"]
    ax = up.plot.partition(model, s=0.5)
    line, chosen, limit = ax.get_lines()
    assert sorted(line.get_xdata()) == [1, 2]
    best = dict(zip(model.path_.n_blocks, np.sqrt(model.path_.criterion.min(axis=1))))
    assert dict(zip(line.get_xdata(), line.get_ydata())) == pytest.approx(best)
    assert chosen.get_xdata()[0] == model.n_blocks_
    assert limit.get_xdata()[0] == pytest.approx(up.theory.largest_supported_blocks(300, 0.5, filter="tikhonov"))


def test_a_frontier_has_what_the_plan_predicts():
    plan = up.privacy.forecast(5000, named_rows(1, 80)[0], epsilon=[0.3, 3.0])
    ax = up.plot.frontier(plan)
    usual = next(line for line in ax.get_lines() if line.get_label() == "usual target")
    assert usual.get_ydata().tolist() == [row.usual for row in plan.predictions]
    left = up.plot.frontier(plan, error=True)
    usual = next(line for line in left.get_lines() if line.get_label() == "usual target")
    assert usual.get_ydata().tolist() == [1 - row.usual for row in plan.predictions]
    assert len(plan.plot(Figure().subplots()).get_lines()) == 4


def test_sites_are_left_out_in_turn():
    model, parts = models()["second order"], summaries()
    result = {one.name: one for one in leave_one_out(model, open_summaries(parts)).sites}
    ax = up.plot.sites(model, parts)
    names = [text.get_text() for text in ax.get_yticklabels()]
    assert [bar.get_width() for bar in ax.patches] == [result[name].change for name in names]
    ax = up.plot.sites(model, parts, what="error")
    inside, outside = ax.get_lines()
    names = [text.get_text() for text in ax.get_yticklabels()]
    assert inside.get_xdata().tolist() == [result[name].error_with for name in names]
    assert outside.get_xdata().tolist() == [result[name].error_without for name in names]


@pytest.mark.parametrize(
    ("draw", "sentence"),
    [
        (lambda: up.plot.path(up.SpectralRegressor(fit_intercept=False)), "model has no path"),
        (lambda: up.plot.path(3), "model has no path"),
        (lambda: up.plot.path(models()["landweber"]), "model has no path"),
        (
            lambda: up.plot.spectrum(up.SpectralRegressor(fit_intercept=False)),
            "model must be a fitted model or a fitted basis",
        ),
        (lambda: up.plot.partition(models()["spectral"]), "must be a fitted AveragedRegressor that tried several"),
        (lambda: up.plot.frontier(3), "forecast must be what up.privacy.forecast returns, got 3"),
        (
            lambda: up.plot.sites(models()["spectral"], summaries()),
            "model must be a SummaryRegressor to leave sites out, got Spectral",
        ),
        (lambda: up.plot.sites(models()["second order"], summaries(), what="x"), "what must be 'change' or 'error'"),
        (lambda: up.plot.sites(models()["first order"], summaries(1), what="error"), "needs summaries of second order"),
    ],
)
def test_what_cannot_be_drawn_is_said_in_a_sentence(draw, sentence):
    with pytest.raises(ValueError, match=sentence) as error:
        draw()
    assert "\n" not in str(error.value)


def test_without_matplotlib_one_sentence_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.delitem(sys.modules, "matplotlib.pyplot", raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match="plots need matplotlib: pip install 'unpooled\\[plot\\]'"):
        up.plot.path(models()["spectral"])


def test_plot_and_report_are_loaded_when_asked_for():
    import subprocess

    script = "import sys, unpooled as up; early = 'unpooled.reports.plots' in sys.modules; up.plot, up.report; "
    script += "print(early, 'plot' in dir(up))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.split() == ["False", "True"], done.stderr
    with pytest.raises(AttributeError, match="has no attribute 'plots'"):
        up.plots  # noqa: B018
