"""Values as JSON."""

from __future__ import annotations

import base64
import collections.abc
import dataclasses
import enum
from typing import Any


def plain(value: Any) -> Any:
    """Converts a value to JSON: the reverse of a shape."""
    if value is None or isinstance(value, (bool, int, float, str)) and not isinstance(value, enum.Enum):
        return value
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
