"""Scripts without tools: their values, inputs, printed text and failures."""

from __future__ import annotations

import pickle
import unittest
from pathlib import Path
from typing import Any

import airlock


class Values(unittest.TestCase):
    def test_the_value_is_that_of_result_or_of_the_last_expression(self) -> None:
        self.assertEqual(airlock.run_script("result = 1\n2"), 1)
        self.assertEqual(airlock.run_script("1 + 2"), 3)
        self.assertIsNone(airlock.run_script("a = 1"))
        self.assertIsNone(airlock.run_script(""))
        self.assertEqual(airlock.run_script("[x * x for x in range(3)]", language="starlark"), [0, 1, 4])

    def test_values_pass_unchanged_in_both_directions(self) -> None:
        values: list[Any] = [None, True, False, 0, -1, 2**53 + 1, 2**63 - 1, -(2**63), 2**64 - 1, 0.5, 1e300, "", "ä🎉\0", [], [[1]],
                             {}, {"a": {"b": [1, None]}}]
        for value in values:
            with self.subTest(value=value):
                returned = airlock.run_script("value", inputs={"value": value})
                self.assertEqual(returned, value)
                self.assertIs(type(returned), type(value))

    def test_an_integer_beyond_64_bits_is_refused_as_an_input_and_is_text_as_a_value(self) -> None:
        for value in 2**64, -(2**63) - 1:
            with self.subTest(value=value), self.assertRaises(ValueError):
                airlock.run_script("1", inputs={"value": value})
        self.assertEqual(airlock.run_script("2 ** 64"), str(2**64))

    def test_inputs_that_json_does_not_have_are_refused(self) -> None:
        loop: list[Any] = []
        loop.append(loop)
        deep: Any = 1
        for _ in range(200):
            deep = [deep]
        for value in float("nan"), float("-inf"), loop, deep, "\ud800", "x" * (65 << 20):
            with self.subTest(type=type(value)), self.assertRaises(ValueError):
                airlock.run_script("1", inputs={"value": value})
        for unknown in object(), {1: 2}, len, airlock:
            with self.subTest(value=unknown), self.assertRaises(TypeError):
                airlock.run_script("1", inputs={"value": unknown})

    def test_infinity_as_the_value_of_a_script_is_its_failure(self) -> None:
        with self.assertRaises(airlock.ScriptError):
            airlock.run_script("float('inf')")

    def test_a_name_that_no_input_can_have_is_refused(self) -> None:
        for name in "for", "a b", "", "result", "__name":
            with self.subTest(name=name), self.assertRaises(ValueError):
                airlock.run_script("1", inputs={name: 1})
        with self.assertRaises(ValueError):
            airlock.run_script("1", [named], inputs={"named": 1})

    def test_an_unknown_language_is_refused(self) -> None:
        with self.assertRaises(ValueError):
            airlock.run_script("1", language="ruby")  # type: ignore[arg-type]


class PrintedText(unittest.TestCase):
    def test_each_line_is_passed_on_and_kept(self) -> None:
        lines: list[str] = []
        run = airlock.start_script("print('a')\nprint('b', 1)", on_print=lines.append)
        self.assertEqual(lines, ["a", "b 1"])
        self.assertEqual(run.output, "a\nb 1")

    def test_an_exception_of_the_receiver_ends_the_script(self) -> None:
        def refuse(text: str) -> None:
            raise LookupError(text)

        with self.assertRaises(LookupError):
            airlock.run_script("print('a')\nwhile True: pass", on_print=refuse)


class Failures(unittest.TestCase):
    def test_a_script_that_does_not_parse_has_its_place(self) -> None:
        with self.assertRaises(airlock.ScriptSyntaxError) as caught:
            airlock.run_script("a = 1\nb = (")
        self.assertEqual(caught.exception.kind, "syntax")
        self.assertIn(caught.exception.line, (1, 2))

    def test_an_exception_in_a_script_has_its_place_and_is_not_that_of_the_program(self) -> None:
        with self.assertRaises(airlock.ScriptError) as caught:
            airlock.run_script("a = 1\n\na / 0")
        failure = caught.exception
        self.assertIs(type(failure), airlock.ScriptError)
        self.assertEqual((failure.kind, failure.line), ("runtime", 3))
        self.assertIn("ZeroDivisionError", failure.rendered)

    def test_exceptions_and_limits_can_be_pickled(self) -> None:
        failures = [
            airlock.ScriptError("m", "runtime", 1, 2, "r"),
            airlock.ToolFailed("m", tool="t", code="c"),
            airlock.LimitExceeded("m", "seconds"),
        ]
        for failure in failures:
            with self.subTest(failure=failure):
                copy = pickle.loads(pickle.dumps(failure))
                self.assertEqual((type(copy), vars(copy), str(copy)), (type(failure), vars(failure), "m"))
        limits = airlock.Limits(seconds=2, calls=3)
        self.assertEqual(pickle.loads(pickle.dumps(limits)), limits)

    def test_the_program_is_not_reachable_from_a_script(self) -> None:
        for code in "import subprocess", "open('/etc/passwd').read()", "__import__('sys')", "().__class__.__bases__[0].__subclasses__()":
            with self.subTest(code=code), self.assertRaises(airlock.ScriptError):
                airlock.run_script(code)


class Arguments(unittest.TestCase):
    def test_an_argument_of_another_type_is_refused_with_the_type_that_is_needed(self) -> None:
        wrong: list[tuple[dict[str, Any], str]] = [
            ({"limits": {"seconds": 1}}, "airlock.Limits"),
            ({"tools": named}, r"\[named\]"),
            ({"tools": airlock.tool(named)}, r"\[named\]"),
            ({"tools": None}, "NoneType"),
            ({"inputs": {"place": Path("order.txt")}}, "os.fspath"),
            ({"language": None}, "language"),
            ({"on_print": 7}, "on_print"),
        ]
        for arguments, needed in wrong:
            with self.subTest(arguments=arguments), self.assertRaisesRegex(TypeError, needed):
                airlock.run_script("1", **arguments)
        code: Any = b"1"
        with self.assertRaisesRegex(TypeError, "code"):
            airlock.run_script(code)


def named() -> None:
    pass


if __name__ == "__main__":
    unittest.main()
