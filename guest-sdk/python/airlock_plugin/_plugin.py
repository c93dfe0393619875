"""The export of a plugin: a class that describes the tools and runs them."""

from __future__ import annotations

import json
import re
from typing import Any, Protocol

from . import _wire, log
from ._content import Output
from ._context import Context
from ._errors import ToolError
from ._host import IS_COMPONENT, error_type, interface
from ._tool import Tool

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_Err = error_type()


class Tools(Protocol):
    """The interface `airlock:plugin/tools`, which a plugin exports."""

    def describe(self) -> list[Any]:
        """Returns the tools."""

    def invoke(self, name: str, arguments: str, context: Any) -> Any:
        """Runs one tool."""


def plugin(*tools: Tool[..., Any]) -> type[Tools]:
    """Returns the class that `app.py` must call `Tools`: `Tools = plugin(get_weather)`."""
    table: dict[str, Tool[..., Any]] = {}
    for tool in tools:
        if not isinstance(tool, Tool):
            raise TypeError(f"{getattr(tool, '__name__', tool)!r} is no tool; put @tool before the function")
        name = tool.descriptor.name
        if not _NAME.fullmatch(name):
            raise TypeError(f"{name!r} is no name of a tool; use 1 to 64 of a-z, A-Z, 0-9, _ and -")
        if name in table:
            raise TypeError(f"there are two tools with the name {name!r}")
        table[name] = tool
    if IS_COMPONENT:
        log.install()

    class Exported:
        def describe(self) -> list[Any]:
            return [_descriptor(tool) for tool in table.values()]

        def invoke(self, name: str, arguments: str, context: Any) -> Any:
            try:
                if name not in table:
                    raise ToolError("not-found", f"this plugin has no tool {name}")
                return _wire.output_to_host(_run(table[name], arguments, Context(context)))
            except Exception as error:
                failure = _wire.tool_error(error) or _accident(error)
            finally:
                log.flush()
            raise _Err(_wire.error_to_host(failure))

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


def _accident(error: Exception) -> ToolError:
    """Returns the failure of a tool whose exception is none: a fault of the tool."""
    log.error("the tool failed", traceback=log.traceback(error))
    return ToolError("internal", f"{type(error).__name__}: {error}")


def _descriptor(tool: Tool[..., Any]) -> Any:
    types, given = interface("types"), tool.descriptor
    return types.ToolDescriptor(
        given.name, given.title, given.description, _wire.to_json(given.input_schema), _wire.to_json(given.output_schema),
        types.ToolAnnotations(**given.annotations), _wire.to_json(given.meta), _wire.to_json(given.extra))
