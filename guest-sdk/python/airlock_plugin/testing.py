"""Runs tools without a gateway.

    host = Host(config={"rows": 3}, stores=["visits"], secrets={"token": "x"}, http=lambda request: Reply(200, b"{}"))
    output = host.call(Tools, "get_weather", {"city": "Oslo"})
    assert output.structured_content["sky"] == "snow"
    assert host.logs[0].message == "weather asked for"

Refuses everything that is not declared, as the gateway does. What is declared must be requested: by the `plugin.toml` in the working
directory, where there is one (needs Python 3.11). A failure of the tool raises `ToolError`. Values cross the same
conversions as in a component.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from . import _native as native
from ._content import Content, Output
from ._errors import ToolError
from ._json import to_json
from ._tool import output
from ._wire import case, content_from_host, error_from_host, error_to_host, output_from_host, output_to_host

_KEY_MAX = 512
_VALUE_MAX = 1 << 20
_KEYS_MAX = 1_000
_READ_MAX = 8 << 20
"""Most bytes of the values of one reading: those that the host copies at once by default."""
_ENTRY_BYTES = 64
"""Bytes that an entry counts besides its key and its value."""


@dataclass(frozen=True)
class Line:
    """A line of the log."""

    level: str
    message: str
    fields: dict[str, str]


@dataclass(frozen=True)
class Request:
    """A request that a tool sent."""

    method: str
    url: str
    headers: list[tuple[str, bytes]]
    body: bytes | None
    timeout_ms: int | None
    max_response_bytes: int | None
    credentials: list[str]
    redirects: str


@dataclass(frozen=True)
class Reply:
    """The response to a request."""

    status: int = 200
    body: bytes | str = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Refusal(Exception):
    """The failure of a request: raised by the function `http` of a host."""

    kind: str
    message: str = "the request failed"
    request_sent: bool = False


class Host:
    """A host in memory. After a call, `logs`, `progress`, `parts` and `requests` hold what the tools sent."""

    def __init__(self, *, config: Mapping[str, Any] | None = None,
                 stores: Iterable[str] | Mapping[str, int] = (),
                 secrets: Mapping[str, str | bytes] | None = None, http: Callable[[Request], Reply] | None = None,
                 tools: Mapping[str, Callable[[dict[str, Any]], Any]] | None = None, remaining_ms: int | None = None,
                 manifest: str | None = ".") -> None:
        """Creates a host.

        Args:
            config: The configuration.
            stores: Names of the granted stores, or their quotas in bytes by name. An entry counts with its key, its value and 64
                bytes.
            secrets: The granted secrets.
            http: Responds to a request; it may raise `Refusal`.
            tools: Other tools by name. They return what a tool returns, and may raise `ToolError`; with a code such as
                `airlock.deadline`, it is an error of the host.
            remaining_ms: Time left of the call.
            manifest: Directory of the `plugin.toml` that must request what is declared here; none for no comparison.
        """
        self.logs: list[Line] = []
        self.progress: list[tuple[float, float | None, str | None]] = []
        self.parts: list[Content] = []
        self.requests: list[Request] = []
        self._config = dict(config or {})
        quotas = stores if isinstance(stores, Mapping) else dict.fromkeys(stores)
        self._stores = {name: _Store(quota) for name, quota in quotas.items()}
        self._secrets = {name: value.encode() if isinstance(value, str) else value for name, value in (secrets or {}).items()}
        self._http = http
        self._tools = dict(tools or {})
        self._remaining_ms = remaining_ms
        self._urls: list[str] | None = None
        document = None if manifest is None else _manifest(Path(manifest))
        if document is not None:
            self._compare(document)

    def _compare(self, document: dict[str, Any]) -> None:
        """Fails if a test declares what `plugin.toml` does not request: the gateway would refuse it."""
        requested: dict[str, Any] = document.get("request", {})
        called = requested.get("tools", {}).get("call", [])
        for kind, what, declared in ("kv", "store", self._stores), ("secret", "secret", self._secrets):
            for name in declared:
                if name not in requested.get(kind, {}):
                    raise _unrequested(f"the {what} {name}", f"request.{kind}.{name}")
        for name in self._tools:
            if name not in requested.get("slot", {}) and name not in called:
                raise _unrequested(f"the tool {name}", "request.tools" if "-" in name else f"request.slot.{name}")
        if self._config and "config" not in document:
            raise _unrequested("a configuration", "config")
        if self._http is not None and not requested.get("http"):
            raise _unrequested("HTTP", "request.http.NAME")
        self._urls = [http.get("url", "*") for http in requested.get("http", {}).values()]

    def _may_reach(self, url: str) -> bool:
        """Returns whether a URL has the scheme and the host of a request."""
        sent = urlsplit(url)

        def fits(requested: str) -> bool:
            own = urlsplit(requested)
            is_below = own.netloc.startswith("*.") and sent.netloc.endswith(own.netloc[1:])
            return requested == "*" or own.scheme == sent.scheme and (own.netloc == sent.netloc or is_below)

        return self._urls is None or any(fits(requested) for requested in self._urls)

    def call(self, plugin: type, name: str, arguments: Mapping[str, Any] | None = None) -> Output[Any]:
        """Calls a tool of a plugin: the class `Tools` of its `app.py`.

        The content of the result, or of the error, begins with the parts that the tool sent before it.
        """
        running = _Call(self)
        before = native.RUNNING.set(self)
        try:
            result = output_from_host(plugin().invoke(name, json.dumps(dict(arguments or {})), running))
            result.content = [*running.sent, *result.content]
            return result
        except native.Err as failure:
            error = error_from_host(failure.value)
            error.content = [*running.sent, *error.content]
            raise error from None
        finally:
            native.RUNNING.reset(before)

    def run(self, function: Callable[[], Any]) -> Any:
        """Runs any function that uses the host."""
        before = native.RUNNING.set(self)
        try:
            return function()
        finally:
            native.RUNNING.reset(before)

    # The interfaces of the host, as `_native` forwards them.

    def write(self, level: Any, message: str, fields: list[tuple[str, str]]) -> None:
        self.logs.append(Line(case(level), message, dict(fields)))

    def config_get(self, key: str) -> str | None:
        return json.dumps(self._config[key]) if key in self._config else None

    def config_get_all(self) -> str:
        return json.dumps(self._config)

    def secret_exists(self, name: str) -> bool:
        return name in self._secrets

    def secret_reveal(self, name: str) -> bytes:
        if name not in self._secrets:
            raise native.Err(native.secrets_reveal.SecretError_Denied())
        return self._secrets[name]

    def kv_open(self, name: str) -> _Store:
        if name not in self._stores:
            raise native.Err(native.kv.KvError_NoSuchStore())
        return self._stores[name]

    def http_send(self, request: Any) -> Any:
        sent = Request(request.method, request.url, [(header.name, header.value) for header in request.headers], request.body,
                       request.timeout_ms, request.max_response_bytes, request.credentials, case(request.redirects))
        self.requests.append(sent)
        try:
            if self._http is None:
                raise Refusal("denied", "this request is not granted")
            if not self._may_reach(sent.url):
                raise Refusal("denied", f"plugin.toml has no [request.http.NAME] for {sent.url}")
            reply = self._http(sent)
        except Refusal as error:
            kind = native.http.HttpErrorKind[error.kind.upper().replace("-", "_")]
            raise native.Err(native.http.HttpError(kind, error.message, error.request_sent)) from None
        body = reply.body.encode() if isinstance(reply.body, str) else reply.body
        headers = [native.http.Header(name, value.encode()) for name, value in reply.headers.items()]
        return native.http.Response(reply.status, headers, body, sent.url)

    def tools_list(self, cursor: str | None, limit: int) -> Any:
        # First the slots, whose names have no `-`.
        every = sorted(self._tools, key=lambda name: ("-" in name, name))
        names = every[0 if cursor is None else every.index(cursor) + 1:]
        items = [native.tools.ToolSummary(name, None, "") for name in names[:limit]]
        return native.tools.ToolPage(items, items[-1].name if len(names) > limit else None)

    def tools_describe(self, name: str) -> Any:
        self._other(name)
        annotations = native.types.ToolAnnotations(None, None, None, None, None)
        return native.types.ToolDescriptor(name, None, "", to_json({"type": "object"}), None, annotations, None, None)

    def tools_call(self, request: Any) -> Any:
        try:
            return output_to_host(output(self._other(request.name)(json.loads(request.arguments))))
        except ToolError as error:
            raise native.Err(error_to_host(error)) from None

    def tools_call_batch(self, requests: list[Any]) -> list[Any]:
        results: list[Any] = []
        for request in requests:
            try:
                results.append(native.Ok(self.tools_call(request)))
            except native.Err as error:
                results.append(error)
        return results

    def _other(self, name: str) -> Callable[[dict[str, Any]], Any]:
        if name not in self._tools:
            raise native.Err(error_to_host(ToolError("not-found", f"there is no tool {name}", code="airlock.not_found")))
        return self._tools[name]


def _manifest(directory: Path) -> dict[str, Any] | None:
    """Reads the `plugin.toml` of a directory; none if there is none, or if this Python cannot read TOML."""
    try:
        import tomllib
    except ModuleNotFoundError:
        return None
    try:
        return tomllib.loads((directory / "plugin.toml").read_text())
    except FileNotFoundError:
        return None


def _unrequested(what: str, table: str) -> ValueError:
    return ValueError(f"the test's host has {what}, which plugin.toml does not request; write [{table}], or remove it from the test")


class _Call:
    """The handle of a running call."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.sent: list[Content] = []

    def id(self) -> str:
        return "test"

    def remaining_ms(self) -> int | None:
        return self._host._remaining_ms

    def progress(self, done: float, total: float | None, message: str | None) -> None:
        self._host.progress.append((done, total, message))

    def emit(self, part: Any) -> None:
        self.sent.append(content_from_host(part))
        self._host.parts.append(self.sent[-1])


