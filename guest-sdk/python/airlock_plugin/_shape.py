"""Types as JSON Schemas, and conversion between JSON values and these types.

A type is read once, when its tool is defined. The result is a `Shape`: the schema, and a function that converts a JSON value.
"""

from __future__ import annotations

import base64
import binascii
import collections.abc
import dataclasses
import enum
import inspect
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import _prose, _words
from ._errors import ToolError
from ._field import Field, Schema
from ._field import within as within_bounds
from ._json import plain

Convert = Callable[[Any, str], Any]


@dataclass(frozen=True)
class Shape:
    """A type as seen from JSON."""

    schema: Schema
    convert: Convert
    """Converts a JSON value; the text is its place, for messages. Fails with `invalid-input`."""


@dataclass(frozen=True)
class Member:
    """A member of an object."""

    shape: Shape
    is_required: bool


def invalid(place: str, schema: Schema, value: Any) -> ToolError:
    """Returns the failure of a value that does not fit."""
    expected = _words.expected(schema)
    subject = f"argument `{place}`" if place else "the value"
    found = _words.found(value)
    return ToolError("invalid-input", f"{subject} must be {expected}, not {found}" if expected else f"{subject} cannot be {found}")


def shape(hint: Any, within: tuple[Any, ...] = ()) -> Shape:
    """Returns the shape of a type. Raises `TypeError` if JSON has no such type."""
    if hint in within:
        raise TypeError(f"{_name(hint)} contains itself, which the schema of a tool cannot")
    hint = getattr(hint, "__supertype__", getattr(hint, "__value__", hint))  # NewType, `type X = …`
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _annotated(shape(arguments[0], within), arguments[1:])
    if origin is typing.Literal:
        return _values({value: value for value in arguments})
    if origin in (typing.Union, types.UnionType):
        return _union([shape(argument, within) for argument in arguments])
    if origin in _CONTAINERS:
        return _CONTAINERS[origin]([shape(argument, within) for argument in arguments if argument is not ...], arguments)
    if hint in _CONTAINERS:
        return _CONTAINERS[hint]([], ())
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _values({member.value: member for member in hint})
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return record(_members_of_dataclass(hint, (*within, hint)), hint, _documentation(hint))
    if typing.is_typeddict(hint):
        return record(_members_of_typed_dict(hint, (*within, hint)), dict, _documentation(hint))
    if isinstance(hint, collections.abc.Hashable) and hint in _SCALARS:
        return _SCALARS[hint]
    raise TypeError(f"{_name(hint)} has no JSON Schema; use str, int, float, bool, bytes, list, dict, Literal, Enum, a dataclass, "
                    "a TypedDict, or a union of these")


def object_schema(members: dict[str, Member]) -> Schema:
    """Returns the schema of an object with these members and no others."""
    return {
        "type": "object",
        "properties": {name: member.shape.schema for name, member in members.items()},
        "required": [name for name, member in members.items() if member.is_required],
        "additionalProperties": False,
    }


def convert_members(members: dict[str, Member], value: Any, place: str) -> dict[str, Any]:
    """Converts an object, member by member."""
    if not isinstance(value, dict):
        raise invalid(place, {"type": "object"}, value)

    def path(name: str) -> str:
        return f"{place}.{name}" if place else name

    for name in value:
        if name not in members:
            known = ", ".join(f"`{known}`" for known in members)
            hint = f"known are {known}" if known else "none is known"
            raise ToolError("invalid-input", f"unknown argument `{_words.excerpt(path(name))}`; {hint}")
    for name, member in members.items():
        if member.is_required and name not in value:
            expected = _words.expected(member.shape.schema)
            raise ToolError("invalid-input",
                            f"argument `{path(name)}` is missing" + (f"; it must be {expected}" if expected else ""))
    return {name: members[name].shape.convert(item, path(name)) for name, item in value.items()}


