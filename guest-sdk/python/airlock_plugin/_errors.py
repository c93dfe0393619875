"""Failures: of a tool, and of the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

if TYPE_CHECKING:
    from ._content import Content

Kind = Literal[
    "invalid-input", "not-found", "conflict", "denied", "auth-required", "rate-limited", "unavailable", "unsupported", "timeout",
    "cancelled", "too-large", "internal", "other",
]
"""Kind of a failure; `ToolError.code` has the detail."""

KINDS: tuple[str, ...] = get_args(Kind)


class ToolError(Exception):
    """A failure, as the model reads it: `raise ToolError("not-found", "there is no city Olso", code="unknown_city")`.

    The message names the problem and the remedy. It must not contain secrets; the host redacts and cuts it.
    """

    def __init__(self, kind: Kind, message: str, *, code: str | None = None, retry_after_ms: int | None = None,
                 content: Sequence[Content] = (), details: Any = None, meta: dict[str, Any] | None = None) -> None:
        """Creates a failure.

        Args:
            kind: Kind of the failure.
            message: Message for the model; it says what to change.
            code: Short, stable identifier for programs, such as `channel_not_found`.
            retry_after_ms: Time to wait before the next try, in milliseconds.
            content: Further parts, such as a screenshot.
            details: Details as data, for scripts and the record of the call.
            meta: Vendor keys, forwarded as MCP `_meta`.
        """
        if kind not in KINDS:
            raise ValueError(f"there is no kind of failure {kind!r}; known are {', '.join(KINDS)}")
        super().__init__(message)
        self.kind: Kind = kind
        self.message = message
        self.code = code
        self.retry_after_ms = retry_after_ms
        self.content = list(content)
        self.details = details
        self.meta = meta


class HostError(Exception):
    """A refusal or a failure of the host. A tool that does not catch it fails with `tool_error()`."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message

    def tool_error(self) -> ToolError:
        """Returns the failure of a tool that cannot go on."""
        return ToolError("internal", self.message)
