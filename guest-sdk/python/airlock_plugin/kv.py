"""Stores of keys and values that outlive a call.

    visits = kv.open("visits").update_json(page, lambda count: (count or 0) + 1)

Calls run concurrently, so an entry may change between its read and its write: `update` and `update_json` try again then.
A key has 1 to 512 bytes, a value at most 1 MiB.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from ._errors import HostError, Kind, ToolError
from ._host import error_type, interface
from ._json import plain
from ._wire import case

_host = interface("kv", "[request.kv.NAME]")
_Err = error_type()
_PAGE = 1000
_TRIES = 16
_KINDS: dict[str, tuple[Kind, str]] = {
    "no-such-store": ("internal", "this plugin does not request a store of this name"),
    "denied": ("denied", "this tool may not do that with the store: the operator has not granted it, or plugin.toml does not declare "
               "`read_kv`, or `write_kv` to write, for the tool"),
    "quota-exceeded": ("too-large", "the store is full; delete something first"),
    "too-large": ("too-large", "a key has 1 to 512 bytes, a value at most 1 MiB, and an entry is not larger than the store's quota; "
                  "one read has at most 1,000 keys, and values of limited size"),
    "conflict": ("conflict", "the entry was changed meanwhile; read it again"),
    "unavailable": ("unavailable", "the store cannot be used now"),
    "other": ("other", "the store failed"),
}


class KvError(HostError):
    """A failure of a store; `kind` is one of the contract's: `no-such-store`, `denied`, `quota-exceeded`, `too-large`,
    `conflict`, `unavailable`, `other`.

    `quota-exceeded` means that the store would exceed the granted quota; deleting other entries helps. `too-large` is about one key,
    one entry or one reading: a key has 1 to 512 bytes, a value at most 1 MiB, and an entry is not larger than the quota; `get_many`
    reads at most 1,000 keys and, by default, 8 MiB.
    """

    def tool_error(self) -> ToolError:
        """Returns the failure of a tool that cannot go on."""
        return ToolError(_KINDS[self.kind][0], self.message, code="kv_" + self.kind.replace("-", "_"))


@dataclass(frozen=True)
class Entry:
    """A stored value with its version."""

    value: bytes
    version: int
    """Grows with every change of the entry; never 0, and never used again after a deletion."""

    def text(self) -> str:
        """Returns the value as text."""
        return self.value.decode()

    def json(self) -> Any:
        """Parses the value as JSON."""
        return json.loads(self.value)


class Store:
    """An open store."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def get(self, key: str) -> Entry | None:
        """Returns an entry; none if it is absent or has expired."""
        return _entry(_call(self._handle.get, key))

    def get_many(self, keys: Sequence[str]) -> list[Entry | None]:
        """Returns the entries of the keys, in the order of the keys, as of one moment.

        Fails with `too-large` if there are more than 1,000 keys, or if the values together have more bytes than one host call may
        return (8 MiB by default).
        """
        return [_entry(found) for found in _call(self._handle.get_many, list(keys))]

    def set(self, key: str, value: bytes | str, *, if_version: int | None = None, ttl_ms: int | None = None) -> int:
        """Writes an entry and returns its new version.

        Args:
            key: The key.
            value: The value; a string is stored as UTF-8.
            if_version: Writes only if the entry has this version; 0 means that there must be no entry. Fails with `conflict`
                otherwise.
            ttl_ms: The entry expires after that many milliseconds.
        """
        data = value.encode() if isinstance(value, str) else bytes(value)
        version: int = _call(self._handle.set, key, data, if_version, ttl_ms)
        return version

    def set_json(self, key: str, value: Any, *, if_version: int | None = None, ttl_ms: int | None = None) -> int:
        """Writes a value as JSON, see `set`."""
        return self.set(key, _to_json(value), if_version=if_version, ttl_ms=ttl_ms)

    def delete(self, key: str, *, if_version: int | None = None) -> bool:
        """Deletes an entry. Returns true if there was one. `if_version` is as for `set`."""
        found: bool = _call(self._handle.delete, key, if_version)
        return found

    def keys(self, prefix: str = "") -> Iterator[str]:
        """Iterates over the keys that begin with `prefix`, in the order of their bytes.

        Makes one host call for each page of at most 1,000 keys. A page before the last may be short or empty: only the cursor ends
        the list.
        """
        cursor = None
        while True:
            page = _call(self._handle.keys, prefix, cursor, _PAGE)
            yield from page.keys
            cursor = page.next
            if cursor is None:
                return

    def update(self, key: str, change: Callable[[Entry | None], bytes | str], *, ttl_ms: int | None = None) -> int:
        """Replaces an entry by the result of `change`, and returns the new version.

        If another call writes in between, `change` runs again on the new entry; after 16 attempts it fails with `conflict`.
        """
        for _ in range(_TRIES):
            entry = self.get(key)
            value = change(entry)
            try:
                return self.set(key, value, if_version=entry.version if entry else 0, ttl_ms=ttl_ms)
            except KvError as error:
                if error.kind != "conflict":
                    raise
        raise KvError("conflict", _KINDS["conflict"][1])

    def update_json(self, key: str, change: Callable[[Any], Any], *, ttl_ms: int | None = None) -> Any:
        """Replaces a JSON value by the result of `change`, as `update` does, and returns the new value."""
        written: Any = None

        def next_value(entry: Entry | None) -> bytes:
            nonlocal written
            written = change(entry.json() if entry else None)
            return _to_json(written)

        self.update(key, next_value, ttl_ms=ttl_ms)
        return written


def open(name: str) -> Store:
    """Opens the store that the plugin requests by this name."""
    return Store(_call(_host.open, name))


def _to_json(value: Any) -> bytes:
    return json.dumps(plain(value), ensure_ascii=False).encode()


def _entry(found: Any) -> Entry | None:
    return None if found is None else Entry(bytes(found.value), found.version)


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except _Err as error:
        _fail(error.value)


def _fail(failure: Any) -> NoReturn:
    kind, detail = case(failure), getattr(failure, "value", "")
    message = _KINDS[kind][1]
    raise KvError(kind, f"{message}: {detail}" if detail else message) from None