class _Store:
    """A store in memory. Its time stands still."""

    def __init__(self, quota: int | None) -> None:
        self._quota = quota
        self._entries: dict[str, Any] = {}
        self._last = 0

    def get(self, key: str) -> Any:
        self._check(key)
        return self._entries.get(key)

    def get_many(self, keys: list[str]) -> list[Any]:
        if len(keys) > _KEYS_MAX:
            raise native.Err(native.kv.KvError_TooLarge())
        entries = [self.get(key) for key in keys]
        if sum(len(entry.value) for entry in entries if entry is not None) > _READ_MAX:
            raise native.Err(native.kv.KvError_TooLarge())
        return entries

    def set(self, key: str, value: bytes, if_version: int | None, ttl_ms: int | None) -> int:
        self._check(key, value)
        self._expect(key, if_version)
        self._fit(key, value)
        self._last += 1
        self._entries[key] = native.kv.Entry(value, self._last)
        if ttl_ms == 0:
            del self._entries[key]
        return self._last

    def delete(self, key: str, if_version: int | None) -> bool:
        self._check(key)
        self._expect(key, if_version)
        return self._entries.pop(key, None) is not None

    def keys(self, prefix: str, cursor: str | None, limit: int) -> Any:
        keys = sorted(key for key in self._entries if key.startswith(prefix) and (cursor is None or key > cursor))
        return native.kv.KeyPage(keys[:limit], keys[limit - 1] if len(keys) > limit else None)

    def _fit(self, key: str, value: bytes) -> None:
        if self._quota is None:
            return
        if _size(key, value) > self._quota:
            raise native.Err(native.kv.KvError_TooLarge())
        others = sum(_size(other, entry.value) for other, entry in self._entries.items() if other != key)
        if others + _size(key, value) > self._quota:
            raise native.Err(native.kv.KvError_QuotaExceeded())

    def _expect(self, key: str, version: int | None) -> None:
        found = self._entries.get(key)
        if version is not None and version != (found.version if found else 0):
            raise native.Err(native.kv.KvError_Conflict())

    def _check(self, key: str, value: bytes = b"") -> None:
        if not 1 <= len(key.encode()) <= _KEY_MAX or len(value) > _VALUE_MAX:
            raise native.Err(native.kv.KvError_TooLarge())


def _size(key: str, value: bytes) -> int:
    return len(key.encode()) + len(value) + _ENTRY_BYTES
