"""Bounds of values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

Schema = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Field:
    """Description and bounds of an argument or a member, in `Annotated[int, Field(ge=1, le=100)]`."""

    description: str | None = None
    title: str | None = None
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    multiple_of: float | None = None
    min_length: int | None = None
    """Fewest characters of a string or items of a list."""
    max_length: int | None = None
    pattern: str | None = None
    format: str | None = None
    examples: list[Any] | None = None

    def schema(self, of: Schema) -> Schema:
        """Returns the keywords that it adds to a schema."""
        is_list = of.get("type") == "array"
        named = {
            "description": self.description, "title": self.title, "minimum": self.ge, "exclusiveMinimum": self.gt,
            "maximum": self.le, "exclusiveMaximum": self.lt, "multipleOf": self.multiple_of,
            "minItems" if is_list else "minLength": self.min_length, "maxItems" if is_list else "maxLength": self.max_length,
            "pattern": self.pattern, "format": self.format, "examples": self.examples,
        }
        return {name: value for name, value in named.items() if value is not None}


def within(schema: Schema, value: Any) -> bool:
    """Returns whether a value is within the bounds of a schema."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        step = schema.get("multipleOf")
        return (value >= schema.get("minimum", value) and value <= schema.get("maximum", value)
                and ("exclusiveMinimum" not in schema or value > schema["exclusiveMinimum"])
                and ("exclusiveMaximum" not in schema or value < schema["exclusiveMaximum"])
                and (step is None or abs(value / step - round(value / step)) < 1e-9))
    if isinstance(value, str):
        length = len(value)
        return (schema.get("minLength", 0) <= length <= schema.get("maxLength", length)
                and ("pattern" not in schema or re.search(schema["pattern"], value) is not None))
    if isinstance(value, list):
        return bool(schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)))
    return True
