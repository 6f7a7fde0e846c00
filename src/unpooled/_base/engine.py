"""Engine, the contract of all engines: ``map_reduce(fn, parts, combine)``, combined in one order whatever the engine.

An engine decides only where a part is worked on. ``fn`` is importable, ``parts`` are references to data and never the
data, and ``combine`` is associative up to rounding and leaves its arguments as they are. Every engine gives the same
bits, for three reasons:

- Blocks are cut and halved before they go anywhere.
- BLAS gets one thread for each block on every engine; where there is only one block, it gets all threads.
- Results are folded along one binary tree, neighbours first, in the order of the blocks and not in the order in which
  they finish.

``combine`` has to make new arrays. An engine that has lost a worker combines the same two results once more, and a sum
that had been written into its left argument would then count a block twice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from . import threads


class Part(Protocol):
    """A reference to the data of one block."""

    name: str

    def shipped(self) -> Part:
        """The same part in a form that carries no more than its own rows to another process."""


Function = Callable[..., Any]
Combine = Callable[[Any, Any], Any]


class BlockError(RuntimeError):
    """The work on one block failed; the message names the block."""


class Engine(ABC):
    """Where blocks are worked on."""

    @property
    @abstractmethod
    def n_workers(self) -> int:
        """How many parts are worked on at once."""

    @abstractmethod
    def map_reduce(
        self,
        fn: Function,
        parts: Sequence[Part],
        combine: Combine,
        *,
        args: tuple[Any, ...] = (),
        at_once: int | None = None,
        label: str = "",
        verbose: int = 0,
    ) -> Any:
        """``combine`` of ``fn(part, *args)`` over all parts.

        At most ``at_once`` parts are in work together (None: as many as there are workers). A part that fails
        raises :class:`BlockError`; no partial result is ever returned. ``label`` stands before the progress that
        ``verbose`` shows.
        """

    def close(self) -> None:  # noqa: B027 - most engines hold nothing open
        """Give back what the engine holds open."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Engine:
        """Itself: a clone of an estimator works where the original does."""
        return self

    def session(self) -> AbstractContextManager[object]:
        """A context in which the same parts are mapped several times; an engine may keep them near the workers."""
        return nullcontext()


class Tree:
    """The canonical fold: neighbours (0,1), (2,3), … are combined, then those, and so on; an odd last one moves up.

    Results may come in any order. What waits for its neighbour is all that is kept.
    """

    def __init__(self, n: int, combine: Combine) -> None:
        if n < 1:
            raise ValueError("there is nothing to combine: at least one part is needed")
        self._sizes = [n]
        while self._sizes[-1] > 1:
            self._sizes.append((self._sizes[-1] + 1) // 2)
        self._combine = combine
        self._waiting: dict[tuple[int, int], Any] = {}

    def add(self, index: int, value: Any) -> None:
        """Take the result of one part in, and combine as far up as possible."""
        for level, size in enumerate(self._sizes[:-1]):
            neighbour = index ^ 1
            if neighbour < size:
                if (level, neighbour) not in self._waiting:
                    self._waiting[level, index] = value
                    return
                other = self._waiting.pop((level, neighbour))
                value = self._combine(value, other) if index < neighbour else self._combine(other, value)
            index //= 2
        self._waiting[len(self._sizes) - 1, 0] = value

    @property
    def result(self) -> Any:
        """The combination of all parts."""
        root = (len(self._sizes) - 1, 0)
        if root not in self._waiting:
            raise RuntimeError("some parts have not reported yet")
        return self._waiting[root]


def blas_share(n_parts: int) -> int:
    """BLAS threads for a part: one, so that parts do not fight and all engines round alike; all for a lone part."""
    return 1 if n_parts > 1 else threads.allowed_threads()


def run_part(fn: Function, part: Part, args: tuple[Any, ...], blas_threads: int) -> Any:
    """fn(part, *args) on its share of the cores; an error comes back with the name of the block."""
    with threads.blas_limit(blas_threads):
        return named(fn, part, args)


def named(fn: Function, part: Part, args: tuple[Any, ...]) -> Any:
    """fn(part, *args); an error comes back with the name of the block."""
    try:
        return fn(part, *args)
    except BlockError:
        raise
    except MemoryError as error:
        raise BlockError(f"block {part.name!r} ran out of memory: use more blocks, or fewer workers") from error
    except Exception as error:
        raise BlockError(f"block {part.name!r} failed: {error}") from error
