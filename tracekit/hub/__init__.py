"""The hub of a fleet: receives agents' aggregates and answers over all of them (docs/hub.md).
Needs the extra ``hub``."""

from tracekit.hub.answering import Answering, Question
from tracekit.hub.application import Hub, Settings
from tracekit.hub.demo import demonstrate
from tracekit.hub.model_errors import ModelErrors
from tracekit.hub.serving import Place, place_of, prune, serve, status
from tracekit.hub.tables import database_errors, open_database
from tracekit.hub.tokens import issue_agent, issue_viewer, revoke, revoke_viewers

__all__ = [
    "Answering",
    "Hub",
    "ModelErrors",
    "Place",
    "Question",
    "Settings",
    "database_errors",
    "demonstrate",
    "issue_agent",
    "issue_viewer",
    "open_database",
    "place_of",
    "prune",
    "revoke",
    "revoke_viewers",
    "serve",
    "status",
]
