"""Engine, the contract of all engines: ``map_reduce(fn, parts, combine)``, combined in one order whatever the engine.

An engine decides only where a part is worked on: its ``work`` gets a :class:`Task`. ``fn`` is importable, ``parts`` are
references to data and never the data, and ``combine`` is associative up to rounding and leaves its arguments as they
are. A function that places which keep their rows can work out by themselves is a :class:`NamedStatistic`: such a place
is sent the name and the public arguments, and never the function. Every engine gives the same bits, for three reasons:

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
from dataclasses import dataclass
from inspect import signature
from types import FunctionType
from typing import Any, Protocol

from . import threads
from .progress import Progress
from .text import quote


class Part(Protocol):
    """A reference to the data of one block."""

    name: str

    def shipped(self) -> Part:
        """The same part in a form that carries no more than its own rows to another process."""


Function = Callable[..., Any]
Combine = Callable[[Any, Any], Any]


class BlockError(RuntimeError):
    """The work on one block failed; the message names the block."""


@dataclass(frozen=True)
class NamedStatistic:
    """A function of a block that a place which keeps its rows knows by name.

    Attributes
    ----------
    name : of the statistic
    function : what an engine calls that has the rows
    public : the names of those arguments of the function that such a place is sent
    """

    name: str
    function: Function
    public: tuple[str, ...]

    def __call__(self, part: Part, *args: Any) -> Any:
        """Call the function."""
        return self.function(part, *args)

    def question(self, args: tuple[Any, ...]) -> dict[str, Any]:
        """Return the public ones of the arguments after the block, by name."""
        given = dict(zip(list(signature(self.function).parameters)[1:], args))
        return {name: given[name] for name in self.public}


def called(fn: Function) -> str:
    """Return what people call a function."""
    if isinstance(fn, NamedStatistic):
        return fn.name
    return fn.__name__ if isinstance(fn, FunctionType) else quote(fn)


@dataclass(frozen=True)
class Task:
    """The work of one ``map_reduce``: a function for every part, and how two results are combined.

    Attributes
    ----------
    fn, parts, combine, args : as :meth:`Engine.map_reduce` takes them
    at_once : at most so many parts are in work together, or None
    label : what people see
    """

    fn: Function
    parts: Sequence[Part]
    combine: Combine
    args: tuple[Any, ...] = ()
    at_once: int | None = None
    label: str = ""

    def tree(self) -> Tree:
        """Return the fold that results go into; an error where there are no parts."""
        return Tree(len(self.parts), self.combine)

    def workers(self, most: int) -> int:
        """Return how many parts are in work together on an engine that can do ``most``."""
        return min(most, self.at_once or most, len(self.parts))

    def on(self, part: Part) -> Any:
        """Return the result of a part; an error comes back with the name of the block."""
        return named(self.fn, part, self.args)


class Engine(ABC):
    """Where blocks are worked on."""

    #: whether it may travel in a file with the model that was fitted on it; a connection to a cluster may not
    is_picklable = False

    @property
    @abstractmethod
    def n_workers(self) -> int:
        """How many parts are worked on at once."""

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
        raises a ``BlockError``; no partial result is ever returned. ``label`` stands before the progress that
        ``verbose`` shows.
        """
        with Progress(len(parts), label, verbose) as progress:
            return self.work(Task(fn, parts, combine, args, at_once, label), progress)

    def work(self, task: Task, progress: Progress) -> Any:
        """Do a task; ``progress.advance()`` counts a part that is done. This is what an engine must define."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it works: define work(task, progress)")

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
