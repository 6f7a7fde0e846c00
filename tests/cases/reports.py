"""A study of three sites and a fitted model of every kind, made once, and pages taken apart."""

from __future__ import annotations

import warnings
from functools import cache
from html.parser import HTMLParser

import numpy as np

import unpooled as up
from tests.made_up import named_rows

VOID = {"meta", "br", "hr", "img", "input", "link", "wbr"}
BAD = [
    "</script><script>window.injected=1</script>",
    '"><img src=x onerror=window.injected=1>',
    "' onfocus='window.injected=1' autofocus='",
]


@cache
def basis():
    """Of public rows."""
    return up.bases.EmpiricalFeatures(n_features=25, standardize=True).fit(named_rows(1, 120)[0])


@cache
def summaries(order=2, private=False):
    """Of three sites of different size."""
    asked = up.privacy.PrivacyRequest(epsilon=3.0, delta=1e-6, label_bound=3.0) if private else None
    sizes = {"north": 120, "south": 150, "west": 90}
    return {
        name: up.Summary.of(basis(), *named_rows(seed, n), order=order, privacy=asked)
        for seed, (name, n) in enumerate(sizes.items(), start=10)
    }


@cache
def models():
    """Of every kind that is shipped."""
    X, y = named_rows(2, 300)
    many = named_rows(3, 1500)
    public = named_rows(1, 120)[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of the floor
        return {
            "spectral": up.SpectralRegressor(fit_intercept=True).fit(X, y),
            "landweber": up.SpectralRegressor(filter="landweber", lam=0.01, fit_intercept=False).fit(X, y),
            "correntropy": up.CorrentropyRegressor(fit_intercept=True).fit(X, y),
            "averaged": up.AveragedRegressor(up.SpectralRegressor(fit_intercept=True), n_blocks=[1, 2]).fit(X, y),
            "second order": up.SummaryRegressor(fit_intercept=True).fit_summary(sum(summaries().values())),
            "first order": up.SummaryRegressor(fit_intercept=True).fit_summary(sum(summaries(1).values())),
            "of private sums": up.SummaryRegressor(fit_intercept=True).fit_summary(sum(summaries(2, True).values())),
            "less": up.LESSRegressor(fit_intercept=True).fit(X, y, public=public),
            "robust rounds": up.LESSRegressor(fit_intercept=True, rounds=3, loss="huber").fit(X, y, public=public),
            "private": up.PrivateRegressor(1.0, 1e-6, label_bound=3.0).fit(*many, public=public),
            "private descent": up.PrivateSGDRegressor(1.0, 1e-6, label_bound=3.0).fit(*many, public=public),
        }


@cache
def page(kind, data=False):
    """The report of one of them, with labeled rows or without; of a study with its summaries."""
    X, y = named_rows(4, 90)
    given = {"X": X, "y": y, "sites": np.resize(["north", "south", "west"], 90)} if data else {}
    if kind in ("second order", "first order", "of private sums"):
        given["summaries"] = summaries(1 if kind == "first order" else 2, kind == "of private sums")
    return up.report(models()[kind], **given)


def bad_study():
    """The report of a study in which every name is an attempt to break out of the page."""
    X, y = named_rows(5, 80, BAD)
    y.name = BAD[0]
    public = named_rows(6, 60, BAD)[0]
    shared = up.bases.EmpiricalFeatures(n_features=10).fit(public)
    parts = {name: up.Summary.of(shared, X[i::3], y[i::3], order=2) for i, name in enumerate(BAD)}
    model = up.SummaryRegressor(fit_intercept=True).fit_summary(sum(parts.values()))
    return up.report(model, X=X, y=y, sites=np.resize(BAD, 80), summaries=parts, title=BAD[1], file=BAD[2])


class Page(HTMLParser):
    """Tags that open and close in order, ids, attributes, and the text between."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.ids, self.text = [], [], [], []
        self.feed(html)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        assert len(given) == len(attrs), (tag, attrs)
        self.tags.append((tag, given))
        self.ids += [given["id"]] if "id" in given else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open, tag
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("script", "style"):
            self.text.append(data)

    @property
    def words(self):
        return " ".join(" ".join(self.text).split())

    def all(self, tag):
        return [given for name, given in self.tags if name == tag]
