"""Values as JSON."""

from __future__ import annotations

import base64
import collections.abc
import dataclasses
import enum
import json
from typing import Any


class Absent(enum.Enum):
    """The type of `ABSENT`."""

    ABSENT = "absent"

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = Absent.ABSENT
"""No value, where `None` is the JSON value `null`. It is false."""


def to_json(value: Any) -> str | None:
    """Returns the JSON text of an object; none for none."""
    return None if value is None else _dumped(value)


def json_text(name: str, value: Any) -> str | None:
    """Returns the JSON text of a value; none for `ABSENT`. Fails with a `TypeError` that names the value."""
    if value is ABSENT:
        return None
    try:
        return _dumped(value)
    except Exception as error:
        raise TypeError(f"{name} must be a JSON value: {error}") from None


def object_text(name: str, value: Any) -> str | None:
    """Returns the JSON text of a dict; none for none. Fails with a `TypeError` that names the value."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise TypeError(f"{name} must be a dict, not {type(value).__name__}")
    return json_text(name, value)


def _dumped(value: Any) -> str:
    return unicode(json.dumps(plain(value), ensure_ascii=False, allow_nan=False))


def unicode(text: str) -> str:
    """Replaces what is no character by `?`: half of a surrogate pair cannot be sent."""
    return text.encode(errors="replace").decode()


def plain(value: Any) -> Any:
    """Converts a value to JSON: the reverse of a shape."""
    if value is None or isinstance(value, (bool, int, float, str)) and not isinstance(value, enum.Enum):
        return value
    if value is ABSENT:
        raise TypeError("ABSENT is no JSON value")
    if isinstance(value, enum.Enum):
        return plain(value.value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {member.name: plain(getattr(value, member.name)) for member in dataclasses.fields(value)}
    if isinstance(value, collections.abc.Mapping):
        return {_key(name): plain(item) for name, item in value.items()}
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted((plain(item) for item in value), key=repr)
    raise TypeError(f"{type(value).__name__} is no JSON value")


def _key(name: Any) -> str:
    if isinstance(name, enum.Enum):
        name = name.value
    if not isinstance(name, str):
        raise TypeError(f"the key {name!r} of an object is no string")
    return name