def record(members: dict[str, Member], make: Callable[..., Any], description: str | None = None) -> Shape:
    """Returns the shape of an object that `make` builds from its members."""
    schema = object_schema(members) | ({"description": description} if description else {})

    def convert(value: Any, place: str) -> Any:
        converted = convert_members(members, value, place)
        try:
            return make(**converted)
        except (TypeError, ValueError) as error:  # of a `__post_init__`
            raise ToolError("invalid-input", f"argument `{place}` does not fit: {error}" if place else str(error)) from error

    return Shape(schema, convert)


def with_default(given: Shape, default: Any) -> Shape:
    """Adds a default to a schema; none if it is no JSON value, or says only that there is no value."""
    if default is None:
        return given
    try:
        return Shape(given.schema | {"default": plain(default)}, given.convert)
    except TypeError:
        return given


def _annotated(given: Shape, notes: tuple[Any, ...]) -> Shape:
    schema = dict(given.schema)
    bounds: Schema = {}
    for note in notes:
        if isinstance(note, str):
            bounds["description"] = note
        elif isinstance(note, Field):
            bounds |= note.schema(schema)
        elif isinstance(note, dict):
            bounds |= note
    # The bounds of an optional value belong to the value.
    alternatives = schema.get("anyOf")
    texts = {name: value for name, value in bounds.items() if name in ("description", "title", "examples")}
    if alternatives and len(texts) < len(bounds):
        rest = {name: value for name, value in bounds.items() if name not in texts}
        bounded = [one | rest if one.get("type") != "null" else one for one in alternatives]
        schema |= texts | {"anyOf": bounded}
        checked = bounded[0]
    else:
        schema |= bounds
        checked = schema

    def convert(value: Any, place: str) -> Any:
        converted = given.convert(value, place)
        if value is not None and not within_bounds(checked, value):
            raise invalid(place, checked, value)
        return converted

    return Shape(schema, convert)


def _scalar(kind: str, admits: Callable[[Any], bool], make: Callable[[Any], Any] = lambda value: value) -> Shape:
    schema = {"type": kind}

    def convert(value: Any, place: str) -> Any:
        if not admits(value):
            raise invalid(place, schema, value)
        return make(value)

    return Shape(schema, convert)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _bytes() -> Shape:
    schema = {"type": "string", "contentEncoding": "base64"}

    def convert(value: Any, place: str) -> bytes:
        try:
            return base64.b64decode(value, validate=True)
        except (TypeError, ValueError, binascii.Error):
            raise ToolError("invalid-input", f"argument `{place}` must be base64, not {_words.found(value)}") from None

    return Shape(schema, convert)


def _values(values: dict[Any, Any]) -> Shape:
    """Returns the shape of an enumeration: its JSON values, and what they become."""
    kinds = {type(value) for value in values}
    if not kinds <= {str, int, float, bool, type(None)}:
        raise TypeError("the values of an enumeration must be strings, numbers, booleans or null")
    schema: Schema = {"enum": list(values)}
    if len(kinds) == 1:
        schema = {"type": _words.kind(next(iter(values))), **schema}

    def convert(value: Any, place: str) -> Any:
        # 1 is not true, in JSON.
        if not any(value == known and isinstance(value, bool) == isinstance(known, bool) for known in _scalars(value, values)):
            raise invalid(place, schema, value)
        return values[value]

    return Shape(schema, convert)


def _scalars(value: Any, values: dict[Any, Any]) -> list[Any]:
    return list(values) if isinstance(value, collections.abc.Hashable) else []


def _union(alternatives: list[Shape]) -> Shape:
    schema: Schema = {"anyOf": [alternative.schema for alternative in alternatives]}
    others = [alternative for alternative in alternatives if alternative.schema != {"type": "null"}]

    def convert(value: Any, place: str) -> Any:
        if value is None and len(others) < len(alternatives):
            return None
        if len(others) == 1:
            return others[0].convert(value, place)
        for alternative in others:
            try:
                return alternative.convert(value, place)
            except ToolError:
                pass
        raise invalid(place, schema, value)

    return Shape(schema, convert)


