"""A live federation: a server asks sites for sums, each site decides by its own policy, and the sums make a model."""

from .secure.keys import Identity, TrustError
from .server.engine import FederatedEngine, FlowerEngine
from .server.running import run_study
from .site.config import Request, RequestError, Requests, SiteConfig
from .site.site import Site
from .study.folder import Exchange, SiteFailure, Status, StudyError, StudyRecord, read_status
from .study.privacy import StudyPrivacy
from .study.study import ConfigError, Study
from .wire.transport import Failure, InProcess, LostMessage, Message, MessageError, Transport

__all__ = [
    "ConfigError",
    "Exchange",
    "Failure",
    "FederatedEngine",
    "FlowerEngine",
    "Identity",
    "InProcess",
    "LostMessage",
    "Message",
    "MessageError",
    "Request",
    "RequestError",
    "Requests",
    "Site",
    "SiteConfig",
    "SiteFailure",
    "Status",
    "Study",
    "StudyError",
    "StudyPrivacy",
    "StudyRecord",
    "Transport",
    "TrustError",
    "read_status",
    "run_study",
]
