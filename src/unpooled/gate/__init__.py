"""The site's own gate: a policy that says what may leave, and a log of everything that left or was refused."""

from .._base.chain import Entry, Verification
from ..summaries.passes import LabelShare
from .facts import Release, label_share
from .gate import Gate, Log, LogError, Refused, describe_refusal, describe_release, release
from .policy import POLICY_NAME, Policy, PolicyError, find_policy

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
    "describe_refusal",
    "describe_release",
    "find_policy",
    "label_share",
    "release",
]
