"""Functions that a gateway of the program calls: what they raise that ends programs, and their own requests to the gateway."""

from __future__ import annotations

import asyncio
import threading
import unittest
from collections.abc import Callable, Iterator
from typing import Any

from support import WAIT_SECONDS, run_async, run_program
from test_gateway import QUESTION, InDirectory

import airlock

DEPTH = 3
"""Greatest depth of calls in the configuration of these tests."""


class Exits(InDirectory):
    def leaving(self) -> list[Callable[[], Any]]:
        def leave() -> None:
            raise SystemExit(3)

        async def leave_async() -> None:
            raise SystemExit(3)

        def leave_generators() -> None:
            raise GeneratorExit

        return [leave, leave_async, leave_generators]

    def test_a_function_that_ends_programs_ends_the_waiting_of_its_caller(self) -> None:
        with airlock.Gateway(self.config(), self.leaving()) as gateway:
            for name in "leave", "leave_async":
                with self.subTest(name=name), self.assertRaises(SystemExit) as caught:
                    gateway.call(f"internal-{name}")
                self.assertEqual(caught.exception.code, 3)
            with self.assertRaises(GeneratorExit):
                gateway.call("internal-leave_generators")
            self.assertEqual(len(gateway.tools(tools=["internal-*"])), 3)

    def test_a_script_that_handles_it_is_ended_too(self) -> None:
        called: list[str] = []

        def note() -> None:
            called.append("note")

        with airlock.Gateway(self.config(), [*self.leaving(), note], code_mode=True) as gateway:
            for leave in "internal.leave()", "await asyncio.gather(internal.leave_async(), internal.leave_async())":
                code = f"import asyncio\ntry:\n    {leave}\nexcept Exception: pass\ninternal.note()"
                with self.subTest(leave=leave), self.assertRaises(SystemExit):
                    gateway.run_script(code, language="python")
        self.assertEqual(called, [])

    def test_a_model_that_ends_programs_ends_the_waiting_for_its_chat(self) -> None:
        def whole(_: dict[str, Any]) -> str:
            raise SystemExit(3)

        def pieces(_: dict[str, Any]) -> Iterator[str]:
            yield "a"
            raise SystemExit(3)

        with airlock.Gateway(self.config(), on_model=whole) as gateway, self.assertRaises(SystemExit):
            gateway.chat(QUESTION, model="own/any")
        with airlock.Gateway({"store": str(self.directory / "pieces.db")}, on_model=pieces) as gateway:
            stream = gateway.chat(QUESTION, model="own/any", stream=True)
            with self.assertRaises(SystemExit):
                list(stream)

    def test_beside_an_event_loop_the_awaiting_task_receives_it(self) -> None:
        def leave() -> None:
            raise GeneratorExit

        async def main() -> None:
            async with airlock.Gateway(self.config(), [leave]) as gateway:
                with self.assertRaises(GeneratorExit):
                    await gateway.call_async("internal-leave")

        run_async(main())

    def test_the_handler_of_a_signal_ends_the_waiting_wherever_it_runs(self) -> None:
        # The handler runs in the first function of Python that the calling thread enters, which is one of this package.
        done = run_program(f"""
            import signal
            import airlock
            from airlock import _loop

            async def never() -> None:
                pass

            original = _loop.Call.__init__
            def interrupted(self, *given):
                original(self, *given)
                signal.raise_signal(signal.SIGINT)
            _loop.Call.__init__ = interrupted

            with airlock.Gateway({self.config()!r}, [never]) as gateway:
                try:
                    gateway.call("internal-never")
                except KeyboardInterrupt:
                    print("interrupted")
        """)
        self.assertEqual((done.stdout, done.stderr), ("interrupted\n", ""))


