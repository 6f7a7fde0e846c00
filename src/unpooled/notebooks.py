"""What notebooks show: scikit-learn's picture of an estimator, with what a fit has chosen below it."""

from __future__ import annotations

from typing import Any


class InNotebooks:
    """Put before scikit-learn's classes: what was chosen, or learned, stands below the picture of the estimator."""

    def _repr_html_inner(self) -> str:
        shown: str = super()._repr_html_inner()  # type: ignore[misc]
        return shown + told(self)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] += told(self)
        return bundle


def told(estimator: Any) -> str:
    """What a fitted model has chosen, or what a fitted basis is, as HTML; nothing before a fit."""
    from .reports import html
    from .reports.facts import about

    if hasattr(estimator, "predictor_"):
        return html.paragraph(f"{about.chosen(estimator)}.")
    return html.bullets(estimator.describe().splitlines()) if hasattr(estimator, "map_") else ""
