"""pydantic-ai: a toolset with the tool `run_script`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic_ai import FunctionToolset, ModelRetry, Tool

from .._limits import Limits
from .._run import Language
from ._script_tool import ScriptFailed, ScriptTool


def script_toolset(tools: Iterable[Any], *, language: Language = "python",
                   limits: Limits | None = None) -> FunctionToolset[Any]:
    """Returns a toolset for `Agent(toolsets=[…])`. A script that fails is a retry for the model."""
    script = ScriptTool(tools, language=language, limits=limits)

    async def run_script(code: str) -> str:
        try:
            return await script.run_async(code)
        except ScriptFailed as failed:
            raise ModelRetry(str(failed)) from failed

    return FunctionToolset([Tool(run_script, name=script.name, description=script.description, takes_ctx=False)])
