"""Python values that are not JSON: what they become when a script receives them.

The native module converts `None`, `bool`, `int`, `float`, `str`, `list`, `tuple` and `dict` itself, and asks here about everything
else. It gets iterators, whose items it charges one by one: classes of the program may have items without end.
"""

from __future__ import annotations

import base64
import collections.abc
import dataclasses
import datetime
import decimal
import enum
import inspect
import os
import sys
import uuid
from collections.abc import Callable
from typing import Any

from ._airlock import MAX_VALUE_BYTES

VALUE = 0
"""Form of what `encode` returns: a value in place of the one that was asked about."""
ITEMS = 1
"""An iterator of items."""
MEMBERS = 2
"""An iterator of names and values."""
UNORDERED = 3
"""An iterator of items that the native module puts in the order of their JSON."""

Encoded = tuple[int, Any]


def encode(value: Any) -> Encoded:
    """Returns the form of a value and what the native module converts instead of it; only the outermost level is done. Raises
    `TypeError` if there is none."""
    if isinstance(value, enum.Enum):
        return VALUE, value.value
    if isinstance(value, (bytes, bytearray, memoryview)):
        if (value.nbytes if isinstance(value, memoryview) else len(value)) > MAX_VALUE_BYTES:
            raise ValueError(f"the value takes more than {MAX_VALUE_BYTES >> 20} MiB")
        return VALUE, base64.b64encode(value).decode("ascii")
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return VALUE, value.isoformat()
    if isinstance(value, (decimal.Decimal, uuid.UUID)):
        return VALUE, str(value)
    if isinstance(value, (set, frozenset)):
        return _in_order(value)
    pydantic: Any = sys.modules.get("pydantic")
    if pydantic is not None and isinstance(value, pydantic.BaseModel):
        return VALUE, value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return MEMBERS, ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
    for base, form, convert in _BASES:
        if isinstance(value, base):
            return form, convert(value)
    # The integers of numpy.
    index: Any = getattr(type(value), "__index__", None)
    if index is not None:
        return VALUE, index(value)
    raise TypeError(f"a value of type {type(value).__name__} has no JSON form{_remedy(value)}")


# Types that others extend: `numpy.float64` is a `float`, and an `OrderedDict` a `dict`. Not by their constructors, which ask the
# extending type.
_BASES: list[tuple[Any, int, Callable[[Any], Any]]] = [
    (str, VALUE, str.__str__),
    (int, VALUE, int.__int__),
    (float, VALUE, float.__float__),
    ((list, tuple, collections.deque, range), ITEMS, iter),
    (collections.abc.Mapping, MEMBERS, lambda mapping: ((key, mapping[key]) for key in mapping.keys())),
]


def _remedy(value: Any) -> str:
    if inspect.iscoroutine(value):
        # Else Python warns that it was never awaited.
        value.close()
        return "; declare the function with `async def`, so that its result is awaited"
    if isinstance(value, collections.abc.Iterable):
        return "; make a list of it"
    if isinstance(value, os.PathLike):
        return "; pass the path as a text, with os.fspath"
    return "; use None, bool, int, float, str, a list, a dict, a dataclass or a pydantic model"


def _in_order(values: Any) -> Encoded:
    """Orders a set: that of the hashes differs from process to process, and a run must be the same when it is resumed."""
    # Not by a method of a class that extends it.
    items = list(set.__iter__(values) if isinstance(values, set) else frozenset.__iter__(values))
    if all(isinstance(item, str) for item in items) or all(isinstance(item, (int, float)) for item in items):
        return ITEMS, iter(sorted(items))
    # Not by `repr`, whose texts nothing bounds.
    return UNORDERED, iter(items)
