"""Substitutes for the generated bindings outside a component. Names and fields are those of `componentize-py`.

The functions forward to the running `airlock_plugin.testing.Host`.
"""

from __future__ import annotations

import enum
from contextvars import ContextVar
from dataclasses import dataclass, make_dataclass
from types import SimpleNamespace
from typing import Any

RUNNING: ContextVar[Any] = ContextVar("airlock_host", default=None)
"""The host that runs a call."""


@dataclass
class Ok:
    value: Any


@dataclass
class Err(Exception):
    value: Any


def _running() -> Any:
    host = RUNNING.get()
    if host is None:
        raise RuntimeError("there is no host outside a gateway; run it by `airlock_plugin.testing.Host`")
    return host


def _record(name: str, *fields: str) -> type:
    return make_dataclass(name, [(field, Any) for field in fields])


def _enumeration(name: str, *cases: str) -> Any:
    return enum.Enum(name, {case: number for number, case in enumerate(cases)})


def _variant(name: str, **cases: bool) -> dict[str, type]:
    return {f"{name}_{case}": _record(f"{name}_{case}", *(["value"] if has_value else [])) for case, has_value in cases.items()}


types = SimpleNamespace(
    ToolAnnotations=_record("ToolAnnotations", "read_only", "destructive", "idempotent", "open_world", "extra"),
    ToolDescriptor=_record("ToolDescriptor", "name", "title", "description", "input_schema", "output_schema", "annotations",
                           "meta", "extra"),
    Media=_record("Media", "data", "mime_type"),
    ResourceLink=_record("ResourceLink", "uri", "name", "title", "description", "mime_type", "size"),
    **_variant("ResourceContents", Text=True, Blob=True),
    EmbeddedResource=_record("EmbeddedResource", "uri", "mime_type", "contents", "meta", "extra"),
    **_variant("ContentBlock", Text=True, Image=True, Audio=True, ResourceLink=True, EmbeddedResource=True, Other=True),
    Content=_record("Content", "block", "annotations", "meta", "extra"),
    ToolOutput=_record("ToolOutput", "content", "structured_content", "meta", "extra"),
    ErrorKind=_enumeration("ErrorKind", "INVALID_INPUT", "NOT_FOUND", "CONFLICT", "DENIED", "AUTH_REQUIRED", "RATE_LIMITED",
                           "LIMIT_REACHED", "UNAVAILABLE", "UNSUPPORTED", "TIMEOUT", "CANCELLED", "TOO_LARGE", "INTERNAL", "OTHER"),
    ToolError=_record("ToolError", "kind", "code", "message", "retry_after_ms", "content", "details", "meta", "extra"),
)


def _write(level: Any, message: str, fields: list[tuple[str, str]]) -> None:
    # Modules that log while they are imported have no host yet.
    if RUNNING.get() is not None:
        _running().write(level, message, fields)


log = SimpleNamespace(Level=_enumeration("Level", "TRACE", "DEBUG", "INFO", "WARN", "ERROR"), write=_write)

config = SimpleNamespace(get=lambda key: _running().config_get(key), get_all=lambda: _running().config_get_all())

secrets = SimpleNamespace(exists=lambda name: _running().secret_exists(name))

secrets_reveal = SimpleNamespace(
    **_variant("SecretError", NoSuchSecret=False, Denied=False, Unavailable=True, Other=True),
    reveal=lambda name: _running().secret_reveal(name),
)

kv = SimpleNamespace(
    **_variant("KvError", NoSuchStore=False, Denied=False, QuotaExceeded=False, TooLarge=False, Conflict=False,
               Unavailable=True, Other=True),
    Entry=_record("Entry", "value", "version"),
    KeyPage=_record("KeyPage", "keys", "next"),
    open=lambda name: _running().kv_open(name),
)

tools = SimpleNamespace(
    ToolSummary=_record("ToolSummary", "name", "title", "description"),
    ToolPage=_record("ToolPage", "items", "next"),
    CallRequest=_record("CallRequest", "name", "arguments", "timeout_ms"),
    list=lambda cursor, limit: _running().tools_list(cursor, limit),
    describe=lambda name: _running().tools_describe(name),
    call=lambda request: _running().tools_call(request),
    call_batch=lambda requests: _running().tools_call_batch(requests),
)

http = SimpleNamespace(
    Header=_record("Header", "name", "value"),
    Redirects=_enumeration("Redirects", "FOLLOW", "MANUAL"),
    Request=_record("Request", "method", "url", "headers", "body", "timeout_ms", "max_response_bytes", "credentials",
                    "redirects"),
    Response=_record("Response", "status", "headers", "body", "final_url"),
    HttpErrorKind=_enumeration("HttpErrorKind", "DENIED", "INVALID_REQUEST", "DNS", "CONNECT", "TLS", "TIMEOUT", "TOO_LARGE",
                               "TOO_MANY_REDIRECTS", "PROTOCOL", "UNAVAILABLE", "LIMIT_REACHED", "OTHER"),
    HttpError=_record("HttpError", "kind", "message", "request_sent"),
    send=lambda request: _running().http_send(request),
)
