"""A million rows and more on one GPU: NystromRegressor beside FALKON's algorithm, when λ has to be chosen and when not.

    python benchmarks/gpu.py                  # all cases, a few minutes
    python benchmarks/gpu.py --cases 1M-10k   # some of them
    python benchmarks/gpu.py --cases --stream # 100M rows that are made as they are read, 2000 points

Both have the same kernel, the same points and the same 8 values of λ. Ours chooses by generalised cross-validation
from the fit itself. FALKON's algorithm is run for every λ until its test error is within 0.5 % of ours at that λ
(looked at after every iteration, off the clock) or its iterations end, in the precision that gets there first: a
head start, since without test labels nobody could stop so early.
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import unpooled as up
from falkon_style import FalkonStyle
from large_data import LENGTH_SCALE, on_device

LAMS = np.logspace(-4, -7.5, 8)
TEST = 20_000
NEAR = 1.005  # times our error: where the peer may stop
MOST = 30  # iterations of the peer


@dataclass(frozen=True)
class Case:
    """How many rows and points; the λ that the peer is run at, since all 8 would take it too long on the large ones."""

    rows: int
    points: int
    peer_lams: int
    block: int


CASES = {
    "1M-10k": Case(1_000_000, 10_000, 8, 32_768),
    "1M-20k": Case(1_000_000, 20_000, 8, 16_384),
    "10M-10k": Case(10_000_000, 10_000, 1, 32_768),
    "1M-50k": Case(1_000_000, 50_000, 1, 8_192),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="*", choices=CASES, default=list(CASES))
    parser.add_argument("--stream", action="store_true")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("this benchmark needs a GPU that torch can use")
    peak = _rate(torch.float64)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}; float64 product {peak / 1e12:.0f} TFLOP/s")
    compiling, _, _ = _timed(lambda: _compiled())
    print(f"kernels compiled in {compiling:.1f} s, once a machine")
    for name in options.cases:
        _case(name, CASES[name], peak)
    if "1M-10k" in options.cases:
        _sgpr(1_000_000, 2000)
    if options.stream:
        _stream(100_000_000, 2000)


def _case(name: str, case: Case, peak: float) -> None:
    rows, (X_test, y_test) = on_device(case.rows), on_device(TEST, seed=1)
    spent, model, memory = _timed(lambda: _ours(rows, case.points, LAMS))
    one_spent, _, one_memory = _timed(lambda: _ours(rows, case.points, model.lam_))
    error = _rmse(model.predict(X_test), y_test)
    at_each = [_rmse(values, y_test) for values in _path(model, X_test)]
    products = 4.0 * case.rows * case.points * len(LAMS) * 3 * model.n_iter_
    print(f"\n{name}: {case.rows:,} rows, {case.points:,} points, {len(LAMS)} values of λ")
    print(
        f"  unpooled          {spent:7.2f} s for all λ, {one_spent:6.2f} s at the one chosen; RMSE {error:.4f} at "
        f"λ = {model.lam_:.0e} ({model.solver_}, {model.n_iter_} passes, kernel values {model.precision_}); "
        f"{memory:.1f} and {one_memory:.1f} GiB; products at {products / spent / peak:.0%} of the float64 peak"
    )
    predicted, _, _ = _timed(lambda: model.predict(X_test))
    points = torch.as_tensor(model.predictor_.map.points, device="cuda")
    results = [_peer(case, rows, points, X_test, y_test, at_each, dtype) for dtype in (torch.float64, torch.float32)]
    for result in results:
        print("  " + result.line)
    reached = [r for r in results if r.reached]
    if not reached:
        print("  FALKON's algorithm did not reach the RMSE in either precision")
        return
    best = min(reached, key=lambda r: r.all_lams)
    print(
        f"  ratio             {best.all_lams / spent:.1f}× for all λ{best.note}, "
        f"{min(r.one for r in reached) / one_spent:.1f}× at one λ; "
        f"predicting {TEST:,} rows takes {predicted * 1e3:.0f} ms"
    )


@dataclass
class Peer:
    line: str
    reached: bool
    all_lams: float
    one: float
    note: str


def _peer(case: Case, rows: Any, points: Any, X_test: Any, y_test: Any, goals: list[float], dtype: Any) -> Peer:
    name = f"FALKON-style {str(dtype).removeprefix('torch.')}"
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    best = int(np.argmin(goals))
    try:
        peer = FalkonStyle(*rows, points, LENGTH_SCALE, dtype, case.block)
        order = [best, *(i for i in range(len(LAMS)) if i != best)][: case.peer_lams]
        times, iterations, found = [], [], {}
        for i in order:
            seconds, used, error = _until(peer, float(LAMS[i]), goals[i] * NEAR, X_test, y_test)
            times.append(seconds)
            iterations.append(used)
            found[i] = error
    except (torch.OutOfMemoryError, torch.linalg.LinAlgError) as problem:
        return Peer(f"{name}: {str(problem).splitlines()[0]}", False, math.inf, math.inf, "")
    memory = torch.cuda.max_memory_allocated() / 2**30
    reached = found[best] <= goals[best] * NEAR
    total = peer.factoring + sum(times) * len(LAMS) / len(order)
    note = "" if len(order) == len(LAMS) else " (its one λ times 8)"
    reaching = "" if reached else ", NOT reached"
    line = (
        f"{name:17s} {total:7.2f} s for all λ{note}, {peer.factoring + times[0]:6.2f} s at the best; "
        f"RMSE {found[best]:.4f}{reaching}; {min(iterations)} to {max(iterations)} iterations; {memory:.1f} GiB"
    )
    return Peer(line, reached, total, peer.factoring + times[0], note)


def _sgpr(n: int, M: int) -> None:
    """GPyTorch's sparse regression at given hyper-parameters: its mean is that of ridge regression with λ = σ²/n."""
    rows, (X_test, y_test) = on_device(n), on_device(TEST, seed=1)
    spent, model, memory = _timed(lambda: _ours(rows, M, LAMS))
    one_spent, _, _ = _timed(lambda: _ours(rows, M, model.lam_))
    error = _rmse(model.predict(X_test), y_test)
    print(f"\nGPyTorch SGPR, {n:,} rows, {M:,} points")
    print(
        f"  unpooled          {spent:7.2f} s for all λ, {one_spent:6.2f} s at one; RMSE {error:.4f}; {memory:.1f} GiB"
    )
    try:
        import gpytorch

        from sgpr import posterior_mean
    except ImportError:
        print("  GPyTorch is not installed")
        return
    points = torch.as_tensor(model.predictor_.map.points, device="cuda")
    try:
        took, mean, used = _timed(lambda: posterior_mean(*rows, points, LENGTH_SCALE, model.lam_ * n, X_test))
    except (RuntimeError, ValueError) as problem:
        print(f"  GPyTorch {gpytorch.__version__} failed: {str(problem).splitlines()[0]}")
        return
    error = _rmse(mean, y_test)
    print(
        f"  GPyTorch {gpytorch.__version__}   {took:7.2f} s at that λ, predictions included; "
        f"RMSE {error:.4f}; {used:.1f} GiB"
    )


