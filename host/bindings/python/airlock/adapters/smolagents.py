"""smolagents: an executor for `CodeAgent(executor=…)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from smolagents.local_python_executor import CodeOutput, PythonExecutor

from .._limits import Limits
from .._run import run_script
from .._tools import Tool

INSTRUCTIONS = ("Each block of code starts afresh: variables of an earlier block are gone, so print what you need later, or do "
                "everything in one block. A block has no files, no network and no clock.")
"""For `CodeAgent(instructions=…)`: what smolagents' own prompt says differently."""


class _Answered(BaseException):
    """Ends a script that has called `final_answer`, which a script cannot catch."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.answer = answer


class ScriptExecutor(PythonExecutor):  # type: ignore[misc]  # smolagents has no types
    """Runs the code of a `CodeAgent` in the sandbox, each block in a fresh one."""

    def __init__(self, *, limits: Limits | None = None) -> None:
        self._limits = limits
        self._tools: list[Tool[..., Any]] = []
        self._variables: dict[str, Any] = {}
        self.state: dict[str, Any] = {}
        """The text that the last block printed, where smolagents looks for it if the block fails."""

    def send_tools(self, tools: Mapping[str, Any]) -> None:
        """Takes the tools of the agent."""
        self._tools = [_tool(name, one) for name, one in tools.items()]

    def send_variables(self, variables: dict[str, Any]) -> None:
        """Takes variables, as inputs of the following blocks."""
        self._variables.update(variables)

    def __call__(self, code_action: str) -> CodeOutput:
        """Runs a block."""
        printed: list[str] = []
        is_answer = False
        try:
            value = run_script(code_action, self._tools, self._variables, limits=self._limits, on_print=printed.append)
        except _Answered as answered:
            value, is_answer = answered.answer, True
        finally:
            self.state["_print_outputs"] = "\n".join(printed)
        return CodeOutput(value, self.state["_print_outputs"], is_answer)


def _tool(name: str, one: Any) -> Tool[..., Any]:
    """Makes a tool of one of smolagents. `final_answer` ends the block."""
    inputs = getattr(one, "inputs", None) or {}
    properties = {key: {"description": value.get("description", "")} for key, value in inputs.items()}
    required = [key for key, value in inputs.items() if not value.get("nullable")]
    schema = {"type": "object", "properties": properties, "required": required}

    def answer(**arguments: Any) -> None:
        raise _Answered(one(**arguments))

    function: Callable[..., Any] = answer if name == "final_answer" else (lambda **arguments: one(**arguments))
    return Tool(function, name=name, description=getattr(one, "description", ""), input_schema=schema)
