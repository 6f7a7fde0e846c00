"""Cases: public names, formulas, plans, audits, pages, pictures, refusals, and the bundled data."""

from __future__ import annotations

import inspect
from dataclasses import asdict, replace
from types import ModuleType
from typing import Any

import numpy as np

import unpooled as up
from golden.averages import averaged, correntropy
from golden.exact_models import FILTERS, KERNELS, nystrom, spectral
from golden.inputs import GRID, SITE_OF_ROW, WEIGHTS, X_NEW, U, X, Y, y
from golden.keep import Folder, case
from golden.private_fits import descent, private
from golden.stand_ins import fixed_noise
from golden.sums import LABELS, TABLE, basis, less, summary_regressor

p, k, t = up.privacy, up.kernels, up.theory
PUBLIC_MODULES = (
    "auditing", "bases", "blocks", "datasets", "engines", "federation", "filters", "kernels", "losses", "plot",
    "privacy", "privacy.composition", "privacy.gaussian", "privacy.sgd", "site", "theory",
)  # fmt: skip
WITHOUT_A_LIST = {
    "datasets": ("BUNDLED", "Dataset", "SiteDataset", "load_airfoil", "load_heart"),
    "privacy.composition": ("delta", "epsilon", "mu_left", "split"),
}


@case()
def public_names(kept: Folder) -> None:
    """Every public name with its parameters and defaults, and the public methods and attributes of classes."""
    for name in ("", *PUBLIC_MODULES):
        module = up
        for part in name.split(".") if name else ():
            module = getattr(module, part)
        names = getattr(module, "__all__", WITHOUT_A_LIST.get(name, ()))
        found = {each: _surface(getattr(module, each)) for each in sorted(names)}
        kept.json(f"names/{name or 'unpooled'}", {each: one for each, one in found.items() if one is not None})


def _surface(thing: Any) -> Any:
    if isinstance(thing, ModuleType):
        return "module"
    if inspect.isclass(thing):
        members = {
            n: _parameters(m) if callable(m) else "attribute" for n, m in inspect.getmembers(thing) if n[0] != "_"
        }
        return {"class": _parameters(thing), "members": members}
    return _parameters(thing) if callable(thing) else str(type(thing).__name__)


def _parameters(thing: Any) -> Any:
    """Names, kinds and defaults; not annotations, which name modules."""
    try:
        found = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return "callable"
    return [f"{one.name} {one.kind.name}" + _default(one.default) for one in found]


def _default(value: Any) -> str:
    if value is inspect.Parameter.empty:
        return ""
    return f" = {value!r}" if value is None or isinstance(value, (bool, int, float, str, tuple)) else " = something"


@case()
def kernels_filters_losses(kept: Folder) -> None:
    """Blocks and diagonals of kernels, frequencies, filters on a spectrum, losses of residuals."""
    for name, kernel in KERNELS.items():
        found = k.as_kernel(kernel) if "auto" not in name else k.Gaussian([0.5, 1.0, 2.0])
        found = found.resolve(X, WEIGHTS)
        values = {"block": found(X_NEW, X), "square": found(X_NEW), "diagonal": found.diag(X_NEW)}
        kept.arrays(f"formulas/kernels/{name}", **values, kappa=[found.kappa(), found.kappa(X)])
        if isinstance(found, k.Stationary):
            drawn = k.sample_frequencies(found, 20, 3, np.random.default_rng(1))
            kept.array(f"formulas/kernels/{name}/frequencies", drawn)
    sigma = np.concatenate([[0.0], np.logspace(-9, 0, 40)])
    for name, filter_ in FILTERS.items():
        one = up.filters.as_filter(filter_)
        gs, residuals = one.path(sigma, GRID, 1.3)
        facts = [
            one.qualification,
            one.bound,
            one.gamma(0.5),
            one.gamma(1.5),
            *(one.iterations(lam, 1.3) for lam in GRID),
        ]
        kept.arrays(f"formulas/filters/{name}", g=gs, residuals=residuals)
        kept.json(f"formulas/filters/{name}", facts)
    u = np.linspace(-8, 8, 81)
    for name in ("squared", "huber", "correntropy"):
        loss = up.losses.as_loss(name, None if name == "squared" else 1.3)
        values = {
            "value": loss.value(u),
            "derivative": loss.derivative(u),
            "weight": loss.weight(u),
            "bound": loss.bound,
        }
        kept.arrays(f"formulas/losses/{name}", **values)


