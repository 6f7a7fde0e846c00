"""AveragedRegressor: local fits on blocks or sites, averaged."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import KW_ONLY, asdict, dataclass, fields
from functools import partial
from typing import Any, ClassVar

import numpy as np

from .. import theory
from .._base import threads
from .._base.arrays import Array, eps, to_numpy
from .._base.checks import check_count, check_fitted
from .._base.declared import Arrays, Header
from .._base.engine import Engine
from .._base.fits import undo_on_failure
from .._base.kinds import VERBOSITY, Blocks, Numbers, Real, Seed, Switch, Whole, Word, declaration, parameter
from .._base.memory import free_memory
from .._base.rows import Rows
from .._base.text import format_count
from .._solvers.averaging.gathering import Deal, Gathering, Partition, mark_validation
from .._solvers.averaging.local import BlockFit, Local
from .._solvers.averaging.routes import AVERAGING, Job, Work, powers_of_two
from .._solvers.averaging.search import BlockPath, Search, plan
from .._solvers.predictors import Compression, KernelExpansion, average, compress
from .._solvers.route import Cost, measure_once
from ..data.sources import OpenedRows, open_all
from ..engines import EngineKind, as_engine
from ..filters import as_filter
from .correntropy import CorrentropyRegressor
from .facts import ModelFacts, describe, if_fitted, of_target
from .locals import LocalKind, SampleFacts, prepare
from .span import OnEngine, ReadsRows, predict_in_precision
from .spectral import SpectralRegressor
from .stored import Expansion, ForEachTarget, Tables, is_table, positions, texts

FAR_BEYOND = 2.0  # times the limit of theory from which more blocks deserve a warning


BLOCKS = Tables(name=str, rows=int, unlabeled=int, weight=float)
COUNTS = ("n_points", "n_points_before")


class _BlocksPart:
    """The blocks of an average, the path where their number was chosen, and the effect of a compression."""

    def write(self, model: Any, header: Header, arrays: Arrays) -> None:
        header |= {"n_blocks": model.n_blocks_, "blocks": model.blocks_}
        if "compression_" in vars(model):
            header["compression"] = asdict(model.compression_)
        if "path_" in vars(model):
            path: BlockPath = model.path_
            header["path"] = {"chosen": path.chosen, "candidates": list(path.candidates)}
            arrays |= {"path.n_blocks": path.n_blocks, "path.criterion": path.criterion, "path.index": path.index}
            arrays |= {f"path.{name}": values for name, values in path.candidates.items()}

    def read(self, model: Any, header: Header, arrays: Arrays) -> None:
        n_blocks, blocks = header["n_blocks"], header["blocks"]
        if type(n_blocks) is not int or not BLOCKS.holds(blocks) or not len(blocks) == n_blocks > 0:
            raise ValueError("it does not have as many blocks as it states")
        model.n_blocks_, model.blocks_ = n_blocks, blocks
        if "compression" in header:
            about = header["compression"]
            if not is_table(about, **{one.name: int if one.name in COUNTS else float for one in fields(Compression)}):
                raise ValueError("its compression has missing or invalid entries")
            if min(about.values()) < 0 or about["n_points"] != len(model.predictor_.points):
                raise ValueError("its compression does not match its points")
            model.compression_ = Compression(**about)
        if "path" in header:
            model.path_ = self._path(header["path"], arrays, model)

    def _path(self, about: Any, arrays: Arrays, model: Any) -> BlockPath:
        if not isinstance(about, dict) or about.keys() != {"chosen", "candidates"}:
            raise ValueError("its path of blocks does not say which number of blocks was chosen")
        tried, scores, index = (arrays[f"path.{name}"] for name in ("n_blocks", "criterion", "index"))
        names = texts("candidates", about["candidates"], range(5))
        candidates = {name: arrays[f"path.{name}"] for name in names}
        chosen, (M, C) = about["chosen"], (*scores.shape, 0, 0)[:2]
        good = type(chosen) is int and 0 <= chosen < M and scores.ndim in (2, 3) and scores.dtype.kind == "f"
        good = good and tried.shape == (M,) and tried.dtype.kind == "i" and bool(np.all(tried > 0))
        for values in candidates.values():
            good = good and len(values.shape) > 0 and len(values) == C and values.dtype.kind in "if"
            good = good and bool(np.all(values > 0))
        # Learners without candidates of their own are judged all targets together.
        T = len(index) if index.ndim == 1 else 0
        good = good and T in (1, model.predictor_.coef.shape[1]) and positions(index, T, C)
        if not good:
            raise ValueError("the arrays of its path of blocks do not match")
        return BlockPath(tried, candidates, scores, chosen, index)


LAM = Numbers("rule13", "local", words="'rule13', 'local', a positive number or an array of them")
LIMIT = Real("a positive number or None", lambda value: value > 0, none=True)


@declaration
@dataclass(eq=False, repr=False)
class AveragedRegressor(OnEngine, ReadsRows):
    """The average of regressions that were fitted to blocks or sites, each to its own rows.

        f̄ = Σ_j (|D_j|/|D|) f_j,    every f_j with the λ of the whole sample

    (Guo, Lin and Zhou 2017, (3)). With unlabeled rows the local labels are inflated by |D*_j|/|D_j| and the weights
    are |D*_j|/|D*| (Wang 2018, (3.22)). All blocks share one kernel.

    Parameters
    ----------
    estimator : SpectralRegressor, CorrentropyRegressor or any regressor, default SpectralRegressor()
        The regressor that is fitted to every block. Regressors other than these two are fitted as they are.
    n_blocks : "auto", int or list of int
        Rows are split evenly at random into this number of blocks. "auto" is rule (14): …, 4, 2, 1 blocks, as far as
        memory and time allow, are tried on halves of the data, and the best number is used. It starts with many blocks,
        which are quick to fit, and stops before slow ones where halving no longer pays (``tolerance``). A list is tried
        to its end. With ``sites`` the sites are the blocks.
    lam : "rule13", "local", float or array
        "rule13" chooses from ``grid`` by halving every block (an array is the same with that grid), unless there is no
        ``grid`` and the local learner is given a number as its own ``lam``. "local" leaves the choice to each block,
        which is over-regularised once averaged: for comparison. A number is used as it is, in every block.
    engine : None, "threads", "processes", "dask", a Dask client or its address, or an Engine
        Where blocks are fitted. None is threads.
    grid : array or None
        The λ to choose from; None takes the local learner's own.
    score_by : {"rows", "sites"}
        Whether every validation row counts alike, or every site, as rule (13) is printed.
    refit : bool, default True
        Fit all the data once λ is chosen; False keeps the fit to the training halves, the paper's final estimator.
    max_validation : int, default 20,000
        The most validation rows to score on; a random sample is drawn if there are more.
    memory_limit : float or None
        Bytes that the blocks being fitted may use together; None is half of the free memory.
    time_limit : float or None, default 300
        Seconds that rule (14) may plan for; a candidate that would take longer is left out. None sets no limit.
    tolerance : float, default 0.03
        With n_blocks="auto", the last halving must have lowered the score by this fraction for a candidate planned to
        take longer than a second to be tried: 3 % of a squared error is 1.5 % of its root, and less once the blocks
        are refitted with twice the rows. 0 is rule (14) to the letter, over all that is feasible.
    random_state : int or None, default 0
        Deals rows to blocks and halves them.
    verbose : int, default 0
        1 shows a progress bar on standard error, once the work takes longer than a second.

    Attributes
    ----------
    lam_ : float, or array of one per target
    n_blocks_ : int
    blocks_ : list of dict
        Name, rows, unlabeled rows and weight of each block.
    path_ : BlockPath
        The score of every number of blocks and of every λ that was tried.
    plan_ : list of Candidate
        The expected memory and time of each number of blocks, and which were left out.
    predictor_ : KernelExpansion or Average
    intercept_ : float or array
        Σ_j w_j b_j.
    kernel_ : the kernel with its length scale filled in

    Notes
    -----
    ``fit`` also takes a Parquet file or folder (a path, or ``up.blocks.Parquet`` to name the features) or a Dask
    collection as X, with y, sites and sample_weight as names of columns. A block is then a set of row groups or
    partitions, and nothing larger is ever loaded.

    Examples
    --------
    >>> import numpy as np, unpooled as up
    >>> X = np.random.default_rng(0).uniform(size=(600, 1))
    >>> y = np.sin(6 * X[:, 0])
    >>> model = up.AveragedRegressor(n_blocks=4).fit(X, y)
    >>> model.n_blocks_, bool(abs(model.predict(X) - y).max() < 0.05)
    (4, True)
    """

    estimator: Any = parameter(LocalKind(), None)
    n_blocks: Any = parameter(Blocks(), "auto")
    lam: Any = parameter(LAM, "rule13")
    engine: Any = parameter(EngineKind(), None)
    _: KW_ONLY
    grid: Any = parameter(Numbers(none=True), None)
    score_by: str = parameter(Word(("rows", "sites")), "rows")
    refit: bool = parameter(Switch(), True)
    max_validation: int = parameter(Whole(), 20_000)
    memory_limit: float | None = parameter(LIMIT, None)
    time_limit: float | None = parameter(LIMIT, 300.0)
    tolerance: float = parameter(Real("at least 0 and below 1", lambda value: 0 <= value < 1), 0.03)
    random_state: int | None = parameter(Seed(), 0)
    verbose: int = parameter(VERBOSITY, 0)

    _saved: ClassVar = (
        Expansion(),
        _BlocksPart(),
        ForEachTarget("lam_", "lam_", "one_lam_", optional=True),
        ForEachTarget("scale_", "scale_", "one_scale_", optional=True, infinite=True),
        ForEachTarget("n_iter_", "n_iter_", "one_n_iter_", optional=True, whole=True),
    )

    def fit(
        self,
        X: Any,
        y: Any,
        sites: Any = None,
        unlabeled: Any = None,
        unlabeled_sites: Any = None,
        sample_weight: Any = None,
    ) -> AveragedRegressor:
        """Fit to rows ``X`` and labels ``y``; ``sites`` holds one site label per row.

        ``unlabeled`` rows make the fit semi-supervised. They belong to the sites of ``unlabeled_sites``; without it
        they are dealt to the blocks in proportion to their rows.

        Parameters
        ----------
        X, y : arrays, frames, a path to Parquet or CSV (then ``y`` names the column), a Dask collection
        sites : one site label per row, or the name of a column
        unlabeled : rows without labels
        unlabeled_sites : a label for each of those
        sample_weight : one weight per row; a weight counts as repeated rows
        """
        with undo_on_failure(self):
            self._check_parameters()
            opened = open_all(self, X, y, sample_weight, sites, unlabeled, unlabeled_sites)
            engine = as_engine(self.engine)
            try:
                with engine.session():
                    self._fit(opened, engine)
            finally:
                if engine is not self.engine:
                    engine.close()
        return self

    def _values_for(self, X: Any) -> Callable[[Array], Array]:
        return partial(predict_in_precision, self.predictor_)

    def compress(self, n_points: int, random_state: int | None = 0) -> AveragedRegressor:
        """Return a copy of the model on at most ``n_points`` points, which predicts faster and needs less memory.

        f̄ is projected onto the span of that many kernel functions; ``compression_`` of the new model reports the
        error.

        Parameters
        ----------
        n_points : int
        random_state : draws the points

        Returns
        -------
        AveragedRegressor
        """
        check_fitted(self)
        if not isinstance(self.predictor_, KernelExpansion):
            raise ValueError("compress needs local learners with a kernel: SpectralRegressor or CorrentropyRegressor")
        check_count("n_points", n_points)
        smaller = copy.copy(self)
        smaller.predictor_, smaller.compression_ = compress(self.predictor_, n_points, random_state)
        return smaller

    def _fit(self, opened: OpenedRows, engine: Engine) -> None:
        # One stream of random numbers for each use: none depends on how much another has drawn.
        seeds = np.random.SeedSequence(self._seed()).spawn(4)
        dealing, spreading, halving, sampling = (np.random.default_rng(seed) for seed in seeds)
        source = opened.labeled
        gather = Gathering(source, engine, self.verbose)
        weights = gather.weights()
        deal = Deal(source, opened.unlabeled, weights, dealing, spreading)
        partitions = (
            deal.deal_by_site()
            if source.site_labels is not None
            else deal.deal_evenly(self._sizes(len(deal.weighted_rows)))
        )
        finest, coarsest = partitions[max(partitions)], partitions[min(partitions)]
        sample = gather.sample(deal.weighted_rows)
        facts = SampleFacts(
            sample,
            lambda kernel: gather.kappa(kernel, finest.blocks(source, opened.unlabeled)),
            opened.one_target,
            coarsest.largest,
            self.verbose,
        )
        local = prepare(SpectralRegressor() if self.estimator is None else self.estimator, facts, self.lam, self.grid)
        if opened.unlabeled is not None and not local.semisupervised:
            raise ValueError(
                "unlabeled rows need a local SpectralRegressor with one lam for all blocks, or a CorrentropyRegressor"
            )
        choosing = local.has_choice or len(partitions) > 1
        limit = free_memory() / 2 if self.memory_limit is None else float(self.memory_limit)
        self.plan_ = plan(
            [self._job(p, deal, local, sample, choosing, engine.n_workers, limit) for p in partitions.values()],
            Cost(measure_once(), source.n_features),
            self.time_limit if len(partitions) > 1 else None,
        )
        held = np.zeros(source.n_rows, dtype=bool)
        (m, *_) = partitions
        if choosing:
            held[deal.weighted_rows] = mark_validation(
                finest.block_of(source.n_rows)[deal.weighted_rows], gather.keys(halving)[deal.weighted_rows]
            )
            search = Search(
                gather,
                opened.unlabeled,
                partitions,
                held,
                self.plan_,
                sites_alike=self.score_by == "sites",
                tolerance=float(self.tolerance) if isinstance(self.n_blocks, str) else 0.0,
                max_validation=int(self.max_validation),
                rng=sampling,
            )
            local, m, self.path_ = search.run(local, opened.one_target)
        if len(partitions) == 1:
            self._warn_of_too_many(m, len(deal.weighted_rows), local, sample)
        partition = partitions[m] if self.refit or not choosing else partitions[m].restrict(~held)
        at_once = next(c.at_once for c in self.plan_ if c.n_blocks == m)
        blocks = partition.blocks(source, opened.unlabeled)
        fitted = AVERAGING.solve(Work(engine, blocks, local, at_once, self.verbose))
        self._keep(fitted, local, opened.one_target)

    def _job(
        self, partition: Partition, deal: Deal, local: Local, sample: Rows, choosing: bool, workers: int, limit: float
    ) -> Job:
        """The job of averaging over these blocks, for the route to estimate."""
        n = len(deal.weighted_rows)
        return Job(
            n,
            deal.source.n_features,
            len(partition),
            partition.largest,
            local,
            1 if sample.Y is None else int(sample.Y.shape[1]),
            min(int(self.max_validation), n // 2) if choosing else 0,
            workers,
            threads.count_cores(),
            limit,
            8 if eps(sample.X) < 1e-10 else 4,
        )

    def _sizes(self, n_rows: int) -> list[int]:
        if isinstance(self.n_blocks, str):
            return powers_of_two(n_rows)
        sizes = [int(m) for m in np.atleast_1d(self.n_blocks)]
        if max(sizes) > n_rows:
            raise ValueError(
                f"n_blocks is {max(sizes)}, and X has n_samples = {n_rows}: a block needs at least one row"
            )
        return sizes

    def _seed(self) -> int | None:
        state = self.random_state
        if isinstance(state, np.random.RandomState):
            return int(state.randint(2**31))
        if isinstance(state, np.random.Generator):
            return int(state.integers(2**63))
        return state if state is None else int(state)

    def _keep(self, fitted: list[BlockFit], local: Local, one_target: bool) -> None:
        masses = np.asarray([f.mass for f in fitted])
        weights = masses / masses.sum()
        b = np.einsum("j,jt->t", weights, np.stack([to_numpy(f.b).astype(float) for f in fitted]))
        self._settle_expansion(
            average([f.predictor for f in fitted], weights, local.kernel), local.kernel, b, one_target
        )
        self.n_blocks_ = len(fitted)
        self.blocks_ = [
            {"name": f.name, "rows": f.n_rows, "unlabeled": f.n_unlabeled, "weight": float(w)}
            for f, w in zip(fitted, weights)
        ]
        for name, value in local.settings(one_target).items():
            setattr(self, name, value)

    def _warn_of_too_many(self, m: int, n: int, local: Local, sample: Rows) -> None:
        """Beyond the limit (9), with the capacity estimated from the data, no regularity of the target helps."""
        if local.kernel is None or m < 2 or len(sample) < 100:
            return
        try:
            s = theory.dimension_exponent(local.kernel, sample.X, max_rows=500).s
        except ValueError:  # too few different rows to tell
            return
        limit = theory.largest_supported_blocks(n, min(max(s, 0.0), 1.0), filter=getattr(local, "filter", None))
        if m > FAR_BEYOND * limit:
            warnings.warn(
                f"{m} blocks are far more than the {max(1, int(limit))} or so that {n} rows support with this kernel "
                f"(effective dimension growing as λ^-{s:.2f}): expect a larger error than with fewer blocks",
                UserWarning,
                stacklevel=4,
            )

    def facts(self, target: int = 0) -> ModelFacts:
        """Return the facts of the fitted model; ``target`` is the position of the label."""
        blocks: list[dict[str, Any]] = self.blocks_
        path: BlockPath | None = if_fitted(self, "path_")
        own = isinstance(self.estimator, (SpectralRegressor, CorrentropyRegressor))
        return describe(
            self,
            target,
            f"The average of kernel regressions on {format_count(self.n_blocks_, 'block')}, each fitted to its own "
            f"rows",
            kernel=self.kernel_,
            lam=of_target(if_fitted(self, "lam_"), target),
            scale=of_target(if_fitted(self, "scale_"), target),
            n_iter=of_target(if_fitted(self, "n_iter_"), target),
            path=path,
            tune=None if path is None else lambda: path.tuning(target),
            fit_intercept=own and bool(self.estimator.fit_intercept),
            filter=as_filter(self.estimator.filter) if isinstance(self.estimator, SpectralRegressor) else None,
            n_rows=sum(block["rows"] for block in blocks),
            n_blocks=self.n_blocks_,
            blocks=blocks,
        )
