"""From a message to the statistic it asks for, and what a policy can say of a study before any row is looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..site import Release, facts
from ..summaries import Candidates
from .averages import Errors, Fits, errors_of, fits_of
from .message import Message, MessageError
from .statistics import LeaveOneOut, Statistic, Sums, sums_of
from .study import Study

_READERS: dict[str, Callable[..., Statistic]] = {
    Sums.called: sums_of,
    LeaveOneOut.called: lambda study, header, arrays: LeaveOneOut(study, Candidates.from_parts(header, arrays)),
    Fits.called: fits_of,
    Errors.called: errors_of,
}
PLENTY = 2**40  # rows: whatever is refused with so many is refused with any


def question(statistic: Statistic, **header: Any) -> Message:
    """The message that asks a site for a statistic."""
    about, arrays = statistic.parts()
    asked = {"study": statistic.study.digest, "statistic": statistic.called, "about": about, "digest": statistic.digest}
    return Message("ask", asked | header, arrays)


def statistic_of(study: Study, message: Message) -> Statistic:
    """The inverse; a MessageError where it is no statistic, or none of this study."""
    called, about = message.header.get("statistic"), message.header.get("about")
    if not isinstance(called, str) or called not in _READERS or not isinstance(about, dict):
        names = ", ".join(_READERS)
        raise MessageError(f"a site answers {names}, and nothing else")
    try:
        found = _READERS[called](study, about, message.arrays)
    except (ValueError, TypeError) as error:
        raise MessageError(f"the question cannot be answered: {' '.join(str(error).split())}") from None
    if message.header.get("digest") != found.digest:
        raise MessageError("the question is not the one that its digest says")
    return found


def planned(study: Study) -> Release:
    """The facts of what a study asks for, as if there were plenty of rows and no record stood out."""
    basis, targets, private = study.basis, study.targets, None
    if study.privacy is not None:
        q = Sums(study, 0, None, study.loss, study.order).question()
        private = facts.of_guarantee(q.privacy.record(q.bounds, q.noise, q.purpose).guarantee)
    kind = "functions" if study.kind == "average" else "summary"
    residual = study.rounds > 1
    return Release(
        kind, basis.digest, targets, study.order, PLENTY, basis.n_features_, len(targets), 0.0, residual, private, 0, 0
    )  # fmt: skip