@case()
def theorems(kept: Folder) -> None:
    """Rates, limits, schedules, effective dimensions; and what privacy costs."""
    for method in ("spectral", "krr", "semi-supervised", "correntropy"):
        n_total = 50_000 if method == "semi-supervised" else None
        one = t.schedule(10_000, 0.9, 0.4, method, n_total=n_total, decay=0.2, kappa=1.5, label_scale=2.0)
        kept.json(f"formulas/theory/{method}", {"said": str(one), **asdict(one)})
    limits = [t.partition_limit(5000, 1.2, 0.5, filter=name) for name in FILTERS]
    numbers = [t.lam(900, 1, 0.3, 2.0), t.n_iter(900, 1, 0.3), t.rate(900, 1, 0.3), t.scale(900, 1, 0.3, 3.0)]
    kept.json("formulas/theory/numbers", [limits, numbers, t.largest_supported_blocks(10_000, 0.5)])
    kernel = k.Gaussian(0.5)
    options = {"center": True, "weights": WEIGHTS, "max_rows": 100, "random_state": 1}
    exponent = t.dimension_exponent(kernel, X, **options)
    dimension, spectrum = t.effective_dimension(kernel, X, GRID, **options), t.eigenvalues(kernel, X, **options)
    kept.arrays("formulas/theory", dimension=dimension, spectrum=spectrum)
    kept.json("formulas/theory/exponent", {"shown": repr(exponent), "s": exponent.s})
    events = [p.Gaussian(0.3), p.Gaussian.of(2.0, 9.0), p.Approximate(0.2, 1e-9), p.Approximate(0.1)]
    priced = [
        p.composition.delta(events, 1.0),
        p.composition.epsilon(events, 1e-6),
        p.composition.mu_left(events, 3.0, 1e-6),
    ]
    pairs = [(e, d) for e in (0.01, 0.5, 3.0, 40.0) for d in (1e-12, 1e-6, 1e-2)]
    gaussian = [(p.mu_for(e, d), p.sigma_for(e, d, 2.0), p.delta_of(e, 0.7), p.epsilon_of(0.7, d)) for e, d in pairs]
    released = [p.WeightedSums(25, 1.0, 3.0, order, 0.5, 0.8, True) for order in (1, 2)]
    reach = [
        (one.sensitivity, one.largest, one.size, asdict(one.calibrate_noise(1000, 0.4, parties=3, missing=1)))
        for one in released
    ]
    steps = {
        "full": p.sgd.full_batch(100, 20, 0.1, 1.0, kappa=1.0, lam=0.01),
        "passes": p.sgd.shuffled_passes(100, 3, 0.1, 1.0, kappa=1.0, batch_size=8, lam=0.01, averaged=True),
        "paper": p.sgd.wang_guo(100, 300, 0.01, 1.0, 1.0, 1e-6),
        "printed": p.sgd.wang_guo_as_printed(100, 300, 0.01, 1.0, 1.0, 1e-6),
        "others": [
            p.sgd.largest_step(1.2, 0.1),
            p.sgd.most_visits(100, 300, 1e-6),
            p.sgd.clipped_gradient_bound(0.5, 1.2),
        ],
        "squared": p.sgd.squared_gradient_bounds(9, 0.1, 2.0, 1.0),
    }
    content = {"composed": priced, "gaussian": gaussian, "reach": reach, "descent": steps, "rho": p.rho_of(2.0, 9.0)}
    content |= {
        "first": p.first_order_sensitivity(1.2, 3.0),
        "centred": [p.centered_kappa(1.2, flag) for flag in (False, True)],
    }
    kept.json("formulas/privacy", content)


@case()
def plans(kept: Folder) -> None:
    """Plans of fits on a machine whose rates are given, and of what privacy budgets would buy."""
    measured = up.calibrate_noise(n=1000, d=3, memory="8 GB").rates
    given = dict.fromkeys(("gemm", "gemm_single", "syrk", "exp", "exp_single", "bandwidth"), 1e10)
    rates = replace(measured, cores=2, **given)
    options = {"memory": "8 GB", "time": 300.0, "rates": rates, "kernel": k.Gaussian(0.7), "lam": None}
    for n in (500, 20_000, 3_000_000):
        one = up.calibrate_noise(n=n, d=10, dtype="float64", targets=2, n_features=None, device=None, **options)
        kept.json(f"plans/{n} rows", {"said": str(one), **one.to_dict()})
        kept.json(f"plans/{n} rows, regressor", {"type": type(one.estimator()).__name__, **_arguments(one.estimator())})
    kept.text("plans/rows", up.calibrate_noise(X, Y, **options | {"lam": 0.01}))
    budget = {"epsilon": [0.5, 8.0], "delta": 1e-6, "label_bound": 2.0, "explained": 0.8, "sites": 2, "random_state": 0}
    for name, public in {
        "public rows": {"public": U, "kernel": k.Gaussian("median")},
        "a basis": {"kernel": basis()},
    }.items():
        one = up.calibrate_noise(8000, **public, **budget)
        kept.json(f"plans/private, {name}", {"said": str(one), **one.to_dict()})
    inputs = up.calibrate_noise(8000, n_inputs=2, kernel=None, **budget | {"epsilon": 1.0})
    kept.json("plans/private, inputs", inputs.to_dict())


