"""Functions as tools: their schemas, their arguments and results, and what they raise."""

from __future__ import annotations

import asyncio
import collections
import contextvars
import dataclasses
import datetime
import decimal
import enum
import gc
import threading
import unittest
import uuid
import weakref
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal, NewType, Optional, TypedDict, Union
from unittest import mock

import pydantic
from support import WAIT_SECONDS, run_async

import airlock

Identifier = NewType("Identifier", int)
variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="none")


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    """A point."""

    x: int
    y: int = 0


@dataclasses.dataclass
class Tree:
    name: str
    children: list[Tree] = dataclasses.field(default_factory=list)


class Address(TypedDict, total=False):
    street: str


class Order(pydantic.BaseModel):
    item: str
    count: Annotated[int, pydantic.Field(ge=1)] = 1


class Schemas(unittest.TestCase):
    def schema_of(self, hint: Any) -> dict[str, Any]:
        def function(value: Any) -> None: ...

        function.__annotations__["value"] = hint
        schema: dict[str, Any] = airlock.tool(function).input_schema["properties"]["value"]
        return schema

    def test_each_type_has_its_schema(self) -> None:
        text = {"type": "string"}
        whole = {"type": "integer"}
        for hint, schema in [
            (str, text),
            (int, whole),
            (Identifier, whole),
            (float, {"type": "number"}),
            (bool, {"type": "boolean"}),
            (None, {"type": "null"}),
            (Any, {}),
            (list[int], {"type": "array", "items": whole}),
            (list, {"type": "array", "items": {}}),
            (set[str], {"type": "array", "items": text, "uniqueItems": True}),
            (tuple[int, ...], {"type": "array", "items": whole}),
            (tuple[int, str], {"type": "array", "prefixItems": [whole, text], "items": False, "minItems": 2, "maxItems": 2}),
            (dict[str, int], {"type": "object", "additionalProperties": whole}),
            (dict, {"type": "object", "additionalProperties": True}),
            (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
            (Literal["a", 1], {"enum": ["a", 1]}),
            (Color, {"type": "string", "enum": ["red", "blue"]}),
            (Optional[int], {"anyOf": [whole, {"type": "null"}]}),
            (Union[int, str], {"anyOf": [whole, text]}),
            (int | None, {"anyOf": [whole, {"type": "null"}]}),
            (Annotated[str, "A name."], text | {"description": "A name."}),
            (bytes, text | {"contentEncoding": "base64"}),
            (datetime.datetime, text | {"format": "date-time"}),
            (decimal.Decimal, {"type": ["string", "number"]}),
            (Point, {"type": "object", "properties": {"x": whole, "y": whole | {"default": 0}}, "required": ["x"],
                     "additionalProperties": False, "description": "A point."}),
            (Address, {"type": "object", "properties": {"street": text}, "required": [], "additionalProperties": False}),
        ]:
            with self.subTest(hint=hint):
                self.assertEqual(self.schema_of(hint), schema)

    def test_a_type_that_contains_itself_is_a_definition(self) -> None:
        def walk(tree: Tree) -> str:
            return tree.children[0].name

        schema = airlock.tool(walk).input_schema
        self.assertEqual(schema["properties"]["tree"], {"$ref": "#/$defs/Tree"})
        self.assertEqual(schema["$defs"]["Tree"]["properties"]["children"]["items"], {"$ref": "#/$defs/Tree"})
        self.assertEqual(airlock.run_script("walk({'name': 'a', 'children': [{'name': 'b'}]})", [walk]), "b")

    def test_the_docstring_describes_the_tool_and_its_parameters(self) -> None:
        def find(query: str, limit: int = 10) -> None:
            """Finds pages.

            In all of them.

            Args:
                query: Words, and
                    more words.
                limit: Most pages.
            """

        found = airlock.tool(find)
        self.assertEqual(found.description, "Finds pages.\n\nIn all of them.")
        properties = found.input_schema["properties"]
        self.assertEqual(properties["query"]["description"], "Words, and more words.")
        self.assertEqual(properties["limit"], {"type": "integer", "default": 10, "description": "Most pages."})
        self.assertEqual(found.input_schema["required"], ["query"])

    def test_a_function_that_cannot_be_a_tool_is_refused(self) -> None:
        def variadic(*values: int) -> None: ...
        def strange(value: threading.Lock) -> None: ...
        def keys(value: dict[int, str]) -> None: ...
        def missing(value: Nowhere) -> None: ...  # type: ignore[name-defined] # noqa: F821

        refused: list[Any] = [variadic, strange, keys, missing, 1, lambda: 1]
        for function in refused:
            with self.subTest(function=function), self.assertRaises(airlock.BadTool):
                airlock.run_script("1", [function])

    def test_names_that_scripts_cannot_use_are_refused(self) -> None:
        for name in "print", "for", "a b", "result", "größe":
            with self.subTest(name=name), self.assertRaises(airlock.BadTool):
                airlock.run_script("1", [airlock.tool(answer, name=name)])
        with self.assertRaises(airlock.BadTool):
            airlock.run_script("1", [answer, answer])


class Calls(unittest.TestCase):
    def received(self, hint: Any, argument: str) -> Any:
        """Returns the argument that a function with this annotation receives from a script."""
        seen: list[Any] = []

        def take(value: Any) -> None:
            seen.append(value)

        take.__annotations__["value"] = hint
        airlock.run_script(f"take({argument})", [take])
        return seen[0]

    def test_arguments_arrive_in_the_types_of_their_annotations(self) -> None:
        expected: list[tuple[Any, str, Any]] = [
            (int, "2", 2),
            (int, "2.0", 2),
            (float, "2", 2.0),
            (tuple[int, ...], "[1, 2]", (1, 2)),
            (tuple[int, float], "[1, 2]", (1, 2.0)),
            (set[int], "[1, 2]", {1, 2}),
            (list[Color], "['red']", [Color.RED]),
            (dict[str, float], "{'a': 1}", {"a": 1.0}),
            (Literal["a", 1], "1", 1),
            (Optional[Color], "None", None),
            (Union[int, Point], "{'x': 1}", Point(1)),
            (Point, "{'x': 1, 'y': 2}", Point(1, 2)),
            (Address, "{'street': 'a'}", {"street": "a"}),
            (Order, "{'item': 'tea'}", Order(item="tea")),
            (Annotated[int, pydantic.Field(ge=1)], "2", 2),
            (bytes, "'AQI='", b"\1\2"),
            (datetime.datetime, "'2026-01-02T03:04:05Z'", datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)),
            (datetime.date, "'2026-01-02'", datetime.date(2026, 1, 2)),
            (datetime.time, "'03:04:05'", datetime.time(3, 4, 5)),
            (decimal.Decimal, "'0.10'", decimal.Decimal("0.10")),
            (uuid.UUID, "'" + "0" * 31 + "1'", uuid.UUID(int=1)),
            (Any, "[1, 'a', None]", [1, "a", None]),
        ]
        for hint, argument, value in expected:
            with self.subTest(hint=hint, argument=argument):
                received = self.received(hint, argument)
                self.assertEqual(received, value)
                self.assertIs(type(received), type(value))

    def test_results_arrive_as_json(self) -> None:
        expected: list[tuple[Any, Any]] = [
            (None, None),
            ("12", "12"),
            ((1, 2), [1, 2]),
            (Point(1), {"x": 1, "y": 0}),
            ([Order(item="tea")], [{"item": "tea", "count": 1}]),
            (Color.RED, "red"),
            ({"b", "a"}, ["a", "b"]),
            (b"\1\2", "AQI="),
            (datetime.date(2026, 1, 2), "2026-01-02"),
            (decimal.Decimal("0.10"), "0.10"),
            (uuid.UUID(int=1), str(uuid.UUID(int=1))),
            (range(3), [0, 1, 2]),
            (Text("a"), "a"),
            (collections.OrderedDict(a=Whole(1)), {"a": 1}),
        ]
        for value, result in expected:
            with self.subTest(value=value):
                self.assertEqual(airlock.run_script("give()", [airlock.tool(lambda: value, name="give")]), result)  # noqa: B023

    def test_a_result_without_a_json_form_is_a_failure_of_the_call(self) -> None:
        loop: list[Any] = []
        loop.append(loop)
        for value in object(), float("nan"), 2**64, loop:
            with self.subTest(type=type(value)), self.assertRaises(airlock.ToolFailed) as caught:
                airlock.run_script("give()", [airlock.tool(lambda: value, name="give")])  # noqa: B023
            self.assertIsInstance(caught.exception.__cause__, (TypeError, ValueError))

    def test_arguments_are_passed_by_position_and_by_name(self) -> None:
        def show(a: int, b: int = 2, *, c: int = 3) -> list[int]:
            return [a, b, c]

        def only(a: int, /, b: int = 2, **more: Any) -> list[Any]:
            return [a, b, more]

        self.assertEqual(airlock.run_script("[show(1), show(1, 5), show(1, c=4), show(b=1, a=0)]", [show]),
                         [[1, 2, 3], [1, 5, 3], [1, 2, 4], [0, 1, 3]])
        self.assertEqual(airlock.run_script("only(1, d=4)", [only]), [1, 2, {"d": 4}])

    def test_arguments_that_do_not_fit_do_not_reach_the_function(self) -> None:
        def double(value: int) -> int:
            raise AssertionError("it is not called")

        for call in "double('a')", "double()", "double(1, other=2)", "double(value=None)":
            with self.subTest(call=call), self.assertRaises(airlock.ScriptError) as caught:
                airlock.run_script(call, [double])
            self.assertIsNone(caught.exception.__cause__)

    def test_an_exception_is_a_failure_of_the_call_and_the_cause_for_the_caller(self) -> None:
        def refuse(value: str) -> None:
            raise KeyError(value)

        with self.assertRaises(airlock.ToolFailed) as caught:
            airlock.run_script("refuse('first')\n", [refuse])
        failure = caught.exception
        self.assertEqual((failure.tool, failure.code, failure.kind, failure.line), ("refuse", "KeyError", "tool", 1))
        cause = failure.__cause__
        assert isinstance(cause, KeyError) and cause.__traceback__ is not None
        self.assertEqual(cause.args, ("first",))
        frames = []
        traceback: Any = cause.__traceback__
        while traceback is not None:
            frames.append(traceback.tb_frame.f_code.co_name)
            traceback = traceback.tb_next
        self.assertEqual(frames[-1], "refuse")

    def test_a_script_can_handle_a_failure_and_the_cause_is_that_of_the_one_that_it_did_not_handle(self) -> None:
        def refuse(value: str) -> None:
            raise ValueError(value)

        code = """
            try:
                refuse('a')
            except ToolError as e:
                result = [e.code, e.message]
        """
        handled = airlock.run_script("\n".join(line[12:] for line in code.splitlines()), [refuse])
        self.assertEqual(handled[0], "ValueError")
        self.assertIn("ValueError: a", handled[1])
        code = "try:\n    refuse('a')\nexcept ToolError: pass\nrefuse('b')"
        with self.assertRaises(airlock.ToolFailed) as caught:
            airlock.run_script(code, [refuse])
        self.assertEqual(caught.exception.__cause__ and caught.exception.__cause__.args, ("b",))

    def test_an_exception_that_ends_programs_ends_the_run(self) -> None:
        def leave() -> None:
            raise SystemExit(3)

        with self.assertRaises(SystemExit) as caught:
            airlock.run_script("try:\n    leave()\nexcept Exception: pass\nwhile True: pass", [leave])
        self.assertEqual(caught.exception.code, 3)

    def test_a_plain_function_runs_on_the_thread_and_in_the_context_of_its_caller(self) -> None:
        def where() -> str:
            threads.append(threading.get_ident())
            return variable.get()

        threads: list[int] = []
        token = variable.set("mine")
        try:
            self.assertEqual(airlock.run_script("where() + where()", [where]), "minemine")
            self.assertEqual(airlock.run_script("import asyncio\nawait asyncio.gather(where(), where())", [where]), ["mine", "mine"])
        finally:
            variable.reset(token)
        self.assertEqual(threads[:2], [threading.get_ident()] * 2)

    def test_plain_functions_that_are_called_at_once_run_at_the_same_time(self) -> None:
        barrier = threading.Barrier(2, timeout=60)

        def meet(name: str) -> str:
            barrier.wait()
            return name

        self.assertEqual(airlock.run_script("import asyncio\nawait asyncio.gather(meet('a'), meet('b'))", [meet]), ["a", "b"])

    def test_a_tool_can_run_a_script(self) -> None:
        def inner(value: int) -> int:
            result: int = airlock.run_script("double(value)", [double], {"value": value})
            return result

        def double(value: int) -> int:
            return value * 2

        self.assertEqual(airlock.run_script("inner(2) + inner(3)", [inner]), 10)

    def test_methods_callable_objects_and_builtins_can_be_tools(self) -> None:
        counter = Counter()
        tools: list[Callable[..., Any]] = [counter.add, airlock.tool(Adder(3), name="adder")]
        self.assertEqual(airlock.run_script("add(2)\nadd(5)\nadder(1)", tools), 4)
        self.assertEqual(counter.total, 7)

    def test_a_tool_with_a_schema_of_its_own(self) -> None:
        schema = {"type": "object", "properties": {"b": {"type": "integer"}, "a": {"type": "integer"}}, "required": ["a", "b"]}
        tool = airlock.Tool(lambda **arguments: arguments, name="show", input_schema=schema)
        self.assertEqual(airlock.run_script("show(1, a=2)", [tool]), {"b": 1, "a": 2})


