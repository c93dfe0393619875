"""OpenAI's Agents SDK: the tool `run_script`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from agents import FunctionTool

from .._limits import Limits
from .._run import Language
from ._script_tool import ScriptFailed, ScriptTool

_SCHEMA = {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"], "additionalProperties": False}


def script_tool(tools: Iterable[Any], *, language: Language = "python", limits: Limits | None = None) -> FunctionTool:
    """Returns a tool for `Agent(tools=[…])`. A model reads why its script failed."""
    script = ScriptTool(tools, language=language, limits=limits)

    async def invoke(context: Any, arguments: str) -> str:
        try:
            return await script.run_async(json.loads(arguments)["code"])
        except ScriptFailed as failed:
            return f"The script failed: {failed}"

    return FunctionTool(script.name, script.description, _SCHEMA, invoke)
