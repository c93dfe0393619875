"""HTTP requests to the servers that the operator grants.

    response = http.get("https://api.example.com/v1/forecast", query={"city": "Oslo"}, credentials=["token"]).ok()
    return response.json()

There are no sockets, so `urllib` and `requests` do not work. A request that is not granted fails with `denied`.
"""

from __future__ import annotations

import json as _json
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ._errors import HostError, Kind, ToolError
from ._host import error_type, interface
from ._json import plain
from ._wire import case

_host = interface("http", "[request.http.NAME]")
_Err = error_type()
_EXCERPT = 200
_KINDS: dict[str, Kind] = {"denied": "denied", "invalid-request": "invalid-input", "timeout": "timeout", "too-large": "too-large",
                           "limit-reached": "limit-reached", "other": "other"}
_STATUS: dict[int, Kind] = {401: "auth-required", 403: "denied", 404: "not-found", 408: "timeout", 409: "conflict",
                            410: "not-found", 429: "rate-limited", 504: "timeout"}


class HttpError(HostError):
    """A request without a response; `kind` is one of the contract's: `denied`, `invalid-request`, `dns`, `connect`, `tls`,
    `timeout`, `too-large`, `too-many-redirects`, `protocol`, `unavailable`, `limit-reached`, `other`."""

    def __init__(self, kind: str, message: str, request_sent: bool) -> None:
        super().__init__(kind, message)
        self.request_sent = request_sent
        """True if the request may have reached the server."""

    def tool_error(self) -> ToolError:
        """Returns the failure of a tool that cannot go on."""
        return ToolError(_KINDS.get(self.kind, "unavailable"), self.message, code="http_" + self.kind.replace("-", "_"),
                         details={"request_sent": self.request_sent})


@dataclass(frozen=True)
class Response:
    """A response, whatever its status."""

    status: int
    headers: list[tuple[str, bytes]]
    """Headers as the server sent them."""
    body: bytes
    final_url: str
    """URL of the response, after redirects."""

    def header(self, name: str) -> str | None:
        """Returns the first header of that name, in any case; none if it is absent."""
        found = (value for known, value in self.headers if known.lower() == name.lower())
        return next((value.decode("latin-1") for value in found), None)

    def text(self) -> str:
        """Returns the body as text; bytes that are not UTF-8 are replaced."""
        return self.body.decode(errors="replace")

    def json(self) -> Any:
        """Parses the body as JSON. Fails with `unavailable` if it is none."""
        try:
            return _json.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise ToolError("unavailable", f"the server's response is not JSON: {error}") from None

    def ok(self) -> Response:
        """Returns the response if its status is a success. Fails with the kind that fits the status otherwise."""
        if 200 <= self.status < 300:
            return self
        kind = _STATUS.get(self.status, "invalid-input" if 400 <= self.status < 500 else "unavailable")
        excerpt = "".join(c for c in self.text()[:_EXCERPT] if c.isprintable())
        after = (self.header("retry-after") or "").strip()
        raise ToolError(kind, f"the server responded with {self.status}: {excerpt}", code=f"http_{self.status}",
                        retry_after_ms=int(after) * 1000 if after.isdecimal() and len(after) < 9 else None)


def request(method: str, url: str, *, query: Mapping[str, Any] | None = None,
            headers: Mapping[str, str | bytes] | Sequence[tuple[str, str | bytes]] = (), body: bytes | str | None = None,
            json: Any = None, credentials: Sequence[str] = (), timeout_ms: int | None = None,
            max_response_bytes: int | None = None, redirects: Literal["follow", "manual"] = "follow") -> Response:
    """Sends a request and waits for the whole response.

    Args:
        method: The method, such as `GET`.
        url: An absolute URL, without user and password.
        query: Parameters to add to the URL.
        headers: Headers to send.
        body: The body; a string is sent as UTF-8.
        json: The body as a JSON value, with its content type.
        credentials: Names of secrets of the plugin, which the host adds to the request.
        timeout_ms: Time for the whole exchange, in milliseconds.
        max_response_bytes: Most bytes of the response's body.
        redirects: `manual` returns a redirect as it is.
    """
    fields = list(headers.items() if isinstance(headers, Mapping) else headers)
    if json is not None:
        if body is not None:
            raise TypeError("a request has `body` or `json`, not both")
        body = _json.dumps(plain(json), ensure_ascii=False, allow_nan=False)
        if not any(name.lower() == "content-type" for name, _ in fields):
            fields.append(("content-type", "application/json"))
    sent = _host.Request(
        method.upper(), _with_query(url, query), [_host.Header(name, _bytes(value)) for name, value in fields],
        None if body is None else _bytes(body), timeout_ms, max_response_bytes, list(credentials),
        _host.Redirects[redirects.upper()])
    try:
        found = _host.send(sent)
    except _Err as error:
        raise HttpError(case(error.value.kind), error.value.message, error.value.request_sent) from None
    return Response(found.status, [(header.name, bytes(header.value)) for header in found.headers], bytes(found.body),
                    found.final_url)


def get(url: str, **options: Any) -> Response:
    """Sends a GET request, see `request`."""
    return request("GET", url, **options)


def post(url: str, **options: Any) -> Response:
    """Sends a POST request, see `request`."""
    return request("POST", url, **options)


def _with_query(url: str, query: Mapping[str, Any] | None) -> str:
    if not query:
        return url
    url, mark, fragment = url.partition("#")
    added = urllib.parse.urlencode(query, doseq=True, quote_via=urllib.parse.quote)
    return url + ("&" if "?" in url else "?") + added + mark + fragment


def _bytes(value: bytes | str) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)
