"""Exceptions of this package. The native module raises them by `raised`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._numbers import check_number
from ._pending import PendingApproval

if TYPE_CHECKING:
    from ._run import Run


class AirlockError(Exception):
    """Base class of all exceptions of this package."""


class ScriptError(AirlockError):
    """The script failed: it raised an exception that it did not handle."""

    kind: str
    """`syntax`, `runtime` or `tool`."""
    line: int | None
    """Line in the script, from 1."""
    column: int | None
    """Column in that line, from 1."""
    rendered: str
    """The failure with call stack and source, for people and models."""

    def __init__(self, message: str, kind: str = "runtime", line: int | None = None, column: int | None = None,
                 rendered: str | None = None) -> None:
        # All arguments, so that the exception can be pickled.
        super().__init__(message, kind, line, column, rendered)
        self.kind = kind
        self.line = line
        self.column = column
        self.rendered = message if rendered is None else rendered

    def __str__(self) -> str:
        return str(self.args[0])


class ScriptSyntaxError(ScriptError):
    """The script does not parse, or uses what its language does not have. Nothing of it has run."""


class ToolFailed(ScriptError):
    """A tool failed, and the script did not handle it. `__cause__` is the exception of the function; `None` if the arguments did
    not fit the function, so that it was not called."""

    tool: str
    """Name of the tool."""
    code: str | None
    """Name of the type of the exception, or a code that begins with `airlock.`."""

    def __init__(self, message: str, kind: str = "tool", line: int | None = None, column: int | None = None,
                 rendered: str | None = None, tool: str = "", code: str | None = None) -> None:
        super().__init__(message, kind, line, column, rendered)
        self.args = (message, kind, line, column, rendered, tool, code)
        self.tool = tool
        self.code = code


class LimitExceeded(AirlockError):
    """The script was stopped by a limit."""

    limit: str
    """The limit: a field of `Limits`, or the name of one that cannot be set, such as `result` or `stack`."""

    def __init__(self, message: str, limit: str) -> None:
        super().__init__(message, limit)
        self.limit = limit

    def __str__(self) -> str:
        return str(self.args[0])


class ApprovalNeeded(AirlockError):
    """The script waits until someone decides about calls of tools that need an approval."""

    run: Run
    """The run: decide with `approve` and `deny`, then `resume`."""

    def __init__(self, run: Run) -> None:
        tools = ", ".join(sorted({call.tool for call in run.pending}))
        # Without any, all are decided about, or this object is used up.
        resumed = "the run has no value before `resume`, which returns it"
        super().__init__(f"the script waits for the approval of calls of {tools}" if tools else resumed)
        self.run = run


class RunCancelled(AirlockError):
    """The run was stopped before its end, for example because the process was forked while it ran."""


class BadTool(AirlockError, ValueError):
    """A function cannot be a tool. The message names the function and the remedy."""


class BadDump(AirlockError, ValueError):
    """A dump is damaged, was made by another version, or belongs to other tools or another script."""


class GatewayError(AirlockError):
    """A gateway has failed, or a request to it. Base class of all exceptions of `Gateway` but `BadTool`."""

    code: str
    """Code for programs, as the HTTP API has it."""

    def __init__(self, message: str, code: str = "") -> None:
        # All arguments, so that the exception can be pickled.
        super().__init__(message, code)
        self.code = code

    def __str__(self) -> str:
        return str(self.args[0])


class ConfigurationError(GatewayError, ValueError):
    """The configuration is not valid, or not safe. The message lists all mistakes."""


class StartFailed(GatewayError):
    """The gateway does not start, or does not serve: the address is in use, a guard cannot be loaded, or the system has no threads or
    memory for it."""


class UnknownKey(GatewayError):
    """The virtual key does not exist, has expired, or needs a certificate."""


class KeyRequired(GatewayError):
    """Requests without a virtual key are not permitted."""


class BadName(GatewayError, ValueError):
    """A name of a client or a tool would be several."""


class GatewayNotReady(GatewayError):
    """The settings in the store were not read yet."""


class GatewayStopped(GatewayError):
    """The gateway stops, was stopped, or belongs to the parent of a fork."""


class GatewayOverloaded(GatewayError):
    """There is no memory for the request."""


class CallFailed(GatewayError):
    """The call was refused, or has failed, also if the tool itself returned an error."""

    kind: str
    """Kind of the failure, such as `denied`, `not_found` or `timeout`."""
    retry_after: float | None
    """Seconds to wait before a retry."""

    def __init__(self, message: str, code: str = "", kind: str = "other", retry_after: float | None = None) -> None:
        super().__init__(message, code)
        self.args = (message, code, kind, retry_after)
        self.kind = kind
        self.retry_after = retry_after


class ApprovalPending(GatewayError):
    """Calls wait for the approval of a person, and none of them was made: the call itself, or calls of its script."""

    pending: PendingApproval
    """The calls: `approve` or `deny` them by their `id`, then `resume`."""

    def __init__(self, message: str, code: str, pending: dict[str, Any]) -> None:
        super().__init__(message, code)
        self.args = (message, code, pending)
        self.pending = PendingApproval.of(pending)


class NotWaiting(GatewayError, LookupError):
    """The sender has no call that waits under this identifier: it has expired, or was decided about."""


class OperatorRequired(GatewayError):
    """Only an operator decides about this call."""


class RunChanged(GatewayError):
    """The run of a script cannot be decided about or resumed now: it runs, has ended, or has changed since it was shown."""


class StoreUnavailable(GatewayError):
    """The store cannot be used."""


class BadConversation(GatewayError, ValueError):
    """The messages or the settings of a chat cannot be sent to a model."""


class ChatFailed(GatewayError):
    """The chat has no reply: the model or its provider has failed, or refuses the request."""

    status: int
    """Status of HTTP that a client would receive."""
    error: dict[str, Any]
    """The `error` object of a response: the provider's own if the provider has failed."""
    retry_after: float | None
    """Seconds to wait before a retry."""

    def __init__(self, message: str, code: str = "", status: int = 500, error: dict[str, Any] | None = None,
                 retry_after: float | None = None) -> None:
        super().__init__(message, code)
        self.args = (message, code, status, error, retry_after)
        self.status = status
        self.error = error or {}
        self.retry_after = retry_after


