"""Python values that are not JSON: what they become when a script receives them.

The native module converts `None`, `bool`, `int`, `float`, `str`, `list`, `tuple` and `dict` itself, and asks here about everything
else.
"""

from __future__ import annotations

import base64
import collections.abc
import dataclasses
import datetime
import decimal
import enum
import inspect
import sys
import uuid
from collections.abc import Callable
from typing import Any


def encode(value: Any) -> Any:
    """Returns a value that the native module can convert; only the outermost level is done. Raises `TypeError` if there is none."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (decimal.Decimal, uuid.UUID)):
        return str(value)
    if isinstance(value, (set, frozenset)):
        return _in_order(value)
    pydantic: Any = sys.modules.get("pydantic")
    if pydantic is not None and isinstance(value, pydantic.BaseModel):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    for base, convert in _BASES:
        if isinstance(value, base):
            return convert(value)
    # The integers of numpy.
    index: Any = getattr(type(value), "__index__", None)
    if index is not None:
        return index(value)
    raise TypeError(f"a value of type {type(value).__name__} has no JSON form{_remedy(value)}")


# Types that others extend: `numpy.float64` is a `float`, and an `OrderedDict` a `dict`. Not by their constructors, which ask the
# extending type.
_BASES: list[tuple[Any, Callable[[Any], Any]]] = [
    (str, str.__str__),
    (int, int.__int__),
    (float, float.__float__),
    ((list, tuple, collections.deque, range), list),
    (collections.abc.Mapping, dict),
]


def _remedy(value: Any) -> str:
    if inspect.iscoroutine(value):
        # Else Python warns that it was never awaited.
        value.close()
        return "; declare the function with `async def`, so that its result is awaited"
    if isinstance(value, collections.abc.Iterable):
        return "; make a list of it"
    return "; return None, bool, int, float, str, a list, a dict, a dataclass or a pydantic model"


def _in_order(values: Any) -> list[Any]:
    """Orders a set: that of the hashes differs from process to process, and a run must be the same when it is resumed."""
    if all(isinstance(value, str) for value in values) or all(isinstance(value, (int, float)) for value in values):
        return sorted(values)
    return sorted(values, key=lambda value: (type(value).__name__, repr(value)))
