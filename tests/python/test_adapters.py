"""Adapters with the real packages. The models are scripted, so that nothing is asked."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import unittest
from typing import Any

from support import WAIT_SECONDS, run_async

import airlock
from airlock.adapters import ScriptTool


def add(a: int, b: int = 1) -> int:
    """Adds numbers.

    Args:
        a: The first.
    """
    return a + b


@airlock.tool(needs_approval=True)
def delete(name: str) -> None:
    """Deletes a thing."""


GOOD, BAD = "print('adding')\nadd(2, 3)", "1 / 0"


class TheTool(unittest.TestCase):
    def test_the_description_has_the_functions(self) -> None:
        description = ScriptTool([add, delete]).description
        self.assertIn("def add(a: int, b: int = 1) -> int: ...\n    # Adds numbers.", description)
        self.assertIn("def delete(name: str) -> None: ...", description)

    def test_the_description_has_schemas_that_are_true_or_false(self) -> None:
        def query(table: str, user: str = "nobody", **more: Any) -> str:
            return f"{table} of {user}"

        schema = {"type": "object", "properties": {"a": True, "b": {"type": "array", "items": True}}, "required": ["b"]}
        tools = [airlock.tool(functools.partial(query, user="ann"), name="query"), airlock.Tool(add, name="add", input_schema=schema)]
        description = ScriptTool(tools).description
        self.assertIn("def query(table: str)", description)
        self.assertIn("def add(a: Any = None, b: list[Any])", description)

    def test_the_description_has_which_parameters_are_given_by_name_alone(self) -> None:
        def find(text: str, *, limit: int = 5, exact: bool) -> str:
            return text

        self.assertIn("def find(text: str, *, limit: int = 5, exact: bool) -> str", ScriptTool([find]).description)

    def test_the_result_is_text_for_a_model(self) -> None:
        tool = ScriptTool([add])
        self.assertEqual(tool.run("add(2, 3)"), "5")
        self.assertEqual(tool.run(GOOD), "printed:\nadding\nresult: 5")
        self.assertEqual(run_async(tool.run_async(GOOD)), "printed:\nadding\nresult: 5")
        self.assertLess(len(tool.run("'x' * 100_000")), 25_000)

    def test_a_call_that_needs_an_approval_reaches_the_program(self) -> None:
        with self.assertRaises(airlock.ApprovalNeeded):
            ScriptTool([delete]).run("delete('a')")

    def test_the_package_imports_no_framework(self) -> None:
        names = "pydantic", "pydantic_ai", "langchain_core", "agents", "smolagents"
        program = f"import airlock.adapters, sys; print([name for name in {names} if name in sys.modules])"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=WAIT_SECONDS, check=True)
        self.assertEqual(done.stdout.strip(), "[]")


class PydanticAi(unittest.TestCase):
    def test_an_agent_runs_scripts_and_corrects_one_that_fails(self) -> None:
        from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart, ToolCallPart
        from pydantic_ai.messages import ToolReturnPart
        from pydantic_ai.models.function import AgentInfo, FunctionModel

        from airlock.adapters.pydantic_ai import script_toolset

        seen: list[Any] = []

        def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            last = messages[-1].parts[-1]
            if isinstance(last, ToolReturnPart) and last.outcome == "success":
                return ModelResponse([TextPart(str(last.content))])
            if isinstance(last, ToolReturnPart):
                seen.append(str(last.content))
                return ModelResponse([ToolCallPart("run_script", {"code": GOOD})])
            seen.append(info.function_tools[0].description)
            return ModelResponse([ToolCallPart("run_script", {"code": BAD})])

        agent = Agent(FunctionModel(respond), toolsets=[script_toolset([add])])
        # `run_sync` would leave its event loop open.
        self.assertEqual(run_async(agent.run("go")).output, "printed:\nadding\nresult: 5")
        self.assertIn("def add(", seen[0])
        self.assertIn("ZeroDivisionError", seen[1])


class LangChain(unittest.TestCase):
    def test_a_tool_runs_scripts_and_tells_why_one_failed(self) -> None:
        from airlock.adapters.langchain import script_tool

        tool = script_tool([add])
        self.assertEqual((tool.name, list(tool.args)), ("run_script", ["code"]))
        self.assertIn("def add(", tool.description)
        self.assertEqual(tool.invoke({"code": GOOD}), "printed:\nadding\nresult: 5")
        self.assertEqual(run_async(tool.ainvoke({"code": GOOD})), "printed:\nadding\nresult: 5")
        message = tool.invoke({"type": "tool_call", "id": "1", "name": "run_script", "args": {"code": BAD}})
        self.assertEqual(message.status, "error")
        self.assertIn("ZeroDivisionError", message.content)


class OpenAiAgents(unittest.TestCase):
    def test_an_agent_runs_scripts_and_is_told_why_one_failed(self) -> None:
        from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage
        from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

        from airlock.adapters.openai_agents import script_tool

        class Scripted(Model):
            def __init__(self) -> None:
                self.scripts = [BAD, GOOD]

            async def get_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> ModelResponse:
                self.items = input
                if self.scripts:
                    code = self.scripts.pop(0)
                    output: Any = ResponseFunctionToolCall(arguments=json.dumps({"code": code}), call_id=f"call_{len(self.scripts)}",
                                                           name="run_script", type="function_call")
                else:
                    text = ResponseOutputText(annotations=[], text=input[-1]["output"], type="output_text")
                    output = ResponseOutputMessage(id="1", content=[text], role="assistant", status="completed", type="message")
                return ModelResponse(output=[output], usage=Usage(), response_id=None)

            def stream_response(self, *args: Any, **kwargs: Any) -> Any:
                raise NotImplementedError

        model = Scripted()
        agent = Agent(name="a", model=model, tools=[script_tool([add])])
        result = run_async(Runner.run(agent, "go", run_config=RunConfig(tracing_disabled=True)))
        self.assertEqual(result.final_output, "printed:\nadding\nresult: 5")
        outputs = [item["output"] for item in model.items if item.get("type") == "function_call_output"]
        self.assertTrue(outputs[0].startswith("The script failed: "), outputs[0])


class SmolAgents(unittest.TestCase):
    def test_an_agent_runs_its_code_in_the_sandbox(self) -> None:
        from smolagents import CodeAgent, LogLevel, Tool
        from smolagents.models import ChatMessage, MessageRole, Model

        from airlock.adapters.smolagents import INSTRUCTIONS, ScriptExecutor

        class Add(Tool):  # type: ignore[misc]
            name = "add"
            description = "Adds numbers."
            inputs = {"a": {"type": "integer", "description": "The first."}, "b": {"type": "integer", "description": "The second."}}
            output_type = "integer"

            def forward(self, a: int, b: int) -> int:
                return a + b

        class Scripted(Model):  # type: ignore[misc]
            blocks = ["import os\nos.listdir()", "print(add(2, 3))", "final_answer({'sum': add(a=2, b=3)})\nprint('not reached')"]

            def generate(self, *args: Any, **kwargs: Any) -> ChatMessage:
                seen.append(str(args[0][-1].content))
                return ChatMessage(role=MessageRole.ASSISTANT, content=f"Thought: go\n<code>\n{self.blocks.pop(0)}\n</code>")

        seen: list[str] = []
        agent = CodeAgent(tools=[Add()], model=Scripted(), executor=ScriptExecutor(), instructions=INSTRUCTIONS,
                          verbosity_level=LogLevel.OFF)
        self.assertEqual(agent.run("Add 2 and 3."), {"sum": 5})
        self.assertIn("a run has no files", seen[1])
        self.assertIn("5", seen[2])


if __name__ == "__main__":
    unittest.main()
