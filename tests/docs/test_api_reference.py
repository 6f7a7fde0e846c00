"""The reference is whole and true: every public name is in it, and docstrings name the parameters that there are.

Public is what ``unpooled.__all__`` lists, and what the modules in it list in turn.
"""

import dataclasses
import inspect
import re
import warnings
from functools import cache
from types import ModuleType

import numpy as np
import pytest
from numpydoc.docscrape import ClassDoc, FunctionDoc, NumpyDocString

import unpooled as up
from tests.made_up import CUBE, regression
from tests.paths import DOCS

REFERENCE = DOCS / "api"


def names_in(module: ModuleType) -> list[str]:
    """Its ``__all__``; without one, what is defined there and has no underscore."""
    own = [
        n for n, o in vars(module).items() if not n.startswith("_") and getattr(o, "__module__", "") == module.__name__
    ]
    return list(getattr(module, "__all__", own))


def public(module: ModuleType = up, prefix: str = "unpooled") -> dict[str, object]:
    """Everything public that can be called, by each of its names."""
    found: dict[str, object] = {}
    for name in names_in(module):
        value = getattr(module, name)
        if isinstance(value, ModuleType):
            found |= public(value, f"{prefix}.{name}")
        elif inspect.isclass(value) or inspect.isfunction(value):
            found[f"{prefix}.{name}"] = value
    return found


PUBLIC = public()
CLASSES = {name: value for name, value in PUBLIC.items() if inspect.isclass(value)}
METHODS = {
    f"{name}.{method}": function
    for name, value in CLASSES.items()
    for method, function in inspect.getmembers(value, callable)
    if not method.startswith("_") and (getattr(function, "__module__", None) or "").startswith("unpooled")
}


def docstring(value: object) -> NumpyDocString:
    return ClassDoc(value, config={"show_class_members": False}) if inspect.isclass(value) else FunctionDoc(value)


def listed(doc: NumpyDocString, section: str) -> list[str]:
    """The names of a section; ``X, y : arrays`` are two."""
    return [name.strip().lstrip("*") for entry in doc[section] for name in entry.name.split(",")]


def parameters(value: object) -> list[str] | None:
    """The names in the signature; None for an exception that takes any message, and for a contract that is not made."""
    if inspect.isclass(value) and issubclass(value, BaseException) and "__init__" not in vars(value):
        return None
    if getattr(value, "_is_protocol", False):
        return None
    return list(inspect.signature(value).parameters)


def arguments(method: object) -> list[str]:
    return [name for name in inspect.signature(method).parameters if name != "self"]


def test_there_is_something_public():
    assert len(PUBLIC) > 100
    assert {"unpooled.SpectralRegressor", "unpooled.kernels.Gaussian", "unpooled.privacy.sgd.most_visits"} < set(PUBLIC)
    assert {"unpooled.federation.run_study", "unpooled.engines.Dask"} < set(PUBLIC)


def named_wrongly(value: object) -> str:
    """What is wrong with the names in a docstring's sections; empty where nothing is."""
    doc, expected = docstring(value), parameters(value)
    if dataclasses.is_dataclass(value) and not doc["Parameters"]:
        # A record that users are given and do not make: its fields are documented as attributes, in any order.
        attributes, fields = listed(doc, "Attributes"), [field.name for field in dataclasses.fields(value)]
        missing = [name for name in fields if name not in attributes and not name.startswith("_")]
        unknown = [name for name in attributes if name not in fields and not hasattr(value, name)]
        return f"attributes missing: {missing}, unknown: {unknown}" if missing or unknown else ""
    found = listed(doc, "Parameters")
    return "" if expected is None or found == expected else f"documented {found}, in the signature {expected}"


def test_the_parameters_of_the_docstring_are_those_of_the_signature_in_order():
    wrong = {name: named_wrongly(value) for name, value in PUBLIC.items()}
    assert not {name: what for name, what in wrong.items() if what}


def test_so_are_those_of_a_method_that_lists_any():
    lists = {name: listed(FunctionDoc(method), "Parameters") for name, method in METHODS.items()}
    assert sum(map(bool, lists.values())) >= 8
    assert not {name: found for name, found in lists.items() if found and found != arguments(METHODS[name])}


