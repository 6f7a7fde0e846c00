"""The routes of ridge regression in a span, and the choices before a pass: a machine, its precision, and a route.

=======  ==================================================================  ==============================
route    what it does                                                        when
=======  ==================================================================  ==============================
gram     one pass sums the Gram matrix of the kernel functions               λ is not too small for it
rounds   a few passes of products, by preconditioned conjugate gradients     many points, or a small λ
=======  ==================================================================  ==============================

Either runs on every machine: NumPy on all cores (:mod:`.machine`), torch on a CPU or a GPU (:mod:`.on_torch`), and, for
Gram matrices only, in fixed point (:mod:`.fixed`). Memory is mostly the room for matrices of M × M numbers. It decides
how many preconditioners rounds keep, and which jobs are refused before they start.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..._base import memory, threads
from ..._base.arrays import Floats
from ..._base.rows import KEPT, Rows
from ..._base.text import quote
from ...bases.maps import KernelMap
from ...kernels.stationary import Stationary
from .. import route
from ..route import CHOLESKY, OF_A_THREAD, SKINNY, Cost, Memory
from ..spectral.criteria import three_a_decade
from . import fixed, on_torch
from .machine import ROUNDS, SOLVING, Machine, NumpyMachine, Span
from .on_torch import TorchMachine, torch
from .solving import (
    CentredSystem,
    SpanSolution,
    drop_small_lams,
    make_span,
    smallest_lam,
    solve_by_rounds,
    solve_from_gram,
)
from .sums import Chunks, Sums, sum_rows


def find_device(device: Any, X: Any) -> Any:
    """Return the device for torch: the user's, or that of the rows if they are tensors, or None for NumPy."""
    if device is None:
        loaded = sys.modules.get("torch")
        return X.device if loaded is not None and isinstance(X, loaded.Tensor) else None
    try:
        chosen = torch().device(device)
        torch().empty(0, device=chosen)
    except (RuntimeError, TypeError, AssertionError) as error:
        raise ValueError(
            f"device={quote(device)} cannot be used by torch on this machine: use None, 'cpu', or a GPU of this machine"
        ) from error
    return chosen


SOLVERS = ("auto", "gram", "rounds")
PRECISIONS = ("auto", "fixed", "single", "double")
SINGLE_FLOOR = 1e-9  # of κ²: for smaller λ rounding of single kernel values would act like a larger one
SMOOTH = 5e-4  # of κ⁴: functions that vary less need large coefficients at small λ, which single kernel values spoil


def make_machine(map_: KernelMap, device: Any, precision: str) -> Machine:
    """Make a NumPy machine without a device, else a torch machine; a fused one if the GPU, kernel and rows allow it."""
    if precision == "fixed":
        return fixed.FixedPointMachine(map_)
    if device is None:
        return NumpyMachine(map_, precision == "single")
    if precision == "single" and on_torch.is_fusable(map_.kernel, map_.n_features_in, device):
        return on_torch.FusedMachine(map_, device)
    return TorchMachine(map_, device, precision == "single")


def choose_machine(
    map_: KernelMap, device: Any, wanted: str, rows_single: bool, lams: Floats | None, kappa_sq: float
) -> tuple[Machine, str]:
    """Return the machine and the precision of its kernel values: ``wanted``, or "single" or "double" for "auto".

    "auto" is single for rows of single precision and on a GPU, unless λ is too small for it or, for the default grid
    (``lams`` is None), kernel values hardly vary. Only kernels of the distance may be single: they keep their values
    within κ² whatever the rows are.
    """
    if wanted == "fixed":
        fixed.check_possible(map_.kernel, device, lams)
    if wanted != "auto":
        return make_machine(map_, device, wanted), wanted
    single = rows_single or (device is not None and device.type == "cuda")
    if single and isinstance(map_.kernel, Stationary):
        machine = make_machine(map_, device, "single")
        if machine.spread(kappa_sq) >= SMOOTH if lams is None else np.min(lams) >= SINGLE_FLOOR * kappa_sq:
            return machine, "single"
    return make_machine(map_, device, "double"), "double"


def default_grid(kappa_sq: float, least: float) -> Floats:
    """Return three λ per decade from 0.3κ² down to the limit of a Gram matrix, or of single precision."""
    return three_a_decade(kappa_sq, -0.5, np.log10(max(least / kappa_sq, SINGLE_FLOOR)))


