"""Types as JSON Schemas, and the conversion of JSON values to these types.

A type is read once, when its tool is prepared. The sandbox checks arguments against the schema before a conversion sees them, so a
conversion changes the form of a value and does not explain what is wrong with it.
"""

from __future__ import annotations

import base64
import collections.abc
import dataclasses
import datetime
import decimal
import enum
import sys
import types
import typing
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import _prose

Schema = dict[str, Any]
Convert = Callable[[Any], Any]
Admits = Callable[[Any], bool]


@dataclass(frozen=True)
class Shape:
    """A type as seen from JSON."""

    schema: Schema
    convert: Convert | None
    """Converts a JSON value that fits the schema; `None` if the value is the result."""
    admits: Admits
    """Whether a JSON value may be of this type, by its outermost level: chooses the alternative of a union."""


@dataclass(frozen=True)
class Member:
    """A member of an object."""

    shape: Shape
    is_required: bool


class Types:
    """The types of one tool. Those that contain themselves become definitions."""

    def __init__(self) -> None:
        self.definitions: Schema = {}
        self._open: dict[Any, str] = {}
        self._done: dict[Any, Shape] = {}
        self._recursive: set[Any] = set()

    def shape(self, hint: Any) -> Shape:
        """Returns the shape of a type. Raises `TypeError` if JSON has no such type."""
        while (plain := getattr(hint, "__supertype__", None) or _alias(hint)) is not None:
            hint = plain
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin is typing.Annotated:
            return self._annotated(hint, arguments)
        if origin is typing.Literal:
            return _values({value: value for value in arguments})
        if origin in (typing.Union, types.UnionType):
            return _union([self.shape(argument) for argument in arguments])
        if isinstance(hint, typing.TypeVar):
            return self.shape(hint.__bound__ or Any)
        container = _CONTAINERS.get(origin if origin is not None else hint) if _is_hashable(hint) else None
        if container is not None:
            return container([self.shape(argument) for argument in arguments if argument is not ...], arguments)
        if isinstance(hint, type) and issubclass(hint, enum.Enum):
            return _values({member.value: member for member in hint})
        if _is_model(hint):
            return self._model(hint)
        if (dataclasses.is_dataclass(hint) and isinstance(hint, type)) or typing.is_typeddict(hint):
            return self._record(hint)
        if _is_hashable(hint) and hint in _SCALARS:
            return _SCALARS[hint]
        raise TypeError(f"{_name(hint)} has no JSON Schema; use str, int, float, bool, bytes, list, dict, tuple, set, Literal, Enum, "
                        "a date or time, Decimal, UUID, a dataclass, a TypedDict, a pydantic model, or a union of these")

    def _record(self, hint: Any) -> Shape:
        """Returns the shape of a dataclass or a `TypedDict`."""
        if hint in self._done:
            return self._done[hint]
        if hint in self._open:
            self._recursive.add(hint)
            # It is complete when a value arrives.
            return Shape({"$ref": f"#/$defs/{self._open[hint]}"}, lambda value: _converted(self._done[hint], value), _is_object)
        name = hint.__name__
        while name in self._open.values() or name in self.definitions:
            name += "_"
        self._open[hint] = name
        hints = typing.get_type_hints(hint, include_extras=True)
        if typing.is_typeddict(hint):
            made = record(self._members_of_typed_dict(hint, hints), None, _documentation(hint))
        else:
            made = record(self._members_of_dataclass(hint, hints), hint, _documentation(hint))
        if hint in self._recursive:
            self.definitions[name] = made.schema
            made = dataclasses.replace(made, schema={"$ref": f"#/$defs/{name}"})
        self._done[hint] = made
        del self._open[hint]
        return made

    def _members_of_dataclass(self, hint: Any, hints: dict[str, Any]) -> dict[str, Member]:
        described = _prose.parameters(hint.__doc__ or "")
        members = {}
        for field in dataclasses.fields(hint):
            if not field.init:
                continue
            given = describe(self.shape(hints[field.name]), described.get(field.name))
            has_default = field.default is not dataclasses.MISSING
            if has_default:
                given = with_default(given, field.default)
            members[field.name] = Member(given, not has_default and field.default_factory is dataclasses.MISSING)
        return members

    def _members_of_typed_dict(self, hint: Any, hints: dict[str, Any]) -> dict[str, Member]:
        described = _prose.parameters(hint.__doc__ or "")
        members = {}
        for name, one in hints.items():
            is_required = name in hint.__required_keys__
            # Python 3.10 does not know them, and does not find them in annotations that are text.
            while (mark := getattr(typing.get_origin(one), "_name", None)) in ("Required", "NotRequired", "ReadOnly"):
                is_required = is_required if mark == "ReadOnly" else mark == "Required"
                one = typing.get_args(one)[0]
            members[name] = Member(describe(self.shape(one), described.get(name)), is_required)
        return members

    def _model(self, hint: Any) -> Shape:
        """Returns the shape of a pydantic model, or of a type with constraints of pydantic."""
        adapter = sys.modules["pydantic"].TypeAdapter(hint)
        # The definitions of all models of a tool are beside each other.
        prefix = f"{getattr(hint, '__name__', 'Type')}{len(self.definitions)}_"
        schema = adapter.json_schema(ref_template=f"#/$defs/{prefix}{{model}}")
        for name, definition in schema.pop("$defs", {}).items():
            self.definitions[prefix + name] = definition
        return Shape(schema, adapter.validate_python, _admits_of(schema))

    def _annotated(self, hint: Any, arguments: tuple[Any, ...]) -> Shape:
        notes = arguments[1:]
        if "pydantic" in sys.modules and any(_is_constraint(note) for note in notes):
            return self._model(hint)
        return describe(self.shape(arguments[0]), next((note for note in notes if isinstance(note, str)), None))


