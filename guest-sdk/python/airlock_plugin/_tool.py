"""Tools: functions with a descriptor."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import typing
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar, overload

from . import _json, _prose, _shape
from ._content import Content, Output, text
from ._context import Context
from ._field import Schema
from ._shape import Member

P = ParamSpec("P")
R = TypeVar("R")


@dataclasses.dataclass(frozen=True)
class Descriptor:
    """A tool as the plugin describes it."""

    name: str
    title: str | None
    description: str
    input_schema: Schema
    output_schema: Schema | None
    annotations: dict[str, bool | None]
    annotations_extra: dict[str, Any] | None
    meta: dict[str, Any] | None
    extra: dict[str, Any] | None


class Tool(Generic[P, R]):
    """A function that is a tool. It is called like the function."""

    def __init__(self, function: Callable[P, R], members: dict[str, Member], context: list[str], descriptor: Descriptor) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._members = members
        self._context = context
        self.descriptor = descriptor

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._function(*args, **kwargs)

    def invoke(self, arguments: Any, context: Context | None = None) -> Output[Any]:
        """Runs the tool on a JSON object. Fails with `invalid-input` if the arguments do not fit."""
        given = _shape.convert_members(self._members, arguments, "")
        running = context or Context()
        result: Any = self._function(**given, **{name: running for name in self._context})  # type: ignore[call-arg, arg-type]
        return output(result)


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...


@overload
def tool(*, name: str | None = None, title: str | None = None, description: str | None = None, read_only: bool | None = None,
         destructive: bool | None = None, idempotent: bool | None = None, open_world: bool | None = None,
         annotations_extra: dict[str, Any] | None = None, meta: dict[str, Any] | None = None,
         extra: dict[str, Any] | None = None) -> Callable[[Callable[P, R]], Tool[P, R]]: ...


def tool(function: Any = None, /, *, name: str | None = None, title: str | None = None, description: str | None = None,
         read_only: bool | None = None, destructive: bool | None = None, idempotent: bool | None = None,
         open_world: bool | None = None, annotations_extra: dict[str, Any] | None = None, meta: dict[str, Any] | None = None,
         extra: dict[str, Any] | None = None) -> Any:
    """Makes a function a tool.

    Each parameter becomes an argument of its type, which may be left out if it has a default. A function that returns a
    dataclass, a `TypedDict` or a `dict` returns data; its schema is that of the type. Any other result, such as an `int` or a
    `list`, is returned as text, its JSON, without a schema.

    Args:
        function: The function, if the decorator stands without parentheses.
        name: Name of the tool; that of the function if absent.
        title: Name for people.
        description: Description for a model; the docstring if absent.
        read_only: The tool changes nothing outside itself.
        destructive: A change that the tool makes may destroy something.
        idempotent: Calling it twice with the same arguments has the effect of calling it once.
        open_world: The tool uses things that the host does not know, such as the internet.
        annotations_extra: Other members of the MCP annotations.
        meta: Vendor keys, forwarded as MCP `_meta`.
        extra: Other members of the MCP tool, such as `icons`.
    """
    annotations = {"read_only": read_only, "destructive": destructive, "idempotent": idempotent, "open_world": open_world}

    def make(function: Callable[P, R]) -> Tool[P, R]:
        called = name or function.__name__
        try:
            members, context = _parameters(function)
            returns = _returns(function)
            for member, value in ("annotations_extra", annotations_extra), ("meta", meta), ("extra", extra):
                _json.object_text(member, value)
        except TypeError as error:
            raise TypeError(f"tool {called}: {error}") from None
        described = description or _prose.description(function.__doc__ or "")
        if not described:
            raise TypeError(f"tool {called}: it has no docstring; a model chooses a tool by its description")
        return Tool(function, members, context, Descriptor(
            called, title, described, _shape.object_schema(members), returns, annotations, annotations_extra, meta, extra))

    return make if function is None else make(function)


def _parameters(function: Callable[..., Any]) -> tuple[dict[str, Member], list[str]]:
    """Returns the arguments of a function, and its parameters for the context."""
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise TypeError("a tool is a plain function; host calls wait")
    hints = typing.get_type_hints(function, include_extras=True)
    described = _prose.parameters(function.__doc__ or "")
    members, context = {}, []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"the parameter {parameter} has no name by which a caller can pass it")
        if name not in hints:
            raise TypeError(f"the parameter {name} has no type")
        if hints[name] in (Context, typing.Optional[Context]):
            context.append(name)
            continue
        members[name] = _argument(name, hints[name], parameter, described.get(name))
    return members, context


def _argument(name: str, hint: Any, parameter: inspect.Parameter, description: str | None) -> Member:
    try:
        given = _shape.describe(_shape.shape(hint), description)
    except TypeError as error:
        raise TypeError(f"the parameter {name}: {error}") from None
    is_required = parameter.default is parameter.empty
    return Member(given if is_required else _shape.with_default(given, parameter.default), is_required)


def _returns(function: Callable[..., Any]) -> Schema | None:
    """Returns the schema of a function's data; none if it returns none."""
    hint = typing.get_type_hints(function, include_extras=True).get("return")
    if typing.get_origin(hint) is Output:
        hint = typing.get_args(hint)[0]
    if hint in (None, Output, Content) or not _is_data(hint):
        return None
    schema: Schema = _shape.shape(hint).schema
    return schema


def _is_data(hint: Any) -> bool:
    bare = typing.get_args(hint)[0] if typing.get_origin(hint) is typing.Annotated else hint
    return dataclasses.is_dataclass(bare) or typing.is_typeddict(bare) or typing.get_origin(bare) is dict


def output(result: Any) -> Output[Any]:
    """Returns the result of a tool that returned this value.

    A string is a text, and nothing is nothing. An object is data, and its JSON a text for readers that know only texts.
    """
    if isinstance(result, Output):
        return result
    if result is None:
        return Output()
    if isinstance(result, (Content, str)):
        return Output([result])
    if isinstance(result, (list, tuple)) and result and all(isinstance(part, Content) for part in result):
        return Output(list(result))
    value = _json.plain(result)
    return Output([text(json.dumps(value, ensure_ascii=False))], value if isinstance(value, dict) else _json.ABSENT)