def _stream(n: int, M: int, chunk: int = 5_000_000) -> None:
    """Rows that exist a chunk at a time: sums are all that is kept of them."""
    model = up.NystromRegressor(up.kernels.Gaussian(LENGTH_SCALE), M, LAMS[:6], precision="single", fit_intercept=False)
    X_test, y_test = on_device(TEST, seed=1)
    print(f"\n{n:,} rows in chunks of {chunk:,}, {M:,} points")

    def learn() -> None:
        for i in range(0, n, chunk):
            model.partial_fit(*on_device(chunk, seed=2 + i))

    spent, _, memory = _timed(learn)
    error = _rmse(model.predict(X_test), y_test)
    rate = n * float(M) ** 2 / spent
    print(
        f"  unpooled          {spent:7.2f} s; RMSE {error:.4f}; {memory:.1f} GiB; {rate / 1e12:.0f} T products a second"
    )


def _until(peer: FalkonStyle, lam: float, goal: float, X: Any, y: Any) -> tuple[float, int, float]:
    """Seconds, iterations and error when the goal is reached, or when iterations end."""
    for step in peer.steps(lam, MOST):
        error = _rmse(peer.predict(X, LENGTH_SCALE, step.coef), y)
        if error <= goal:
            break
    return step.seconds, step.iteration, error


def _compiled() -> None:
    """Fits that use every width of columns there is, so that no later one has to compile."""
    for lam in (LAMS, LAMS[0]):
        up.NystromRegressor(up.kernels.Gaussian(LENGTH_SCALE), 1024, lam, solver="rounds", fit_intercept=False).fit(
            *on_device(50_000)
        )


def _ours(rows: Any, points: int, lam: Any) -> up.NystromRegressor:
    return up.NystromRegressor(up.kernels.Gaussian(LENGTH_SCALE), points, lam, fit_intercept=False).fit(*rows)


def _path(model: Any, X: Any) -> list[Any]:
    twin = up.NystromRegressor(fit_intercept=False)
    twin.__dict__.update(model.__dict__)
    values = []
    for coef, intercept in zip(model.path_.coef, model.path_.intercept):
        twin.predictor_ = up.BasisPredictor(model.predictor_.map, coef, intercept)
        values.append(twin.predict(X))
    return values


def _timed(work: Any) -> tuple[float, Any, float]:
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.synchronize()
    start = time.perf_counter()
    found = work()
    torch.cuda.synchronize()
    return time.perf_counter() - start, found, torch.cuda.max_memory_allocated() / 2**30


def _rmse(predicted: Any, y: Any) -> float:
    return float(torch.sqrt(torch.mean((predicted - y) ** 2)))


def _rate(dtype: Any, n: int = 8192) -> float:
    A = torch.randn(n, n, device="cuda", dtype=dtype)
    A @ A
    spent, _, _ = _timed(lambda: A @ A)
    return 2.0 * n**3 / spent


if __name__ == "__main__":
    main()