class AsyncTools(unittest.TestCase):
    def test_async_tools_run_on_a_private_loop_at_the_same_time(self) -> None:
        both = asyncio.Event()
        arrived: list[str] = []

        async def meet(name: str) -> str:
            arrived.append(name)
            if len(arrived) == 2:
                both.set()
            await both.wait()
            return name + variable.get()

        token = variable.set("!")
        try:
            value = airlock.run_script("import asyncio\nawait asyncio.gather(meet('a'), meet('b'))", [meet])
        finally:
            variable.reset(token)
        self.assertEqual(value, ["a!", "b!"])

    def test_the_private_loop_is_the_same_in_each_run(self) -> None:
        async def loop() -> int:
            return id(asyncio.get_running_loop())

        self.assertEqual(airlock.run_script("loop()", [loop]), airlock.run_script("loop()", [loop]))

    def test_an_async_tool_that_would_wait_for_its_own_loop_is_told(self) -> None:
        async def outer() -> Any:
            return airlock.run_script("inner()", [inner])

        async def inner() -> int:
            return 1

        with self.assertRaises(airlock.ToolFailed) as caught:
            airlock.run_script("outer()", [outer])
        self.assertIsInstance(caught.exception.__cause__, RuntimeError)

    def test_async_tools_run_on_the_loop_of_their_caller(self) -> None:
        async def loop() -> int:
            return id(asyncio.get_running_loop())

        async def run() -> bool:
            return bool(await airlock.run_script_async("loop()", [loop]) == id(asyncio.get_running_loop()))

        self.assertTrue(run_async(run()))

    def test_plain_functions_do_not_block_the_loop_of_their_caller(self) -> None:
        go = threading.Event()

        def wait() -> bool:
            return go.wait(60)

        async def run() -> Any:
            running = asyncio.create_task(airlock.run_script_async("wait()", [wait]))
            asyncio.get_running_loop().call_soon(go.set)
            return await running

        self.assertTrue(run_async(run()))

    def test_an_exception_of_an_async_tool_is_the_cause(self) -> None:
        async def refuse() -> None:
            raise LookupError("gone")

        with self.assertRaises(airlock.ToolFailed) as caught:
            run_async(airlock.run_script_async("refuse()", [refuse]))
        self.assertIsInstance(caught.exception.__cause__, LookupError)
        with self.assertRaises(airlock.ToolFailed) as caught:
            airlock.run_script("refuse()", [refuse])
        self.assertIsInstance(caught.exception.__cause__, LookupError)

    def test_cancelling_stops_the_script_and_its_tools(self) -> None:
        async def run() -> bool:
            begun, cancelled = asyncio.Event(), asyncio.Event()

            async def wait() -> None:
                begun.set()
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    cancelled.set()
                    raise

            task = asyncio.create_task(airlock.run_script_async("wait()", [wait]))
            await begun.wait()
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            return await cancelled.wait()

        self.assertTrue(run_async(run()))

    def test_a_limit_of_time_cancels_the_tools(self) -> None:
        async def run() -> bool:
            cancelled = asyncio.Event()

            async def wait() -> None:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    cancelled.set()
                    raise

            with self.assertRaises(airlock.LimitExceeded) as caught:
                await airlock.run_script_async("wait()", [wait], limits=airlock.Limits(seconds=1))
            self.assertEqual(caught.exception.limit, "seconds")
            return await cancelled.wait()

        self.assertTrue(run_async(run()))

    def test_printed_text_is_delivered_on_the_loop_of_the_caller_before_the_end(self) -> None:
        async def run() -> list[Any]:
            heard: list[Any] = []
            thread = threading.get_ident()
            await airlock.run_script_async("print('a')\nprint('b')", on_print=lambda text: heard.append((text, threading.get_ident() == thread)))
            return heard

        self.assertEqual(run_async(run()), [("a", True), ("b", True)])

    def test_lines_that_wait_for_a_loop_are_few_entries_of_its_queue(self) -> None:
        printed = threading.Event()
        heard: list[str] = []

        def all_printed() -> None:
            printed.set()

        def hear(line: str) -> None:
            # Blocks the loop until the script has printed everything.
            self.assertTrue(printed.wait(WAIT_SECONDS))
            heard.append(line)

        async def run() -> int:
            loop = asyncio.get_running_loop()
            with mock.patch.object(loop, "call_soon_threadsafe", wraps=loop.call_soon_threadsafe) as schedule:
                await airlock.run_script_async("for n in range(3500): print(n)\nall_printed()", [all_printed], on_print=hear)
            return sum(call.args[0].__name__ == "deliver_lines" for call in schedule.call_args_list)

        # Three full batches, what is left, and what the loop had taken before.
        self.assertLessEqual(run_async(run()), 5)
        self.assertEqual(heard, [str(n) for n in range(3500)])

    def test_an_exception_of_the_receiver_of_printed_text_ends_the_run(self) -> None:
        def refuse(text: str) -> None:
            raise LookupError(text)

        with self.assertRaises(LookupError):
            run_async(airlock.run_script_async("print('a')\nwhile True: pass", on_print=refuse))

    def test_the_end_of_an_iterator_in_the_receiver_ends_the_run_too(self) -> None:
        none: Iterator[str] = iter(())
        with self.assertRaises(RuntimeError) as caught:
            run_async(airlock.run_script_async("print('a')\nwhile True: pass", on_print=lambda text: next(none)))
        self.assertIsInstance(caught.exception.__cause__, StopIteration)


