"""A signed repository of models and machines (TUF): its publisher's side and its users'
(docs/repository.md).  Needs python-tuf."""

from tracekit.repository.entries import Entry
from tracekit.repository.keys import KeyFolder, read_key, read_keys
from tracekit.repository.publishing import ROLES, Repository
from tracekit.repository.store import ModelStore, default_store

__all__ = [
    "ROLES",
    "Entry",
    "KeyFolder",
    "ModelStore",
    "Repository",
    "default_store",
    "read_key",
    "read_keys",
]