class ModelError(Exception):
    """Is raised by a model function that has no reply. The caller of the chat receives it as `ChatFailed`.

    A fallback is asked after the status 429, and from 500. Raises `TypeError` if the status is no integer, or if `retry_after` is
    no number of seconds.
    """

    def __init__(self, message: str, status: int = 502, code: str | None = None, retry_after: float | None = None) -> None:
        check_number(status, "the status of a ModelError is an integer", int)
        if retry_after is not None:
            check_number(retry_after, "retry_after of a ModelError is a number of seconds")
        super().__init__(message, status, code, retry_after)
        self.message = message
        self.status = status
        self.code = code
        self.retry_after = retry_after

    def __str__(self) -> str:
        return self.message


def raised(kind: str, message: str, details: dict[str, Any]) -> AirlockError:
    """Makes the exception of a failure, whose class the native module knows by its name."""
    made: AirlockError = _CLASSES[kind](message, **details)
    return made


_CLASSES: dict[str, Any] = {
    made.__name__: made
    for made in (
        AirlockError, ScriptError, ScriptSyntaxError, ToolFailed, LimitExceeded, RunCancelled, BadTool, BadDump, GatewayError,
        ConfigurationError, StartFailed, UnknownKey, KeyRequired, BadName, GatewayNotReady, GatewayStopped, GatewayOverloaded,
        CallFailed, ApprovalPending, NotWaiting, OperatorRequired, RunChanged, StoreUnavailable, BadConversation, ChatFailed,
    )
}