def _arguments(model: Any) -> dict[str, Any]:
    return {name: value for name, value in model.get_params(deep=False).items() if not hasattr(value, "fit")}


@case("opendp")
def audits(kept: Folder) -> None:
    """Lower bounds, neighbours, and every mechanism that is shipped, with stand-ins for the noise."""
    rng = np.random.default_rng(5)
    first, second = rng.normal(size=(400, 2)), rng.normal(size=(400, 2)) + 0.8
    kept.json("audits/bound", vars(up.auditing.lower_bound(first, second, 0.01, 0.95)))
    found = up.auditing.worst_neighbours(lambda A, b: b @ A, 5, 2, 1.0, starts=6, steps=9, seed=2)
    kept.arrays("audits/neighbours", X=found.first[0], X2=found.second[0], y2=found.second[1], apart=found.direction)
    with fixed_noise():
        names = [name for name in (*up.auditing.SHIPPED, *up.auditing.FAULTS) if not name.startswith("regressor")]
        audit = up.audit(names, runs=30, confidence=0.9, quick=False, progress=False)
        slow = up.audit(["regressor", "regressor-no-bound"], runs=30, confidence=0.9, quick=False, progress=False)
    kept.json("audits/all", audit.to_dict())
    kept.text("audits/some", slow)


@case("matplotlib")
def pages_and_pictures(kept: Folder) -> None:
    """Reports of every kind of model, with rows, summaries and neither; what pictures show, as numbers."""
    shared = basis()
    parts = {site: TABLE[np.equal(SITE_OF_ROW, site)] for site in np.unique(SITE_OF_ROW)}
    sums = {s: up.Summary.of(shared, one, LABELS["stay"][one.index], order=2) for s, one in parts.items()}
    of_sums = summary_regressor(fit_intercept=True).fit_summary(sum(sums.values()), basis=shared)
    first = up.Summary.of(shared, TABLE, LABELS["stay"])
    with fixed_noise():
        private_ones = {"private": private().fit(X, y, public=U), "descent": descent().fit(X, y, public=U)}
    models = {
        "spectral": spectral(lam="loo", fit_intercept=True).fit(X, y),
        "spectral, two labels": spectral(lam="gcv", filter="landweber").fit(X, Y),
        "nystrom": nystrom(fit_intercept=True).fit(X, y),
        "averaged": averaged(spectral(fit_intercept=True), grid=GRID).fit(X, y),
        "averaged, robust": averaged(correntropy(scale="auto", n_iter="auto"), n_blocks=[1, 2]).fit(X, y),
        "correntropy": correntropy(scale="auto", n_iter="auto", fit_intercept=True).fit(X, y),
        "less": less(fit_intercept=True).fit(X, y, public=U),
        "less, rounds": less(rounds=4, loss="huber").fit(X, y, public=U),
        "first order": summary_regressor().fit_summary(first, basis=shared),
        **private_ones,
    }
    for name, model in models.items():
        for rows in ({}, {"X": X[:60], "y": (Y if "two" in name else y)[:60], "sites": SITE_OF_ROW[:60]}):
            page = up.report(model, basis=shared if name == "first order" else None, target=None, title=None, **rows)
            place = f"pages/{name}{', rows' if rows else ''}"
            page.save(kept.place(f"{place}.html"))
            kept.text(place, "\n".join(page.missing))
    rows = {"X": TABLE, "y": LABELS["stay"], "sites": SITE_OF_ROW}
    up.report(of_sums, kept.place("pages/sums.html"), summaries=sums, basis=shared, file="a.model", title="T", **rows)
    draw = up.plot
    pictures = {f"path, {name}": draw.path(models[name]) for name in ("spectral", "averaged", "correntropy", "less")}
    pictures |= {f"spectrum, {name}": draw.spectrum(models[name]) for name in ("spectral", "nystrom")}
    pictures |= {"spectrum, basis": draw.spectrum(shared), "partition": draw.partition(models["averaged"], s=0.5)}
    bought = up.calibrate_noise(8000, kernel=shared, epsilon=[0.5, 5.0])
    pictures |= {f"frontier, {error}": draw.frontier(bought, error=error) for error in (False, True)}
    pictures |= {f"sites, {what}": draw.sites(of_sums, sums, basis=shared, what=what) for what in ("change", "error")}
    for name, ax in pictures.items():
        kept.json(f"pictures/{name}", _drawn(ax))


