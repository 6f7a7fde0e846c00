"""FlowerEngine: an estimator in this process, the sums at the sites of a Flower network."""

from __future__ import annotations

from pathlib import Path

from ..files import PathLike
from .engine import FederatedEngine
from .relay import Relay
from .session import Progress
from .study_file import RESULTS, read_study


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
        from . import flower

        place = Path(folder)
        self._relay = Relay()
        try:
            super().__init__(read_study(place), self._relay, place / RESULTS, progress)
            self.run_id = flower.submitted(place / "app", superlink, {"relay": self._relay.address})
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
