"""The opponents of the private frontier, each with the settings that are best on the TEST part: a head start.

A peer is a function of a problem and a list of ε that yields a record a cell: its settings and the test R² of several
draws of its noise. Settings are chosen on draws of their own, so that what is reported was not picked for its luck.
Every peer keeps the same promise as ours, (ε, δ)-privacy where neighbours replace one record and n is public, and
Opacus is run once more with the weaker promise that it makes itself, where neighbours add or remove one.

Everybody has an intercept: Opacus a bias, the others a constant as one more feature, which makes |φ(x)|² at most κ²+1.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
import scipy.linalg
import torch
from torch import nn

import unpooled as up
from private_data import Problem

DELTA = 1e-6
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
SIZES = (15, 30, 60, 100, 200, 400, 1000)  # numbers of features that peers choose among
KINDS = ("empirical", "random")
REPLACE, REMOVE = "replace one", "add or remove one"
Record = dict[str, Any]


# Features


@dataclass
class Features:
    """Features of a problem's rows, without a constant, and what the public sample says of them."""

    train: np.ndarray
    test: np.ndarray
    kappa: float
    eigenvalues: np.ndarray  # of the public sample's E φφᵀ, which is diagonal
    mean: np.ndarray
    spread: np.ndarray

    @property
    def size(self) -> int:
        return self.train.shape[1]

    @cached_property
    def standardised(self) -> tuple[np.ndarray, np.ndarray]:
        """Each feature brought to mean 0 and variance 1, as practitioners do, and as the public sample knows them."""
        # Features were fitted to the public rows; on others the smallest are larger, and spread tells by how much.
        deviation = np.sqrt(np.maximum(self.spread - self.mean**2, 1e-3 * self.spread))
        return tuple(((part - self.mean) / deviation).astype(np.float32) for part in (self.train, self.test))

    def first(self, size: int) -> Features:
        """The first features, by public eigenvalue."""
        keep = slice(size)
        return Features(
            np.ascontiguousarray(self.train[:, keep]),
            np.ascontiguousarray(self.test[:, keep]),
            self.kappa,
            self.eigenvalues[keep],
            self.mean[keep],
            self.spread[keep],
        )