def object_schema(members: dict[str, Member]) -> Schema:
    """Returns the schema of an object with these members and no others."""
    return {
        "type": "object",
        "properties": {name: member.shape.schema for name, member in members.items()},
        "required": [name for name, member in members.items() if member.is_required],
        "additionalProperties": False,
    }


def convert_members(members: dict[str, Member]) -> Callable[[dict[str, Any]], None] | None:
    """Returns a function that converts the members of an object in place; `None` if none needs it."""
    converts = [(name, member.shape.convert) for name, member in members.items() if member.shape.convert is not None]
    if not converts:
        return None

    def convert(value: dict[str, Any]) -> None:
        for name, one in converts:
            if name in value:
                value[name] = one(value[name])

    return convert


def record(members: dict[str, Member], make: Callable[..., Any] | None, description: str | None = None) -> Shape:
    """Returns the shape of an object that `make` builds from its members; `None` leaves it a dict."""
    schema = object_schema(members) | ({"description": description} if description else {})
    convert_all = convert_members(members)
    required = [name for name, member in members.items() if member.is_required]

    def convert(value: dict[str, Any]) -> Any:
        value = dict(value)
        if convert_all is not None:
            convert_all(value)
        return value if make is None else make(**value)

    def admits(value: Any) -> bool:
        return isinstance(value, dict) and value.keys() <= members.keys() and all(name in value for name in required)

    return Shape(schema, None if make is None and convert_all is None else convert, admits)


def with_default(given: Shape, default: Any) -> Shape:
    """Adds a default to a schema; none if it is no JSON scalar, or says only that there is no value."""
    if default is None or not isinstance(default, (bool, int, float, str)) or isinstance(default, enum.Enum):
        return given
    return dataclasses.replace(given, schema=given.schema | {"default": default})


def describe(given: Shape, description: str | None) -> Shape:
    """Adds a description, unless the type has one of its own."""
    if not description or "description" in given.schema:
        return given
    return dataclasses.replace(given, schema=given.schema | {"description": description})


def _converted(shape: Shape, value: Any) -> Any:
    return value if shape.convert is None else shape.convert(value)


def _alias(hint: Any) -> Any:
    """Returns the type that a `type X = …` names; `None` if it is none."""
    return getattr(hint, "__value__", None) if type(hint).__name__ == "TypeAliasType" else None