WITH_LISTS = (
    up.AveragedRegressor,
    up.CorrentropyRegressor,
    up.LESSRegressor,
    up.NystromRegressor,
    up.PrivateRegressor,
    up.PrivateSGDRegressor,
    up.SpectralRegressor,
    up.SummaryRegressor,
    up.Summary,
    up.RegularizationPath,
    up.DescentPath,
    up.bases.EmpiricalFeatures,
)
USED = ("fit", "fit_summary", "partial_fit", "update", "candidates", "predict", "score", "compress", "transform")
USED += ("of", "basis", "save", "load", "plot")


@pytest.mark.parametrize("value", WITH_LISTS, ids=lambda value: value.__name__)
def test_what_users_call_lists_its_arguments(value):
    """Those of scikit-learn are documented there, and what is left are its own."""
    methods = {name: getattr(value, name) for name in USED if hasattr(value, name)}
    own = {name: m for name, m in methods.items() if (getattr(m, "__module__", None) or "").startswith("unpooled")}
    assert own
    assert not [name for name, m in own.items() if arguments(m) and not listed(FunctionDoc(m), "Parameters")]


def test_fit_says_something_of_each_of_its_arguments():
    fits = {name: method for name, method in METHODS.items() if name.endswith((".fit", ".fit_summary"))}
    unsaid = {
        name: [p for p in arguments(method) if not re.search(rf"\b{p}\b", inspect.getdoc(method))]
        for name, method in fits.items()
    }
    assert len(fits) >= 8
    assert not {name: missing for name, missing in unsaid.items() if missing}


def test_a_sentence_comes_first_everywhere():
    firsts = {
        name: (inspect.getdoc(value) or "").split("\n\n")[0].rstrip() for name, value in (PUBLIC | METHODS).items()
    }
    assert not {name: text for name, text in firsts.items() if not text.endswith((".", "``", ")"))}
    assert not {name: text for name, text in firsts.items() if len(text.splitlines()) > 3}


def test_every_public_name_is_in_the_reference():
    listed_there = set()
    for page in REFERENCE.glob("*.md"):
        for module, names in re.findall(
            r"currentmodule:: (\S+)\n\n\.\. autosummary::.*?\n\n(.*?)```", page.read_text(), re.S
        ):
            listed_there |= {f"{module}.{name}" for name in names.split()}
    assert listed_there <= set(PUBLIC)  # nothing that is not there any more
    objects = {id(PUBLIC[name]) for name in listed_there}  # one name of several is enough
    assert not [name for name, value in PUBLIC.items() if id(value) not in objects]


@cache
def fitted() -> dict[str, object]:
    """Everything that can be fitted, on a few rows."""
    X, y, U = regression(n=120, between=CUBE, others=(40,))
    budget = {"epsilon": 5.0, "delta": 1e-5, "label_bound": 3.0}
    basis = up.bases.EmpiricalFeatures(up.kernels.Gaussian(1.0), 10).fit(U)
    noised = up.Summary.of(basis, X, y, order=2, privacy=up.privacy.PrivacyRequest(**budget))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few public rows, and the like: nobody uses these models
        models = [
            up.AveragedRegressor(n_blocks=[1, 2]).fit(X, y),
            up.CorrentropyRegressor(fit_intercept=False).fit(X, y),
            up.LESSRegressor(n_features=10, fit_intercept=False).fit(X, y, public=U, sites=np.arange(120) % 2),
            up.NystromRegressor(n_features=10, fit_intercept=False).fit(X, y),
            up.PrivateRegressor(**budget).fit(X, y, public=U),
            up.PrivateSGDRegressor(**budget).fit(X, y, public=U),
            up.SpectralRegressor(fit_intercept=False).fit(X, y),
            up.SummaryRegressor(fit_intercept=False).fit_summary(noised),
            basis,
            up.bases.RandomFeatures(n_features=10).fit(U),
            up.bases.CosineFeatures(n_features=10).fit(U),
        ]
    return {type(model).__name__: model for model in models}


ESTIMATORS = [name for name, value in CLASSES.items() if hasattr(value, "fit") or hasattr(value, "fit_summary")]
ESTIMATORS.remove("unpooled.bases.Basis")  # the contract of bases, and no basis


@pytest.mark.parametrize("name", ESTIMATORS)
def test_fitted_attributes_are_those_of_the_docstring(name):
    model = fitted()[name.split(".")[-1]]
    documented = listed(docstring(type(model)), "Attributes")
    if isinstance(model, up.bases.Basis):
        documented += listed(docstring(up.bases.Basis), "Attributes")  # bases share them
    assert documented
    assert not [attribute for attribute in documented if not hasattr(model, attribute)]
