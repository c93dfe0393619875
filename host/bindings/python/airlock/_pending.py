"""Calls of a gateway that wait for the approval of a person."""

from __future__ import annotations

from typing import Any, NamedTuple


class CallToApprove(NamedTuple):
    """A call that waits for an approval."""

    tool: str
    arguments: Any
    """Untrusted: a model may have written them, so show them whole."""


class PendingApproval(NamedTuple):
    """Calls that wait for the approval of a person. One decision is about all of them."""

    id: str
    """Identifier, for `approve`, `deny` and `resume`."""
    caller: str
    """The party whose calls they are, for people."""
    calls: list[CallToApprove]

    @classmethod
    def of(cls, described: dict[str, Any]) -> PendingApproval:
        """Reads what the native module returns."""
        return cls(described["id"], described["caller"], [CallToApprove(**call) for call in described["calls"]])
