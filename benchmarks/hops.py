"""Source files that a call runs through: python benchmarks/hops.py [way ...]

A file counts once, when one of its functions runs during the call; imports do not count, and every way is walked once
beforehand so that lazy imports and caches do not either. Leaves do not count: the rooms ``_base``, ``kernels``,
``filters``, ``losses`` and ``engines``, which a reader need not enter to follow a call. Printed for each way are the
files in the order of first entry, and how often control moved from one counted file to another. The exit status is 1
where a way is longer than its limit.

``--leaves`` names more leaves, so that a tree with another layout is counted by the same rule.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
warnings.filterwarnings("ignore")

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

import unpooled as up  # noqa: E402
from unpooled import federation  # noqa: E402

HERE = Path(up.__file__).parent
LEAVES = {"_base", "kernels", "filters.py", "losses.py", "engines", "__init__.py"}
NOT_A_MOVE = ("<module>", "<lambda>", "<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>")
SITES = ("east", "north", "south")


def trace(call: Callable[[], Any], leaves: set[str]) -> tuple[list[str], int]:
    """The files that the call runs through, on whatever thread, and the moves between them."""
    seen: list[str] = []
    moves, last = 0, ""

    def watch(frame: Any, event: str, _: Any) -> None:
        nonlocal moves, last
        if event != "call" or frame.f_code.co_name in NOT_A_MOVE:
            return
        path = frame.f_code.co_filename
        if not path.startswith(str(HERE)):
            return
        name = os.path.relpath(path, HERE)
        if name.split(os.sep)[0] in leaves:
            return
        if name not in seen:
            seen.append(name)
        if name != last:
            moves, last = moves + 1, name

    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return seen, moves


def rows(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A smooth function of two of three inputs, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 3))
    return X, np.sin(4 * X[:, 0]) + X[:, 1] + 0.2 * rng.standard_normal(n)


def table(n: int, seed: int = 0) -> pa.Table:
    """The same rows with names."""
    X, y = rows(n, seed)
    return pa.table({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": y})


def consortium(folder: Path) -> federation.InProcess:
    """Three sites in this process, each with rows and a key."""
    identities, sites = {}, []
    for name in SITES:
        (folder / name).mkdir()
        identities[name] = federation.Identity.create(folder / name / "site.key")
    for seed, name in enumerate(SITES):
        place = folder / name
        pq.write_table(table(200, seed), place / "rows.parquet")
        peers = {other: identity.public for other, identity in identities.items() if other != name}
        config = federation.SiteConfig(name, place, place / "rows.parquet", identity=identities[name], peers=peers)
        sites.append(federation.Site(config))
    return federation.InProcess(sites)


def exchange(folder: Path, basis: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """One secure sum at second order over three sites: the exchange alone, and a study up to its model."""
    transport, count = consortium(folder), iter(range(100))
    asked = {"secure": True, "quorum": 3, "timeout": 60.0, "members": SITES}

    def alone() -> None:
        study = federation.Study("exchange", basis, "y", kind="estimator", order=2, **asked)
        engine = federation.FederatedEngine(study, transport, folder / f"exchange-{next(count)}")
        up.Summary.of(basis, engine.rows, "y", order=2, engine=engine)

    def whole() -> None:
        study = federation.Study("study", basis, "y", kind="second-order", lam=1e-3, **asked)
        federation.run_study(study, transport, folder / f"study-{next(count)}")

    return alone, whole


def leaving(folder: Path, basis: Any) -> Callable[[], Any]:
    """A first-order summary made by ``unpooled summarize`` and let go by the default policy of its site."""
    from unpooled.cli import app

    place = folder / "site"
    place.mkdir()
    basis.save(place / "study.basis")
    pq.write_table(table(400), place / "rows.parquet")
    (place / "policy.toml").write_text("")
    count = iter(range(100))

    def run() -> None:
        files = [str(place / name) for name in ("study.basis", "rows.parquet", f"{next(count)}.summary")]
        with contextlib.redirect_stdout(io.StringIO()):
            app(["summarize", *files[:2], "--target", "y", "-o", files[2]], standalone_mode=False)
        if not Path(files[2]).exists():
            raise RuntimeError("the site's policy kept the summary: the way was not walked to its end")

    return run


def ways(folder: Path) -> dict[str, tuple[Callable[[], Any], int]]:
    """Each way as a call, and how many files it may run through."""
    X, y = rows(400)
    pq.write_table(table(400), folder / "rows.parquet")
    basis = up.bases.EmpiricalFeatures(up.kernels.Gaussian(1.0), n_features=15).fit(X[:100])
    named = up.bases.EmpiricalFeatures(up.kernels.Gaussian(1.0), n_features=15).fit(table(100).select(["a", "b", "c"]))
    summary = up.Summary.of(basis, X, y, order=2)
    model = up.SummaryRegressor().fit_summary(summary)
    private = up.PrivateRegressor(epsilon=1.0, delta=1e-6, label_bound=3.0)
    big = up.NystromRegressor(up.kernels.Gaussian(1.0), n_features=50)
    alone, whole = exchange(folder, named)
    return {
        "fit": (lambda: up.SpectralRegressor(up.kernels.Gaussian(1.0)).fit(X, y), 7),
        "big fit from a file": (lambda: big.fit(str(folder / "rows.parquet"), "y"), 11),
        "summary": (lambda: up.Summary.of(basis, X, y, order=2), 8),
        "model of a summary": (lambda: up.SummaryRegressor().fit_summary(summary), 9),
        "private fit": (lambda: private.fit(*rows(2000), public=X[:200]), 18),
        "report": (lambda: up.report(model), 20),
        "summary leaving a site": (leaving(folder, named), 15),
        "federated exchange": (alone, 28),
        "federated study": (whole, 34),
    }


def main() -> int:
    """Walk the ways that are named, or all of them."""
    parser = argparse.ArgumentParser(description="Source files that a call runs through.")
    parser.add_argument("way", nargs="*")
    parser.add_argument("--leaves", default="", help="more rooms and files that do not count, separated by commas")
    options = parser.parse_args()
    leaves = LEAVES | {name for name in options.leaves.split(",") if name}
    over = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, (call, limit) in ways(Path(folder)).items():
            if options.way and name not in options.way:
                continue
            call()
            seen, moves = trace(call, leaves)
            over += len(seen) > limit
            print(f"{name}: {len(seen)} files (limit {limit}), {moves} moves between files\n    " + "  ".join(seen))
    return int(over > 0)


if __name__ == "__main__":
    sys.exit(main())
