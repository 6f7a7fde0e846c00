"""FederatedEngine and FlowerEngine: the same estimator on rows that stay at the sites.

Parts are references to sites, and functions never travel. An engine maps functions over parts; here the function must
be a :class:`NamedStatistic`, one of the few that a site knows by name, and that name is sent with its public arguments.
Any other function is an error on this side, and nothing is sent.

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
from ..site.statistics import ASKED, Statistic, Sums
from ..study.folder import StudyError, StudyFolder, StudyRecord
from ..study.study import RESULTS, Study, read_study
from ..wire import network
from ..wire.transport import Relay, Transport
from .running import Run
from .server import Progress


class FederatedEngine(Engine):
    """Where an estimator's sums are made: at the sites of a study of the kind "estimator".

    ::

        study = Study("stay", basis, "days", members, quorum=3, timeout=60, kind="estimator", rounds=10)
        engine = FederatedEngine(study, transport, "stay")
        model = up.LESSRegressor(basis, rounds=10, engine=engine).fit(engine.rows, "days")
        record = engine.finish(model)

    Parameters
    ----------
    study : Study of the kind "estimator"
    transport : what carries messages to its sites
    folder : the study's own; what is complete there already is not asked for again
    progress : called with a :class:`Status` whenever something has changed, or None
    """

    def __init__(self, study: Study, transport: Transport, folder: PathLike, progress: Progress | None = None) -> None:
        if study.kind != "estimator":
            raise ValueError(f'a FederatedEngine runs studies of the kind "estimator", got {quote(study.kind)}')
        self._folder = StudyFolder(Path(folder))
        self.study, self._transport, self._progress = self._folder.begin(study), transport, progress
        self._run: Run | None = None

    @property
    def n_workers(self) -> int:
        """Every site works for itself."""
        return len(self.study.members)

    @property
    def rows(self) -> RemoteRows:
        """What ``fit`` takes for X: all rows of all sites, where they are."""
        return RemoteRows.of(self)

    def begin(self) -> None:
        """A fit begins: it gets the sums that the folder has already, and asks for the others."""
        self._run = Run(self.study, self._transport, self._folder, self._progress)

    def ask(self, statistic: Statistic) -> Any:
        """The sum of a statistic over the sites."""
        if self._run is None:
            raise StudyError(_NOT_BEGUN)
        try:
            return self._run.server.ask(statistic)
        except StudyError as error:
            self._run.failed(str(error))
            raise

    def work(self, task: Task, progress: object) -> Any:
        """Return the sum over the sites of a statistic they know; a ValueError for any other function."""
        if not isinstance(task.fn, NamedStatistic):
            raise ValueError(
                f"sites answer named statistics only, and {name_of(task.fn).strip('_')} is none: give a loss with its "
                "scale (Huber(1.5)), center=False with such a loss, and use LESSRegressor"
            )
        if self._run is None:
            raise StudyError(_NOT_BEGUN)
        asked = ASKED[task.fn.name]
        return self.ask(asked(self.study, self._run.server.number, **task.fn.question(task.args)))

    def finish(self, model: Any) -> StudyRecord:
        """Write the fitted model and the record of the study into its folder."""
        if self._run is None:
            raise StudyError("nothing was fitted: fit an estimator to the rows of the engine first")
        return self._run.finished(model, [])


_NOT_BEGUN = "nothing was begun: fit an estimator to the rows of the engine"


@dataclass
class RemotePiece:
    """The rows of one site, which cannot be read from here."""

    site: str
    n_rows: int = 0  # unknown
    single = False
    lazy = None

    def read(self, rows: Any = None) -> Rows:
        """Never."""
        raise ValueError(f"the rows of {self.site} stay at {self.site}: ask for sums over them")

    def chunks(self, size: int) -> Iterator[Rows]:
        """Never."""
        yield self.read()


@dataclass(frozen=True, eq=False)
class RemoteRows(RemoteSource):
    """The rows of all sites of an engine; their number is learned from a sum."""

    engine: FederatedEngine = field(kw_only=True)

    @classmethod
    def of(cls, engine: FederatedEngine) -> RemoteRows:
        """Those that the study of an engine is about."""
        study = engine.study
        names = columns_of(study.basis) or None
        pieces, T = [RemotePiece(site) for site in study.members], len(study.targets)
        return cls(
            pieces, study.basis.n_features_in_, names,
            target_names=study.targets, n_outputs=T, one_target=T == 1, engine=engine,
        )  # fmt: skip

    def open_labeled(self, owner: Any, y: Any, sample_weight: Any) -> RemoteRows:
        """These rows for one fit; what is asked for must be what the study is about."""
        study = self.engine.study
        targets = (y,) if isinstance(y, str) else tuple(y) if isinstance(y, (list, tuple)) else ()
        if targets != study.targets:
            raise ValueError(f"y must be {', '.join(study.targets)}, which the study is about, got {quote(y)}")
        if sample_weight is not None:
            raise ValueError("sample_weight must be left out: a site's weights are in its own configuration")
        if not isinstance(owner, Basis) or owner.digest != study.basis.digest:
            raise ValueError("kernel must be the basis of the study, which the sites have")
        self.engine.begin()
        return RemoteRows.of(self.engine)

    @cached_property
    def n_rows(self) -> int:
        """Over all sites: the sum of labels is asked for, which says so."""
        return int(self.engine.ask(Sums(self.engine.study)).n_rows)


class FlowerEngine(FederatedEngine):
    """Fit an estimator to rows that stay at the sites of a Flower network.

    The network runs, and this process runs where its SuperLink does.

    Parameters
    ----------
    folder : one that ``unpooled federation init`` wrote, with ``kind = "estimator"`` in its ``study.toml``
    superlink : the name of the SuperLink in Flower's settings (``FLWR_HOME``), which ``. folder/env.sh`` sets
    progress : called with a :class:`Status` whenever something has changed, or None

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
            self.run_id = network.submitted(place / "app", superlink, {"relay": self._relay.address})
            self._relay.connect()
        except BaseException:
            self._relay.close()
            raise

    def close(self) -> None:
        """End the run: Flower calls it completed."""
        self._relay.close()

    def __enter__(self) -> FlowerEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
