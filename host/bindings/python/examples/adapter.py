"""An agent of pydantic-ai whose model runs scripts over functions. A function stands in for the model, so that nothing is asked."""

from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.messages import ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from airlock.adapters.pydantic_ai import script_toolset


def population(city: str) -> int:
    """Returns the number of inhabitants of a city."""
    return {"Oslo": 717_710, "Bergen": 291_940}[city]


def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    last = messages[-1].parts[-1]
    if isinstance(last, ToolReturnPart):
        return ModelResponse([TextPart(f"Together they have {last.content} inhabitants.")])
    script = "population('Oslo') + population('Bergen')"
    return ModelResponse([ToolCallPart("run_script", {"code": script})])


agent = Agent(FunctionModel(respond), toolsets=[script_toolset([population])])
print(agent.run_sync("How many people live in Oslo and Bergen?").output)
# Together they have 1009650 inhabitants.
