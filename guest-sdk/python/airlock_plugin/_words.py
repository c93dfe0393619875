"""JSON values and schemas in words, for messages that a model reads."""

from __future__ import annotations

import json
from typing import Any

EXCERPT_MAX = 40
"""Longest piece of a value that a message repeats, in characters."""

_WORDS = {
    "integer": "an integer", "number": "a number", "string": "a string", "boolean": "true or false", "array": "an array",
    "object": "an object", "null": "null",
}


def expected(schema: dict[str, Any]) -> str:
    """Describes in words what a schema expects; empty if its type is not enough to describe it."""
    if "enum" in schema:
        return "one of " + ", ".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"] if value is not None)
    if "anyOf" in schema:
        # That an optional argument may also be null does not help to correct it.
        words = [expected(one) for one in schema["anyOf"] if one != {"type": "null"}]
        return " or ".join(words) if all(words) else ""
    word = _WORDS.get(schema.get("type", ""), "")
    return word + _bounds(schema) if word else ""


def _bounds(schema: dict[str, Any]) -> str:
    minimum, maximum = schema.get("minimum"), schema.get("maximum")
    if minimum is not None and maximum is not None:
        words = f" from {minimum} to {maximum}"
    elif minimum is not None:
        words = f" of {minimum} or more"
    else:
        words = f" of {maximum} or less" if maximum is not None else ""
    for keyword, phrase in (("exclusiveMinimum", " above {}"), ("exclusiveMaximum", " below {}"), ("multipleOf", ", a multiple of {}"),
                            ("pattern", " that matches {}")):
        if keyword in schema:
            words += phrase.format(schema[keyword])
    return words + _lengths(schema)


def _lengths(schema: dict[str, Any]) -> str:
    is_list = schema.get("type") == "array"
    unit = "items" if is_list else "characters"
    least, most = schema.get("minItems" if is_list else "minLength"), schema.get("maxItems" if is_list else "maxLength")
    if least is None and most is None:
        return ""
    if least is not None and most is not None:
        return f" of {least} to {most} {unit}" if least != most else f" of {least} {unit}"
    return f" of at least {least} {unit}" if least is not None else f" of at most {most} {unit}"


def found(value: Any) -> str:
    """Describes a JSON value, cut."""
    if isinstance(value, str):
        return f'the string "{excerpt(value)}"'
    if isinstance(value, list):
        return f"an array of {len(value)}"
    return "an object" if isinstance(value, dict) else json.dumps(value)


def excerpt(text: str) -> str:
    """Cuts a text."""
    return text if len(text) <= EXCERPT_MAX else text[:EXCERPT_MAX] + "…"


def kind(value: Any) -> str:
    """Returns the name that JSON Schema has for the type of a scalar."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    return {int: "integer", float: "number", str: "string"}[type(value)]
