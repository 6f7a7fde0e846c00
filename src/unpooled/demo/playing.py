"""The five studies, played through from public rows to test errors."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .. import models
from ..datasets import SiteDataset
from ..summaries import Summary
from ..summaries.words import numbers
from .consortium import FEATURES, FEATURES_SECOND, ROUNDS, Consortium, predictions
from .hospital import Hospital
from .references import References
from .results import REFUSED, STAYS, SUMS, Method
from .study import HOSPITALS, Study, studies


@dataclass
class Played:
    """Everything the report needs."""

    data: SiteDataset
    methods: dict[str, Method]
    first: Consortium  #: of the first study, whose files the report shows
    floor: float  #: what LESS is expected to be off by for its small public sample, the mean over studies


def play(data: SiteDataset, out: Path, tell: Callable[[str], None]) -> Played:
    """All five; files stay in ``out/study-1`` and so on."""
    methods = _methods(data)
    consortia, floors = [], []
    for study in studies(data):
        tell(f"study {study.number}")
        consortium = _opened(study, out / f"study-{study.number}")
        floors.append(_consortium(study, consortium, methods))
        _references(study, consortium, methods)
        consortia.append(consortium)
    return Played(data, methods, consortia[0], float(np.mean(floors)))


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
        "unaware": ("the same, hospital untold", REFUSED, 1),
    }
    return {key: Method(*line, data, np.full(len(data.y), np.nan)) for key, line in lines.items()}


def _opened(study: Study, folder: Path) -> Consortium:
    """Fresh folders; those of an earlier run are replaced, anything else is left alone and in the way."""
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
        methods[key].predicted[study.test] = predictions(model, study)
        for hospital in consortium.hospitals:
            sent = [path for path in hospital.sent if path.stem in exchanges[key]]
            if sent:
                count = sum(numbers(Summary.load(path)) for path in sent)
                methods[key].sends([count], [sum(path.stat().st_size for path in sent)])
    return float(models.load(less).floor_.error)


def _references(study: Study, consortium: Consortium, methods: dict[str, Method]) -> None:
    references = References(study, consortium.folder / "study.basis")
    sites = study.data.sites[study.test]
    own = np.full(int(study.test.sum()), np.nan)
    for site, predicted in references.local():
        methods[f"local {site}"].predicted[study.test] = predicted
        own = np.where(sites == site, predicted, own)
    methods["own"].predicted[study.test] = own
    methods["averaged"].predicted[study.test], functions = references.averaged(consortium.folder.parent)
    methods["second large"].predicted[study.test] = references.second_order()
    methods["pooled"].predicted[study.test] = references.pooled()
    methods["unaware"].predicted[study.test] = references.unaware()
    rows = [int(study.at(site).sum()) for site in HOSPITALS]
    row = references.basis.n_features_in_ + 1  # inputs, and a label or a coefficient
    methods["averaged"].sends([n * row + 1 for n in rows], [path.stat().st_size for path in functions])
    sums = FEATURES * (FEATURES + 1) // 2 + 2 * FEATURES + 4
    methods["second large"].sends([sums] * len(rows), [8 * sums] * len(rows))
    for key, width in (("pooled", row), ("unaware", study.data.X.shape[1] + 1)):
        methods[key].sends([n * width for n in rows], [8 * n * width for n in rows])