class Preparing(unittest.TestCase):
    def test_the_same_functions_are_prepared_once(self) -> None:
        from airlock._tools import prepare

        counter = Counter()
        self.assertIs(prepare([answer]).set, prepare((answer,)).set)
        self.assertIs(prepare([counter.add]).set, prepare([counter.add]).set)
        self.assertIsNot(prepare([counter.add]).set, prepare([Counter().add]).set)
        self.assertIsNot(prepare([answer]).set, prepare([answer, counter.add]).set)

    def test_prepared_tools_do_not_keep_their_functions(self) -> None:
        def local(value: int) -> int:
            return value

        self.assertEqual(airlock.run_script("local(1)", [local]), 1)
        reference = weakref.ref(local)
        del local
        gc.collect()
        self.assertIsNone(reference())

    def test_a_function_at_the_place_of_another_is_not_taken_for_it(self) -> None:
        for number in range(200):
            tool = airlock.tool(lambda number=number: number, name="number")
            self.assertEqual(airlock.run_script("number()", [tool]), number)


class Text(str):
    def __str__(self) -> str:
        return "other"


class Whole(int):
    pass


class Counter:
    def __init__(self) -> None:
        self.total = 0

    def add(self, amount: int) -> int:
        self.total += amount
        return self.total


class Adder:
    def __init__(self, amount: int) -> None:
        self.amount = amount

    def __call__(self, value: int) -> int:
        return value + self.amount


def answer() -> int:
    return 42


if __name__ == "__main__":
    unittest.main()
