"""torch tensors on a device: the same numbers as NumPy, and how long a path takes there.

    python benchmarks/torch_device.py            # cuda where there is one, else cpu
    python benchmarks/torch_device.py cpu --sizes 2000

Needs torch. Every filter, criterion and centring is compared with NumPy on 300 rows; then λ is chosen from 20 values by
leave-one-out, and one λ is fitted, on larger samples.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time

import numpy as np
import torch

import unpooled as up

FILTERS = ("tikhonov", "iterated-tikhonov", "cutoff", "landweber", "nu")
LAMS = np.logspace(-7, -1, 20)


def worst_difference(device: str) -> float:
    """The largest difference of a prediction to NumPy's, over filters, kernels, criteria and centring."""
    rng = np.random.default_rng(0)
    X, Z, w = rng.normal(size=(300, 4)), rng.normal(size=(50, 4)), rng.uniform(0.5, 2.0, size=300)
    Y = np.stack([np.sin(X[:, 0]), X[:, 1] * X[:, 2] + 3.0], axis=1)
    X_, Y_, w_, Z_ = (torch.tensor(a, device=device) for a in (X, Y, w, Z))
    kernels = (
        up.kernels.Gaussian(),
        up.kernels.Matern(2.0, 1.5),
        2.0 * up.kernels.Laplacian(3.0) + up.kernels.Linear(),
        up.kernels.Polynomial(),
    )
    worst = 0.0
    for kernel, name, lam, center in itertools.product(kernels, FILTERS, (1e-3, "loo", "gcv", "cv"), (False, True)):
        model = up.SpectralRegressor(kernel, name, lam, center, grid=np.logspace(-4, 0, 9))
        expected = model.fit(X, Y, w).predict(Z)
        answer = model.fit(X_, Y_, w_).predict(Z_)
        assert answer.device.type == device
        worst = max(worst, float(np.abs(answer.cpu().numpy() - expected).max()))
    return worst


def timed(n: int, lam: object, dtype: torch.dtype, device: str) -> None:
    rng = torch.Generator(device=device).manual_seed(0)
    X = torch.randn(n, 10, device=device, dtype=dtype, generator=rng)
    noise = torch.randn(n, device=device, dtype=dtype, generator=rng)
    y = torch.sin(1.5 * X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + 0.5 * noise
    model = up.SpectralRegressor(up.kernels.Gaussian(math.sqrt(10)), lam=lam, fit_intercept=False)
    model.fit(X[:500], y[:500])  # libraries and kernels warm
    memory = ""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.synchronize()
    start = time.perf_counter()
    model.fit(X, y)
    if device == "cuda":
        torch.cuda.synchronize()
        memory = f", peak {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB"
    what = "one λ" if isinstance(lam, float) else f"{len(LAMS)} λ, leave-one-out"
    print(f"N = {n}, {dtype}, {what}: {time.perf_counter() - start:.3f} s ({model.solver_}{memory})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("device", nargs="?", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--sizes", nargs="+", type=int, default=[5000, 20_000])
    arguments = parser.parse_args()
    device = arguments.device
    name = torch.cuda.get_device_name() if device == "cuda" else "this processor"
    print(f"torch {torch.__version__} on {name}")
    print(f"largest difference to NumPy: {worst_difference(device):.1e}")
    for n, lam, dtype in itertools.product(arguments.sizes, (1e-5, LAMS), (torch.float64, torch.float32)):
        timed(n, lam, dtype, device)


if __name__ == "__main__":
    main()
