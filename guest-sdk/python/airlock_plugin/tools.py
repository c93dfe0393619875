"""Other tools of the gateway. A tool is called by the slot to which the operator binds it (`[request.slot.NAME]` in
`plugin.toml`), else by its full name, `<client>-<tool>`.

    found = tools.call("search", {"query": "airlock"}).data()

A failure of the tool raises `ToolError` with its kind, code and parts; a tool that does not catch it fails in the same way.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, List

from ._content import Output
from ._errors import ToolError
from ._host import error_type, interface
from ._json import plain
from ._wire import error_from_host, from_json, output_from_host

_host = interface("tools", "[request.slot.NAME]")
_Err = error_type()
_PAGE = 1000


@dataclass(frozen=True)
class Summary:
    """A tool that may be called."""

    name: str
    title: str | None
    description: str


@dataclass(frozen=True)
class Description:
    """A tool in full."""

    name: str
    title: str | None
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    annotations: dict[str, Any]
    """The hints `read_only`, `destructive`, `idempotent` and `open_world`, and `extra`: other members of the MCP annotations."""
    meta: dict[str, Any] | None
    extra: dict[str, Any] | None


@dataclass(frozen=True)
class Call:
    """A call that is not made yet."""

    name: str
    arguments: Any
    """A dict or a dataclass."""
    timeout_ms: int | None = None
    """A shorter time limit for this call, in milliseconds."""


def list() -> Iterator[Summary]:
    """Iterates over the tools that may be called. First the slots, then the tools by full name, both sorted by name."""
    cursor = None
    while True:
        try:
            page = _host.list(cursor, _PAGE)
        except _Err as error:
            raise error_from_host(error.value) from None
        for item in page.items:
            yield Summary(item.name, item.title, item.description)
        cursor = page.next
        if cursor is None:
            return


def describe(name: str) -> Description:
    """Returns the descriptor of one tool. Its name is the one that was asked for."""
    try:
        found = _host.describe(name)
    except _Err as error:
        raise error_from_host(error.value) from None
    hints = found.annotations
    annotations: dict[str, Any] = {hint: getattr(hints, hint) for hint in ("read_only", "destructive", "idempotent", "open_world")}
    annotations["extra"] = from_json(hints.extra)
    return Description(found.name, found.title, found.description, json.loads(found.input_schema),
                       from_json(found.output_schema), annotations, from_json(found.meta), from_json(found.extra))


def call(name: str, arguments: Any = None, *, timeout_ms: int | None = None) -> Output[Any]:
    """Calls one tool and waits for its result.

    Fails with the `ToolError` of the tool, or with one of the host, whose `is_from_host` is true.
    """
    try:
        return output_from_host(_host.call(_request(Call(name, arguments, timeout_ms))))
    except _Err as error:
        raise error_from_host(error.value) from None


def call_batch(calls: Iterable[Call]) -> List[Output[Any] | ToolError]:
    """Makes several calls concurrently. The results are in the order of the calls; failures are returned, not raised."""
    results = _host.call_batch([_request(call) for call in calls])
    return [error_from_host(result.value) if isinstance(result, _Err) else output_from_host(result.value) for result in results]


def _request(call: Call) -> Any:
    arguments = plain({} if call.arguments is None else call.arguments)
    return _host.CallRequest(call.name, json.dumps(arguments, ensure_ascii=False, allow_nan=False), call.timeout_ms)
