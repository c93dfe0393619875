"""Failures: of a tool, and of the host."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

from ._json import ABSENT, json_text, object_text

if TYPE_CHECKING:
    from ._content import Content

Kind = Literal[
    "invalid-input", "not-found", "conflict", "denied", "auth-required", "rate-limited", "limit-reached", "unavailable",
    "unsupported", "timeout", "cancelled", "too-large", "internal", "other",
]
"""Kind of a failure; `ToolError.code` has the detail.

`rate-limited` means too many requests in a period. `limit-reached` means that this call has used all that it may use of something,
such as tool calls or fuel; trying again in this call never helps.
"""

KINDS: tuple[str, ...] = get_args(Kind)

_HOST_CODE = "airlock."
"""Prefix of the codes of the host's own errors. The host removes it from the code of a tool."""


class ToolError(Exception):
    """A failure, as the model reads it: `raise ToolError("not-found", "there is no city Olso", code="unknown_city")`.

    The message names the problem and the remedy. It must not contain secrets; the host redacts and cuts it.
    """

    def __init__(self, kind: Kind, message: str, *, code: str | None = None, retry_after_ms: int | None = None,
                 content: Sequence[Content | str] = (), details: Any = ABSENT, meta: dict[str, Any] | None = None,
                 extra: dict[str, Any] | None = None) -> None:
        """Creates a failure. Fails with `TypeError` if an argument cannot be sent.

        An error that a tool changes afterwards so that it cannot be sent reaches the caller with its kind and message only.

        Args:
            kind: Kind of the failure.
            message: Message for the model; it says what to change.
            code: Short, stable identifier for programs, such as `channel_not_found`. The prefix `airlock.` is that of the host's own
                errors; the host removes it from the code of a tool.
            retry_after_ms: Time to wait before the next try, in milliseconds: an `int` of 0 or more.
            content: Further parts, such as a screenshot; a string is a text.
            details: Details as data, for scripts and the record of the call: any JSON value. `None` is `null`; the default,
                `ABSENT`, is no details.
            meta: Vendor keys, forwarded as MCP `_meta`.
            extra: Other members of the MCP result that carries the error.
        """
        text = str(message)
        super().__init__(text)
        self.kind: Kind = kind
        self.message = text
        self.code = code
        self.retry_after_ms = retry_after_ms
        self.content = list(content) if isinstance(content, Iterable) and not isinstance(content, str) else content
        self.details = details
        self.meta = meta
        self.extra = extra
        check_error(self)

    @property
    def is_from_host(self) -> bool:
        """True if the host made the error of a called tool, and not the tool: its code begins with `airlock.`, such as
        `airlock.deadline`. The contract lists these codes, and whether the tool has run."""
        return isinstance(self.code, str) and self.code.startswith(_HOST_CODE)


def check_error(error: ToolError) -> None:
    """Fails with a `TypeError` if the contract cannot have an error with these members, with a `ValueError` if it has no such kind."""
    from ._content import Content

    if error.kind not in KINDS:
        raise ValueError(f"there is no kind of failure {error.kind!r}; known are {', '.join(KINDS)}")
    if error.code is not None and not isinstance(error.code, str):
        raise TypeError(f"code must be a string, not {error.code!r}")
    if error.retry_after_ms is not None:
        check_u64("retry_after_ms", error.retry_after_ms)
    if not isinstance(error.content, list) or not all(isinstance(part, (str, Content)) for part in error.content):
        raise TypeError("content must be a list of parts and strings")
    json_text("details", error.details)
    object_text("meta", error.meta)
    object_text("extra", error.extra)


def check_u64(name: str, value: Any) -> int:
    """Returns a number of 64 bits. Fails with a `TypeError` that names the value."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 64:
        raise TypeError(f"{name} must be a whole number of 0 or more, not {value!r}")
    return value


class HostError(Exception):
    """A refusal or a failure of the host. A tool that does not catch it fails with `tool_error()`."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message

    def tool_error(self) -> ToolError:
        """Returns the failure of a tool that cannot go on."""
        return ToolError("internal", self.message)
