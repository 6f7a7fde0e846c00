"""Engines, and the interface of all of them: ``map_reduce(fn, parts, combine)`` combines in the same order on each.

An engine decides only where a part is worked on: its ``work`` receives a :class:`Task`. ``fn`` is importable, ``parts``
are references to data and never the data, and ``combine`` is associative up to rounding and does not change its
arguments. A function that a data holder can compute by itself is a :class:`NamedStatistic`: the data holder is sent the
name and the public arguments, and never the function. Every engine gives the same bits, for three reasons:

- Blocks are cut and halved before they are sent anywhere.
- BLAS gets one thread for each block on every engine; where there is only one block, it gets all threads.
- Results are folded along one binary tree, neighbours first, in the order of the blocks and not in the order in which
  they finish.

``combine`` must make new arrays. An engine that has lost a worker combines the same two results once more, and a sum
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

    def pack(self) -> Part:
        """Return the same part in a form that carries only its own rows to another process."""


Function = Callable[..., Any]
_Combine = Callable[[Any, Any], Any]


class BlockError(RuntimeError):
    """The work on one block failed; the message names the block."""


@dataclass(frozen=True)
class NamedStatistic:
    """A function of a block that a data holder knows by name.

    Attributes
    ----------
    name : of the statistic
    function : called by an engine that has the rows
    public : the names of the arguments that are sent to a data holder
    """

    name: str
    function: Function
    public: tuple[str, ...]

    def __call__(self, part: Part, *args: Any) -> Any:
        """Call the function."""
        return self.function(part, *args)

    def question(self, args: tuple[Any, ...]) -> dict[str, Any]:
        """Return the public arguments among those after the block, by name."""
        given = dict(zip(list(signature(self.function).parameters)[1:], args))
        return {name: given[name] for name in self.public}


def name_of(fn: Function) -> str:
    """Return the name under which messages mention a function."""
    if isinstance(fn, NamedStatistic):
        return fn.name
    return fn.__name__ if isinstance(fn, FunctionType) else quote(fn)


@dataclass(frozen=True)
class Task:
    """The work of one ``map_reduce``: a function for every part, and how two results are combined.

    Attributes
    ----------
    fn, parts, combine, args : as :meth:`Engine.map_reduce` takes them
    at_once : the largest number of parts in work at the same time, or None
    label : the text before the progress bar
    """

    fn: Function
    parts: Sequence[Part]
    combine: _Combine
    args: tuple[Any, ...] = ()
    at_once: int | None = None
    label: str = ""

    def make_tree(self) -> Tree:
        """Return the empty fold for the results; raise an error if there are no parts."""
        return Tree(len(self.parts), self.combine)

    def count_workers(self, most: int) -> int:
        """Return how many parts are processed at the same time on an engine that can do ``most``."""
        return min(most, self.at_once or most, len(self.parts))

    def run_on(self, part: Part) -> Any:
        """Return the result for a part; an error comes back with the name of the block."""
        return _run_naming_block(self.fn, part, self.args)


class Engine(ABC):
    """A place where blocks are processed: threads, processes, a cluster, a federation."""

    #: whether it may travel in a file with the model fitted on it; a connection to a cluster may not
    is_picklable = False

    @property
    @abstractmethod
    def n_workers(self) -> int:
        """The number of parts that are processed at the same time."""

    def map_reduce(
        self,
        fn: Function,
        parts: Sequence[Part],
        combine: _Combine,
        *,
        args: tuple[Any, ...] = (),
        at_once: int | None = None,
        label: str = "",
        verbose: int = 0,
    ) -> Any:
        """Return the ``combine`` of ``fn(part, *args)`` over all parts.

        At most ``at_once`` parts are processed at the same time (None: as many as there are workers). If a part fails,
        a ``BlockError`` is raised; a partial result is never returned. ``label`` stands before the progress bar that
        ``verbose`` shows.
        """
        with Progress(len(parts), label, verbose) as progress:
            return self.work(Task(fn, parts, combine, args, at_once, label), progress)

    def work(self, task: Task, progress: Progress) -> Any:
        """Do a task, calling ``progress.advance()`` for each finished part. Every engine must define this."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it works: define work(task, progress)")

    def close(self) -> None:  # noqa: B027 - most engines hold nothing open
        """Release what the engine holds open."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Engine:
        """Return the engine itself: a clone of an estimator works where the original does."""
        return self

    def session(self) -> AbstractContextManager[object]:
        """Return a context for mapping the same parts several times; an engine may keep them near the workers."""
        return nullcontext()


class Tree:
    """The fixed order of combining: neighbours (0,1), (2,3), … first, then their results; an odd last one moves up.

    Results may arrive in any order. Only those that wait for their neighbour are kept.
    """

    def __init__(self, n: int, combine: _Combine) -> None:
        if n < 1:
            raise ValueError("there is nothing to combine: at least one part is needed")
        self._sizes = [n]
        while self._sizes[-1] > 1:
            self._sizes.append((self._sizes[-1] + 1) // 2)
        self._combine = combine
        self._waiting: dict[tuple[int, int], Any] = {}

    def add(self, index: int, value: Any) -> None:
        """Take in the result of one part, and combine as far up as possible."""
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


def count_blas_threads(n_parts: int) -> int:
    """Return the BLAS threads of each part: one, so that parts do not compete and engines agree; all for a lone one."""
    return 1 if n_parts > 1 else threads.count_threads()


def run_part(fn: Function, part: Part, args: tuple[Any, ...], blas_threads: int) -> Any:
    """Return fn(part, *args), computed on its share of the cores; an error comes back with the name of the block."""
    with threads.limit_blas(blas_threads):
        return _run_naming_block(fn, part, args)


def _run_naming_block(fn: Function, part: Part, args: tuple[Any, ...]) -> Any:
    """Return fn(part, *args); an error comes back with the name of the block."""
    try:
        return fn(part, *args)
    except BlockError:
        raise
    except MemoryError as error:
        raise BlockError(f"block {part.name!r} ran out of memory: use more blocks, or fewer workers") from error
    except Exception as error:
        raise BlockError(f"block {part.name!r} failed: {error}") from error
