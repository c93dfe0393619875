"""Adapters for frameworks of agents: one tool with which a model runs scripts over your functions.

Each module imports its framework when it is imported itself; this package depends on none of them.

| module | makes |
|---|---|
| `airlock.adapters.pydantic_ai` | a toolset for pydantic-ai |
| `airlock.adapters.langchain` | a tool for LangChain and LangGraph |
| `airlock.adapters.openai_agents` | a tool for OpenAI's Agents SDK |
| `airlock.adapters.smolagents` | an executor for smolagents' `CodeAgent` |
"""

from __future__ import annotations

from ._script_tool import ScriptTool

__all__ = ["ScriptTool"]
