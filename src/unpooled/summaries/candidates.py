"""The second exchange: candidate models go out to the sites, and sums of their leave-one-out errors come back.

With the features centred at the mean m over the rows (φ̂ = φ - m, e = y - ȳ; m and ȳ are zero without centring),
candidate λ predicts p = φ̂ᵀa_λ, and a row has the leverage h = φ̂ᵀ g_λ(C) φ̂ / W. The site that holds the row knows all
of these, so it can compute the exact error of the model that has not seen the row. A weight counts as repeated rows, of
which one is left out: w is the row's weight, but at most 1. With q = W/(W - w), the error y - f⁻(x) is

- if C is that of the public sample (LESS), so that C stays and the sums d, ȳ and m lose one term:
  e - q p + q w h e without centring, and q (e - q p + q² w h e) with it;
- the same with the features centred at their public mean, which stays: q e - q p + q w h y;
- if C is that of the rows themselves: (e - p)/(1 - w h - w/W), the last term only with centring. This is exact for
  Tikhonov with Wλ fixed, and the usual approximation for other filters.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .._base import files
from .._base.arrays import to_numpy
from .._base.checks import NotAddable, are_texts
from .._base.compensated import Sum
from .._base.engine import NamedStatistic
from .._base.rows import Block, Source
from .._solvers.span.moments import Solutions, System
from ..bases.base import Basis
from ..bases.maps import read_array
from ..data.sources import open_labeled
from ..engines import as_engine
from .contents import from_arrays, is_digest, to_arrays
from .passes import map_block, split_source

CENTERINGS = ("none", "rows", "public")


@dataclass(frozen=True, repr=False)
class Candidates:
    """Models for every λ of a grid, made from sums, in a form that a site can score.

    Attributes
    ----------
    basis : the digest of the basis
    lam : (L,) the grid
    g : (L, r) the filter at the eigenvalues, for every λ
    coef : (L, M, T) the coefficients a_λ
    shift : (M,) m, at which features are centred
    y_mean : (T,) ȳ
    vectors : (M, r) the eigenvectors of the eigenvalues in ``g``; None if they are the axes of the features
    weight : W, the weight of all rows
    centering : "none", "rows" or "public"
    same_sample : whether C is that of the rows themselves rather than of the public sample
    targets : the names of the labels, if they have any
    question : the SHA-256 of everything that determines the models
    """

    basis: str  #: the digest of the basis
    lam: np.ndarray  #: (L,)
    g: np.ndarray  #: (L, r)
    coef: np.ndarray  #: (L, M, T)
    shift: np.ndarray  #: (M,)
    y_mean: np.ndarray  #: (T,)
    vectors: np.ndarray | None  #: (M, r)
    weight: float
    centering: str
    same_sample: bool
    targets: tuple[str, ...] = ()
    question: str = ""  #: the SHA-256 of everything that determines the models, which does not depend on rounding

    def __repr__(self) -> str:
        of = f", targets={self.targets}" if self.targets else ""
        ends = f"{self.lam.min():.3g} to {self.lam.max():.3g}"
        return f"Candidates({len(self.lam)} λ from {ends}, basis={self.basis[:12]!r}{of})"

    @classmethod
    def of(
        cls, digest: str, system: System, solutions: Solutions, targets: tuple[str, ...], how: str = ""
    ) -> Candidates:
        """Return the candidates of a path; ``how`` names the filter and anything else that the models depend on."""
        about = {"basis": digest, "centering": system.centering, "own": system.same_sample, "how": how}
        about["lam"] = [f"{lam:.12e}" for lam in solutions.lam]
        sums = {name: getattr(system, name) for name in ("d", "shift", "y_mean", "y_square")}
        return cls(
            digest,
            solutions.lam,
            solutions.g,
            solutions.coef,
            system.shift,
            system.y_mean,
            system.vectors,
            system.weight,
            system.centering,
            system.same_sample,
            targets,
            files.digest(about, sums),
        )

    def errors(self, phi: np.ndarray, Y: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
        """Return y - f⁻(x) for every λ, row and label: (L, n, T).

        Parameters
        ----------
        phi : (n, M) features
        Y : (n, T) labels
        weights : (n,), or None

        Returns
        -------
        array of shape (L, n, T)
        """
        w = (np.ones(len(phi)) if weights is None else np.minimum(weights, 1.0))[:, None]
        centred = phi - self.shift
        e = Y - self.y_mean
        turned = centred[:, : self.g.shape[1]] if self.vectors is None else centred @ self.vectors
        leverage = (turned * turned) @ self.g.T / self.weight  # (n, L)
        p = np.einsum("nm,lmt->lnt", centred, self.coef, optimize=True)
        h = leverage.T[:, :, None]
        if self.same_sample:
            left = 1.0 - w * h - (w / self.weight if self.centering != "none" else 0.0)
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.where(left > 1e-10, (e - p) / left, np.inf)
        with np.errstate(divide="ignore", invalid="ignore"):
            q = self.weight / (self.weight - w)  # infinite for a single row, which no other row could predict
            if self.centering == "rows":
                errors = q * (e - q * p + q * q * w * h * e)
            elif self.centering == "public":
                errors = q * e - q * p + q * w * h * Y
            else:
                errors = e - q * p + q * w * h * e
        return np.where(np.isnan(errors), np.inf, errors)

    @property
    def digest(self) -> str:
        """The digest that identifies the candidates."""
        return files.digest(*self.to_parts())

    def save(self, path: files.PathLike) -> None:
        """Write the candidates to one file.

        Parameters
        ----------
        path : the file to write
        """
        files.write(path, "candidates", *self.to_parts())

    @classmethod
    def load(cls, path: files.PathLike) -> Candidates:
        """Return the candidates in a file.

        Parameters
        ----------
        path : a file that ``save`` wrote

        Returns
        -------
        Candidates
        """
        header, arrays = files.read(path, "candidates")
        try:
            return cls.from_parts(header, arrays)
        except ValueError as error:
            raise files.FileError(f"{path} does not hold complete candidates: {error}") from None

    @classmethod
    def from_parts(cls, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Candidates:
        """Return the candidates that :meth:`to_parts` took apart; raise a ValueError if they are not candidates."""
        try:
            with files.open_content(header, arrays, "file of candidates") as (entries, numbers):
                return _read_candidates(entries, numbers)
        except (TypeError, KeyError, IndexError, AttributeError, OverflowError) as error:
            raise ValueError(str(error)) from None

    def to_parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return the header and the arrays for a file or a message."""
        header = {
            "basis": self.basis,
            "weight": self.weight,
            "centering": self.centering,
            "own": self.same_sample,
            "targets": list(self.targets),
            "question": self.question,
        }
        arrays = {name: getattr(self, name) for name in ("lam", "g", "coef", "shift", "y_mean")}
        return header, arrays if self.vectors is None else arrays | {"vectors": self.vectors}


