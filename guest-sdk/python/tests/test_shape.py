"""Schemas of types, and conversion of arguments."""

import unittest
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any, Literal, Optional, TypedDict, Union

from airlock_plugin import Field, ToolError, tool
from airlock_plugin._json import plain
from airlock_plugin._shape import shape


class Mode(Enum):
    ONCE = "once"
    ALWAYS = "always"


@dataclass
class Row:
    """One row.

    Attributes:
        cells: Its numbers,
            in order.
    """

    cells: list[float]
    mode: Mode = Mode.ONCE
    tags: set[str] = field(default_factory=set)


class Options(TypedDict, total=False):
    depth: int


@dataclass
class Node:
    below: "Optional[Node]" = None


@tool
def search(text: str, rows: list[Row], limit: Annotated[int, Field(ge=1, le=100)] = 20, level: Literal["low", "high"] = "low",
           options: Optional[Options] = None, weights: Optional[dict[str, float]] = None, raw: bytes = b"") -> str:
    """Searches
    for a text.

    - one
    - two

    Args:
        text: What to
            look for.
        limit (int): Most results.

    Returns:
        Nothing of interest.
    """
    return repr((text, rows, limit, level, options, weights, raw))


class Schemas(unittest.TestCase):
    def test_a_signature_and_a_docstring_become_a_schema(self) -> None:
        descriptor = search.descriptor
        self.assertEqual(descriptor.description, "Searches for a text.\n\n- one\n- two")
        schema = descriptor.input_schema
        self.assertEqual((schema["required"], schema["additionalProperties"]), (["text", "rows"], False))
        properties = schema["properties"]
        self.assertEqual(properties["text"], {"type": "string", "description": "What to look for."})
        self.assertEqual(properties["limit"],
                         {"type": "integer", "minimum": 1, "maximum": 100, "description": "Most results.", "default": 20})
        self.assertEqual(properties["level"], {"type": "string", "enum": ["low", "high"], "default": "low"})
        self.assertEqual(properties["weights"], {"anyOf": [
            {"type": "object", "additionalProperties": {"type": "number"}}, {"type": "null"}]})
        self.assertEqual(properties["raw"], {"type": "string", "contentEncoding": "base64", "default": ""})

    def test_a_dataclass_becomes_an_object_with_its_defaults(self) -> None:
        self.assertEqual(search.descriptor.input_schema["properties"]["rows"]["items"], {
            "type": "object",
            "properties": {
                "cells": {"type": "array", "items": {"type": "number"}, "description": "Its numbers, in order."},
                "mode": {"type": "string", "enum": ["once", "always"], "default": "once"},
                "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
            },
            "required": ["cells"], "additionalProperties": False, "description": "One row.",
        })

    def test_a_typed_dict_knows_what_may_be_left_out(self) -> None:
        self.assertEqual(shape(Options).schema["required"], [])

    def test_the_bounds_of_an_optional_value_are_those_of_the_value(self) -> None:
        bounded = shape(Annotated[Optional[int], Field(ge=1, description="Rows.")])
        self.assertEqual(bounded.schema, {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}], "description": "Rows."})
        self.assertIsNone(bounded.convert(None, "rows"))
        with self.assertRaises(ToolError):
            bounded.convert(0, "rows")

    def test_a_tool_that_no_caller_could_use_is_refused_where_it_is_defined(self) -> None:
        def untyped(a):  # type: ignore[no-untyped-def]
            """Does it."""

        def starred(*names: str) -> None:
            """Does it."""

        def silent() -> None:
            pass

        def recursive(node: Node) -> None:
            """Does it."""

        def strange(when: complex) -> None:
            """Does it."""

        async def waiting() -> None:
            """Does it."""

        cases: list[tuple[Callable[..., Any], str]] = [
            (untyped, "tool untyped: the parameter a has no type"), (starred, r"tool starred: the parameter \*names: str has no"),
            (silent, "tool silent: it has no docstring"), (recursive, "Node contains itself"),
            (strange, "the parameter when: complex has no JSON Schema"), (waiting, "a tool is a plain function"),
        ]
        for function, message in cases:
            with self.assertRaisesRegex(TypeError, message):
                tool(function)