@dataclass
class Bench:
    """A problem with its features, each kind and size made once."""

    data: Problem
    made: dict[tuple[str, int], Features] = field(default_factory=dict)

    def features(self, kind: str, size: int) -> Features:
        key = (kind, size)
        if key not in self.made:
            if kind == "empirical":  # fewer of them are the first of many
                most = max(SIZES)
                made = self._make(up.bases.EmpiricalFeatures(None, most)) if size == most else None
                self.made[key] = made or self.features(kind, most).first(size)
            else:
                self.made[key] = self._make(up.bases.RandomFeatures(None, size, seed=0))
        return self.made[key]

    def _make(self, basis: Any) -> Features:
        basis.fit(self.data.public)
        train, test = (
            np.concatenate(
                [basis.transform(block).astype(np.float32) for block in np.array_split(X, len(X) // 5000 + 1)]
            )
            for X in (self.data.X, self.data.X_test)
        )
        return Features(train, test, math.sqrt(basis.kappa_sq_), basis.eigenvalues_, basis.mean_, basis.spread_)


# Opacus: what its noise has to be


@cache
def noise_multiplier(promise: str, epsilon: float, batches: int, steps: int) -> float:
    """The least σ/C with which that many steps, each row in a step with probability 1/batches, are (ε, δ)-private.

    Where all rows take part it is the Gaussian mechanism with μ = √steps·s/σ, s = 1 where a row is added or removed and
    s = 2 where it is replaced, as its gradient may turn around. Otherwise dp_accounting composes the privacy loss
    distribution: for replaced rows that of q N(C, σ²) + (1-q) N(0, σ²) against q N(-C, σ²) + (1-q) N(0, σ²), which
    dominates all pairs of gradients of norm C. That comes to about twice the noise, like without sampling, and a
    little less where ε is large. It is tighter than Opacus' own accountants.
    """
    moved = 2.0 if promise == REPLACE else 1.0
    mu = up.privacy.mu_for(epsilon, DELTA)
    if batches == 1:
        return moved * math.sqrt(steps) / mu
    import dp_accounting
    from dp_accounting.pld import privacy_loss_distribution

    relations = dp_accounting.NeighboringRelation
    relation = relations.REPLACE_ONE if promise == REPLACE else relations.ADD_OR_REMOVE_ONE

    def spent(sigma: float) -> float:
        once = privacy_loss_distribution.from_gaussian_mechanism(
            sigma,
            sampling_prob=1.0 / batches,
            value_discretization_interval=1e-4 if epsilon < 1 else 5e-4,
            neighboring_relation=relation,
        )
        return once.self_compose(steps).get_epsilon_for_delta(DELTA)

    # The central limit is near; from there by secants in logarithms, and what is returned keeps the promise.
    low, high = moved * math.sqrt(steps) / mu / batches * 0.7, moved * math.sqrt(steps) / mu / batches * 1.3
    spent_low, spent_high = spent(low), spent(high)
    while spent_low <= epsilon:
        low, high, spent_high = low * 0.7, low, spent_low
        spent_low = spent(low)
    while spent_high > epsilon:
        low, high, spent_low = high, high * 1.4, spent_high
        spent_high = spent(high)
    for _ in range(12):
        if high / low < 1.002:
            break
        slope = math.log(spent_high / spent_low) / math.log(high / low)
        guess = low * (epsilon / spent_low) ** (1.0 / slope)
        sigma = min(max(guess, low * 1.0005), high / 1.0005) * 1.0003
        found = spent(sigma)
        low, spent_low, high, spent_high = (
            (low, spent_low, sigma, found) if found <= epsilon else (sigma, found, high, spent_high)
        )
        if 0 <= epsilon - spent_high < 0.002 * epsilon:
            break
    return high


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


def side_by_side(
    bench: Bench, kind: str, settings: Sequence[Settings], multipliers: Sequence[float], rng: np.random.Generator
) -> np.ndarray:
    """Test R² of what Opacus would learn, for settings of one group, without its cost a step.

    The gradient of a linear model's row is 2(f-y)(φ, 1), so its norm is known without writing it down, and many models
    learn with two matrix products a step. Batches are common to them: each sees what it would see alone. Without noise
    and sampling it agrees with Opacus to rounding: see `checks`.
    """
    size, standardised, batches = settings[0].group
    features = bench.features(kind, size)
    train, test = features.standardised if standardised else (features.train, features.test)
    order = np.argsort([-s.steps for s in settings], kind="stable")  # the longest first: a prefix is still running
    steps, rate, clip, momentum, adam = (
        np.asarray([value(settings[i]) for i in order])
        for value in (
            lambda s: s.steps,
            lambda s: np.float32(s.rate),
            lambda s: np.float32(s.clip),
            lambda s: np.float32(s.momentum),
            lambda s: s.optimiser == "adam",
        )
    )
    sigma = np.asarray([multipliers[i] for i in order], dtype=np.float32) * clip
    n, y = len(train), bench.data.y.astype(np.float32)
    lengths = 2.0 * np.sqrt(1.0 + np.einsum("ij,ij->i", train, train))
    W, buffer, square = (np.zeros((features.size + 1, len(settings)), dtype=np.float32) for _ in range(3))
    rows, expected = slice(None), n // batches
    phi, targets, norms = train, y, lengths
    for t in range(1, int(steps[0]) + 1):
        running = int(np.searchsorted(-steps, -t, side="right"))
        on = slice(running)
        if batches > 1:
            rows = np.flatnonzero(rng.random(n) < 1.0 / batches)
            phi, targets, norms = train[rows], y[rows], lengths[rows]
        residual = phi @ W[:-1, on]
        residual += W[-1, on]
        residual -= targets[:, None]
        factor = np.abs(residual)
        factor *= norms[:, None]
        factor += np.float32(1e-6)
        np.divide(clip[on], factor, out=factor)
        np.minimum(factor, np.float32(1.0), out=factor)
        residual *= factor
        residual *= np.float32(2.0)
        gradient = rng.standard_normal((features.size + 1, running), dtype=np.float32)
        gradient *= sigma[on]
        gradient[:-1] += phi.T @ residual
        gradient[-1] += residual.sum(axis=0)
        gradient /= np.float32(expected)
        if np.any(adam[on]):
            which = np.flatnonzero(adam[on])
            g = gradient[:, which]
            buffer[:, which] = 0.9 * buffer[:, which] + 0.1 * g
            square[:, which] = 0.999 * square[:, which] + 0.001 * g * g
            root = np.sqrt(square[:, which] / (1.0 - 0.999**t)) + 1e-8
            W[:, which] -= rate[which] * (buffer[:, which] / (1.0 - 0.9**t) / root).astype(np.float32)
            which = np.flatnonzero(~adam[on])
            buffer[:, which] = momentum[which] * buffer[:, which] + gradient[:, which]
            W[:, which] -= rate[which] * buffer[:, which]
        else:
            buffer[:, on] *= momentum[on]
            buffer[:, on] += gradient
            W[:, on] -= rate[on] * buffer[:, on]
    found = np.empty(len(settings))
    found[order] = _r2(test @ W[:-1] + W[-1], bench.data.y_test)
    return found


def _r2(predicted: np.ndarray, y: np.ndarray) -> np.ndarray:
    """R² of each column, -∞ where it left the finite numbers."""
    found = 1.0 - np.mean((y[:, None] - predicted.astype(float)) ** 2, axis=0) / np.var(y)
    return np.where(np.isfinite(found), found, -np.inf)


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
        index = torch.as_tensor(rows, dtype=torch.long)
        return self.X[index], self.y[index]


def opacus(bench: Bench, kind: str, settings: Settings, multiplier: float, seed: int) -> float:
    """Test R² of a linear model learned by Opacus: its engine, its Poisson sampling, its clipping and its noise.

    Gradients are clipped by its "ghost" mode, which is the same arithmetic without a gradient for every row. That mode
    needs losses in one dimension: with outputs of shape (n, 1) it multiplies (n,) by (n, 1), and learns something else.
    """
    from opacus import PrivacyEngine

    features = bench.features(kind, settings.size)
    train, test = features.standardised if settings.standardised else (features.train, features.test)
    torch.manual_seed(seed)
    linear = nn.Linear(features.size, 1)
    nn.init.zeros_(linear.weight)
    nn.init.zeros_(linear.bias)
    model: Any = nn.Sequential(linear, nn.Flatten(0))
    optimiser: Any = (
        torch.optim.Adam(model.parameters(), lr=settings.rate)
        if settings.optimiser == "adam"
        else torch.optim.SGD(model.parameters(), lr=settings.rate, momentum=settings.momentum)
    )
    rows = _Rows(torch.from_numpy(train), torch.from_numpy(bench.data.y.astype(np.float32)))
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
        predicted = linear(torch.from_numpy(test)).numpy()
    return float(_r2(predicted, bench.data.y_test)[0])


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
    started = time.process_time()
    cells = [Cell(promise, epsilon) for promise, epsilon in missing]
    best = tune(bench, kind, cells, rng)
    searched = (time.process_time() - started) / len(cells)
    for cell in cells:
        settings, expected = best[cell.promise, cell.epsilon]
        started = time.process_time()
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
            "seconds": searched + time.process_time() - started,
        }


# AdaSSP


def adassp_peer(kind: str, bench: Bench, epsilons: Sequence[float], draws: int = 10) -> Iterator[Record]:
    """AdaSSP (Wang 2018, algorithm 2): noisy Σxxᵀ and Σxy, and a ridge that knows how large the noise on Σxxᵀ is.

    x = (φ, 1) with |x| ≤ B, labels clipped to [-c, c], neighbours replace a record. Then λ_min of Σxxᵀ moves by at most
    B², as ±(xxᵀ - zzᵀ) ≤ B² I; Σxxᵀ moves by at most √2·B² in Frobenius norm, and Σxy by at most 2Bc. The Gaussian
    noise is calibrated exactly and the three compose exactly, both better than the paper, and as the norm counts what
    is off the diagonal twice, that gets 1/√2 of the noise. Tuned: the number of features, c, a factor η on the ridge
    (1 is the paper's), and how μ² is shared out (thirds are the paper's).
    """
    sizes, clips, etas = (8, *SIZES), (0.25, 0.5, 0.75, 1.0), np.geomspace(0.003, 3.0, 13)
    shares = ((1 / 3, 1 / 3, 1 / 3), (0.02, 0.49, 0.49), (0.02, 0.78, 0.2), (0.02, 0.2, 0.78))
    sums = {}
    for size in sizes:
        features = bench.features(kind, size if size in SIZES else SIZES[0])
        train, test = (_with_constant(part[:, :size]) for part in (features.train, features.test))
        gram = _in_blocks(train, train)
        labels = np.column_stack([np.clip(bench.data.y, -c, c) for c in clips])
        moments = _in_blocks(train, labels)
        sums[size] = (gram, moments, float(np.linalg.eigvalsh(gram)[0]), test, math.hypot(features.kappa, 1.0))

    def fits(epsilon: float, size: int, share: tuple[float, float, float], rng: np.random.Generator) -> np.ndarray:
        """R² for all clips and η: (4, 13)."""
        gram, moments, smallest, test, B = sums[size]
        M = len(gram)
        mus = up.privacy.composition.split(up.privacy.mu_for(epsilon, DELTA), share)
        scales = B**2 / mus[0], math.sqrt(2.0) * B**2 / mus[1], 2.0 * B * np.asarray(clips) / mus[2]
        tail = math.sqrt(math.log(6.0 / DELTA))
        floor = max(smallest + scales[0] * rng.normal() - tail * scales[0], 0.0)
        noise = np.triu(rng.normal(size=(M, M)), 1) * scales[1] / math.sqrt(2.0)
        noise += noise.T + np.diag(rng.normal(size=M) * scales[1])
        rotated, V = scipy.linalg.eigh(gram + noise, check_finite=False, driver="evd")
        d = V.T @ (moments + rng.normal(size=moments.shape) * scales[2])
        ridges = np.maximum(etas * math.sqrt(M * math.log(2 * M**2 / 0.05)) * scales[1] - floor, 0.0)
        coef = d[:, :, None] / (rotated[:, None, None] + ridges)
        return _r2(test @ (V @ coef.reshape(M, -1)), bench.data.y_test).reshape(len(clips), len(etas))

    def chosen(epsilon: float, rng: np.random.Generator) -> tuple[int, Any, int, int]:
        seen: dict[Any, list[np.ndarray]] = {(size, share): [] for size in sizes for share in shares}

        def look(keys: Sequence[Any], draws: int) -> list[Any]:
            """Draw more; the best first. Large ones take long, and vary less."""
            for size, share in keys:
                number = min(draws, max(2, 100 * draws // size))
                seen[size, share] += [fits(epsilon, size, share, rng) for _ in range(number)]
            return sorted(keys, key=lambda key: -np.mean(seen[key], axis=0).max())

        # A noisy Σxxᵀ can be all but singular once in a while: that takes many draws to see.
        best = look(look(look(list(seen), 8)[:8], 24)[:3], 64)[0]
        mean = np.mean(seen[best], axis=0)
        i, j = np.unravel_index(np.argmax(mean), mean.shape)
        return *best, int(i), int(j)

    for epsilon in epsilons:
        started = time.process_time()
        rng = np.random.default_rng([1, KINDS.index(kind), int(1000 * epsilon)])
        size, share, i, j = chosen(epsilon, rng)
        yield {
            "epsilon": epsilon,
            "method": f"AdaSSP, {kind}",
            "settings": {"size": size, "shares": share, "clip": clips[i], "eta": float(etas[j])},
            "r2": [float(fits(epsilon, size, share, rng)[i, j]) for _ in range(draws)],
            "seconds": time.process_time() - started,
        }


def _with_constant(phi: np.ndarray) -> np.ndarray:
    return np.column_stack([phi, np.ones(len(phi), dtype=phi.dtype)])


def _in_blocks(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """AᵀB in double precision, a block of rows at a time."""
    blocks = np.array_split(np.arange(len(A)), len(A) // 10_000 + 1)
    return sum(A[rows].astype(float).T @ B[rows].astype(float) for rows in blocks)


# One-round LESS


def less_peer(bench: Bench, epsilons: Sequence[float], draws: int = 10) -> Iterator[Record]:
    """One round of LESS: d = (1/n) Σ y x with noise s = 2cB/(nμ), then (C + λ)⁻¹ d with C = E xxᵀ of the public sample.

    x = (φ, 1) with |x| ≤ B; replacing a record moves Σyx by at most 2cB. In the eigenvectors of C, which rotate the
    noise into noise of the same law, it is d_i/(λ_i + λ). Tuned: the number of features, c and λ.
    """
    sizes, clips, lams = (4, 8, *SIZES), np.asarray([0.2, 0.35, 0.5, 0.7, 1.0]), np.geomspace(1e-7, 3.0, 31)
    parts = {}
    for size in sizes:
        features = bench.features("empirical", size if size in SIZES else SIZES[0])
        train, test = (_with_constant(part[:, :size]) for part in (features.train, features.test))
        mean = features.mean[:size]
        C = np.block([[np.diag(features.eigenvalues[:size]), mean[:, None]], [mean[None], np.ones((1, 1))]])
        eigenvalues, V = np.linalg.eigh(C)
        labels = np.column_stack([np.clip(bench.data.y, -c, c) for c in clips])
        d = V.T @ _in_blocks(train, labels) / len(train)
        parts[size] = (np.maximum(eigenvalues, 0.0), d, test.astype(float) @ V, math.hypot(features.kappa, 1.0))

    def fits(epsilon: float, size: int, rng: np.random.Generator) -> np.ndarray:
        eigenvalues, d, test, B = parts[size]
        scale = 2.0 * clips * B / (len(bench.data.y) * up.privacy.mu_for(epsilon, DELTA))
        coef = (d + rng.normal(size=d.shape) * scale)[:, :, None] / (eigenvalues[:, None, None] + lams)
        return _r2(test @ coef.reshape(len(coef), -1), bench.data.y_test).reshape(len(clips), len(lams))

    for epsilon in epsilons:
        started = time.process_time()
        rng = np.random.default_rng([2, int(1000 * epsilon)])
        found = {size: np.mean([fits(epsilon, size, rng) for _ in range(10)], axis=0) for size in sizes}
        size = max(sizes, key=lambda s: found[s].max())
        i, j = np.unravel_index(np.argmax(found[size]), found[size].shape)
        yield {
            "epsilon": epsilon,
            "method": "LESS, one round",
            "settings": {"size": size, "clip": float(clips[i]), "lam": float(lams[j])},
            "r2": [float(fits(epsilon, size, rng)[i, j]) for _ in range(draws)],
            "seconds": time.process_time() - started,
        }


# Algorithm 1 of paper 004


def algorithm_1_peer(bench: Bench, epsilons: Sequence[float], draws: int = 10) -> Iterator[Record]:
    """Algorithm 1 of Wang and Guo (2024), mended: a row a step drawn with replacement, noise on the last iterate.

    Its sensitivity holds but with probability δ/2, and the noise is (ε, δ/2)-private. Tuned: the number of random
    features, η, and the number of steps. It gets waves in pairs, whose norm is κ and not √2·κ like the paper's.
    """
    n, y = len(bench.data.y), np.clip(bench.data.y, -1.0, 1.0)
    sizes, visits = (30, 100, 400), (0.1, 1.0, 3.0)
    kappa = math.sqrt(2.0)  # with the constant
    steps = [max(1, round(n * share)) for share in visits]
    etas = np.geomspace(1e-6, 1.0 / kappa**2, 24)
    last, tests = {}, {}
    for size in sizes:
        features = bench.features("random", size)
        train = _with_constant(features.train).astype(float)
        tests[size] = _with_constant(features.test).astype(float)
        W = np.zeros((len(etas), train.shape[1]))
        for t, row in enumerate(np.random.default_rng(size).integers(n, size=max(steps)), start=1):
            x = train[row]
            W -= (etas * (W @ x - y[row]))[:, None] * x
            if t in steps:
                last[size, t] = W.copy()

    def fits(epsilon: float, size: int, t: int, rng: np.random.Generator) -> np.ndarray:
        moved = [up.privacy.sgd.paper(n, t, float(eta), 1.0, kappa, DELTA / 2) for eta in etas]
        scale = up.privacy.sigma_for(epsilon, DELTA / 2) * np.asarray(moved)
        W = last[size, t] + rng.normal(size=last[size, t].shape) * scale[:, None]
        return _r2(tests[size] @ W.T, bench.data.y_test)

    for epsilon in epsilons:
        started = time.process_time()
        rng = np.random.default_rng([3, int(1000 * epsilon)])
        found = {key: np.mean([fits(epsilon, *key, rng) for _ in range(16)], axis=0) for key in last}
        key = max(found, key=lambda k: found[k].max())
        i = int(np.argmax(found[key]))
        yield {
            "epsilon": epsilon,
            "method": "Algorithm 1",
            "settings": {"size": key[0], "steps": key[1], "eta": float(etas[i])},
            "r2": [float(fits(epsilon, *key, rng)[i]) for _ in range(draws)],
            "seconds": time.process_time() - started,
        }


# Without privacy


def not_private_peer(kind: str, bench: Bench) -> Iterator[Record]:
    """Ridge regression on the features with an intercept that is not penalised; λ is the best on the test part."""
    started = time.process_time()
    lams = np.geomspace(1e-10, 1.0, 41)
    features = bench.features(kind, max(SIZES))
    n, y = len(bench.data.y), bench.data.y
    mean = features.train.mean(axis=0, dtype=float)
    C = _in_blocks(features.train, features.train) / n - np.outer(mean, mean)
    d = _in_blocks(features.train, y[:, None])[:, 0] / n - mean * y.mean()
    eigenvalues, V = np.linalg.eigh(C)
    coef = V @ ((V.T @ d)[:, None] / (np.maximum(eigenvalues, 0.0)[:, None] + lams))
    found = _r2((features.test - mean) @ coef + y.mean(), bench.data.y_test)
    yield {
        "epsilon": None,
        "method": f"not private, {kind}",
        "settings": {"size": features.size, "lam": float(lams[np.argmax(found)])},
        "r2": [float(found.max())],
        "seconds": time.process_time() - started,
    }
