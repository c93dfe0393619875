"""What a guard decides about, and its decisions."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

S = TypeVar("S")


@dataclass(frozen=True)
class Verdict:
    """A decision. `allow`, `rewrite`, `deny` and `ask` make one; two are equal if they decide the same."""

    type: Literal["allow", "rewrite", "deny", "ask"]
    json: str | None = None
    """JSON text of a rewrite."""
    code: str | None = None
    """Code of a denial."""
    reason: str | None = None
    """Reason of a denial, or of the question for an approval."""

    @property
    def value(self) -> Any:
        """The value that a rewrite has; `None` for another decision."""
        return None if self.json is None else json.loads(self.json)


def allow() -> Verdict:
    """Changes nothing."""
    return Verdict("allow")


def rewrite(value: Any) -> Verdict:
    """Replaces the arguments, the outcome, the definition or the texts by a value of the same form.

    A rewrite of arguments must be idempotent: a call that waits for an approval is decided about again. Integers keep all their digits;
    other numbers are those of `float`. Fails with `TypeError` or `ValueError` if the value is no JSON.
    """
    return rewrite_text(json.dumps(value, allow_nan=False))


def rewrite_text(text: str) -> Verdict:
    """Replaces them by a JSON text, in which all numbers keep their digits."""
    return Verdict("rewrite", json=_checked("the JSON text of a rewrite", text))


def deny(code: str, reason: str) -> Verdict:
    """Denies the call, withholds its outcome, or denies the definition, the request or the response.

    Args:
        code: Short stable identifier, of at most 64 bytes.
        reason: Text for the caller and the model, of at most 1 KiB.
    """
    return Verdict("deny", code=_checked("code", code), reason=_checked("reason", reason))


def ask(reason: str) -> Verdict:
    """Asks for an approval, only before a call. The reason has at most 1 KiB."""
    return Verdict("ask", reason=_checked("reason", reason))


def _checked(name: str, text: Any) -> str:
    if not isinstance(text, str):
        raise TypeError(f"{name} must be a string, not {type(text).__name__}")
    return text


@dataclass(frozen=True)
class Effects:
    """The effects of a tool, as its definition states them. That of a source that is not trusted may state anything."""

    read_only: bool | None = None
    """True if the tool changes nothing."""
    destructive: bool | None = None
    """True if a change may destroy something."""
    idempotent: bool | None = None
    """True if a second call with the same arguments has no further effect."""
    open_world: bool | None = None
    """True if the tool reaches systems that are not known in advance."""
    trusted: bool = False
    """True if the operator trusts the source."""


@dataclass(frozen=True)
class Call(Generic[S]):
    """A call of a tool."""

    tool: str
    """Full name of the tool: the client, `-`, and its name at the source."""
    client: str
    """The client that has the tool."""
    arguments_text: str = field(repr=False)
    """JSON text of the arguments, of at most 1 MiB."""
    effects: Effects
    """The effects of the tool."""
    origin: str
    """The maker of the call: `model`, `script`, `plugin`, `caller`, `program`, `operator` or `mcp_client`. Later gateways may have
    further names."""
    key: str | None
    """Name of the virtual key of the request; `None` if it came without one."""
    tenant: str
    """The party that the call is accounted to, for people."""
    settings: S
    """The settings of the guard."""
    extra: dict[str, Any] | None = None
    """Further members of later gateways."""

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments. Each reading parses them again."""
        found: dict[str, Any] = json.loads(self.arguments_text)
        return found


@dataclass(frozen=True)
class Outcome:
    """The end of a call, as the tool reports it."""

    is_failure: bool
    """True for the tool's own error."""
    text: str
    """JSON text of the value."""

    @property
    def value(self) -> dict[str, Any]:
        """MCP's `CallToolResult`, with `content`, `structuredContent` and `_meta`; of an error, `kind`, `code`, `message`, `content` and
        `details`. Each reading parses it again."""
        found: dict[str, Any] = json.loads(self.text)
        return found


@dataclass(frozen=True)
class ListedTool(Generic[S]):
    """A tool as its source lists it."""

    tool: str
    """Full name of the tool: the client, `-`, and its name at the source."""
    client: str
    """The client that has the tool."""
    trusted: bool
    """True if the operator trusts the source."""
    definition_text: str = field(repr=False)
    """JSON text of the definition."""
    settings: S
    """The settings of the guard."""
    extra: dict[str, Any] | None = None
    """Further members of later gateways."""

    @property
    def definition(self) -> dict[str, Any]:
        """MCP's `Tool`, with `name`, `title`, `description`, `inputSchema`, `outputSchema`, `annotations` and further members. Each
        reading parses it again."""
        found: dict[str, Any] = json.loads(self.definition_text)
        return found


@dataclass(frozen=True)
class ModelText:
    """A text of a conversation."""

    role: str
    """The role of its message, as the request has it; else `call` for the arguments of a call, `tool` for a result, and
    `reasoning`."""
    text: str
    """The text."""


@dataclass(frozen=True)
class ModelExchange(Generic[S]):
    """A request to a model, or its response."""

    model: str
    """Name of the model that is asked: the provider, `/`, and its name there."""
    key: str | None
    """Name of the virtual key of the request; `None` if it came without one."""
    tenant: str
    """The party that the request is accounted to, for people."""
    texts: list[ModelText]
    """The texts, those that were added since the hook ran before."""
    settings: S
    """The settings of the guard."""
    extra: dict[str, Any] | None = None
    """Further members of later gateways."""

    def rewrite(self, change: Callable[[ModelText], str | None]) -> Verdict:
        """Replaces each text by what `change` returns for it, and allows the exchange if it returns `None` for all."""
        changes = [change(text) for text in self.texts]
        if all(changed is None for changed in changes):
            return allow()
        pairs = zip(self.texts, changes)
        return rewrite([{"role": old.role, "text": old.text if new is None else _checked("a text", new)} for old, new in pairs])
