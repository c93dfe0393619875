"""Docstrings: the description for a model, and the descriptions of parameters."""

from __future__ import annotations

import inspect
import re

_PARAMETERS = ("Args:", "Arguments:", "Parameters:", "Attributes:")
_SECTIONS = (*_PARAMETERS, "Returns:", "Yields:", "Raises:", "Example:", "Examples:", "Note:", "Notes:")
_FIELD = re.compile(r":(param|parameter|arg|argument|ivar|return|returns|rtype|raise|raises|type)\b\s*([^:]*):\s*(.*)")
_ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)")


def description(docstring: str) -> str:
    """Returns the prose before the first section."""
    lines: list[str] = []
    for line in inspect.cleandoc(docstring).splitlines():
        if line in _SECTIONS or _FIELD.match(line):
            break
        lines.append(line.rstrip())
    return "\n".join(lines).strip()


def parameters(docstring: str) -> dict[str, str]:
    """Returns the description of each parameter, of a section `Args:` and of fields `:param name:`."""
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    section, indent = "", 0
    for line in inspect.cleandoc(docstring).splitlines():
        depth = len(line) - len(line.lstrip())
        if field := _FIELD.match(line):
            section = ""
            is_parameter = field[1] in ("param", "parameter", "arg", "argument", "ivar")
            # `:param int limit: …` names the type too.
            current = found.setdefault((field[2].split() or [""])[-1], [field[3]]) if is_parameter else None
        elif depth == 0 and line:
            section, indent, current = (line if line in _SECTIONS else ""), 0, None
        elif section in _PARAMETERS and line and (not indent or depth == indent) and (entry := _ENTRY.match(line.strip())):
            indent, current = depth, found.setdefault(entry[1], [entry[2]])
        elif current is not None:
            current.append(line.strip())
    return {name: " ".join(lines).strip() for name, lines in found.items() if name}
