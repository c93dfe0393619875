"""Settings of a guard: a dataclass, made of the JSON object in the configuration."""

from __future__ import annotations

import dataclasses
import types
import typing
from typing import Any, Literal, Union

_WORDS = {str: "a string", int: "an integer", float: "a number", bool: "true or false", type(None): "null", list: "an array", dict: "an object"}


class BadSetting(Exception):
    """A setting that does not fit, in words for the operator."""


@dataclasses.dataclass
class NoSettings:
    """The settings of a guard that has none."""


def check_type(hint: Any, place: str = "settings") -> None:
    """Fails with `TypeError` if a type is none that settings can have."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        for name, inner in typing.get_type_hints(hint).items():
            check_type(inner, f"{place}.{name}")
    elif origin in (Union, types.UnionType):
        for inner in args:
            check_type(inner, place)
    elif origin is list and len(args) == 1:
        check_type(args[0], place)
    elif origin is dict and len(args) == 2 and args[0] is str:
        check_type(args[1], place)
    elif origin is not Literal and hint is not Any and hint not in (str, int, float, bool, type(None)):
        raise TypeError(f"{place}: the type {hint!r} is none of a setting; use a dataclass, str, int, float, bool, list[…], dict[str, …] or Literal[…]")


def convert(hint: Any, value: Any, place: str = "") -> Any:
    """Converts a JSON value to a type. Fails with `BadSetting` if it does not fit."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return value
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _dataclass(hint, value, place)
    if origin in (Union, types.UnionType):
        return _union(args, value, place)
    if origin is Literal:
        if not any(value == case and type(value) is type(case) for case in args):
            raise _misfit(f"one of {', '.join(map(repr, args))}", value, place)
        return value
    if origin is list and isinstance(value, list):
        return [convert(args[0], item, f"{place}[{index}]") for index, item in enumerate(value)]
    if origin is dict and isinstance(value, dict):
        return {name: convert(args[1], item, _at(place, name)) for name, item in value.items()}
    if hint is float and type(value) is int:
        return float(value)
    # `True` is an `int` for `isinstance`.
    if type(value) is not (origin or hint):
        raise _misfit(_WORDS[origin or hint], value, place)
    return value


def _dataclass(hint: type, value: Any, place: str) -> Any:
    if not isinstance(value, dict):
        raise _misfit("an object", value, place)
    hints = typing.get_type_hints(hint)
    fields = {field.name: field for field in dataclasses.fields(hint)}
    for name in value:
        if name not in fields:
            known = f"known are {', '.join(f'`{known}`' for known in fields)}" if fields else "none is known"
            raise BadSetting(f"unknown setting `{_at(place, name)}`; {known}")
    for name, field in fields.items():
        has_default = field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
        if name not in value and not has_default:
            raise BadSetting(f"setting `{_at(place, name)}` is missing")
    return hint(**{name: convert(hints[name], item, _at(place, name)) for name, item in value.items()})


def _union(cases: tuple[Any, ...], value: Any, place: str) -> Any:
    problem = None
    for case in cases:
        try:
            return convert(case, value, place)
        except BadSetting as error:
            problem = problem or error
    raise problem or _misfit("a value of its type", value, place)


def _at(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _misfit(expected: str, value: Any, place: str) -> BadSetting:
    found = _WORDS.get(type(value), "another value")
    return BadSetting(f"{f'setting `{place}`' if place else 'the settings'} must be {expected}, not {found}")
