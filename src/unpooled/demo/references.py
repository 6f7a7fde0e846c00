"""What the consortium is compared with: hospitals alone, the average of their functions, and all rows in one place."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .. import bases, models
from ..arrays import Array
from ..estimators import AveragedRegressor, SpectralRegressor, SummaryRegressor
from ..kernels import Gaussian
from ..summaries import Summary
from .study import HOSPITALS, Study


class References:
    """The same kernel, and inputs on the same scale, for everybody: those of the basis."""

    def __init__(self, study: Study, basis: Path) -> None:
        self.study = study
        self.basis = bases.load(basis)
        self.kernel = self.basis.kernel_

    def local(self) -> Iterator[tuple[str, np.ndarray]]:
        """Each hospital's own model, for the test patients of all."""
        for hospital in HOSPITALS:
            model = self._spectral("loo").fit(*self._rows(self.study.at(hospital)))
            yield hospital, model.predict(self._inputs(self.study.test))

    def averaged(self, folder: Path) -> tuple[np.ndarray, list[Path]]:
        """The average of their functions, and what each would send: its function, which has its patients in it."""
        X, y = self._rows(self.study.private)
        average = AveragedRegressor(self._spectral("loo"), verbose=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # more sites than the theory supports: the table shows it
            average.fit(X, y, sites=self.study.data.sites[self.study.private])
        sent = []
        for hospital in HOSPITALS:
            function = self._spectral(average.lam_).fit(*self._rows(self.study.at(hospital)))
            sent.append(folder / hospital / "function.model")
            models.save(function, sent[-1])
        return np.asarray(average.predict(self._inputs(self.study.test))), sent

    def second_order(self) -> np.ndarray:
        """Second order in the large basis, from all hospitals: what their policies refuse."""
        rows = self.study.private
        summary = Summary.of(self.basis, self.study.inputs(rows), self.study.data.y[rows], order=2)
        model = SummaryRegressor(center=True).fit_summary(summary)
        return np.asarray(model.predict(self.study.inputs(self.study.test)))

    def pooled(self) -> np.ndarray:
        """Kernel ridge regression on all private rows."""
        model = self._spectral("loo").fit(*self._rows(self.study.private))
        return np.asarray(model.predict(self._inputs(self.study.test)))

    def unaware(self) -> np.ndarray:
        """The same without the columns that say whose patient it is."""
        kept = slice(0, self.study.data.X.shape[1])
        kernel = Gaussian("median").resolve(self._inputs(self.study.public)[:, kept])
        X, y = self._rows(self.study.private)
        model = SpectralRegressor(kernel, center=True).fit(X[:, kept], y)
        return np.asarray(model.predict(self._inputs(self.study.test)[:, kept]))

    def _spectral(self, lam: Any) -> SpectralRegressor:
        return SpectralRegressor(self.kernel, lam=lam, center=True)

    def _rows(self, rows: np.ndarray) -> tuple[Array, np.ndarray]:
        return self._inputs(rows), self.study.data.y[rows]

    def _inputs(self, rows: np.ndarray) -> Array:
        table = self.study.inputs(rows)
        return self.basis.map_.scaled(np.column_stack([table[name] for name in table.column_names]))