class Depths(InDirectory):
    mcp: dict[str, Any] = {"tool_manager_config": {"max_call_depth": DEPTH}}

    def test_functions_that_call_their_gateway_end_at_the_depth_of_calls(self) -> None:
        gateway: airlock.Gateway
        made: list[str] = []

        def again() -> str:
            made.append("again")
            return gateway.call("internal-again").text

        async def again_async() -> str:
            made.append("again_async")
            return (await gateway.call_async("internal-again_async")).text

        with airlock.Gateway(self.config(mcp=self.mcp), [again, again_async]) as gateway:
            for name in "again", "again_async":
                made.clear()
                with self.subTest(name=name), self.assertRaises(airlock.CallFailed) as failed:
                    gateway.call(f"internal-{name}")
                self.assertEqual(made, [name] * DEPTH)
                self.assertIn(f"limit of {DEPTH} levels of nested calls", str(failed.exception))

    def test_a_script_of_a_function_counts_with_its_calls(self) -> None:
        gateway: airlock.Gateway
        made: list[int] = []

        def again() -> str:
            made.append(1)
            return gateway.run_script("result = internal.again()", language="starlark").text

        with airlock.Gateway(self.config(mcp=self.mcp), [again], code_mode=True) as gateway:
            with self.assertRaises(airlock.CallFailed) as failed:
                gateway.run_script("result = internal.again()", language="starlark")
            # The script, the function, the next script; its call would be too deep.
            self.assertEqual(len(made), 1)
            self.assertIn("levels of nested calls", str(failed.exception))

    def test_models_that_chat_with_their_gateway_end_at_the_depth_of_calls(self) -> None:
        gateway: airlock.Gateway
        made: list[int] = []

        def whole(_: dict[str, Any]) -> str:
            made.append(1)
            return gateway.chat(QUESTION, model="own/any").text

        def pieces(_: dict[str, Any]) -> Iterator[str]:
            made.append(1)
            for chunk in gateway.chat(QUESTION, model="own/any", stream=True):
                yield str(chunk)

        models: list[Any] = [whole, pieces]
        for model in models:
            made.clear()
            config = {"store": str(self.directory / f"{model.__name__}.db"), "mcp": self.mcp}
            with airlock.Gateway(config, on_model=model) as gateway:
                with self.subTest(model=model.__name__), self.assertRaises(airlock.ChatFailed):
                    list(gateway.chat(QUESTION, model="own/any", stream=True))
                self.assertEqual(len(made), DEPTH)

    def test_a_script_of_a_function_is_within_the_script_around_its_request(self) -> None:
        gateway: airlock.Gateway
        limits = airlock.Limits(nesting=1)

        def inner() -> Any:
            try:
                return airlock.run_script("1", limits=limits)
            except airlock.LimitExceeded as error:
                return error.limit

        async def inner_async() -> Any:
            try:
                return await airlock.run_script_async("1", limits=limits)
            except airlock.LimitExceeded as error:
                return error.limit

        def outer(name: str) -> str:
            return gateway.call(name).text

        with airlock.Gateway(self.config(), [inner, inner_async]) as gateway:
            for name in "internal-inner", "internal-inner_async":
                with self.subTest(name=name):
                    self.assertEqual(gateway.call(name).text, "1")
                    self.assertEqual(airlock.run_script("outer(name)", [outer], {"name": name}), "nesting")

    def test_functions_one_after_the_other_are_not_deep(self) -> None:
        def one() -> int:
            return 1

        with airlock.Gateway(self.config(mcp={"tool_manager_config": {"max_call_depth": 1}}), [one]) as gateway:
            self.assertEqual([gateway.call("internal-one").text for _ in range(3)], ["1"] * 3)


class Places(InDirectory):
    def test_functions_that_hold_all_threads_get_the_results_of_others(self) -> None:
        gateway: airlock.Gateway
        # As many as there are threads for functions that no other waits for.
        count = 512
        together = threading.Barrier(count, timeout=WAIT_SECONDS)

        def inner() -> int:
            return 1

        def outer() -> str:
            together.wait()
            return gateway.call("internal-inner", timeout=30).text

        async def main() -> list[str]:
            calls = [gateway.call_async("internal-outer", timeout=60) for _ in range(count)]
            return [result.text for result in await asyncio.gather(*calls)]

        with airlock.Gateway(self.config(), [inner, outer]) as gateway:
            self.assertEqual(run_async(main()), ["1"] * count)

    def test_functions_that_need_threads_within_too_many_calls_fail(self) -> None:
        gateway: airlock.Gateway
        made: list[int] = []
        mcp = {"tool_manager_config": {"max_call_depth": 16}}

        def again() -> str:
            made.append(1)
            return str(airlock.run_script("go()", [go], limits=airlock.Limits(nesting=16)))

        def go() -> str:
            return gateway.call("internal-again").text

        with airlock.Gateway(self.config(mcp=mcp), [again]) as gateway:
            with self.assertRaises(airlock.CallFailed) as failed:
                gateway.call("internal-again")
        # Each is within a script and a call more than the one before: the ninth is within 16.
        self.assertEqual(len(made), 8)
        self.assertIn("within 16 other calls, of which each waits for the next; the limit is 15", str(failed.exception))


if __name__ == "__main__":
    unittest.main()