def _is_model(hint: Any) -> bool:
    """Returns whether a type is a model of pydantic, which only a program that has imported pydantic can have."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(hint, type) and issubclass(hint, pydantic.BaseModel)


def _is_constraint(note: Any) -> bool:
    return type(note).__module__.partition(".")[0] in ("pydantic", "annotated_types")


def _is_hashable(hint: Any) -> bool:
    return isinstance(hint, collections.abc.Hashable)


def _values(values: dict[Any, Any]) -> Shape:
    """Returns the shape of an enumeration: its JSON values, and what they become."""
    kinds = {type(value) for value in values}
    if not kinds <= {str, int, float, bool, type(None)}:
        raise TypeError("the values of an enumeration must be strings, numbers, booleans or None")
    schema: Schema = {"enum": list(values)}
    if len(kinds) == 1 and (kind := _KINDS.get(kinds.pop())):
        schema = {"type": kind, **schema}

    def convert(value: Any) -> Any:
        return values[value]

    def admits(value: Any) -> bool:
        # 1 is not true, in JSON.
        return _is_hashable(value) and any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in values)

    is_plain = all(value is known for value, known in values.items())
    return Shape(schema, None if is_plain else convert, admits)


def _union(alternatives: list[Shape]) -> Shape:
    schema: Schema = {"anyOf": [alternative.schema for alternative in alternatives]}

    def convert(value: Any) -> Any:
        reason: Exception | None = None
        for alternative in alternatives:
            if alternative.admits(value):
                try:
                    return _converted(alternative, value)
                except (ValueError, TypeError) as error:
                    reason = error
        if reason is not None:
            raise reason
        return value

    def admits(value: Any) -> bool:
        return any(alternative.admits(value) for alternative in alternatives)

    is_plain = all(alternative.convert is None for alternative in alternatives)
    return Shape(schema, None if is_plain else convert, admits)


def _array(make: Callable[[list[Any]], Any], more: Schema | None = None) -> Callable[[list[Shape], tuple[Any, ...]], Shape]:
    def build(items: list[Shape], arguments: tuple[Any, ...]) -> Shape:
        if make is tuple and items and ... not in arguments:
            return _fixed(items)
        one = items[0] if items else _SCALARS[Any]

        def convert(value: list[Any]) -> Any:
            return make(value if one.convert is None else [one.convert(item) for item in value])

        schema = {"type": "array", "items": one.schema, **(more or {})}
        return Shape(schema, None if make is list and one.convert is None else convert, _is_array)

    return build


def _fixed(items: list[Shape]) -> Shape:
    """Returns the shape of a tuple of so many items."""
    schema: Schema = {"type": "array", "prefixItems": [item.schema for item in items], "items": False,
                      "minItems": len(items), "maxItems": len(items)}

    def convert(value: list[Any]) -> tuple[Any, ...]:
        return tuple(_converted(one, item) for one, item in zip(items, value))

    return Shape(schema, convert, lambda value: _is_array(value) and len(value) == len(items))


def _mapping(items: list[Shape], arguments: tuple[Any, ...]) -> Shape:
    if arguments and arguments[0] is not str:
        raise TypeError("the keys of an object are strings: use dict[str, …]")
    one = items[1] if items else _SCALARS[Any]
    schema: Schema = {"type": "object", "additionalProperties": one.schema or True}

    def convert(value: dict[str, Any]) -> dict[str, Any]:
        return {name: _converted(one, item) for name, item in value.items()}

    return Shape(schema, None if one.convert is None else convert, _is_object)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_array(value: Any) -> bool:
    return isinstance(value, list)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_integer(value: Any) -> bool:
    return _is_number(value) and value == value // 1


def _documentation(hint: type) -> str | None:
    """Returns the description of a class; none if its docstring was generated or inherited."""
    documentation = hint.__dict__.get("__doc__") or ""
    is_generated = documentation.startswith(f"{hint.__name__}(")
    return None if is_generated else _prose.description(documentation) or None


def _name(hint: Any) -> str:
    return getattr(hint, "__qualname__", None) or repr(hint)


def _admits_of(schema: Schema) -> Admits:
    """Returns whether a value may fit a schema that pydantic made, by its type."""
    accepted = _PYTHON_TYPES.get(schema.get("type", ""))
    return (lambda value: True) if accepted is None else (lambda value: isinstance(value, accepted))


def _moment(parse: Callable[[str], Any]) -> Convert:
    # Python 3.10 does not read the `Z` of UTC.
    return lambda value: parse(value[:-1] + "+00:00" if value.endswith(("Z", "z")) else value)


def _text(made: Convert, **more: Any) -> Shape:
    return Shape({"type": "string", **more}, made, _is_text)


def _decimal(value: Any) -> decimal.Decimal:
    made = decimal.Decimal(str(value))
    # A function may compare it with a bound, or write its digits.
    if not made.is_finite() or abs(made.adjusted()) > _MAX_EXPONENT:
        raise ValueError(f"a decimal number must be finite, with an exponent of at most {_MAX_EXPONENT}")
    return made


def _base64(value: str) -> bytes:
    return base64.b64decode(value, validate=True)


# That of `decimal128`.
_MAX_EXPONENT = 6_144
_KINDS = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "string": (str,), "integer": (int, float), "number": (int, float), "boolean": (bool,),
    "null": (type(None),),
}
_NULL = Shape({"type": "null"}, None, lambda value: value is None)
_ANY = Shape({}, None, lambda value: True)
_SCALARS: dict[Any, Shape] = {
    Any: _ANY,
    object: _ANY,
    str: Shape({"type": "string"}, None, _is_text),
    bool: Shape({"type": "boolean"}, None, lambda value: isinstance(value, bool)),
    # 2.0 is an integer in JSON.
    int: Shape({"type": "integer"}, lambda value: value if type(value) is int else int(value), _is_integer),
    float: Shape({"type": "number"}, float, _is_number),
    None: _NULL,
    type(None): _NULL,
    bytes: _text(_base64, contentEncoding="base64"),
    datetime.datetime: _text(_moment(datetime.datetime.fromisoformat), format="date-time"),
    datetime.date: _text(datetime.date.fromisoformat, format="date"),
    datetime.time: _text(_moment(datetime.time.fromisoformat), format="time"),
    uuid.UUID: _text(uuid.UUID, format="uuid"),
    # As text, so that no digit is lost.
    decimal.Decimal: Shape({"type": ["string", "number"]}, _decimal,
                           lambda value: _is_text(value) or _is_number(value)),
}
_CONTAINERS: dict[Any, Callable[[list[Shape], tuple[Any, ...]], Shape]] = {
    list: _array(list),
    collections.abc.Sequence: _array(list),
    collections.abc.Iterable: _array(list),
    tuple: _array(tuple),
    set: _array(set, {"uniqueItems": True}),
    frozenset: _array(frozenset, {"uniqueItems": True}),
    dict: _mapping,
    collections.abc.Mapping: _mapping,
}
