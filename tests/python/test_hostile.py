"""Hostile scripts end as exceptions of the package, and the process goes on."""

from __future__ import annotations

import dataclasses
import decimal
import functools
import itertools
import time
import unittest
from collections.abc import Iterator, Mapping
from typing import Any, Optional, get_args

import airlock
from airlock._run import Language

# Each ends by a limit that is reached soon.
LIMITS = airlock.Limits(memory_mb=64, cpu_seconds=1, seconds=20, calls=50)

PYTHON = {
    "endless loop": "while True: pass",
    "endless loop that handles everything": "while True:\n    try:\n        while True: pass\n    except: pass",
    "list without end": "a = []\nwhile True: a.append('x' * 1000)",
    "text of a gibibyte": "len('x' * 2 ** 30)",
    "list of a thousand million": "len([0] * 10 ** 9)",
    "number with a thousand million digits": "10 ** 10 ** 9",
    "text that doubles": "a = 'x'\nwhile True: a += a",
    "dict without end": "a = {}\nwhile True: a[len(a)] = 'x' * 100",
    "recursion": "def f(n): return f(n + 1)\nf(0)",
    "large result": "'x' * (20 << 20)",
    "deep result": "a = []\nfor _ in range(1000): a = [a]\na",
    "value that contains itself": "a = []\na.append(a)\na",
    "result that is a function": "len",
    "sort": "while True: sorted(range(1000), key=lambda n: -n)",
    "calls without end": "while True: echo('a')",
    "large argument": "echo('x' * (40 << 20))",
    "deep argument": "a = []\nfor _ in range(1000): a = [a]\necho(a)",
    "argument without end": "a = []\nwhile True:\n    a.append(a)\n    echo(a)",
    "many calls at once": "import asyncio\nawait asyncio.gather(*[echo(n) for n in range(1000)])",
}
# Whether these fail is a matter of the interpreter.
HARMLESS_IN_PYTHON = {
    "regular expression": "import re\nre.match('(a+)+$', 'a' * 60 + 'b')",
    "format": "'{:>1000000000}'.format(1)",
    "long source": "a = 1\n" * 100_000,
    "long chain": "a = 1" + " + 1" * 50_000,
    "closed interpreter": "raise SystemExit",
    "null byte": "\0",
    "surrogate": "'\\ud800'.encode()",
    "nested source": "(" * 5000 + ")" * 5000,
}
STARLARK = {
    "endless loop": "while True: pass",
    "list without end": "a = []\nwhile True: a.append('x' * 1000)",
    "text of a gibibyte": "len('x' * (1 << 30))",
    "recursion": "def f(n): return f(n + 1)\nf(0)",
    "large result": "'x' * (20 << 20)",
    "calls without end": "while True: echo('a')",
}


def echo(value: Any) -> Any:
    return value


def of_value(kind: str) -> dict[str, Any]:
    """Returns a schema of arguments with one value of this type."""
    return {"type": "object", "properties": {"value": {"type": kind}}}


class Hostile(unittest.TestCase):
    def run_hostile(self, code: str, language: Language) -> bool:
        """Returns whether a script failed, after another one has run."""
        failed = False
        try:
            airlock.run_script(code, [echo], language=language, limits=LIMITS)
        except (airlock.ScriptError, airlock.LimitExceeded, ValueError):
            failed = True
        self.assertEqual(airlock.run_script("echo(2) + 1", [echo], language=language), 3)
        return failed

    def test_hostile_scripts_in_python_fail(self) -> None:
        for name, code in PYTHON.items():
            with self.subTest(name=name):
                self.assertTrue(self.run_hostile(code, "python"))

    def test_strange_scripts_in_python_harm_nothing(self) -> None:
        for name, code in HARMLESS_IN_PYTHON.items():
            with self.subTest(name=name):
                self.run_hostile(code, "python")

    def test_hostile_scripts_in_starlark_fail(self) -> None:
        for name, code in STARLARK.items():
            with self.subTest(name=name):
                self.assertTrue(self.run_hostile(code, "starlark"))

    def test_printed_text_is_bounded(self) -> None:
        for language in get_args(Language):
            with self.subTest(language=language):
                run = airlock.start_script("for n in range(3000): print('x' * 1000)", language=language)
                self.assertLess(len(run.output), 2 << 20)

    def test_large_messages_of_exceptions_are_cut(self) -> None:
        def refuse() -> None:
            raise ValueError("x" * (10 << 20))

        with self.assertRaises(airlock.ToolFailed) as caught:
            airlock.run_script("refuse()", [refuse])
        self.assertLess(len(str(caught.exception)), 100_000)


class EndlessList(list[int]):
    def __iter__(self) -> Iterator[int]:
        return itertools.count()


class EndlessMapping(Mapping[str, int]):
    def __getitem__(self, name: str) -> int:
        return 1

    def __iter__(self) -> Iterator[str]:
        return map(str, itertools.count())

    def __len__(self) -> int:
        return 1


