"""The demo: four hospitals learn one model together by exchanging files, and none of their rows leaves.

Five studies are run, from public rows to test errors. Models of sums are compared with models of single hospitals, with
the average of their functions, and with a model of all rows in one place.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from .. import bases, models
from .._base.arrays import Array
from ..datasets import SiteDataset, load_heart
from ..estimators import AveragedRegressor, SpectralRegressor, SummaryRegressor
from ..kernels import Gaussian
from ..summaries import Summary
from ..summaries.contents import count_numbers
from .page import table, write
from .study import (
    FEATURES,
    FEATURES_SECOND,
    HOSPITALS,
    N_STUDIES,
    REFUSED,
    ROUNDS,
    STAYS,
    SUMS,
    Consortium,
    DemoResults,
    Hospital,
    Method,
    Study,
    divide_into_studies,
    predict_test,
)

__all__ = ["run"]


def run(out: Path, console: Console | None = None) -> list[dict[str, Any]]:
    """Run the studies, print the table and write the page ``out/index.html``; return the rows of the table."""
    console = console or Console()
    data = load_heart()
    first = next(divide_into_studies(data))
    console.print(f"[bold]{data!r}[/bold]", highlight=False)
    console.print(
        f"{N_STUDIES} studies. In each, two tenths of the patients are public (inputs only), two tenths are for "
        f"testing, and the others stay at their hospitals: {first.public.sum()}, {first.test.sum()} and "
        f"{first.private.sum()} patients in the first. Over all studies, every patient is tested once.",
        highlight=False,
    )
    with console.status("opening hospitals") as status:
        played = _play(data, out, status.update)
    console.print(table(played), highlight=False)
    for hospital in played.first.hospitals:
        for name in hospital.refusals:
            console.print(
                f"{HOSPITALS[hospital.name]}'s policy refused the {name} summary of {FEATURES_SECOND} features: the "
                "log in its folder says why, and the study continued without it.",
                highlight=False,
            )
    write(played, out)
    console.print(f"The results explained, and the files that were sent: [bold]{out / 'index.html'}[/bold]")
    return [method.to_dict() for method in played.methods.values()]


class _References:
    """Models to compare with, all with the kernel and the scale of inputs that the basis has."""

    def __init__(self, study: Study, basis: Path) -> None:
        self.study = study
        self.basis = bases.load(basis)
        self.kernel = self.basis.kernel_

    def predict_locally(self) -> Iterator[tuple[str, np.ndarray]]:
        """Predict the test patients of all hospitals by each hospital's own model."""
        for hospital in HOSPITALS:
            model = self._spectral("loo").fit(*self._rows(self.study.at(hospital)))
            yield hospital, model.predict(self._inputs(self.study.test))

    def predict_average(self, folder: Path) -> tuple[np.ndarray, list[Path]]:
        """Predict by the average of their functions, and save the functions, which contain the hospitals' patients."""
        X, y = self._rows(self.study.private)
        average = AveragedRegressor(self._spectral("loo"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # more sites than theory supports, as the table shows
            average.fit(X, y, sites=self.study.data.sites[self.study.private])
        sent = []
        for hospital in HOSPITALS:
            function = self._spectral(average.lam_).fit(*self._rows(self.study.at(hospital)))
            sent.append(folder / hospital / "function.model")
            models.save(function, sent[-1])
        return np.asarray(average.predict(self._inputs(self.study.test))), sent

    def predict_second_order(self) -> np.ndarray:
        """Predict from second-order sums in the large basis, which the hospitals' policies refuse."""
        rows = self.study.private
        summary = Summary.of(self.basis, self.study.inputs(rows), self.study.data.y[rows], order=2)
        model = SummaryRegressor().fit_summary(summary)
        return np.asarray(model.predict(self.study.inputs(self.study.test)))

    def predict_pooled(self) -> np.ndarray:
        """Predict by kernel ridge regression on all private rows."""
        model = self._spectral("loo").fit(*self._rows(self.study.private))
        return np.asarray(model.predict(self._inputs(self.study.test)))

    def predict_without_hospital(self) -> np.ndarray:
        """Predict by kernel ridge regression without the columns that say whose patient it is."""
        kept = slice(0, self.study.data.X.shape[1])
        kernel = Gaussian().resolve(self._inputs(self.study.public)[:, kept])
        X, y = self._rows(self.study.private)
        model = SpectralRegressor(kernel).fit(X[:, kept], y)
        return np.asarray(model.predict(self._inputs(self.study.test)[:, kept]))

    def _spectral(self, lam: Any) -> SpectralRegressor:
        return SpectralRegressor(self.kernel, lam=lam)

    def _rows(self, rows: np.ndarray) -> tuple[Array, np.ndarray]:
        return self._inputs(rows), self.study.data.y[rows]

    def _inputs(self, rows: np.ndarray) -> Array:
        table = self.study.inputs(rows)
        return self.basis.map_.scale_rows(np.column_stack([table[name] for name in table.column_names]))


def _play(data: SiteDataset, out: Path, tell: Callable[[str], None]) -> DemoResults:
    """Run all studies; their files stay in ``out/study-1`` and so on."""
    methods = _methods(data)
    consortia, floors = [], []
    for study in divide_into_studies(data):
        tell(f"study {study.number}")
        consortium = _open_folders(study, out / f"study-{study.number}")
        floors.append(_consortium(study, consortium, methods))
        _references(study, consortium, methods)
        consortia.append(consortium)
    return DemoResults(data, methods, consortia[0], float(np.mean(floors)))


def _methods(data: SiteDataset) -> dict[str, Method]:
    lines = {f"local {site}": (f"only {name}'s model", STAYS, 0) for site, name in HOSPITALS.items()}
    lines |= {
        "own": ("each hospital its own", STAYS, 0),
        "less": ("LESS, first order", SUMS, 1),
        "rounds": (f"LESS, {ROUNDS} residual rounds", SUMS, ROUNDS),
        "second": (f"second order, {FEATURES_SECOND} features", SUMS, 1),
        "averaged": ("average of functions", REFUSED, 2),
        "second large": (f"second order, {FEATURES} features", REFUSED, 1),
        "pooled": ("kernel ridge, rows pooled", REFUSED, 1),
        "unaware": ("the same, hospital unknown", REFUSED, 1),
    }
    return {key: Method(*line, data, np.full(len(data.y), np.nan)) for key, line in lines.items()}


def _open_folders(study: Study, folder: Path) -> Consortium:
    """Open fresh folders, in place of those of an earlier run; any other content is left alone and is an error."""
    if (folder / "consortium" / "study.basis").is_file():
        shutil.rmtree(folder)
    consortium = Consortium(folder / "consortium", [])
    consortium.publish(study)
    for site in HOSPITALS:
        consortium.hospitals.append(Hospital.open(site, folder / site, study.patients(study.at(site))))
    return consortium


def _consortium(study: Study, consortium: Consortium, methods: dict[str, Method]) -> float:
    less = consortium.less()
    files = {"less": less, "rounds": consortium.rounds(), "second": consortium.second_order()}
    exchanges = {
        "less": ["less"],
        "rounds": ["less", *(f"round-{k}" for k in range(2, ROUNDS + 1))],
        "second": ["second"],
    }
    for key, model in files.items():
        methods[key].predicted[study.test] = predict_test(model, study)
        for hospital in consortium.hospitals:
            sent = [path for path in hospital.sent if path.stem in exchanges[key]]
            if sent:
                count = sum(count_numbers(Summary.load(path)) for path in sent)
                methods[key].note_sent([count], [sum(path.stat().st_size for path in sent)])
    return float(models.load(less).floor_.error)


def _references(study: Study, consortium: Consortium, methods: dict[str, Method]) -> None:
    references = _References(study, consortium.folder / "study.basis")
    sites = study.data.sites[study.test]
    own = np.full(int(study.test.sum()), np.nan)
    for site, predicted in references.predict_locally():
        methods[f"local {site}"].predicted[study.test] = predicted
        own = np.where(sites == site, predicted, own)
    methods["own"].predicted[study.test] = own
    methods["averaged"].predicted[study.test], functions = references.predict_average(consortium.folder.parent)
    methods["second large"].predicted[study.test] = references.predict_second_order()
    methods["pooled"].predicted[study.test] = references.predict_pooled()
    methods["unaware"].predicted[study.test] = references.predict_without_hospital()
    rows = [int(study.at(site).sum()) for site in HOSPITALS]
    row = references.basis.n_features_in_ + 1  # inputs, and a label or a coefficient
    methods["averaged"].note_sent([n * row + 1 for n in rows], [path.stat().st_size for path in functions])
    sums = FEATURES * (FEATURES + 1) // 2 + 2 * FEATURES + 4
    methods["second large"].note_sent([sums] * len(rows), [8 * sums] * len(rows))
    for key, width in (("pooled", row), ("unaware", study.data.X.shape[1] + 1)):
        methods[key].note_sent([n * width for n in rows], [8 * n * width for n in rows])
