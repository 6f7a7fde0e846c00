"""A live federation: a server asks sites for sums, each site decides by its own policy, and a model comes out."""

from .config import ConfigError, SiteConfig
from .engine import FederatedEngine
from .flower_engine import FlowerEngine
from .folder import Exchange, Failed, StudyError
from .keys import Identity, NotTrusted
from .message import Message, MessageError
from .record import StudyRecord
from .requests import Request, RequestError, Requests
from .running import run_study
from .site import Site
from .status import Status, status_of
from .study import Study, StudyPrivacy
from .transport import Failure, InProcess, Lost, Transport

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
