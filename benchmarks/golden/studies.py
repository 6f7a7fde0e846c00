"""Cases: studies over a network, run in this process: every kind, plain, secure, private, and with sites that fail."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import unpooled as up
from golden.inputs import NEW_ROWS, rows, write_table
from golden.keep import Folder, case
from golden.stand_ins import fixed_noise

fed = up.federation
NAMES = ("east", "north", "south", "west")
COLUMNS = ["age", "dose", "pressure"]


class Consortium:
    """Four sites with rows, logs and perhaps keys and ledgers, in a folder that is thrown away."""

    def __init__(self, folder: Path, secure: bool = False, ledgers: bool = False, asks: bool = False) -> None:
        public = pd.DataFrame(rows(60, 31)[0], columns=COLUMNS)
        self.basis = up.bases.EmpiricalFeatures(up.kernels.Gaussian(0.7), 12, False, max_points=60, random_state=0)
        self.basis.fit(public)
        keys = {}
        for i, name in enumerate(NAMES):
            (folder / name).mkdir(parents=True)
            X, Y = rows(130 + 10 * i, 40 + i)
            table = pd.DataFrame(X, columns=COLUMNS).assign(stay=Y[:, 0], cost=Y[:, 1] * (1 + 0.1 * i))
            write_table(table, folder / name / "rows.parquet")
            if secure:
                keys[name] = fed.Identity.create(folder / name / "site.key")
        self.sites = {}
        for name in NAMES:
            place, peers = folder / name, {other: key.public for other, key in keys.items() if other != name}
            options: dict[str, Any] = {"identity": keys.get(name), "peers": peers}
            if ledgers:
                up.privacy.Ledger.create(place / "books.ledger", 2.0, 1e-6, f"rows of {name}")
                options["ledger"] = place / "books.ledger"
            if asks and name == "south":
                (place / "unpooled-policy.toml").write_text('approve = "ask"\n', encoding="utf-8")
                options["policy"] = place / "unpooled-policy.toml"
            self.sites[name] = fed.Site(fed.SiteConfig(name, place, place / "rows.parquet", **options))
        self.folder = folder

    def study(self, name: str, **choices: Any) -> Any:
        """A study with every argument named."""
        named: dict[str, Any] = {"kind": "less", "order": 0, "rounds": 1, "loss": "squared", "lam": "auto"}
        named |= {"grid": None, "filter": "tikhonov", "fit_intercept": True, "ridge": False, "steps": "plain"}
        named |= {"score_by": "rows", "privacy": None, "secure": False, "fraction_bits": 64, "steady": False}
        named |= {"patience": 0.0, "poll": 0.1, "id": f"golden-{name.replace(' ', '-')}"}
        targets = choices.pop("targets", ("stay",))
        return fed.Study(name, self.basis, targets, NAMES, 3, 20.0, **named | choices)

    def keep(self, kept: Folder, name: str) -> None:
        """Keep what the sites have on disk, apart from rows, keys and caches."""
        for site in NAMES:
            for path in sorted((self.folder / site).rglob("*")):
                inside = path.relative_to(self.folder / site)
                if path.suffix in (".jsonl", ".ledger", ".study", ".json") and path.is_file():
                    shutil.copy(path, kept.place(f"studies/{name}/sites/{site}/{inside}"))


def run(kept: Folder, name: str, wire: bool = False, fail: str = "", **choices: Any) -> Any:
    """Run one study, and keep its folder, its sites' books, its model and, where asked, all that went over the line."""
    number: Counter[tuple[str, str]] = Counter()

    def hook(site: str, way: str, content: bytes) -> bytes:
        number[site, way] += 1
        if site == fail and number[site, way] > 1:
            raise fed.LostMessage("the line was cut")
        if wire:
            at = kept.place(f"studies/{name}/wire/{site} {way} {number[site, way]}.message")
            at.write_bytes(content)
        return content

    with tempfile.TemporaryDirectory() as place:
        private = choices.get("privacy") is not None
        sites = Consortium(Path(place), bool(choices.get("secure")), private)
        folder = kept.place(f"studies/{name}/server/study.model").parent
        record = fed.run_study(sites.study(name, **choices), fed.InProcess(sites.sites.values(), hook), folder)
        sites.keep(kept, name)
    assert fed.StudyRecord.load(folder).digest == record.digest
    model = up.load(folder / "study.model")
    kept.model(f"studies/{name}", model, "frame", loaded=True)
    failures = [(one.site, one.exchange, one.attempt, one.reason) for one in record.failures]
    kept.json(f"studies/{name}/outcome", [record.outcome, record.missing, record.notes, failures])
    return model


