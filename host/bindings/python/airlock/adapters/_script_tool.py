"""What all adapters share: the tool `run_script`, for a model."""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Iterable
from typing import Any

from .. import _run
from .._errors import LimitExceeded, ScriptError
from .._limits import Limits
from .._run import Language
from .._schema import Schema, Types
from .._tools import Tool, tool

_TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "array": "list", "object": "dict", "null": "None"}

MAX_RESULT = 24_000
"""Most characters of a result that a model reads. The rest is cut, and the text says so."""


class ScriptFailed(Exception):
    """A script failed or reached a limit. The message is for the model, which can correct the script."""


class ScriptTool:
    """A tool with which a model runs scripts over functions: its name, its description, and what runs it.

    A call that needs an approval raises `ApprovalNeeded`, with the run, out of the framework.
    """

    name = "run_script"

    def __init__(self, tools: Iterable[Any], *, language: Language = "python", limits: Limits | None = None) -> None:
        self._tools: tuple[Tool[..., Any], ...] = tuple([one if isinstance(one, Tool) else tool(one) for one in tools])
        self._language: Language = language
        self._limits = limits
        self.description = _description(self._tools, language)

    def run(self, code: str) -> str:
        """Runs a script and returns its result as text. Raises `ScriptFailed`."""
        printed: list[str] = []
        try:
            value = _run.run_script(code, self._tools, language=self._language, limits=self._limits, on_print=printed.append)
        except (ScriptError, LimitExceeded) as error:
            raise _failed(error, printed) from error
        return _result(value, printed)

    async def run_async(self, code: str) -> str:
        """Runs a script like `run`, beside the running event loop."""
        printed: list[str] = []
        try:
            value = await _run.run_script_async(code, self._tools, language=self._language, limits=self._limits,
                                                on_print=printed.append)
        except (ScriptError, LimitExceeded) as error:
            raise _failed(error, printed) from error
        return _result(value, printed)


def signature(one: Tool[..., Any]) -> str:
    """Returns the signature of a tool with its description, as Python."""
    schema = one.input_schema
    required = set(schema.get("required", ()))
    parts: list[str] = []
    for name, parameter in schema.get("properties", {}).items():
        if parameter is False:
            # `functools.partial` has set it.
            continue
        if name not in one.parameters and "*" not in parts:
            parts.append("*")
        fallback = parameter.get("default") if isinstance(parameter, dict) else None
        default = "" if name in required else f" = {fallback!r}"
        parts.append(f"{name}: {_type(parameter, schema)}{default}")
    returns = _returns(one)
    lines = [f"def {one.name}({', '.join(parts)}){f' -> {returns}' if returns else ''}: ..."]
    lines.extend(f"    # {line}" for line in one.description.splitlines())
    return "\n".join(lines)


def _description(tools: tuple[Tool[..., Any], ...], language: Language) -> str:
    together = "await asyncio.gather(...)" if language == "python" else "gather([(function, {...}), ...])"
    listed = "\n".join(signature(one) for one in tools)
    return (f"Runs a script in {language.capitalize()} and returns its value: that of the variable `result`, or of the last expression. "
            "Each script starts afresh, without files, network or clock. "
            f"Calls of functions can be made at the same time with `{together}`. "
            f"The script can call these functions:\n{listed}")


def _returns(one: Tool[..., Any]) -> str:
    """Returns the type of a result; nothing if the function does not declare one that JSON has."""
    try:
        hint = typing.get_type_hints(inspect.unwrap(one.function), include_extras=True).get("return", inspect.Signature.empty)
        if hint is inspect.Signature.empty:
            return ""
        types = Types()
        return _type(types.shape(hint).schema, {"$defs": types.definitions})
    except (TypeError, NameError, ValueError):
        return ""


def _type(schema: Schema | bool, root: Schema, within: tuple[str, ...] = ()) -> str:
    """Renders a schema as a type of Python, for a model."""
    if isinstance(schema, bool):
        return "Any"
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        definition = root.get("$defs", {}).get(name)
        return "dict" if definition is None or name in within else _type(definition, root, (*within, name))
    if "enum" in schema:
        return f"Literal[{', '.join(repr(value) for value in schema['enum'])}]"
    if "anyOf" in schema:
        return " | ".join(_type(one, root, within) for one in schema["anyOf"])
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(_TYPES.get(one, "Any") for one in kind)
    if kind == "array" and "items" in schema and schema["items"]:
        return f"list[{_type(schema['items'], root, within)}]"
    if kind == "object" and schema.get("properties"):
        required = set(schema.get("required", ()))
        members = [f'"{name}"{"" if name in required else "?"}: {_type(one, root, within)}' for name, one in schema["properties"].items()]
        return "{" + ", ".join(members) + "}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"dict[str, {_type(schema['additionalProperties'], root, within)}]"
    return _TYPES.get(kind or "", "Any")


def _result(value: Any, printed: list[str]) -> str:
    result = json.dumps(value, ensure_ascii=False)
    return _cut("".join(["printed:\n", _text(printed), "\nresult: ", result]) if printed else result)


def _failed(error: ScriptError | LimitExceeded, printed: list[str]) -> ScriptFailed:
    reason = error.rendered if isinstance(error, ScriptError) else str(error)
    return ScriptFailed(_cut(f"printed:\n{_text(printed)}\n{reason}" if printed else reason))


def _text(printed: list[str]) -> str:
    return "\n".join(printed)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_RESULT else text[:MAX_RESULT] + f"… ({len(text) - MAX_RESULT} more characters)"
