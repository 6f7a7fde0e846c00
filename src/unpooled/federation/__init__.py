"""A live federation: a server asks sites for sums, each site decides by its own policy, and a model comes out."""

from .secure.keys import Identity, NotTrusted
from .server.engine import FederatedEngine, FlowerEngine
from .server.running import run_study
from .site.config import Request, RequestError, Requests, SiteConfig
from .site.site import Site
from .study.folder import Exchange, Failed, Status, StudyError, StudyRecord, status_of
from .study.study import ConfigError, Study, StudyPrivacy
from .wire.transport import Failure, InProcess, Lost, Message, MessageError, Transport

__all__ = [
    "ConfigError",
    "Exchange",
    "Failed",
    "Failure",
    "FederatedEngine",
    "FlowerEngine",
    "Identity",
    "InProcess",
    "Lost",
    "Message",
    "MessageError",
    "NotTrusted",
    "Request",
    "RequestError",
    "Requests",
    "Site",
    "SiteConfig",
    "Status",
    "Study",
    "StudyError",
    "StudyPrivacy",
    "StudyRecord",
    "Transport",
    "run_study",
    "status_of",
]
