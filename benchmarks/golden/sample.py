"""The few files of ``tests/models/golden``: one of each kind, with what it predicts, for tests of later versions."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import unpooled as up
from golden.averages import averaged, correntropy
from golden.exact_models import nystrom, spectral
from golden.inputs import COLUMNS, SITE_OF_ROW, WRONG, X, Y, rows, y
from golden.keep import Folder, said
from golden.private_fits import asked, descent, private
from golden.stand_ins import fixed_names
from golden.studies import Consortium
from golden.sums import empirical, less, summary_regressor

EXPECTED = "predictions.json"
N = 60  # rows of most models: what is kept is small
U = rows(40, 80)[0]


def write_sample(folder: Path) -> None:
    """Write the files into an empty folder, and ``predictions.json`` with what they are expected to give."""
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise SystemExit(f"{folder} is not empty: name a folder that is, or does not exist")
    at = rows(8, 81)[0]
    expected: dict[str, Any] = {"unpooled": up.__version__, "rows": at.tolist(), "columns": COLUMNS}
    shared = empirical(n_features=8).fit(pd.DataFrame(U, columns=COLUMNS))
    table, labels = pd.DataFrame(X[:N], columns=COLUMNS), pd.DataFrame(Y[:N], columns=["stay", "cost"])
    models = _models(shared, table, labels)
    expected["models"] = {}
    for name, model in models.items():
        place = folder / f"{name}.model"
        up.save(model, place)
        rows_of = pd.DataFrame(at, columns=COLUMNS) if hasattr(model, "feature_names_in_") else at
        facts = {"class": type(model).__name__, "named": rows_of is not at, "digest": _digest(place)}
        expected["models"][name] = facts | {"predictions": np.asarray(model.predict(rows_of)).tolist()}
    kernel = up.kernels.Gaussian(0.7)
    bases = {"study": shared, "scaled": empirical(standardize=True, n_features=7).fit(U)}
    bases["waves"] = up.bases.RandomFeatures(kernel, 9, 1, False).fit(U)
    bases["cosine"] = up.bases.CosineFeatures(up.kernels.Laplacian(0.9), 8, 1, True).fit(U)
    expected["bases"] = {}
    for name, basis in bases.items():
        basis.save(folder / f"{name}.basis")
        features = basis.transform(pd.DataFrame(at, columns=COLUMNS) if name == "study" else at)
        expected["bases"][name] = {"named": name == "study", "digest": basis.digest, "features": features.tolist()}
    _sums(folder, expected, shared, table, labels)
    _books(folder, expected)
    _study(folder, expected)
    (folder / EXPECTED).write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")


def _digest(path: Path) -> str:
    """The digest of a model, as ``unpooled inspect`` says it."""
    said_ = said(".", Folder(path.parent), ["inspect", path, "--json"])
    return str(json.loads(said_.partition("\n")[2].partition("--- errors")[0])["digest"])


def _models(shared: Any, table: Any, labels: Any) -> dict[str, Any]:
    first = up.Summary.of(shared, table, labels["stay"])
    rounds = summary_regressor(fit_intercept=True, lam=0.01).fit_summary(first, basis=shared)
    rounds.update(up.Summary.of(shared, table, labels["stay"], residuals_of=rounds), basis=shared)
    second = up.Summary.of(shared, table, labels, order=2)
    noisy = up.Summary.of(shared, table, labels["stay"], order=2, privacy=asked())
    few = np.random.default_rng(83).permutation(len(X))[:N]
    local = correntropy(n_iter=30, fit_intercept=True)
    return {
        "spectral": spectral(lam="loo", fit_intercept=True).fit(X[:N], y[:N]),
        "spectral-two-labels": spectral(filter=up.filters.NuMethod(nu=2.0), lam="gcv").fit(X[:N], Y[:N]),
        "spectral-frame": spectral(kernel=up.kernels.Gaussian([0.6, 0.9, 1.4]), filter="cutoff").fit(table, y[:N]),
        "nystrom-gram": nystrom(n_features=12, fit_intercept=True, standardize=True).fit(X, Y),
        "nystrom-rounds": nystrom(n_features=12, solver="rounds", lam=0.01).fit(X, y),
        "averaged": averaged(spectral(fit_intercept=True)).fit(X[few], y[few], sites=SITE_OF_ROW[few]),
        "averaged-robust": averaged(local, n_blocks=2).fit(X[:N], WRONG[:N]),
        "averaged-compressed": averaged(spectral(), n_blocks=2, lam=0.01).fit(X, y).compress(10, random_state=0),
        "correntropy": correntropy(scale="auto", n_iter="auto").fit(X[:N], WRONG[:N]),
        "summary": summary_regressor(fit_intercept=True).fit_summary(second, basis=shared),
        "summary-rounds": rounds,
        "summary-private": summary_regressor(lam=0.05).fit_summary(noisy, basis=shared),
        "less": less(n_features=8, fit_intercept=True).fit(X, y, public=U),
        "less-robust": less(n_features=8, rounds=3, loss="huber", lam=0.01).fit(X, Y, public=U, sites=SITE_OF_ROW),
        "private": private(n_features=8).fit(X, y, public=U),
        "private-descent": descent(n_features=8).fit(X, y, public=U),
    }


def _sums(folder: Path, expected: dict[str, Any], shared: Any, table: Any, labels: Any) -> None:
    """Summaries of both orders, of residuals and with noise; candidates and scores."""
    model = up.load(folder / "summary-rounds.model")
    weights = np.linspace(0.5, 2.0, len(table))
    sums = {
        "order-1": up.Summary.of(shared, table, labels["stay"]),
        "order-2": up.Summary.of(shared, table, labels, order=2, sample_weight=weights),
        "robust": up.Summary.of(shared, table, labels["stay"], loss=up.losses.Huber(0.7)),
        "residuals": up.Summary.of(shared, table, labels["stay"], residuals_of=model),
        "private": up.Summary.of(shared, table, labels["stay"], privacy=asked()),
        "share": up.Summary.of(shared, table, labels["stay"], order=2, privacy=asked(parties=3, missing=1)),
    }
    for name, one in sums.items():
        one.save(folder / f"{name}.summary")
    expected["summaries"] = {name: {"n_rows": one.n_rows, "weight": one.weight} for name, one in sums.items()}
    candidates = (
        summary_regressor(fit_intercept=True).fit_summary(sums["order-1"], basis=shared).candidates(basis=shared)
    )
    scores = up.Scores.of(candidates, shared, table, labels["stay"])
    candidates.save(folder / "study.candidates")
    scores.save(folder / "study.scores")
    expected["candidates"] = {"digest": candidates.digest, "mean of scores": scores.mean.tolist()}
    at = pd.DataFrame(np.asarray(expected["rows"]), columns=COLUMNS)
    chosen = summary_regressor(fit_intercept=True).fit_summary(sums["order-1"], scores=scores, basis=shared)
    of_two = summary_regressor(fit_intercept=True).fit_summary(sums["order-2"], basis=shared)
    learned = {"a second exchange": chosen, "second order": of_two, "one more round": model.update(sums["residuals"])}
    expected["learned"] = {
        name: {"lam": one.lam_, "predictions": one.predict(at).tolist()} for name, one in learned.items()
    }


def _books(folder: Path, expected: dict[str, Any]) -> None:
    """A ledger with what was charged, and a log of what left and what was refused."""
    ledger = up.privacy.Ledger.create(folder / "books.ledger", 3.0, 1e-6, "a made-up table")
    with ledger.charge([up.privacy.Gaussian(0.2), up.privacy.Approximate(0.1, 1e-9)], "two means"):
        pass
    ledger.charge(up.privacy.Gaussian(0.1), "a sum that never left")
    log = up.site.Log(folder / "site.log")
    gate = up.site.Gate(up.site.Policy.default(), log)
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        for n in (150, 5):
            release = up.site.Release("summary", "0" * 64, ("stay",), 1, n, 25, 1, 0.02, False, None, 53, 0)
            with contextlib.suppress(up.site.Refused):
                gate.write("a.summary", b"the content of a file", release)
    up.site.Policy.write_template(folder / "policy.toml", overwrite=True)
    expected["ledger"] = {"spent": ledger.epsilon_spent(), "left": ledger.mu_left(), "head": ledger.verify().head}
    expected["log"] = {"count": log.verify().count, "head": log.verify().head}


def _study(folder: Path, expected: dict[str, Any]) -> None:
    """The record and the model of a study whose sites have averaged their own fits."""
    with tempfile.TemporaryDirectory() as place, fixed_names():
        sites = Consortium(Path(place) / "sites")
        study = sites.study("golden", kind="average", lam="rule13", grid=(0.1, 0.01))
        results = Path(place) / "results"
        record = up.federation.run_study(study, up.federation.InProcess(sites.sites.values()), results)
        target = folder / "study"
        target.mkdir(exist_ok=True)
        for name in ("record.json", "study.model"):
            shutil.copy(results / name, target / name)
        model = up.load(results / "study.model")
    at = pd.DataFrame(np.asarray(expected["rows"]), columns=COLUMNS)
    expected["study"] = {"digest": record.study_digest, "outcome": record.outcome}
    expected["study"] |= {
        "predictions": model.predict(at).tolist(),
        "rows": sum(one.n_rows for one in record.exchanges),
    }
