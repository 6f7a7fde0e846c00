"""Opacus' DP-SGD of a linear model on features, with the settings that are best on the TEST part: a head start.

It is run with the promise of all others, where neighbours replace one record, and once more with the weaker promise
that it makes itself, where neighbours add or remove one.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import nn

from private_accounting import REMOVE, REPLACE, noise_multiplier
from private_bench import DELTA, KINDS, SIZES, Bench, Features, Record, explained

# Opacus: its settings


@dataclass(frozen=True)
class Settings:
    """What a user of Opacus has to choose."""

    size: int  # number of features
    standardised: bool
    batches: int  # an epoch has that many: the sampling rate is one over it
    steps: int
    optimiser: str  # "sgd" or "adam"
    momentum: float
    rate: float
    clip: float

    @property
    def group(self) -> tuple[int, bool, int]:
        """Those with the same can be run side by side."""
        return self.size, self.standardised, self.batches


STEPS = tuple(round(2 ** (i / 2)) for i in range(4, 20))  # 4 to 724
SETTLED = 12_000  # rows that a batch has at first: more cost time, and bring next to nothing


def _clip_unit(features: Features, standardised: bool) -> float:
    """The gradient 2(f-y)(φ, 1) of a residual of one and a row of usual size: clips are multiples of it."""
    train = features.standardised[0] if standardised else features.train
    some = train[:: max(1, len(train) // 2000)].astype(float)
    return 2.0 * math.sqrt(1.0 + float(np.mean(np.sum(some**2, axis=1))))


def _rate(optimiser: str, momentum: float, steps: int, rng: np.random.Generator) -> float:
    if optimiser == "adam":
        return float(np.exp(rng.uniform(math.log(0.003), math.log(0.3))))
    return float(np.exp(rng.uniform(math.log(1.0), math.log(100.0)))) / steps * (1.0 - momentum)


def _at_random(bench: Bench, kind: str, batches: int, rng: np.random.Generator) -> list[Settings]:
    """A first look everywhere: eight settings for each number of features, raw and standardised."""
    found = []
    for size in SIZES:
        for standardised in (False, True):
            unit = _clip_unit(bench.features(kind, size), standardised)
            for i in range(8):
                optimiser = "adam" if i == 7 else "sgd"
                momentum = float(rng.choice([0.0, 0.9])) if optimiser == "sgd" else 0.0
                steps = int(rng.choice(STEPS[2:14]))
                clip = unit * float(np.exp(rng.uniform(math.log(0.01), math.log(0.6))))
                rate = _rate(optimiser, momentum, steps, rng)
                found.append(Settings(size, standardised, batches, steps, optimiser, momentum, rate, clip))
    return found


def _near(one: Settings, bench: Bench, kind: str, rng: np.random.Generator, width: float) -> Settings:
    """A variation of settings: clip, rate and steps a little other, now and then one of the rest."""
    size, standardised, steps = one.size, one.standardised, one.steps
    if rng.random() < 0.15:
        size = SIZES[int(np.clip(SIZES.index(size) + rng.choice([-1, 1]), 0, len(SIZES) - 1))]
    if rng.random() < 0.05:
        standardised = not standardised
    if rng.random() < 0.6:
        steps = STEPS[int(np.clip(STEPS.index(steps) + rng.choice([-2, -1, 1, 2]), 0, len(STEPS) - 1))]
    clip = one.clip * math.exp(width * rng.normal())
    if (size, standardised) != (one.size, one.standardised):
        old, new = bench.features(kind, one.size), bench.features(kind, size)
        clip *= _clip_unit(new, standardised) / _clip_unit(old, one.standardised)
    optimiser, momentum, rate = one.optimiser, one.momentum, one.rate * math.exp(width * rng.normal())
    turn = rng.random()
    if turn < 0.08:
        optimiser, momentum = ("adam", 0.0) if optimiser == "sgd" else ("sgd", 0.9)
        rate = _rate(optimiser, momentum, steps, rng)
    elif turn < 0.2 and optimiser == "sgd":
        momentum = 0.9 if momentum == 0 else 0.0
        rate *= (1.0 - momentum) / (1.0 - one.momentum)
    elif optimiser == "sgd" and rng.random() < 0.5:
        rate *= one.steps / steps
    return Settings(size, standardised, one.batches, steps, optimiser, momentum, rate, clip)


# Opacus: many settings at once

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
_held: WeakKeyDictionary[Features, dict[bool, tuple[torch.Tensor, torch.Tensor]]] = WeakKeyDictionary()


def _on_device(features: Features, standardised: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Training and test rows as tensors, taken to the device once and kept there as long as the features are."""
    held = _held.setdefault(features, {})
    if standardised not in held:
        parts = features.standardised if standardised else (features.train, features.test)
        held[standardised] = tuple(torch.from_numpy(part).to(DEVICE) for part in parts)
    return held[standardised]


