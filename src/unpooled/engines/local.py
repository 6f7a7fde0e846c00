"""Engines on one machine: threads (the default: BLAS releases Python's lock) and processes (joblib)."""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

import joblib
from joblib.externals.loky import get_reusable_executor
from joblib.externals.loky.process_executor import BrokenProcessPool
from joblib.parallel import LokyBackend, SequentialBackend, ThreadingBackend

from .._base import threads
from .._base.engine import BlockError, Engine, Task, count_blas_threads, run_part
from .._base.progress import Progress


class Threads(Engine):
    """An engine that works on blocks in threads of this process, which share its arrays.

    Parameters
    ----------
    n_workers : threads; None is one per core
    """

    is_picklable = True

    def __init__(self, n_workers: int | None = None) -> None:
        self._n_workers = _check_workers(n_workers) or threads.count_cores()

    @property
    def n_workers(self) -> int:
        return self._n_workers

    def __repr__(self) -> str:
        return f"Threads({self._n_workers})"

    def work(self, task: Task, progress: Progress) -> Any:
        tree, workers = task.make_tree(), task.count_workers(self._n_workers)
        # The limit belongs to the process: it is set once around all parts, not by each of them.
        with threads.limit_blas(count_blas_threads(len(task.parts))):
            if workers == 1:
                for index, part in enumerate(task.parts):
                    tree.add(index, task.run_on(part))
                    progress.advance()
                return tree.result
            pool = ThreadPoolExecutor(workers)
            try:
                running: dict[Future[Any], int] = {}
                waiting = iter(enumerate(task.parts))
                while True:
                    # No more in work than workers: a finished result goes into the tree before the next part starts.
                    while len(running) < workers and (following := next(waiting, None)) is not None:
                        running[pool.submit(task.run_on, following[1])] = following[0]
                    if not running:
                        return tree.result
                    for done in wait(running, return_when=FIRST_COMPLETED).done:
                        tree.add(running.pop(done), done.result())
                        progress.advance()
            finally:
                pool.shutdown(wait=True, cancel_futures=True)


class Processes(Engine):
    """An engine that works on blocks in processes of this machine, or as ``joblib.parallel_config`` says (Ray, Spark).

    A worker that dies is replaced and its parts are repeated, up to ``retries`` times.

    Parameters
    ----------
    n_workers : processes; None is one per core
    retries : how often the parts of a dead worker are repeated
    """

    is_picklable = True

    def __init__(self, n_workers: int | None = None, retries: int = 2) -> None:
        self._n_workers = _check_workers(n_workers)
        self.retries = retries

    @property
    def n_workers(self) -> int:
        return self._n_workers or max(1, int(joblib.effective_n_jobs(self._n_jobs)))

    @property
    def _n_jobs(self) -> int | None:
        """None leaves the number to an active ``joblib.parallel_config``; without one, it is all cores."""
        _, chosen = joblib.parallel.get_active_backend()
        return self._n_workers or (None if chosen not in (None, 1) else -1)

    def __repr__(self) -> str:
        return f"Processes({self._n_workers or ''})"

    def work(self, task: Task, progress: Progress) -> Any:
        tree, parts = task.make_tree(), task.parts
        workers, share = task.count_workers(self.n_workers), count_blas_threads(len(parts))
        backend, _ = joblib.parallel.get_active_backend()
        # Most backends yield results as they come; those of Ray and Spark return lists, so they get a list at a time.
        streams = bool(backend.supports_return_generator)
        # loky maps large arrays into memory for all; other backends would send the whole arrays with every part, and so
        # may backends that are derived from these.
        local = type(backend) in (LokyBackend, ThreadingBackend, SequentialBackend)
        done = 0
        for attempt in range(self.retries + 1):
            try:
                while done < len(parts):
                    batch = parts[done:] if streams else parts[done : done + 4 * workers]
                    jobs = (
                        joblib.delayed(run_part)(task.fn, part if local else part.pack(), task.args, share)
                        for part in batch
                    )
                    how = {"return_as": "generator", "pre_dispatch": workers} if streams else {}
                    for value in joblib.Parallel(n_jobs=workers, **how)(jobs):
                        tree.add(done, value)
                        done += 1
                        progress.advance()
                return tree.result
            except BrokenProcessPool as error:
                if attempt == self.retries:
                    suspects = ", ".join(repr(part.name) for part in parts[done : done + workers])
                    raise BlockError(
                        f"a worker process died {self.retries + 1} times while one of the blocks {suspects} was "
                        "being processed, perhaps for lack of memory: use more blocks, or fewer workers"
                    ) from error
            except KeyboardInterrupt:
                get_reusable_executor().shutdown(wait=True, kill_workers=True)
                raise
        raise AssertionError("unreachable")


def _check_workers(n_workers: int | None) -> int | None:
    if n_workers is not None and (isinstance(n_workers, bool) or not isinstance(n_workers, int) or n_workers < 1):
        raise ValueError(f"n_workers must be a positive whole number or None (all cores), got {n_workers!r}")
    return n_workers
