"""Private rounds over sites: the learner of :class:`~unpooled.PrivateRegressor`, with sites as its custodian.

The learner runs here, and sees no row and no answer before it has its noise. Each question is one exchange, so a study
that was stopped continues after its last answer, and asks the same questions as before.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ..._base.checks import check_budget
from ..._base.threads import silence_warnings
from ...estimators.private import PrivateRegressor, run_rounds
from ...privacy.rounds.custodian import Custodian
from ...privacy.rounds.questions import NoisyAnswer, Question
from ...privacy.rounds.schedule import RoundSchedule, make_schedule
from ..site.rounds import RoundQuestion, RowCount
from ..site.statistics import Statistic, Totals
from ..study.study import Study

_Ask = Callable[[Statistic], Totals]


@dataclass(frozen=True)
class _SiteCustodian(Custodian):
    """The sites of a study as a custodian: each clips, pays, and adds its noise, and the answers are added up."""

    study: Study
    ask_sites: _Ask

    def ask(self, question: Question, mu: float) -> NoisyAnswer:
        """Return the noisy mean over all rows of the sites, and the standard deviation of its noise."""
        statistic = RoundQuestion(self.study, question, mu)
        total = self.ask_sites(statistic)
        n_sites = int(total.sums["sites"].high[0])
        return (
            total.sums["answer"].high / total.n_rows,
            math.sqrt(n_sites) * statistic.noise.own_sigma / total.n_rows,
        )


def _plan_rounds(study: Study, n_rows: int, n_sites: int) -> RoundSchedule:
    """Return the schedule for so many rows at so many sites."""
    p, basis = study.promise, study.basis
    parties, missing = study.shares
    return make_schedule(
        n_rows, p.epsilon, p.delta, p.label_bound,
        n_features=basis.n_features_, n_public=basis.n_public_, n_inputs=basis.n_features_in_,
        rounds=study.rounds, loss=study.loss, sites=n_sites / (parties - missing) if study.secure else n_sites,
    )  # fmt: skip


def fit_private(study: Study, ask: _Ask) -> PrivateRegressor:
    """Fit by private rounds over the sites: the first exchange counts the rows, and each other asks one question."""
    counted, p = ask(RowCount(study)), study.promise
    check_budget(p.epsilon, p.delta, counted.n_rows)
    plan = _plan_rounds(study, counted.n_rows, int(counted.sums["sites"].high[0]))
    with silence_warnings():
        learned, spent = run_rounds(plan, study.frame, _SiteCustodian(study, ask))
    model = PrivateRegressor(
        p.epsilon, p.delta, p.label_bound, basis=study.basis, rounds=study.rounds, loss=study.loss,
        noise="total" if study.secure else "site",
    )  # fmt: skip
    return model.settle_rounds(study.frame, plan, learned, spent, [], True, study.conditions)