def choose_lams(
    machine: Machine, precision: str, kappa_sq: float, n: int, asked: Floats | None
) -> tuple[Floats, float]:
    """Return the given λ or the default grid, and the smallest λ for which a Gram matrix of n rows is accurate."""
    least = smallest_lam(kappa_sq, machine.spread(kappa_sq), machine.rounding(n))
    least = fixed.LEAST if precision == "fixed" else least
    return (default_grid(kappa_sq, least) if asked is None else asked), least


FACTORS = {False: 2 << 30, True: 40 << 30}  # bytes of preconditioners that rounds keep, without and with a GPU
PROBES = 2  # labels of random signs, whose fits give the degrees of freedom of rounds
TRIDIAGONAL = 0.15  # the speed of a reduction to tridiagonal form beside a matrix product
STRETCH = 1 << 21  # rows of arrays over which sums are taken together


@dataclass(frozen=True)
class Job:
    """The facts about a regression in a span that decide its route; a plan and a fit describe it in the same way."""

    n: int
    d: int
    targets: int
    n_points: int  #: M
    n_lams: int
    n_columns: int  #: λ times labels, those of random signs included
    single: bool = False  #: the precision of kernel values
    on_gpu: bool = False
    cores: int = 1
    of_a_pass: float = 0.0  #: matrices of M × M numbers that a machine holds while it sums a Gram matrix
    smallest_lam: float = np.inf
    least: float = 0.0  #: the smallest λ for which a Gram matrix of these rows should be accurate
    prefers_gram: bool = True  #: whether the machine expects one pass to be cheaper than rounds
    stretch: int = 0  #: rows that are read together from a file or a cluster

    @classmethod
    def on(cls, machine: Machine, n: int, targets: int, lams: Floats, n_columns: int, least: float) -> Job:
        """Describe a job for a machine that has its points."""
        return cls(
            n,
            machine.map.n_features_in,
            targets,
            machine.map.size,
            len(lams),
            n_columns,
            on_gpu=machine.on_gpu,
            cores=threads.count_threads(),
            of_a_pass=machine.gram_matrices,
            smallest_lam=float(np.min(lams)),
            least=least,
            prefers_gram=machine.prefers_gram(n, n_columns),
        )

    @property
    def matrix(self) -> float:
        """The bytes of a matrix of M × M numbers."""
        return 8.0 * self.n_points * self.n_points

    @property
    def of_rows(self) -> float:
        """The bytes of labels and weights in double precision for a stretch of rows, and of blocks of kernel values."""
        of_threads = float(self.cores * OF_A_THREAD)
        labels = 16.0 * min(self.n, STRETCH) * (1 + self.targets)
        if self.on_gpu:
            return labels + 8.0 * min(self.n, STRETCH) * self.d + 20.0 * (1 << 27)
        if self.stretch:  # one stretch in work, one being read, and its source; points are drawn from all of it
            columns, together = self.d + self.targets + 2, min(self.stretch, NumpyMachine.rows_at_once)
            kept = min(8.0 * self.n * (self.d + self.targets), KEPT)
            return columns * (64.0 * together + 10.0 * (self.stretch - together)) + kept + of_threads
        return labels + of_threads


@dataclass
class Work:
    """A regression in a span that is to be solved."""

    machine: Machine
    chunks: Chunks
    lams: Floats
    kappa_sq: float
    n_labels: int
    center: bool
    guess: np.ndarray  #: (T,) subtracted from the labels
    all_lams: bool = True  #: whether no λ may be left out, because the user has named them
    probes: int = 0  #: labels of random signs that give the degrees of freedom of rounds
    draw: Callable[[int], Rows] | None = None  #: draws this many rows at random, for the preconditioner of rounds
    tol: float = 3e-3
    most: int = 100  #: rounds
    after_round: Callable[[int], None] = lambda _: None
    sums: Sums | None = None  #: over the rows; the route computes them if there are none