def side_by_side(
    bench: Bench, kind: str, settings: Sequence[Settings], multipliers: Sequence[float], rng: np.random.Generator
) -> np.ndarray:
    """Test R² of what Opacus would learn, for settings of one group, without its cost a step.

    The gradient of a linear model's row is 2(f-y)(φ, 1), so its norm is known without writing it down, and many models
    learn with two matrix products a step, on a GPU where there is one. Batches are common to them: each sees what it
    would see alone. Without noise and sampling it agrees with Opacus to rounding: see `checks`.
    """
    size, standardised, batches = settings[0].group
    features = bench.features(kind, size)
    train, test = _on_device(features, standardised)
    y = torch.from_numpy(bench.data.y.astype(np.float32)).to(DEVICE)
    generator = torch.Generator(DEVICE).manual_seed(int(rng.integers(2**62)))
    order = np.argsort([-s.steps for s in settings], kind="stable")  # the longest first: a prefix is still running
    chosen = [settings[i] for i in order]
    steps = np.asarray([s.steps for s in chosen])
    rate, clip, momentum, sigma = (
        torch.tensor(values, dtype=torch.float32, device=DEVICE)
        for values in (
            [s.rate for s in chosen],
            [s.clip for s in chosen],
            [s.momentum for s in chosen],
            [np.float32(multipliers[i]) * np.float32(settings[i].clip) for i in order],
        )
    )
    is_adam = np.asarray([s.optimiser == "adam" for s in chosen])
    adam, sgd = (torch.from_numpy(np.flatnonzero(which)).to(DEVICE) for which in (is_adam, ~is_adam))
    n, expected = len(train), len(train) // batches
    lengths = 2.0 * torch.sqrt(1.0 + torch.sum(train * train, dim=1))
    W, buffer, square = (torch.zeros((features.size + 1, len(chosen)), device=DEVICE) for _ in range(3))
    phi, targets, norms = train, y, lengths
    for t in range(1, int(steps[0]) + 1):
        running = int(np.searchsorted(-steps, -t, side="right"))
        on = slice(running)
        if batches > 1:
            rows = torch.nonzero(torch.rand(n, generator=generator, device=DEVICE) < 1.0 / batches)[:, 0]
            phi, targets, norms = train[rows], y[rows], lengths[rows]
        residual = phi @ W[:-1, on]
        residual += W[-1, on]
        residual -= targets[:, None]
        factor = torch.clamp(clip[on] / (residual.abs() * norms[:, None] + 1e-6), max=1.0)
        residual *= 2.0 * factor
        gradient = torch.randn((features.size + 1, running), generator=generator, device=DEVICE)
        gradient *= sigma[on]
        gradient[:-1] += phi.T @ residual
        gradient[-1] += residual.sum(dim=0)
        gradient /= expected
        if is_adam[on].any():
            which = adam[: np.count_nonzero(is_adam[on])]
            g = gradient[:, which]
            buffer[:, which] = 0.9 * buffer[:, which] + 0.1 * g
            square[:, which] = 0.999 * square[:, which] + 0.001 * g * g
            root = torch.sqrt(square[:, which] / (1.0 - 0.999**t)) + 1e-8
            W[:, which] -= rate[which] * (buffer[:, which] / (1.0 - 0.9**t) / root)
            which = sgd[: np.count_nonzero(~is_adam[on])]
            buffer[:, which] = momentum[which] * buffer[:, which] + gradient[:, which]
            W[:, which] -= rate[which] * buffer[:, which]
        else:
            buffer[:, on] *= momentum[on]
            buffer[:, on] += gradient
            W[:, on] -= rate[on] * buffer[:, on]
    found = np.empty(len(settings))
    found[order] = explained((test @ W[:-1] + W[-1]).cpu().numpy(), bench.data.y_test)
    return found


# Opacus: the search


@dataclass
class Cell:
    """The search in one cell: a promise and its ε, and the R² of every draw for what was tried."""

    promise: str
    epsilon: float
    tried: dict[Settings, list[float]] = field(default_factory=dict)

    def best(self, number: int) -> list[Settings]:
        return sorted(self.tried, key=lambda settings: -float(np.mean(self.tried[settings])))[:number]

    def noise(self, settings: Settings) -> float:
        return noise_multiplier(self.promise, self.epsilon, settings.batches, settings.steps)