def _read_candidates(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Candidates:
    lam, g, coef = (
        read_array("lam", arrays, ndim=1),
        read_array("g", arrays, ndim=2),
        read_array("coef", arrays, ndim=3),
    )
    shift, y_mean = read_array("shift", arrays, ndim=1), read_array("y_mean", arrays, ndim=1)
    vectors = read_array("vectors", arrays, ndim=2) if "vectors" in arrays else None
    L, M, T = coef.shape
    r = g.shape[1]
    fits = lam.shape == (L,) and g.shape[0] == L and shift.shape == (M,) and y_mean.shape == (T,) and L and M and T
    if not fits or (r > M if vectors is None else vectors.shape != (M, r)):
        raise ValueError("the shapes of its arrays do not agree")
    weight, centering, targets = header["weight"], header["centering"], header["targets"]
    if not (isinstance(weight, float) and weight > 0) or centering not in CENTERINGS or not is_digest(header["basis"]):
        raise ValueError("its header does not identify the basis, the weight and the centring of the models")
    if type(header["own"]) is not bool or not is_digest(header["question"]):
        raise ValueError("its header does not identify the sums from which the models were made")
    if not are_texts(targets, (0, T)) or not np.all(lam > 0):
        raise ValueError("its λ or the names of its labels do not agree with its models")
    return Candidates(
        header["basis"],
        lam,
        g,
        coef,
        shift,
        y_mean,
        vectors,
        weight,
        centering,
        header["own"],
        tuple(targets),
        header["question"],
    )


@dataclass(frozen=True)
class Scores:
    """Sums of the squared leave-one-out errors of candidates over a site's rows; scores of the same candidates add up.

    Attributes
    ----------
    candidates : the digest of the candidates
    n_rows : the number of rows of positive weight
    sums : "weight" and "square" (L, T), to twice double precision
    question : the question of the candidates
    """

    candidates: str  #: the digest of the candidates
    n_rows: int
    sums: dict[str, Sum] = field(repr=False)  #: "weight" and "square" (L, T)
    question: str = ""  #: the question of the candidates

    @classmethod
    def of(
        cls, candidates: Candidates, basis: Basis, X: Any, y: Any, *, sample_weight: Any = None, engine: Any = None
    ) -> Scores:
        """Return the scores of candidates on rows X with labels y.

        Parameters
        ----------
        candidates : the candidates from :meth:`SummaryRegressor.candidates`
        basis : the basis of the candidates
        X, y, sample_weight, engine : as in :meth:`Summary.of`

        Returns
        -------
        Scores
        """
        if candidates.basis != basis.digest:
            raise ValueError(f"the candidates have the basis {candidates.basis[:12]}, not {basis.digest[:12]}")
        return score_source(candidates, basis, open_labeled(basis, X, y, sample_weight), engine)

    def __add__(self, other: object) -> Scores:
        if isinstance(other, int) and other == 0:
            return self
        if not isinstance(other, Scores):
            return NotImplemented
        if self.candidates != other.candidates:
            reason = f"one is of the candidates {self.candidates[:12]} and the other of {other.candidates[:12]}"
            raise NotAddable(f"these scores cannot be added up: {reason}", reason)
        sums = {name: value + other.sums[name] for name, value in self.sums.items()}
        return replace(self, n_rows=self.n_rows + other.n_rows, sums=sums)

    __radd__ = __add__

    @property
    def mean(self) -> np.ndarray:
        """The mean squared leave-one-out errors, (L, T)."""
        return np.asarray(self.sums["square"].high / self.sums["weight"].high)

    def save(self, path: files.PathLike) -> None:
        """Write the scores to one file.

        Parameters
        ----------
        path : the file to write
        """
        n_lam, n_outputs = self.sums["square"].high.shape
        header = {"candidates": self.candidates, "n_rows": self.n_rows, "n_lam": n_lam, "n_outputs": n_outputs}
        header["question"] = self.question
        files.write(path, "scores", header, to_arrays(self.sums))

    @classmethod
    def load(cls, path: files.PathLike) -> Scores:
        """Return the scores in a file.

        Parameters
        ----------
        path : a file that ``save`` wrote

        Returns
        -------
        Scores
        """
        header, arrays = files.read(path, "scores")
        try:
            with files.open_content(header, arrays, "file of scores") as (entries, numbers):
                return cls._read(entries, numbers)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError) as error:
            raise files.FileError(f"{path} does not hold complete scores: {error}") from None

    @classmethod
    def _read(cls, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Scores:
        sizes = [header[name] for name in ("n_rows", "n_lam", "n_outputs")]
        digests = [header[name] for name in ("candidates", "question")]
        if not all(type(size) is int and size > 0 for size in sizes) or not all(map(is_digest, digests)):
            raise ValueError("its header does not identify the candidates and their number")
        sums = from_arrays(arrays, {"weight": (1,), "square": (sizes[1], sizes[2])})
        if not (sums["weight"].high[0] > 0 and np.all(sums["square"].high >= 0)):
            raise ValueError("one of its sums of weights or squares is negative")
        return cls(digests[0], sizes[0], sums, digests[1])


_HUGE = (
    1e200  # stands for the square of an infinite error: files hold finite numbers only, and it is never the smallest
)


def score_source(candidates: Candidates, basis: Any, source: Source, engine: Any = None, verbose: int = 0) -> Scores:
    """Return the scores of candidates on the rows of a source."""
    if source.n_outputs != candidates.coef.shape[2]:
        raise ValueError(f"the candidates predict {candidates.coef.shape[2]} label(s), and y has {source.n_outputs}")
    total: Scores = as_engine(engine).map_reduce(
        LEAVE_ONE_OUT,
        split_source(source, basis),
        _add,
        args=(basis, candidates, candidates.digest),
        label="scoring",
        verbose=verbose,
    )
    return total


def _score_block(block: Block, basis: Any, candidates: Candidates, digest: str) -> Scores:
    L, _, T = candidates.coef.shape
    sums = {"weight": Sum.of(np.zeros(1)), "square": Sum.of(np.zeros((L, T)))}
    n_rows = 0
    for rows, phi in map_block(block, basis):
        errors = candidates.errors(phi, np.asarray(to_numpy(rows.Y), dtype=np.float64), rows.weights)
        w = np.ones(len(phi)) if rows.weights is None else rows.weights
        with np.errstate(over="ignore"):
            square = np.minimum(np.einsum("n,lnt->lt", w, errors * errors), _HUGE)
        square = np.where(np.isnan(square), _HUGE, square)
        sums = {"weight": sums["weight"] + Sum.of(w.sum()[None]), "square": sums["square"] + Sum.of(square)}
        n_rows += len(phi)
    return Scores(digest, n_rows, sums, candidates.question)


LEAVE_ONE_OUT = NamedStatistic("leave-one-out", _score_block, public=("candidates",))


def _add(a: Scores, b: Scores) -> Scores:
    return a + b
