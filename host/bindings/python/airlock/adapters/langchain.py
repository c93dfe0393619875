"""LangChain and LangGraph: the tool `run_script`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from langchain_core.tools import StructuredTool, ToolException

from .._limits import Limits
from .._run import Language
from ._script_tool import ScriptFailed, ScriptTool


def script_tool(tools: Iterable[Any], *, language: Language = "python",
                limits: Limits | None = None) -> StructuredTool:
    """Returns a tool for `create_agent(tools=[…])` or `bind_tools`. A model reads why its script failed."""
    script = ScriptTool(tools, language=language, limits=limits)

    def run_script(code: str) -> str:
        try:
            return script.run(code)
        except ScriptFailed as failed:
            raise ToolException(str(failed)) from failed

    async def run_script_async(code: str) -> str:
        try:
            return await script.run_async(code)
        except ScriptFailed as failed:
            raise ToolException(str(failed)) from failed

    return StructuredTool.from_function(run_script, run_script_async, script.name, script.description, handle_tool_error=True)