@dataclasses.dataclass
class EndlessTree:
    """Makes more of itself whenever it is read."""

    left: Any = None
    right: Any = None

    def __getattribute__(self, name: str) -> Any:
        return EndlessTree() if name in ("left", "right") else super().__getattribute__(name)


class LargeFields:
    """Has attributes that are made when they are read: a hundred of them would take gigabytes."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("part"):
            return "x" * (32 << 20)
        raise AttributeError(name)


def hostile_values() -> dict[str, Any]:
    """Returns values that have no JSON form, or that are too deep or too large."""
    loop: list[Any] = []
    loop.append(loop)
    members: dict[str, Any] = {}
    members["more"] = members
    deep: Any = frozenset()
    for _ in range(200):
        deep = frozenset([deep])
    parts = dataclasses.make_dataclass("Parts", [f"part{n}" for n in range(100)], bases=(LargeFields,), init=False)
    return {
        "list that contains itself": loop,
        "dict that contains itself": members,
        "list without end": EndlessList([1]),
        "mapping without end": EndlessMapping(),
        "attributes without end": EndlessTree(),
        "attributes that are large together": parts(),
        "range of a million million": range(10 ** 12),
        "iterator": itertools.count(),
        "generator": (n for n in itertools.count()),
        "sets in each other": deep,
        "nan": float("nan"),
        "infinity": [float("-inf")],
        "set with nan": {1.0, float("nan")},
        "integer of a million digits": 1 << 3_000_000,
        "integer below 64 bits": -(2 ** 63) - 1,
        "text of 65 MiB": "x" * (65 << 20),
        "wide text": "\u4e00" * (23 << 20),
        "bytes of 60 MiB": bytes(60 << 20),
        "keys that are no text": {1: 2},
        "keys of several types": {"a": 1, None: 2, (1, 2): 3},
        "key with half of a pair": {"\ud800": 1},
        "text with half of a pair": "\ud800",
        "many members": dict.fromkeys(map(str, range(600_000))),
    }


class Values(unittest.TestCase):
    def test_hostile_results_of_functions_are_failures_of_the_call(self) -> None:
        for name, value in hostile_values().items():
            with self.subTest(name=name), self.assertRaises(airlock.ToolFailed) as caught:
                airlock.run_script("take()", [airlock.tool(lambda: value, name="take")], limits=LIMITS)
            self.assertIsInstance(caught.exception.__cause__, (TypeError, ValueError), name)
            self.assertEqual(airlock.run_script("echo(2) + 1", [echo]), 3)

    def test_hostile_inputs_are_refused(self) -> None:
        for name, value in hostile_values().items():
            with self.subTest(name=name), self.assertRaises((TypeError, ValueError)):
                airlock.run_script("value", inputs={"value": value})

    def test_a_set_of_several_types_has_the_same_order_each_time(self) -> None:
        self.assertEqual(airlock.run_script("value", inputs={"value": {1, "a", None, (2, 3)}}), ["a", 1, [2, 3], None])


class Arguments(unittest.TestCase):
    def test_a_parameter_without_a_name_keeps_its_place(self) -> None:
        def pair(a: int = 1, b: int = 2, /) -> list[int]:
            return [a, b]

        for call, value in ("pair(b=5)", [1, 5]), ("pair(7)", [7, 2]), ("pair()", [1, 2]):
            with self.subTest(call=call):
                self.assertEqual(airlock.run_script(call, [pair]), value)

    def test_a_schema_that_is_no_json_object_is_refused(self) -> None:
        deep: dict[str, Any] = {}
        for _ in range(10_000):
            deep = {"not": deep}
        endless: dict[str, Any] = {}
        endless["not"] = endless
        schemas: list[Any] = [None, [], "object", {"default": {1}}, deep, endless]
        for schema in schemas:
            with self.subTest(schema=type(schema)), self.assertRaises(airlock.BadTool):
                airlock.run_script("1", [airlock.Tool(echo, name="echo", input_schema=schema)])

    def test_a_schema_that_is_set_after_a_run_holds_for_the_next(self) -> None:
        tool = airlock.Tool(echo, name="echo", input_schema=of_value("string"))
        self.assertEqual(airlock.run_script("echo('a')", [tool]), "a")
        tool.input_schema = of_value("integer")
        with self.assertRaises(airlock.ToolFailed):
            airlock.run_script("echo('a')", [tool])

    def test_a_script_cannot_set_what_partial_has_set(self) -> None:
        def query(table: str, user: str = "nobody") -> list[str]:
            return [table, user]

        def query_more(table: str, user: str = "nobody", **more: Any) -> list[str]:
            return [table, user]

        for function in query, query_more:
            tools = [airlock.tool(functools.partial(function, user="ann"), name="query")]
            for call in "query('a')", "query('a', user=None)":
                with self.subTest(function=function.__name__, call=call):
                    self.assertEqual(airlock.run_script(call, tools), ["a", "ann"])
            with self.assertRaises(airlock.ToolFailed) as caught:
                airlock.run_script("query('a', user='bob')", tools)
            self.assertEqual(caught.exception.code, "airlock.bad_arguments")

    def test_an_argument_that_cannot_be_none_has_its_default(self) -> None:
        def take(count: int = 5, note: Optional[str] = "none") -> list[Any]:
            return [count, note]

        self.assertEqual(airlock.run_script("take(count=None)", [take]), [5, "none"])
        self.assertEqual(airlock.run_script("take(note=None)", [take]), [5, None])

    def test_decimals_that_no_bound_holds_for_are_refused(self) -> None:
        def pay(amount: decimal.Decimal) -> None:
            raise AssertionError(amount)

        for amount in "NaN", "sNaN", "-Infinity", "1e999999", "1e-999999":
            with self.subTest(amount=amount), self.assertRaises(airlock.ToolFailed) as caught:
                airlock.run_script(f"pay({amount!r})", [pay])
            self.assertEqual(caught.exception.code, "ValueError")


class Programs(unittest.TestCase):
    def test_no_tool_is_called_after_an_exception_that_ends_programs(self) -> None:
        called: list[str] = []

        def leave() -> None:
            raise SystemExit(3)

        def note() -> None:
            called.append("note")

        with self.assertRaises(SystemExit):
            airlock.run_script("try:\n    leave()\nexcept Exception: pass\nnote()", [leave, note])
        self.assertEqual(called, [])

    def test_an_async_tool_that_ends_programs_leaves_the_loop_to_other_runs(self) -> None:
        async def leave() -> None:
            raise SystemExit(3)

        async def add(a: int, b: int) -> int:
            return a + b

        with self.assertRaises(SystemExit):
            airlock.run_script("leave()", [leave], limits=LIMITS)
        self.assertEqual(airlock.run_script("add(1, 2)", [add], limits=LIMITS), 3)

    def test_an_approval_that_a_tool_needs_after_a_run_is_not_left_out(self) -> None:
        tool = airlock.tool(echo)
        self.assertEqual(airlock.run_script("echo(1)", [tool]), 1)
        tool.needs_approval = True
        with self.assertRaises(airlock.ApprovalNeeded):
            airlock.run_script("echo(1)", [tool])


class Limits(unittest.TestCase):
    def test_each_limit_is_named_when_it_is_reached(self) -> None:
        def call() -> None: ...

        for code, limits, name in [
            ("while True: pass", airlock.Limits(cpu_seconds=0.1), "cpu_seconds"),
            ("while True: pass", airlock.Limits(seconds=0.1), "seconds"),
            ("while True: call()", airlock.Limits(calls=3), "calls"),
            ("'x' * (2 << 20)", None, "result"),
        ]:
            with self.subTest(limit=name), self.assertRaises(airlock.LimitExceeded) as caught:
                airlock.run_script(code, [call], limits=limits)
            self.assertEqual(caught.exception.limit, name)

    def test_a_run_within_its_limits_ends(self) -> None:
        self.assertEqual(airlock.run_script("[echo(n) for n in range(3)]", [echo], limits=airlock.Limits(calls=3)), [0, 1, 2])

    def test_the_number_of_calls_at_the_same_time_is_bounded(self) -> None:
        running, most = 0, 0

        async def call() -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await wait_a_turn()
            running -= 1

        code = "import asyncio\nawait asyncio.gather(*[call() for _ in range(20)])\nresult = 1"
        self.assertEqual(airlock.run_script(code, [call], limits=airlock.Limits(parallel_calls=3)), 1)
        self.assertLessEqual(most, 3)

    def test_a_limit_of_time_that_passes_in_a_function_ends_the_run_when_the_function_returns(self) -> None:
        calls: list[float] = []

        def wait() -> None:
            calls.append(time.monotonic())
            while time.monotonic() < calls[0] + 1.5:
                pass

        for code in "wait()\nwait()", "wait()":
            calls.clear()
            with self.subTest(code=code):
                with self.assertRaises(airlock.LimitExceeded) as caught:
                    # Long enough for the first call to begin on a busy machine.
                    airlock.run_script(code, [wait], limits=airlock.Limits(seconds=1))
                self.assertEqual((caught.exception.limit, len(calls)), ("seconds", 1))

    def test_a_limit_out_of_its_range_is_refused_by_its_name(self) -> None:
        for name, values in {
            "memory_mb": (0, -1, 1025, float("nan")),
            "cpu_seconds": (0, 3601),
            "seconds": (0, -1, float("inf")),
            "calls": (0, -1, 20_001),
            "parallel_calls": (0, 1001),
            "nesting": (0, 17),
        }.items():
            for value in values:
                with self.subTest(name=name, value=value), self.assertRaisesRegex(ValueError, name):
                    airlock.Limits(**{name: value})  # type: ignore[arg-type]
            with self.subTest(name=name), self.assertRaisesRegex(TypeError, name):
                airlock.Limits(**{name: "1"})  # type: ignore[arg-type]


async def wait_a_turn() -> None:
    import asyncio

    for _ in range(5):
        await asyncio.sleep(0)


if __name__ == "__main__":
    unittest.main()
