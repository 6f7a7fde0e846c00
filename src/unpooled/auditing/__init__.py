"""Audits of privacy: many runs on neighbouring data sets, and what they prove of ε (docs/privacy/audit.md)."""

from .audit import SHIPPED, audit
from .estimate import CONFIDENCE, LowerBound, lower_bound
from .faults import FAULTS
from .mechanism import Mechanism
from .neighbours import Neighbours, worst_neighbours
from .table import Audit, Audited

__all__ = [
    "CONFIDENCE",
    "FAULTS",
    "SHIPPED",
    "Audit",
    "Audited",
    "LowerBound",
    "Mechanism",
    "Neighbours",
    "audit",
    "lower_bound",
    "worst_neighbours",
]
