"""Rows for the benchmarks of speed and scale: ten inputs, a function that gains from every kernel function, noise."""

from __future__ import annotations

from typing import Any

import numpy as np

LENGTH_SCALE = 3.0
FEATURES = 10
NOISE = 0.5


def rows(n: int, seed: int = 0, dtype: Any = np.float32) -> tuple[np.ndarray, np.ndarray]:
    """n rows as NumPy arrays; labels in double precision."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, FEATURES), dtype=np.float32)
    return X.astype(dtype, copy=False), _function(np, X).astype(float) + NOISE * rng.standard_normal(n)


def on_device(n: int, seed: int = 0, device: str = "cuda") -> tuple[Any, Any]:
    """The same law, drawn where it is used."""
    import torch

    generator = torch.Generator(device).manual_seed(seed)
    X = torch.randn(n, FEATURES, device=device, generator=generator)
    noise = torch.randn(n, device=device, generator=generator)
    return X, (_function(torch, X) + NOISE * noise).double()


def _function(xp: Any, X: Any) -> Any:
    waves = xp.sin(2 * X[:, 0]) + xp.cos(1.5 * X[:, 3]) * X[:, 4]
    return waves + X[:, 1] * X[:, 2] + xp.sin(X[:, 5] + X[:, 6]) * X[:, 7]