def evaluate(bench: Bench, kind: str, wanted: Sequence[tuple[Cell, Settings]], rng: np.random.Generator) -> list[float]:
    """Test R² of one draw for each: in groups, so that cells share the reading of the features."""
    groups: dict[tuple[int, bool, int], list[int]] = {}
    for i, (_, settings) in enumerate(wanted):
        groups.setdefault(settings.group, []).append(i)
    found = [0.0] * len(wanted)
    for members in groups.values():
        members.sort(key=lambda i: -wanted[i][1].steps)
        for part in np.array_split(members, math.ceil(len(members) / 160)):
            chosen = [wanted[i][1] for i in part]
            noise = [wanted[i][0].noise(wanted[i][1]) for i in part]
            with np.errstate(all="ignore"):
                for i, r2 in zip(part, side_by_side(bench, kind, chosen, noise, rng)):
                    found[i] = float(r2)
    return found


def tune(
    bench: Bench, kind: str, cells: Sequence[Cell], rng: np.random.Generator, generations: int = 5, brood: int = 16
) -> dict[tuple[str, float], tuple[Settings, float]]:
    """The best settings of every cell with their R² (of six draws or more): at random first, then around what was good.

    Cells learn from each other: one with a little more or less noise has its best settings nearby.
    """

    def run(wanted: list[tuple[Cell, Settings]]) -> None:
        for (cell, settings), r2 in zip(wanted, evaluate(bench, kind, wanted, rng)):
            cell.tried.setdefault(settings, []).append(r2)

    batches = math.ceil(len(bench.data.y) / SETTLED)
    run([(cell, settings) for cell in cells for settings in _at_random(bench, kind, batches, rng)])
    for generation in range(generations):
        width = 0.7 * 0.75**generation
        wanted = []
        for cell in cells:
            draws = 2 if cell.epsilon <= 1 else 1
            parents = cell.best(4) * (brood // 4)
            wanted += [(cell, _near(parent, bench, kind, rng, width)) for parent in parents] * draws
            # What was good may have been lucky: it is looked at again, until it has stayed good.
            wanted += [(cell, settings) for settings in cell.best(8) if len(cell.tried[settings]) < 8] * draws
            others = [other for other in cells if other is not cell and _alike(cell, other)]
            wanted += [(cell, s) for other in others for s in other.best(2) if s not in cell.tried]
        run(wanted)
    # The two best in larger and in smaller batches, and then those in the lead until each has been drawn often.
    rates = {max(1, batches // 2), batches * 2} - {batches}
    run([(c, replace(s, batches=k)) for c in cells for s in c.best(2) for k in rates for _ in range(4)])
    for leading in (12, 12, 6, 6):
        run([(cell, settings) for cell in cells for settings in cell.best(leading) for _ in range(3)])
    found = {}
    for cell in cells:
        settings = max(cell.best(6), key=lambda s: (len(cell.tried[s]) >= 6, np.mean(cell.tried[s])))
        found[cell.promise, cell.epsilon] = (settings, float(np.mean(cell.tried[settings])))
    return found


def _alike(one: Cell, other: Cell) -> bool:
    apart = abs(math.log(one.epsilon / other.epsilon))
    return apart < 1.3 if one.promise == other.promise else apart < 0.1


# Opacus itself


class _Rows(torch.utils.data.Dataset):
    """Rows that are handed over a batch at a time: one by one takes longer than the learning."""

    def __init__(self, X: torch.Tensor, y: torch.Tensor) -> None:
        self.X, self.y = X, y

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.X[i], self.y[i]

    def __getitems__(self, rows: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        if len(rows) == len(self):
            return self.X, self.y
        index = torch.as_tensor(rows, dtype=torch.long, device=self.y.device)
        return self.X[index], self.y[index]


def opacus(bench: Bench, kind: str, settings: Settings, multiplier: float, seed: int) -> float:
    """Test R² of a linear model learned by Opacus: its engine, its Poisson sampling, its clipping and its noise.

    Gradients are clipped by its "ghost" mode, which is the same arithmetic without a gradient for every row. That mode
    needs losses in one dimension: with outputs of shape (n, 1) it multiplies (n,) by (n, 1), and learns something else.
    """
    from opacus import PrivacyEngine

    features = bench.features(kind, settings.size)
    train, test = _on_device(features, settings.standardised)
    torch.manual_seed(seed)
    linear = nn.Linear(features.size, 1, device=DEVICE)
    nn.init.zeros_(linear.weight)
    nn.init.zeros_(linear.bias)
    model: Any = nn.Sequential(linear, nn.Flatten(0))
    optimiser: Any = (
        torch.optim.Adam(model.parameters(), lr=settings.rate)
        if settings.optimiser == "adam"
        else torch.optim.SGD(model.parameters(), lr=settings.rate, momentum=settings.momentum)
    )
    rows = _Rows(train, torch.from_numpy(bench.data.y.astype(np.float32)).to(DEVICE))
    loader: Any = torch.utils.data.DataLoader(
        rows, batch_size=math.ceil(len(rows) / settings.batches), collate_fn=lambda batch: batch
    )
    assert len(loader) == settings.batches  # Opacus samples with probability 1/len(loader)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # not cryptographically safe, and the like: this is a benchmark
        model, optimiser, loss, loader = PrivacyEngine().make_private(
            module=model,
            optimizer=optimiser,
            criterion=nn.MSELoss(),
            data_loader=loader,
            noise_multiplier=multiplier,
            max_grad_norm=settings.clip,
            grad_sample_mode="ghost",
        )
        step = 0
        while step < settings.steps:
            for X, y in loader:
                optimiser.zero_grad()
                loss(model(X), y).backward()
                optimiser.step()
                step += 1
                if step == settings.steps:
                    break
    with torch.no_grad():
        predicted = linear(test).cpu().numpy()
    return float(explained(predicted, bench.data.y_test)[0])


def checks(bench: Bench) -> Iterator[str]:
    """Whether the search sees what Opacus does, and whether the noise is what accountants say it must be."""
    from opacus.accountants.utils import get_noise_multiplier

    for kind, standardised, optimiser, momentum in (
        ("empirical", False, "sgd", 0.9),
        ("random", True, "sgd", 0.0),
        ("empirical", True, "adam", 0.0),
    ):
        settings = Settings(100, standardised, 1, 32, optimiser, momentum, 0.05, 0.5)
        fast = side_by_side(bench, kind, [settings], [0.0], np.random.default_rng(0))[0]
        real = opacus(bench, kind, settings, 0.0, seed=0)
        yield f"without noise, {optimiser}: R² {fast:.7f} side by side, {real:.7f} by Opacus"
    settings = Settings(60, True, 3, 64, "sgd", 0.0, 0.2, 0.5)
    multiplier = noise_multiplier(REPLACE, 1.0, 3, 64)
    rng = np.random.default_rng(0)
    fast = side_by_side(bench, "empirical", [settings] * 20, [multiplier] * 20, rng)
    real = [opacus(bench, "empirical", settings, multiplier, seed) for seed in range(20)]
    for name, values in (("side by side", fast), ("by Opacus", real)):
        yield f"20 draws {name}: R² {np.mean(values):.4f} ± {np.std(values, ddof=1):.4f}"
    for batches in (1, 3, 10):
        for epsilon in (0.3, 3.0):
            ours = noise_multiplier(REMOVE, epsilon, batches, 128)
            theirs = get_noise_multiplier(
                target_epsilon=epsilon, target_delta=DELTA, sample_rate=1 / batches, steps=128, accountant="prv"
            )
            swap = noise_multiplier(REPLACE, epsilon, batches, 128)
            yield (
                f"128 steps, rate 1/{batches}, ε = {epsilon:g}: noise {ours:.4g} where a row is added or removed "
                f"(Opacus {theirs:.4g}), {swap:.4g} where it is replaced"
            )


def opacus_name(kind: str, promise: str) -> str:
    return f"Opacus, {kind}" + ("" if promise == REPLACE else ", add/remove")


def opacus_peer(kind: str, bench: Bench, missing: Sequence[tuple[str, float]], log: Any = None) -> Iterator[Record]:
    """A record for every cell (promise, ε): settings found side by side, then five runs of Opacus itself."""
    rng = np.random.default_rng([KINDS.index(kind), len(bench.data.y)])
    started = time.perf_counter()
    cells = [Cell(promise, epsilon) for promise, epsilon in missing]
    best = tune(bench, kind, cells, rng)
    searched = (time.perf_counter() - started) / len(cells)
    for cell in cells:
        settings, expected = best[cell.promise, cell.epsilon]
        started = time.perf_counter()
        multiplier = cell.noise(settings)
        r2 = [opacus(bench, kind, settings, multiplier, seed) for seed in range(5)]
        if log is not None:
            log(
                problem=bench.data.name,
                method=opacus_name(kind, cell.promise),
                epsilon=cell.epsilon,
                tried=[[np.round(r2, 5).tolist(), *asdict(tried).values()] for tried, r2 in cell.tried.items()],
            )
        yield {
            "epsilon": cell.epsilon,
            "method": opacus_name(kind, cell.promise),
            "settings": asdict(settings) | {"noise_multiplier": multiplier},
            "r2": r2,
            "side_by_side": expected,
            "tried": len(cell.tried),
            "seconds": searched + time.perf_counter() - started,
        }