class _GramRoute(route.Route[Job, Work, SpanSolution]):
    """A route of one pass over the rows, which multiplies kernel functions with each other and then solves every λ."""

    name = "gram"

    def can_do(self, job: Job) -> bool:
        return job.smallest_lam >= job.least * (1 - 1e-9)

    def pays(self, job: Job) -> bool:
        return job.prefers_gram

    def memory(self, job: Job) -> Memory:
        matrices = job.matrix * max(SOLVING[job.on_gpu], job.of_a_pass)
        return Memory(matrices, matrices + job.of_rows, matrices + job.of_rows)

    def seconds(self, job: Job, cost: Cost) -> float:
        n, M, operation = float(job.n), float(job.n_points), cost.operation(False)
        values = n * M * (cost.value(job.single) + 2.0 * (1 + job.targets) * operation)
        product = n * M * M / cost.rates.syrk
        solving = M**3 * operation * ((1 / 3 + 1) / CHOLESKY + 4 / 3 / TRIDIAGONAL)
        return values + product + solving

    def solve(self, work: Work) -> SpanSolution | None:
        """Solve for the λ that the rows allow; None if they allow none, or forbid one that may not be left out."""
        machine, place, solution = work.machine, work.machine.for_lapack, None
        if work.sums is None:
            work.sums = sum_rows(machine, work.chunks, 0, True, work.guess)
        rounding, mean = machine.rounding(work.sums.n_rows), work.sums.average(place)
        kept = drop_small_lams(work.lams, mean.gram, work.kappa_sq, rounding)
        if len(kept):
            with threads.limit_blas_for(machine.map.size):
                span = make_span(place(machine.points_matrix()), mean.gram, rounding)
                solution = solve_from_gram(span, mean, place(machine.means), work.n_labels, work.center, kept)
        if solution is None or (work.all_lams and len(solution.lam) < len(work.lams)):
            return None
        return replace(solution, jitter=span.jitter)


class _RoundsRoute(route.Route[Job, Work, SpanSolution]):
    """A route of some passes over the rows, each a product with all λ and labels at once, preconditioned for each λ."""

    name = "rounds"

    def can_do(self, job: Job) -> bool:
        return True

    def pays(self, job: Job) -> bool:
        return True

    def factors(self, job: Job) -> int:
        """Return how many preconditioners are kept: one for each λ, or fewer that neighbouring λ share."""
        return max(1, min(job.n_lams, FACTORS[job.on_gpu] // (8 * job.n_points**2)))

    def memory(self, job: Job) -> Memory:
        matrices = job.matrix * (2 + self.factors(job))
        peak = matrices + 8.0 * job.n_points * job.n_columns * (10 + job.cores) + job.of_rows
        return Memory(matrices, peak, peak)

    def seconds(self, job: Job, cost: Cost) -> float:
        M, operation = float(job.n_points), cost.operation(False)
        a_pass = job.n * M * (cost.value(job.single) + 4 * job.n_columns * operation / SKINNY)
        # More rows per point for the preconditioner mean fewer passes.
        passes = min(times * a_pass + 3 * rows * M**3 / cost.rates.syrk for rows, times in ROUNDS.items())
        first = job.n * M * (cost.value(job.single) + 2 * (1 + job.targets) * operation)
        return first + passes + self.factors(job) * M**3 / 3 * operation / CHOLESKY

    def solve(self, work: Work) -> SpanSolution:
        machine, sums = work.machine, sum_rows(work.machine, work.chunks, work.probes, False, work.guess)
        work.sums = sums
        system = CentredSystem.of(sums, len(sums.y) - work.probes, work.center)
        span = Span.of(machine.points_matrix())
        columns = len(work.lams) * len(sums.y)
        share, _ = machine.sampling(sums.n_rows, columns)
        sample = None if share == 1 or work.draw is None else machine.place(work.draw(share * span.size))
        job = Job.on(machine, sums.n_rows, work.n_labels, work.lams, columns, 0.0)
        solution = solve_by_rounds(
            span,
            system,
            machine,
            work.chunks,
            sample,
            work.lams,
            tol=work.tol,
            most=work.most,
            factors=self.factors(job),
            after_round=work.after_round,
        )
        return replace(solution, jitter=span.jitter)


GRAM, ROUNDS_ROUTE = _GramRoute(), _RoundsRoute()
ROUTES = (GRAM, ROUNDS_ROUTE)


def take_route(solver: str, job: Job, machine: Machine) -> _GramRoute | _RoundsRoute:
    """Return the named route, or the cheaper one that can do the job and fits into memory."""
    if solver == "gram" and not GRAM.can_do(job):
        raise ValueError(
            f"solver='gram' is accurate for lam down to {job.least:.1e} on these rows, but lam={job.smallest_lam:.1e} "
            "was given: use solver='rounds'"
        )
    gram = GRAM.can_do(job) and GRAM.pays(job) if solver == "auto" else solver == "gram"
    if gram:
        try:
            _require_memory(GRAM, job, machine)
        except MemoryError:
            if solver == "gram":
                raise
        else:
            return GRAM
    _require_memory(ROUNDS_ROUTE, job, machine)
    return ROUNDS_ROUTE


def _require_memory(route: _GramRoute | _RoundsRoute, job: Job, machine: Machine) -> None:
    """Raise a MemoryError if there are more points than memory allows, before any row is read."""
    what = f"a basis of n_features={job.n_points} points with solver={route.name!r}"
    memory.require(route.memory(job).matrices, machine.array(np.zeros(1)), what, "take a smaller n_features")