@case()
def notebooks(kept: Folder) -> None:
    """Pages that notebooks show of models, paths, bases, summaries, plans, ledgers and guarantees."""
    model, shared = spectral(lam="loo", fit_intercept=True).fit(X, y), basis()
    ledger = p.Ledger.create(kept.place("books/notebook.ledger"), 1.0, 1e-6, "a made-up table")
    ledger.charge(p.Gaussian(0.1), "a mean").commit()
    shown = {
        "model": model,
        "path": model.path_,
        "descent": correntropy(scale="auto", n_iter="auto").fit(X, y).path_,
        "blocks": averaged(spectral(), grid=GRID).fit(X, y).path_,
        "basis": shared,
        "summary": up.Summary.of(shared, TABLE, LABELS["stay"]),
        "plan": up.calibrate_noise(8000, kernel=shared, epsilon=1.0),
        "ledger": ledger,
        "guarantee": ledger.guarantee("several"),
    }
    for name, one in shown.items():
        html = one._repr_mimebundle_()["text/html"] if hasattr(one, "_repr_mimebundle_") else one._repr_html_()
        kept.text(f"pages/notebook, {name}", html)


def _drawn(ax: Any) -> dict[str, Any]:
    """Lines, bars and words of a picture."""
    lines = [[one.get_label(), *np.asarray(one.get_xydata()).tolist()] for one in ax.get_lines()]
    bars = [[one.get_x(), one.get_y(), one.get_width(), one.get_height()] for one in ax.patches]
    words = [ax.get_title(), ax.get_xlabel(), ax.get_ylabel(), ax.get_xscale(), ax.get_yscale()]
    return {"lines": lines, "bars": bars, "words": words, "ticks": [one.get_text() for one in ax.get_yticklabels()]}


@case()
def refusals(kept: Folder) -> None:
    """Sentences with which wrong arguments, rows and files are refused."""
    shared, other = basis(), up.bases.RandomFeatures(k.Gaussian(1.0), 10).fit(U)
    one, two = (up.Summary.of(each, X, y) for each in (up.bases.EmpiricalFeatures(k.Gaussian(1.0), 5).fit(U), other))
    place = kept.place("refusals/no file of ours")
    place.write_bytes(b"not a file of unpooled")
    bad = np.where(X > 0.9, np.nan, X)
    calls = {
        "a filter": lambda: spectral(filter="none").fit(X, y),
        "a lam": lambda: spectral(lam=-1).fit(X, y),
        "a solver": lambda: spectral(solver="banded").fit(X, y),
        "missing values": lambda: spectral().fit(bad, y),
        "too few columns": lambda: spectral().fit(X, y).predict(X[:, :2]),
        "not fitted": lambda: spectral().predict(X),
        "a kernel class": lambda: spectral(kernel=k.Gaussian).fit(X, y),
        "a length scale": lambda: spectral(kernel=k.Gaussian(-1.0)).fit(X, y),
        "a precision": lambda: nystrom(precision="half").fit(X, y),
        "too many blocks": lambda: averaged(spectral(), n_blocks=999).fit(X, y),
        "a learner": lambda: averaged(3).fit(X, y),
        "a scale": lambda: correntropy(scale=-1).fit(X, y),
        "a step": lambda: correntropy(step=2.0).fit(X, y),
        "other bases": lambda: one + two,
        "no summary": lambda: summary_regressor().fit_summary(3),
        "rounds of order 2": lambda: less(order=2, rounds=3).fit(X, y, public=U),
        "a loss": lambda: less(loss="none").fit(X, y, public=U),
        "an epsilon": lambda: private(epsilon=-1).fit(X, y, public=U),
        "a bound": lambda: descent(label_bound=0).fit(X, y, public=U),
        "an unbounded kernel": lambda: private(kernel=k.Linear()).fit(X, y, public=U),
        "no model": lambda: up.load(place),
        "no basis": lambda: up.bases.load(place),
        "no such file": lambda: up.load("nowhere.model"),
        "another kind": lambda: _as_model(kept, shared),
        "an unsavable kernel": lambda: up.save(spectral(kernel=lambda *_: 1.0).fit(X, y), place),
        "no ledger": lambda: p.Ledger("nowhere.ledger"),
        "a policy": lambda: up.site.Policy(approve="perhaps"),
        "a basis without rows": lambda: up.bases.EmpiricalFeatures().fit(X[:0]),
        "an engine": lambda: up.engines.as_engine("abacus"),
        "a theorem": lambda: t.rate(100, 0.1, 0.5),
    }
    for name, call in calls.items():
        kept.refusal(name, call)


def _as_model(kept: Folder, shared: Any) -> Any:
    place = kept.place("refusals/a.basis")
    shared.save(place)
    return up.load(place)


@case()
def bundled_data(kept: Folder) -> None:
    """The data sets that come with the library."""
    for name in ("airfoil", "heart"):
        found = getattr(up.datasets, f"load_{name}")()
        kept.json(f"formulas/data/{name}", {**vars(found), "columns": list(found.columns()), "shown": repr(found)})
