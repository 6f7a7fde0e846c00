"""FederatedEngine and FlowerEngine, which fit an estimator to rows that stay at the sites.

An engine maps functions over parts. Here the parts are references to sites, and functions never travel: each function
must be a :class:`NamedStatistic`, one of the few that a site knows by name, and only its name and its public arguments
are sent. Any other function raises an error before anything is sent.

:class:`FlowerEngine` runs the estimator in this process and makes the sums at the sites of a Flower network.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ..._base.engine import Engine, NamedStatistic, Task, name_of
from ..._base.files import PathLike
from ..._base.rows import RemoteSource, Rows
from ..._base.text import quote
from ...bases import Basis
from ...data.sources import columns_of
from ..site.statistics import STATISTIC_MAKERS, Statistic, Sums
from ..study.folder import StudyError, StudyFolder, StudyRecord
from ..study.study import RESULTS, Study, read_study
from ..wire import network
from ..wire.transport import Relay, Transport
from .running import Run
from .server import Progress


class FederatedEngine(Engine):
    """The engine that makes an estimator's sums at the sites of a study of the kind "estimator".

    ::

        study = Study("stay", basis, "days", members, quorum=3, timeout=60, kind="estimator", rounds=10)
        engine = FederatedEngine(study, transport, "stay")
        model = up.LESSRegressor(basis, rounds=10, engine=engine).fit(engine.rows, "days")
        record = engine.finish(model)

    Parameters
    ----------
    study : Study of the kind "estimator"
    transport : the transport to its sites
    folder : the folder of the study; exchanges that are complete there are not repeated
    progress : a function that is called with a :class:`Status` after each change, or None
    """

    def __init__(self, study: Study, transport: Transport, folder: PathLike, progress: Progress | None = None) -> None:
        if study.kind != "estimator":
            raise ValueError(f'a FederatedEngine runs studies of the kind "estimator", got {quote(study.kind)}')
        self._folder = StudyFolder(Path(folder))
        self.study, self._transport, self._progress = self._folder.begin(study), transport, progress
        self._run: Run | None = None

    @property
    def n_workers(self) -> int:
        """The number of sites, which all work at the same time."""
        return len(self.study.members)

    @property
    def rows(self) -> RemoteRows:
        """The rows of all sites, as references, for the argument X of ``fit``."""
        return RemoteRows.of(self)

    def begin(self) -> None:
        """Begin a fit, which takes the sums that the folder already holds and asks the sites for the others."""
        self._run = Run(self.study, self._transport, self._folder, self._progress)

    def ask(self, statistic: Statistic) -> Any:
        """Return the sum of a statistic over the sites."""
        if self._run is None:
            raise StudyError(_NOT_BEGUN)
        try:
            return self._run.server.ask(statistic)
        except StudyError as error:
            self._run.fail(str(error))
            raise

    def work(self, task: Task, progress: object) -> Any:
        """Return the sum over the sites of a statistic they know; a ValueError for any other function."""
        if not isinstance(task.fn, NamedStatistic):
            raise ValueError(
                f"{name_of(task.fn).strip('_')} is not among the statistics that sites answer: use LESSRegressor, with "
                "the squared loss, or with fit_intercept=False and a loss that has its scale, such as Huber(1.5)"
            )
        if self._run is None:
            raise StudyError(_NOT_BEGUN)
        make = STATISTIC_MAKERS[task.fn.name]
        return self.ask(make(self.study, self._run.server.number, **task.fn.question(task.args)))

    def finish(self, model: Any) -> StudyRecord:
        """Write the fitted model and the record of the study into its folder."""
        if self._run is None:
            raise StudyError("there is no model yet: fit an estimator to engine.rows first")
        return self._run.finish(model, [])


_NOT_BEGUN = "the engine has no fit in progress: fit an estimator to engine.rows"


@dataclass
class RemotePiece:
    """The rows of one site, which cannot be read here."""

    site: str
    n_rows: int = 0  # unknown
    single = False
    lazy = None

    def read(self, rows: Any = None) -> Rows:
        """Raise a ValueError, because the rows never leave their site."""
        raise ValueError(f"the rows of {self.site} stay at {self.site}: only sums over them can be asked for")

    def chunks(self, size: int) -> Iterator[Rows]:
        """Raise a ValueError, because the rows never leave their site."""
        yield self.read()


@dataclass(frozen=True, eq=False)
class RemoteRows(RemoteSource):
    """The rows of all sites of an engine; their number is learned from a sum."""

    engine: FederatedEngine = field(kw_only=True)

    @classmethod
    def of(cls, engine: FederatedEngine) -> RemoteRows:
        """Return the rows of the study of an engine."""
        study = engine.study
        names = columns_of(study.basis) or None
        pieces, T = [RemotePiece(site) for site in study.members], len(study.targets)
        return cls(
            pieces, study.basis.n_features_in_, names,
            target_names=study.targets, n_outputs=T, one_target=T == 1, engine=engine,
        )  # fmt: skip

    def open_labeled(self, owner: Any, y: Any, sample_weight: Any) -> RemoteRows:
        """Return these rows for one fit, whose labels and basis must be those of the study."""
        study = self.engine.study
        targets = (y,) if isinstance(y, str) else tuple(y) if isinstance(y, (list, tuple)) else ()
        if targets != study.targets:
            raise ValueError(f"y must be {', '.join(study.targets)}, the targets of the study, got {quote(y)}")
        if sample_weight is not None:
            raise ValueError("sample_weight must be None: each site names its weights in its own configuration")
        if not isinstance(owner, Basis) or owner.digest != study.basis.digest:
            raise ValueError("basis must be the basis of the study, engine.study.basis, which the sites have")
        self.engine.begin()
        return RemoteRows.of(self.engine)

    @cached_property
    def n_rows(self) -> int:
        """The number of rows of all sites together, learned from a first exchange of sums."""
        return int(self.engine.ask(Sums(self.engine.study)).n_rows)


class FlowerEngine(FederatedEngine):
    """Fit an estimator to rows that stay at the sites of a Flower network.

    The network must be running, and this process must run on the machine of its SuperLink.

    Parameters
    ----------
    folder : a folder from ``unpooled federation init``, with ``kind = "estimator"`` in its ``study.toml``
    superlink : the name of the SuperLink in Flower's settings (``FLWR_HOME``), which ``. folder/env.sh`` sets
    progress : a function that is called with a :class:`Status` after each change, or None

    Examples
    --------
    >>> with FlowerEngine("consortium") as engine:  # doctest: +SKIP
    ...     model = up.LESSRegressor(engine.study.basis, rounds=10, engine=engine).fit(engine.rows, "days")
    ...     record = engine.finish(model)
    """

    def __init__(self, folder: PathLike, superlink: str = "study", progress: Progress | None = None) -> None:
        place = Path(folder)
        self._relay = Relay()
        try:
            super().__init__(read_study(place), self._relay, place / RESULTS, progress)
            self.run_id = network.submit_run(place / "app", superlink, {"relay": self._relay.address})
            self._relay.connect()
        except BaseException:
            self._relay.close()
            raise

    def close(self) -> None:
        """End the run, which Flower then reports as completed."""
        self._relay.close()

    def __enter__(self) -> FlowerEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