@case()
def plain_studies(kept: Folder) -> None:
    """Every kind of study without keys."""
    run(kept, "less", wire=True)
    run(kept, "second order", kind="second-order", targets=("stay", "cost"))
    run(kept, "leave one out", wire=True, lam="loo", targets=("stay", "cost"))
    run(kept, "rounds", kind="rounds", rounds=3, lam=0.01, steps="conjugate", ridge=True)
    run(kept, "robust rounds", wire=True, kind="rounds", rounds=2, loss="huber 0.8", fit_intercept="public")
    average = run(kept, "average", wire=True, kind="average", lam="rule13", grid=(0.1, 0.01, 0.001))
    run(
        kept,
        "average of sites",
        kind="average",
        lam="rule13",
        score_by="sites",
        targets=("stay", "cost"),
        grid=(0.1, 0.01),
    )
    run(kept, "average at one", kind="average", lam=0.01, filter="nu")
    kept.json("models/studies/average/validation", average.validation_)
    run(kept, "a site is lost", kind="rounds", rounds=2, fail="south")


@case("cryptography")
def secure_studies(kept: Folder) -> None:
    """Sums that nobody sees the parts of: masks are fresh each time, and the sums are the same."""
    run(kept, "secure less", secure=True)
    run(kept, "secure second order", secure=True, kind="second-order", targets=("stay", "cost"))
    run(kept, "secure average", secure=True, kind="average", lam="rule13", grid=(0.1, 0.01))
    run(kept, "secure, a site is lost", secure=True, fail="south", kind="rounds", rounds=2)


@case("opendp", "cryptography")
def private_studies(kept: Folder) -> None:
    """Private studies with stand-ins for the noise, and with shares of it in secure sums."""
    budget = fed.StudyPrivacy(1.0, 1e-6, 8.0, means=0.25, labels=1.0, kappa=None)
    with fixed_noise():
        run(kept, "private less", privacy=budget)
        run(kept, "private second order", kind="second-order", privacy=budget)
        run(kept, "private rounds", kind="rounds", rounds=2, loss="correntropy 2.0", privacy=budget)
        run(kept, "private and secure", privacy=budget, secure=True)


@case()
def estimator_studies(kept: Folder) -> None:
    """An estimator of the server's on the rows of sites."""
    for name, choices, params in (
        ("estimator", {}, {"fit_intercept": True}),
        ("estimator of order 2", {"order": 2}, {"order": 2, "fit_intercept": False}),
        (
            "estimator, rounds",
            {"rounds": 3, "loss": "huber 0.8"},
            {"rounds": 3, "loss": up.losses.Huber(0.8), "fit_intercept": False},
        ),
    ):
        with tempfile.TemporaryDirectory() as place:
            sites = Consortium(Path(place))
            folder = kept.place(f"studies/{name}/server/study.model").parent
            study = sites.study(name, kind="estimator", **choices)
            engine = fed.FederatedEngine(study, fed.InProcess(sites.sites.values()), folder)
            model = up.LESSRegressor(basis=sites.basis, lam=[0.1, 0.01], engine=engine, **params).fit(
                engine.rows, "stay"
            )
            engine.finish(model)
            sites.keep(kept, name)
        kept.array(f"studies/{name}/predictions", model.predict(NEW_ROWS["frame"]))


@case()
def questions_of_consent(kept: Folder) -> None:
    """Consent: the description of a study, and the file of a request that a site's people answer."""
    with tempfile.TemporaryDirectory() as place:
        sites = Consortium(Path(place), asks=True)
        study = sites.study("asked", kind="rounds", rounds=2)
        kept.json("studies/asked/definition", {**study.definition(), "digest": study.digest})
        kept.text("studies/asked/described", study.describe())
        transport = fed.InProcess(sites.sites.values())
        record = fed.run_study(study, transport, kept.place("studies/asked/server/x").parent)
        kept.json("studies/asked/outcome", [record.outcome, record.missing])
        site = sites.sites["south"]
        for answer in (site.approve, site.deny):
            answer(study.digest[:10], "a person")
        again = replace(study, id="golden-again")
        fed.run_study(again, transport, kept.place("studies/asked/again/x").parent)
        kept.text("studies/asked/status", f"{fed.read_status(kept.place('studies/asked/again')).state}")
        sites.keep(kept, "asked")
    message = fed.Message("question", {"a": [1, 2.5, None]}, {"x": np.arange(3.0)})
    kept.place("studies/a.message").write_bytes(message.to_bytes())
