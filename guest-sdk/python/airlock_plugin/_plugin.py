"""The export of a plugin: a class that describes the tools and runs them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Protocol

from . import _wire, log
from ._content import Output
from ._context import Context
from ._errors import KINDS, ToolError
from ._host import IS_COMPONENT, error_type, interface
from ._json import to_json
from ._shape import shape
from ._tool import Tool

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_Err = error_type()


class Tools(Protocol):
    """The interface `airlock:plugin/tools`, which a plugin exports."""

    def describe(self) -> list[Any]:
        """Returns the tools."""

    def invoke(self, name: str, arguments: str, context: Any) -> Any:
        """Runs one tool."""


def plugin(*tools: Tool[..., Any], config: Any = None) -> type[Tools]:
    """Returns the class that `app.py` must call `Tools`: `Tools = plugin(get_weather)`.

    Args:
        tools: The tools.
        config: The dataclass of the configuration, for `[config]` with `from_code = true` in `plugin.toml`.
    """
    table: dict[str, Tool[..., Any]] = {}
    settings = None if config is None else _config_schema(config)
    for tool in tools:
        if not isinstance(tool, Tool):
            raise TypeError(f"{getattr(tool, '__name__', tool)!r} is no tool; put @tool before the function")
        name = tool.descriptor.name
        if not _NAME.fullmatch(name):
            raise TypeError(f"{name!r} is not a valid name of a tool; use 1 to 64 of a-z, A-Z, 0-9, _ and -")
        if name in table:
            raise TypeError(f"there are two tools with the name {name!r}")
        table[name] = tool
    if IS_COMPONENT:
        log.install()

    class Exported:
        def describe(self) -> list[Any]:
            return [_descriptor(tool, settings if index == 0 else None) for index, tool in enumerate(table.values())]

        def invoke(self, name: str, arguments: str, context: Any) -> Any:
            try:
                if name not in table:
                    raise ToolError("not-found", f"this plugin has no tool {name}")
                return _wire.output_to_host(_run(table[name], arguments, Context(context)))
            except KeyboardInterrupt:
                raise  # by a person who stops a test
            except BaseException as error:
                failure = _converted(error)
            finally:
                _attempt(log.flush)
            raise _Err(failure)

    return Exported


def _run(tool: Tool[..., Any], arguments: str, context: Context) -> Output[Any]:
    try:
        given = json.loads(arguments, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise ToolError("invalid-input", f"the arguments are not JSON: {error}") from None
    if not isinstance(given, dict):
        raise ToolError("invalid-input", f"the arguments must be a JSON object, not {type(given).__name__}")
    return tool.invoke(given, context)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON value")


def _converted(error: BaseException) -> Any:
    """Converts an exception to an error of the contract. Never fails: an error that cannot be sent keeps its kind and message."""
    try:
        return _wire.error_to_host(_wire.tool_error(error) or _accident(error))
    except Exception as fault:
        _report("an error cannot be sent; the caller gets only its kind and message", fault)
        kind: Any = _attempt(lambda: error.kind)  # type: ignore[attr-defined]
        message = _attempt(lambda: str(error.message))  # type: ignore[attr-defined]
        if not isinstance(kind, str) or kind not in KINDS:
            kind = "internal"
        return _wire.error_to_host(ToolError(kind, log.described(error) if message is None else message))


def _accident(error: BaseException) -> ToolError:
    """Returns the failure of a tool whose exception is none: a fault of the tool."""
    _report("the tool failed", error)
    return ToolError("internal", log.described(error))


def _report(message: str, error: BaseException) -> None:
    """Writes an exception to the log. A log that fails does not hide the exception."""
    _attempt(lambda: log.error(message, traceback=log.traceback(error)))


def _attempt(function: Callable[[], Any]) -> Any:
    """Returns the result of a function; none if it fails."""
    try:
        return function()
    except Exception:
        return None


def _config_schema(config: Any) -> dict[str, Any]:
    """Returns the schema of a configuration, which admits no other members."""
    try:
        schema = shape(config).schema
    except TypeError as error:
        raise TypeError(f"config: {error}") from None
    if schema.get("type") != "object":
        raise TypeError("config is no type of an object; use a dataclass")
    return {**schema, "additionalProperties": False}


def _descriptor(tool: Tool[..., Any], settings: dict[str, Any] | None) -> Any:
    types, given = interface("types"), tool.descriptor
    # `airlock plugin build` takes the schema of the configuration from here.
    meta = given.meta if settings is None else {**(given.meta or {}), "airlock/config_schema": settings}
    return types.ToolDescriptor(
        given.name, given.title, given.description, to_json(given.input_schema), to_json(given.output_schema),
        types.ToolAnnotations(**given.annotations, extra=to_json(given.annotations_extra)), to_json(meta),
        to_json(given.extra))
