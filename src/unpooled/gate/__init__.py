"""The site's own gate: a policy that says what may leave, and a log of what left and what was refused."""

from .._base.chain import Entry, Verification
from ..summaries.passes import LabelShare
from .gate import Gate, Log, LogError, Refused, left, refused
from .policy import POLICY_NAME, Policy, PolicyError, find_policy
from .release import Release, label_share

__all__ = [
    "POLICY_NAME",
    "Entry",
    "Gate",
    "LabelShare",
    "Log",
    "LogError",
    "Policy",
    "PolicyError",
    "Refused",
    "Release",
    "Verification",
    "find_policy",
    "label_share",
    "left",
    "refused",
]
