"""Calls of a gateway that wait for the approval of a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypedDict


class GuardQuestion(TypedDict):
    """A reason for which a guard requires an approval of a call."""

    guard: str
    """Name of the guard in the configuration."""
    reason: str
    """The reason, on one line. It may repeat arguments."""


class CallToApprove(NamedTuple):
    """A call that waits for an approval."""

    tool: str
    arguments: Any
    """Untrusted: a model may have written them, so show them whole."""
    sources: Sequence[str] = ()
    """Sources of untrusted content that its author had read before, if they are followed."""
    argument_sources: Mapping[str, Sequence[str]] | None = None
    """Sources that each of its arguments may have, by its path, of a call of a script; the path of all arguments is empty. `None`
    if they are not known."""
    asked_by: Sequence[GuardQuestion] = ()
    """Reasons for which guards require an approval."""
    manifest: Sequence[str] = ()
    """Lines of the calls of a script that are approved as one, if this is their manifest: show them in place of `arguments`."""


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
