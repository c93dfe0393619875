"""Turns functions into the tools of an Airlock plugin. It is part of your sources: read it, and change it as you like.

    from airlock import plugin, tool

    @tool(read_only=True)
    def add(a: Annotated[float, "One number."], b: Annotated[float, "The other."] = 1) -> float:
        '''Adds two numbers.'''
        return a + b

    Tools = plugin(add)

The docstring becomes the description. Parameters become arguments, dataclasses and `Literal`s included, and may be left out
where they have a default; `Annotated` describes them, and a dict in it adds to the schema: `Annotated[int, {"minimum": 1}]`.
A parameter of type `Call` is no argument: it is the running call. A function that returns a dataclass answers with data, and
with its JSON as a text; one that returns a string with that text; one that returns a `ToolOutput` with just that.

The contract behind it is in `wit/`. The other interfaces of the host are imported from there: `from wit_world.imports import http`.
"""

import dataclasses
import inspect
import json
import traceback
import types as python
import typing
from typing import Annotated, Any, Callable, Literal

from componentize_py_types import Err
from wit_world import exports
from wit_world.imports import log as host_log
from wit_world.imports.call import CallContext as Call
from wit_world.imports.types import Content_Text, ErrorKind, TextPart, ToolAnnotations, ToolDescriptor, ToolError, ToolOutput

SIMPLE = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


class Failure(Exception):
    """A failure as the model reads it: `raise Failure("there is no city Olso", ErrorKind.NOT_FOUND, code="unknown_city")`."""

    def __init__(self, message: str, kind: ErrorKind = ErrorKind.INTERNAL, *, code: str | None = None,
                 retry_after_ms: int | None = None, details: Any = None):
        super().__init__(message)
        details = None if details is None else json.dumps(details)
        self.error = ToolError(kind, code, message, retry_after_ms, details)


def log(message: str, level: str = "info", **fields: Any) -> None:
    """Writes a line to the operator's log, where arguments and results do not belong: `log("table read", rows=3)`."""
    host_log.write(host_log.Level[level.upper()], message, [(name, str(value)) for name, value in fields.items()])


def tool(*, title: str | None = None, read_only: bool | None = None, destructive: bool | None = None,
         idempotent: bool | None = None, open_world: bool | None = None) -> Callable:
    """Marks a function as a tool. The hints say whether it changes nothing outside itself, may destroy something, may be
    repeated without further effect, and reaches things that the host does not know; what is not said is taken for the worst."""
    annotations = ToolAnnotations(read_only, destructive, idempotent, open_world)

    def mark(function: Callable) -> Callable:
        hints = typing.get_type_hints(function, include_extras=True)
        returns = hints.pop("return", str)
        is_data = dataclasses.is_dataclass(returns) and returns is not ToolOutput
        output = json.dumps(schema(returns)) if is_data else None
        call = {name for name, hint in hints.items() if hint is Call}
        parameters = {name: (hints[name], parameter.default is inspect.Parameter.empty)
                      for name, parameter in inspect.signature(function).parameters.items() if name not in call}
        description = inspect.cleandoc(function.__doc__ or "")
        function.descriptor = ToolDescriptor(function.__name__, title, description, json.dumps(object_schema(parameters)),
                                             output, annotations, None)
        function.arguments = lambda given, context: {name: value(parameters[name][0], given[name]) for name in given} | {
            name: context for name in call}
        return function

    return mark


def plugin(*tools: Callable) -> type:
    """What `app.py` has to call `Tools`: a class that announces the tools and runs them."""
    table = {function.__name__: function for function in tools}

    class Tools(exports.Tools):
        def describe(self) -> list[ToolDescriptor]:
            return [function.descriptor for function in table.values()]

        def invoke(self, name: str, arguments: str, context: Call) -> ToolOutput:
            try:
                if name not in table:
                    raise Failure(f"this plugin has no tool {name}", ErrorKind.NOT_FOUND)
                return output(table[name](**table[name].arguments(json.loads(arguments), context)))
            except Failure as failure:
                raise Err(failure.error)
            except Exception as error:
                log("the tool failed", "error", traceback=traceback.format_exc())
                # What the host answered to a request of the tool's is in the `value` of an `Err`.
                message = getattr(getattr(error, "value", None), "message", f"{type(error).__name__}: {error}")
                raise Err(Failure(message).error)

    return Tools


def output(result: Any) -> ToolOutput:
    """What the contract knows as an answer."""
    if isinstance(result, ToolOutput):
        return result
    is_data = dataclasses.is_dataclass(result)
    text = result if isinstance(result, str) else json.dumps(dataclasses.asdict(result) if is_data else result)
    return ToolOutput([Content_Text(TextPart(text, None))], text if is_data else None, None)


def object_schema(members: dict[str, tuple[Any, bool]]) -> dict[str, Any]:
    """JSON Schema of an object: each member has a type, and is required or not."""
    return {"type": "object", "properties": {name: schema(hint) for name, (hint, _) in members.items()},
            "required": [name for name, (_, required) in members.items() if required], "additionalProperties": False}


def schema(hint: Any) -> dict[str, Any]:
    """JSON Schema of a type."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        notes = [{"description": note} if isinstance(note, str) else note for note in arguments[1:]]
        return {name: part for piece in [schema(arguments[0]), *notes] for name, part in piece.items()}
    if hint in SIMPLE:
        return {"type": SIMPLE[hint]}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is list:
        return {"type": "array", "items": schema(arguments[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema(arguments[1])}
    if origin in (typing.Union, python.UnionType):
        return {"anyOf": [schema(argument) for argument in arguments]}
    if dataclasses.is_dataclass(hint):
        hints = typing.get_type_hints(hint, include_extras=True)
        fields = {field.name: field for field in dataclasses.fields(hint)}
        missing = dataclasses.MISSING
        return object_schema({name: (hints[name], field.default is missing and field.default_factory is missing)
                              for name, field in fields.items()})
    raise TypeError(f"there is no JSON Schema of {hint}")


def value(hint: Any, given: Any) -> Any:
    """An argument as its type: what JSON has for a dataclass becomes one."""
    if typing.get_origin(hint) is Annotated:
        hint = typing.get_args(hint)[0]
    if typing.get_origin(hint) is list:
        return [value(typing.get_args(hint)[0], item) for item in given]
    if dataclasses.is_dataclass(hint):
        hints = typing.get_type_hints(hint, include_extras=True)
        return hint(**{name: value(hints[name], item) for name, item in given.items()})
    return given