class Conversion(unittest.TestCase):
    def converted(self, **arguments: Any) -> str:
        return search.invoke({"text": "a", "rows": [], **arguments}).first_text() or ""

    def test_arguments_become_their_types(self) -> None:
        self.assertEqual(
            self.converted(rows=[{"cells": [1], "mode": "always", "tags": ["x"]}], limit=2.0, options={"depth": 1}, raw="AQI="),
            repr(("a", [Row([1.0], Mode.ALWAYS, {"x"})], 2, "low", {"depth": 1}, None, b"\x01\x02")))

    def test_an_argument_that_does_not_fit_is_named_with_what_it_must_be(self) -> None:
        cases: list[tuple[dict[str, Any], str]] = [
            ({"text": 7}, "argument `text` must be a string, not 7"),
            ({"limit": 0}, "argument `limit` must be an integer from 1 to 100, not 0"),
            ({"limit": True}, "argument `limit` must be an integer, not true"),
            ({"limit": 1.5}, "argument `limit` must be an integer, not 1.5"),
            ({"level": "no"}, 'argument `level` must be one of "low", "high", not the string "no"'),
            ({"level": [1]}, 'argument `level` must be one of "low", "high", not an array of 1'),
            ({"rows": [{"cells": [1, "x"]}]}, 'argument `rows[0].cells[1]` must be a number, not the string "x"'),
            ({"rows": [{}]}, "argument `rows[0].cells` is missing; it must be an array"),
            ({"rows": [{"cells": [], "mode": 3}]}, 'argument `rows[0].mode` must be one of "once", "always", not 3'),
            ({"options": {"deep": 1}}, "unknown argument `options.deep`; known are `depth`"),
            ({"weights": {"a": None}}, "argument `weights.a` must be a number, not null"),
            ({"raw": "%"}, 'argument `raw` must be base64, not the string "%"'),
            ({"text": {"a": "x" * 99}}, "argument `text` must be a string, not an object"),
            ({"level": "x" * 99}, 'argument `level` must be one of "low", "high", not the string "' + "x" * 40 + '…"'),
        ]
        for arguments, message in cases:
            with self.assertRaises(ToolError) as failed:
                self.converted(**arguments)
            self.assertEqual((failed.exception.kind, failed.exception.message), ("invalid-input", message))

    def test_a_missing_and_an_unknown_argument_are_named(self) -> None:
        for arguments, message in [({"rows": []}, "argument `text` is missing; it must be a string"),
                                   ({"Text": ""}, "unknown argument `Text`; known are `text`, `rows`, `limit`")]:
            with self.assertRaises(ToolError) as failed:
                search.invoke(arguments)
            self.assertTrue(failed.exception.message.startswith(message), failed.exception.message)

    def test_a_union_takes_the_first_type_that_fits(self) -> None:
        either = shape(Union[int, Row, str])
        given: list[Any] = [1, {"cells": []}, "a"]
        self.assertEqual([either.convert(value, "x") for value in given], [1, Row([]), "a"])
        with self.assertRaisesRegex(ToolError, "argument `x` must be an integer or an object or a string, not null"):
            either.convert(None, "x")

    def test_true_is_not_one_and_one_is_not_true(self) -> None:
        with self.assertRaises(ToolError):
            shape(Literal[1, 2]).convert(True, "x")
        with self.assertRaises(ToolError):
            shape(Literal[True]).convert(1, "x")

    def test_a_tuple_has_as_many_items_as_types(self) -> None:
        pair = shape(tuple[str, int])
        self.assertEqual(pair.convert(["a", 1], "x"), ("a", 1))
        with self.assertRaises(ToolError):
            pair.convert(["a"], "x")
        self.assertEqual(shape(tuple[int, ...]).convert([1, 2, 3], "x"), (1, 2, 3))

    def test_what_a_post_init_refuses_is_invalid_input(self) -> None:
        @dataclass
        class Even:
            number: int

            def __post_init__(self) -> None:
                if self.number % 2:
                    raise ValueError("an odd number")

        with self.assertRaisesRegex(ToolError, "argument `x` does not fit: an odd number"):
            shape(Even).convert({"number": 1}, "x")

    def test_values_become_json_and_what_is_none_is_refused(self) -> None:
        self.assertEqual(plain(Row([1.0], Mode.ALWAYS, {"b", "a"})), {"cells": [1.0], "mode": "always", "tags": ["a", "b"]})
        self.assertEqual(plain((b"\x01", {Mode.ONCE: None})), ["AQ==", {"once": None}])
        refused: list[Any] = [object(), {1: 2}]
        for value in refused:
            with self.assertRaises(TypeError):
                plain(value)
