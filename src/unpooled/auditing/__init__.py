"""Audits of privacy: many runs on neighbouring data sets bound ε from below (docs/privacy/audit.md)."""

from .audit import SHIPPED, Audit, AuditRow, audit
from .estimate import CONFIDENCE, LowerBound, lower_bound
from .faults import FAULTS
from .mechanism import Mechanism, Neighbours, worst_neighbours

__all__ = [
    "CONFIDENCE",
    "FAULTS",
    "SHIPPED",
    "Audit",
    "AuditRow",
    "LowerBound",
    "Mechanism",
    "Neighbours",
    "audit",
    "lower_bound",
    "worst_neighbours",
]
