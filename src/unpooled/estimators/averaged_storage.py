"""A fitted AveragedRegressor as a file's header and arrays, and back."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from .._solvers.averaging.search import BlockPath
from .._solvers.predictors import Compression, KernelExpansion
from . import correntropy_storage, stored
from . import stored as storage
from .correntropy import CorrentropyRegressor
from .spectral import SpectralRegressor

_LOCAL = {
    "SpectralRegressor": (SpectralRegressor, storage),
    "CorrentropyRegressor": (CorrentropyRegressor, correntropy_storage),
}
_PLAIN = ("score_by", "refit", "max_validation", "memory_limit", "time_limit", "tolerance", "verbose")


def to_parts(model: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header and arrays; only scalars, lists and strings in the header."""
    if not isinstance(model.predictor_, KernelExpansion):
        raise ValueError(
            f"local is a {type(model.local).__name__}, and unpooled saves its own models only: "
            "use a SpectralRegressor or a CorrentropyRegressor, or that library's own way of saving"
        )
    header, arrays = stored.shared_parts(model)
    header["params"] = {name: _plain(getattr(model, name)) for name in _PLAIN} | {
        "local": _local_spec(model.local),
        "n_blocks": model.n_blocks if isinstance(model.n_blocks, str) else np.asarray(model.n_blocks).tolist(),
        "lam": stored.numbers(model.lam),
        "grid": stored.numbers(model.grid),
        "engine": model.engine if isinstance(model.engine, str) else None,
        "random_state": stored.whole_or_none(model.random_state),
    }
    header |= {"n_blocks": model.n_blocks_, "blocks": model.blocks_}
    for name in ("lam_", "scale_", "n_iter_"):
        if hasattr(model, name):
            value = getattr(model, name)
            header[f"one_{name}"] = np.ndim(value) == 0
            arrays[name] = np.atleast_1d(value)
    if hasattr(model, "compression_"):
        header["compression"] = asdict(model.compression_)
    path: BlockPath | None = getattr(model, "path_", None)
    if path is not None:
        header["path"] = {"chosen": path.chosen, "candidates": list(path.candidates)}
        arrays |= {"path.n_blocks": path.n_blocks, "path.criterion": path.criterion, "path.index": path.index}
        arrays |= {f"path.{name}": values for name, values in path.candidates.items()}
    return header, arrays


def from_parts(cls: Any, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    """The model; a ValueError, KeyError or TypeError where the parts are not one."""
    params = dict(header["params"])
    model = cls(**params | {"local": _local(params["local"])})
    stored.restore_shared(model, header, arrays)
    del model.solver_  # every block may have had another
    model.n_blocks_, model.blocks_ = int(header["n_blocks"]), list(header["blocks"])
    for name in ("lam_", "scale_", "n_iter_"):
        if name in arrays:
            value = arrays[name]
            setattr(model, name, value[0].item() if header[f"one_{name}"] else value)
    if "compression" in header:
        model.compression_ = Compression(**header["compression"])
    if "path" in header:
        model.path_ = BlockPath(
            arrays["path.n_blocks"],
            {name: arrays[f"path.{name}"] for name in header["path"]["candidates"]},
            arrays["path.criterion"],
            int(header["path"]["chosen"]),
            arrays["path.index"],
        )
    return model


def _plain(value: Any) -> Any:
    """A scalar as JSON has it; no limit is None."""
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _local_spec(local: Any) -> dict[str, Any] | None:
    if local is None:
        return None
    name = type(local).__name__
    return {"class": name, "params": _LOCAL[name][1].params_of(local)}


def _local(spec: dict[str, Any] | None) -> Any:
    if spec is None:
        return None
    cls, module = _LOCAL[spec["class"]]
    return module.with_params(cls, spec["params"])
