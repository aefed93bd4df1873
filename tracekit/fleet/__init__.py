"""What agents and the hub say to each other (docs/hub.md): messages, their limits, and a client."""

from tracekit.fleet.client import HubClient, HubError, Token, read_token
from tracekit.fleet.messages import (
    Aggregate,
    Batch,
    Forget,
    Observed,
    Subscription,
    parse_batch,
    parse_forget,
    parse_subscription,
)

__all__ = [
    "Aggregate",
    "Batch",
    "Forget",
    "HubClient",
    "HubError",
    "Observed",
    "Subscription",
    "Token",
    "parse_batch",
    "parse_forget",
    "parse_subscription",
    "read_token",
]
