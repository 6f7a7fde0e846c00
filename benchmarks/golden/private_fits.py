"""Cases: what is differentially private.

With stand-ins for the noise all of it is compared to the bit, and with real noise everything but the noise.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import numpy as np

import unpooled as up
from golden.inputs import X_NEW, X_PRIVATE, U, y_private
from golden.keep import Folder, case, plain
from golden.stand_ins import fixed_noise
from golden.sums import LABELS, TABLE, basis, keep_summary, summary_regressor

p, k = up.privacy, up.kernels
BUDGET = (1.0, 1e-6)


def private(**changes: Any) -> Any:
    """Make a PrivateRegressor with every argument named."""
    named: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "label_bound": 3.0, "kernel": k.Gaussian("median")}
    named |= {
        "basis": None,
        "n_features": "auto",
        "rounds": "auto",
        "loss": "auto",
        "noise": "total",
        "standardize": True,
    }
    return up.PrivateRegressor(
        **named | {"ledger": None, "engine": "threads", "random_state": 0, "verbose": 0} | changes
    )


def descent(**changes: Any) -> Any:
    """Make a PrivateSGDRegressor with every argument named."""
    named: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "label_bound": 3.0, "kernel": k.Gaussian(0.9)}
    named |= {"n_features": 60, "method": "tight", "step": None, "n_steps": None, "passes": None, "batch_size": None}
    named |= {
        "clip": None,
        "weight_decay": 0.0,
        "averaged": False,
        "precondition": "auto",
        "fit_intercept": True,
        "shrink": True,
    }
    return up.PrivateSGDRegressor(
        **named | {"basis": None, "standardize": False, "ledger": None, "random_state": 0, "verbose": 0} | changes
    )


def asked(**changes: Any) -> Any:
    """Make a Private with every argument named."""
    named: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-6, "label_bound": 3.0, "ledger": None, "means": 0.25}
    named |= {"labels": 1.0, "parties": 1, "missing": 0, "purpose": None, "kappa": None}
    return p.PrivacyRequest(**named | changes)


SITES = np.asarray(["a", "b", "c"])[np.arange(len(X_PRIVATE)) % 3]
MODELS: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    "rounds": (private, {}, {"public": U}),
    "rounds, no bound": (private, {"label_bound": None}, {"public": U}),
    "rounds, no public rows": (private, {"n_features": 30}, {}),
    "rounds, huber": (private, {"loss": "huber", "rounds": 4, "n_features": 25, "standardize": False}, {"public": U}),
    "rounds, sites": (private, {"noise": "site", "epsilon": 5.0}, {"public": U, "sites": SITES}),
    "rounds, shares": (private, {"loss": "correntropy", "epsilon": 100.0}, {"public": U, "sites": SITES}),
    "descent": (descent, {}, {"public": U}),
    "descent, alone": (
        descent,
        {"fit_intercept": False, "precondition": None, "averaged": True, "weight_decay": 1e-3},
        {},
    ),
    "descent, given": (descent, {"passes": 2, "batch_size": 64, "step": 0.1, "clip": 0.9, "shrink": False}, {}),
    "descent, paper": (
        descent,
        {"method": "paper", "n_steps": 900, "standardize": True, "fit_intercept": False},
        {"public": U},
    ),
}


def keep_private(kept: Folder, kind: str, names: list[str]) -> None:
    """Fit private models, and keep them with their plans and promises."""
    for name in names:
        make, options, rows = MODELS[name]
        model = make(**options).fit(X_PRIVATE, y_private, **rows)
        kept.model(f"{kind}/{name}", model)
        kept.json(f"models/{kind}/{name}/plan", {"plan": str(model.schedule_), "promise": str(model.privacy_)})


@case("opendp")
def private_models(kept: Folder) -> None:
    """Every private model, with a stand-in for the noise."""
    with fixed_noise():
        keep_private(kept, "private", list(MODELS))
        of_basis = private(kernel=None, basis=basis(), standardize=False).fit(TABLE, LABELS["stay"])
        kept.model("private/of a basis", of_basis, "frame")


@case("opendp")
def private_sums(kept: Folder) -> None:
    """Private summaries of both orders, in shares, of residuals; models of them and further rounds."""
    shared = basis()
    ledger = p.Ledger.create(kept.place("books/sums.ledger"), 20.0, 1e-5, "a made-up table")
    with fixed_noise():
        for order in (1, 2):
            with_books = asked(ledger=ledger, purpose=f"order {order}")
            one = up.Summary.of(shared, TABLE, LABELS["stay"], order=order, privacy=with_books)
            keep_summary(kept, f"private, order {order}", one)
            more = asked(epsilon=3.0, means=0.0, labels=0.5)
            keep_summary(kept, f"private, order {order}, no means", _of(shared, slice(0, 90), order, more))
            parts = [_of(shared, half, order, asked(parties=3, missing=1)) for half in _thirds()]
            keep_summary(kept, f"private, order {order}, a share", parts[0])
            keep_summary(kept, f"private, order {order}, shares", sum(parts))
            for center in (False, True):
                model = summary_regressor(fit_intercept=center, grid=None).fit_summary(one, basis=shared)
                kept.model(f"private/sums of order {order}, center {center}", model, "frame")
        loss = up.losses.Correntropy(1.5)
        first = up.Summary.of(shared, TABLE, LABELS["stay"], loss=loss, privacy=asked(label_bound=None))
        model = summary_regressor(fit_intercept=True, lam=0.05).fit_summary(first, basis=shared)
        for _ in range(2):
            again = asked(label_bound=None, ledger=str(ledger.path))
            residuals = up.Summary.of(shared, TABLE, LABELS["stay"], residuals_of=model, loss=loss, privacy=again)
            model.update(residuals, basis=shared)
        kept.model("private/sums, rounds", model, "frame")
        keep_summary(kept, "private, residuals", residuals)
    small = p.Ledger.create(kept.place("books/small.ledger"), 1.0, 1e-6, "a made-up table")
    kept.refusal("a budget that is spent", lambda: _of(shared, slice(None), 1, asked(epsilon=3.0, ledger=small)))


def _of(shared: Any, part: slice, order: int, privacy: Any) -> Any:
    return up.Summary.of(shared, TABLE[part], LABELS["stay"][part], order=order, privacy=privacy)


def _thirds() -> list[slice]:
    return [slice(0, 50), slice(50, 100), slice(100, None)]


@case("opendp")
def real_noise(kept: Folder) -> None:
    """Models and sums with noise that nobody knows: everything but the noise can be compared."""
    shared = basis()
    ledger = p.Ledger.create(kept.place("noisy/books.ledger"), 9.0, 1e-5, "a made-up table")
    for order in (1, 2):
        one = up.Summary.of(shared, TABLE, LABELS["stay"], order=order, privacy=asked(ledger=ledger, epsilon=1.0))
        one.save(kept.place(f"noisy/order {order}.summary"))
        model = summary_regressor(fit_intercept=True, lam=0.1).fit_summary(one, basis=shared)
        up.save(model, kept.place(f"noisy/order {order}.model"))
    for name in ("rounds, huber", "descent, given", "descent, paper"):
        make, options, rows = MODELS[name]
        model = make(**options | {"ledger": ledger.path}).fit(X_PRIVATE, y_private, **rows)
        up.save(model, kept.place(f"noisy/{name}.model"))
    # With so large a budget the noise is small, so that predictions can be compared, if not to the bit.
    for name in ("rounds", "descent"):
        make, options, rows = MODELS[name]
        model = make(**options | {"epsilon": 1e4}).fit(X_PRIVATE, y_private, **rows)
        kept.array(f"noisy/{name}, large budget", model.predict(X_NEW))


@case("opendp")
def books(kept: Folder) -> None:
    """A ledger with every kind of entry, and a site's log with files that left and one that may not."""
    ledger = p.Ledger.create(kept.place("books/all.ledger"), 3.0, 1e-6, "a made-up table")
    with ledger.charge(p.Gaussian(0.2), "a mean"):
        pass
    ledger.charge([p.Approximate(0.3, 1e-8), p.Gaussian(0.1)], "two counts").commit(n_rows=150, note="é")
    ledger.charge(p.Gaussian(0.05), "a sum that never left")
    kept.refusal("a ledger that refuses", lambda: ledger.charge(p.Gaussian(2.0), "too much"))
    said = {"spent": ledger.epsilon_spent(), "left": ledger.mu_left(), "events": list(map(str, ledger.events()))}
    said |= {"guarantee": ledger.guarantee("several").to_dict(), "promise": str(ledger.guarantee("several"))}
    said["charges"] = [
        (one.number, one.purpose, one.is_released, list(map(str, one.events))) for one in ledger.charges()
    ]
    kept.json("books/all", said)
    assert ledger.verify().ok
    log = up.site.Log(kept.place("books/site.log"))
    gate = up.site.Gate(up.site.Policy.default(), log)
    large, small = (
        up.site.Release("summary", "0" * 64, ("stay",), 1, n, 25, 1, 0.02, False, None, 53, 0) for n in (150, 9)
    )
    with contextlib.chdir(log.path.parent):  # the log has the name of the file as it is given
        gate.write("left.bytes", b"the content of a file", large)
    kept.refusal("a gate that refuses", lambda: gate.write(kept.place("books/kept"), b"", small))
    up.site.Policy.write_template(kept.place("books/policy.toml"))
    rules = Path(kept.place("books/own policy.toml"))
    rules.write_text('approve = "ask"\norders = [1]\nmax_epsilon = 1\ntargets = ["stay"]\n', encoding="utf-8")
    kept.text("books/own policy", up.site.Policy.read(rules))
    facts = {
        "default": vars(up.site.Policy.default()),
        "log": json.loads(json.dumps(plain(log.releases()[0].to_dict()))),
    }
    kept.json("books/policy", facts | {"share": up.site.label_share(np.array([1.0, -2.0, 4.0]), np.array([1.0, 1, 2]))})
    assert log.verify().ok