def _array(make: Callable[[list[Any]], Any], more: Schema | None = None) -> Callable[[list[Shape], tuple[Any, ...]], Shape]:
    def build(items: list[Shape], arguments: tuple[Any, ...]) -> Shape:
        is_fixed = make is tuple and bool(items) and ... not in arguments
        one = items[0] if items else _SCALARS[Any]
        if is_fixed:
            schema: Schema = {"type": "array", "prefixItems": [item.schema for item in items], "items": False,
                              "minItems": len(items), "maxItems": len(items)}
        else:
            schema = {"type": "array", "items": one.schema, **(more or {})}

        def convert(value: Any, place: str) -> Any:
            if not isinstance(value, list) or (is_fixed and len(value) != len(items)):
                raise invalid(place, schema, value)
            shapes = items if is_fixed else [one] * len(value)
            return make([each.convert(item, f"{place}[{index}]") for index, (each, item) in enumerate(zip(shapes, value))])

        return Shape(schema, convert)

    return build


def _mapping(items: list[Shape], arguments: tuple[Any, ...]) -> Shape:
    if arguments and arguments[0] is not str:
        raise TypeError("the keys of an object are strings: use dict[str, …]")
    one = items[1] if items else _SCALARS[Any]
    schema: Schema = {"type": "object", "additionalProperties": one.schema or True}

    def convert(value: Any, place: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise invalid(place, schema, value)
        return {name: one.convert(item, f"{place}.{name}" if place else name) for name, item in value.items()}

    return Shape(schema, convert)


def _members_of_dataclass(hint: type, within: tuple[Any, ...]) -> dict[str, Member]:
    hints = typing.get_type_hints(hint, include_extras=True)
    described = _prose.parameters(hint.__doc__ or "")
    members = {}
    for field in dataclasses.fields(hint):
        if not field.init:
            continue
        given = describe(shape(hints[field.name], within), described.get(field.name))
        has_default = field.default is not dataclasses.MISSING
        if has_default:
            given = with_default(given, field.default)
        members[field.name] = Member(given, not has_default and field.default_factory is dataclasses.MISSING)
    return members


def _members_of_typed_dict(hint: Any, within: tuple[Any, ...]) -> dict[str, Member]:
    described = _prose.parameters(hint.__doc__ or "")
    return {
        name: Member(describe(shape(_unwrapped(one), within), described.get(name)), name in hint.__required_keys__)
        for name, one in typing.get_type_hints(hint, include_extras=True).items()
    }


def _unwrapped(hint: Any) -> Any:
    """Returns the type within `Required` and `NotRequired`, which Python 3.10 does not know."""
    is_wrapped = getattr(typing.get_origin(hint), "_name", None) in ("Required", "NotRequired", "ReadOnly")
    return typing.get_args(hint)[0] if is_wrapped else hint


def describe(given: Shape, description: str | None) -> Shape:
    """Adds a description, unless the type has one of its own."""
    if not description or "description" in given.schema:
        return given
    return Shape(given.schema | {"description": description}, given.convert)


def _documentation(hint: type) -> str | None:
    """Returns the description of a class; none if its docstring was generated or inherited."""
    documentation = hint.__dict__.get("__doc__") or ""
    is_generated = documentation.startswith(f"{hint.__name__}(")
    return None if is_generated else _prose.description(inspect.cleandoc(documentation)) or None


def _name(hint: Any) -> str:
    return getattr(hint, "__qualname__", None) or repr(hint)


_SCALARS: dict[Any, Shape] = {
    Any: Shape({}, lambda value, place: value),
    object: Shape({}, lambda value, place: value),
    str: _scalar("string", lambda value: isinstance(value, str)),
    bool: _scalar("boolean", lambda value: isinstance(value, bool)),
    int: _scalar("integer", lambda value: _is_number(value) and value == value // 1, int),
    float: _scalar("number", _is_number, float),
    None: _scalar("null", lambda value: value is None),
    type(None): _scalar("null", lambda value: value is None),
    bytes: _bytes(),
}
_CONTAINERS: dict[Any, Callable[[list[Shape], tuple[Any, ...]], Shape]] = {
    list: _array(list),
    collections.abc.Sequence: _array(list),
    tuple: _array(tuple),
    set: _array(set, {"uniqueItems": True}),
    frozenset: _array(frozenset, {"uniqueItems": True}),
    dict: _mapping,
    collections.abc.Mapping: _mapping,
}
