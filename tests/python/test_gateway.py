"""A gateway within the program: tools, a model, approvals, a real MCP server, HTTP."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import pickle
import shutil
import tempfile
import threading
import unittest
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from support import WAIT_SECONDS, run_async, run_program, wait_until

import airlock

PEERS = Path(os.environ.get("AIRLOCK_PYTHON_PEERS", ""))
CALL = {"id": "call_1", "type": "function", "function": {"name": "internal-price", "arguments": '{"item": "tea"}'}}
QUESTION = [{"role": "user", "content": "What does tea cost?"}]


def price(item: str) -> float:
    """Returns the price of an item."""
    return {"tea": 3.5, "cake": 4.0}[item]


def describe(item: str) -> dict[str, Any]:
    return {"item": item, "price": price(item)}


@airlock.tool(needs_approval=True)
def order(item: str, count: int) -> str:
    return f"ordered {count} {item}"


def ask_once(request: dict[str, Any]) -> str | dict[str, Any]:
    """Stands for a model that calls a tool and repeats its result."""
    last = request["messages"][-1]
    return f"It costs {last['content']}." if last["role"] == "tool" else {"tool_calls": [CALL]}


class InDirectory(unittest.TestCase):
    def setUp(self) -> None:
        self.directory = Path(tempfile.mkdtemp())
        self.addCleanup(wait_until, "the removal of the directory", self.is_removed)

    def is_removed(self) -> bool:
        # A gateway that was collected may still write how its calls ended.
        shutil.rmtree(self.directory, ignore_errors=True)
        return not self.directory.exists()

    def config(self, **keys: Any) -> dict[str, Any]:
        return {"store": str(self.directory / "airlock.db"), **keys}


class Logs(InDirectory):
    # Its definitions are not checked, of which the gateway warns. Nothing listens there.
    mcp: dict[str, Any] = {
        "client_configs": [{"name": "absent", "connection_type": "http", "connection_string": "http://127.0.0.1:1/mcp", "pin": "off"}],
    }

    def test_warnings_of_the_gateway_reach_the_log_of_the_program(self) -> None:
        warned = threading.Event()
        records: list[logging.LogRecord] = []

        class Handler(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                if "absent" in record.getMessage():
                    records.append(record)
                    warned.set()

        handler = Handler(logging.WARNING)
        logger = logging.getLogger("airlock")
        logger.addHandler(handler)
        self.addCleanup(logger.removeHandler, handler)
        with airlock.Gateway(self.config(mcp=self.mcp)):
            self.assertTrue(warned.wait(WAIT_SECONDS))
        self.assertEqual((records[0].name, records[0].levelno), ("airlock", logging.WARNING))

    def test_a_program_without_a_log_prints_no_warnings(self) -> None:
        done = run_program(f"""
            import airlock
            with airlock.Gateway({self.config(mcp=self.mcp)!r}):
                print("runs")
        """)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "runs\n", ""))

    def test_warnings_at_the_end_of_a_program_are_not_lost(self) -> None:
        done = run_program(f"""
            import airlock, logging, sys
            logging.basicConfig(stream=sys.stdout, format="%(levelname)s %(name)s")
            airlock.Gateway({self.config(mcp=self.mcp)!r}).start()
        """)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("WARNING airlock\n", done.stdout)


class Calls(InDirectory):
    def test_functions_are_tools_of_the_gateway(self) -> None:
        with airlock.Gateway(self.config(), [price, describe]) as gateway:
            tools = {tool.name: tool for tool in gateway.tools(tools=["internal-*"])}
            self.assertEqual(list(tools), ["internal-describe", "internal-price"])
            self.assertEqual(tools["internal-price"].description, "Returns the price of an item.")
            self.assertEqual(tools["internal-price"].input_schema["required"], ["item"])
            self.assertEqual(gateway.call("internal-price", {"item": "tea"}).text, "3.5")
            described = gateway.call("internal-describe", {"item": "cake"})
            self.assertEqual(described.data, {"item": "cake", "price": 4.0})
            self.assertEqual([tool.name for tool in gateway.tools(tools=[]) if tool.client], [])

    def test_a_configuration_may_be_a_file(self) -> None:
        path = self.directory / "airlock.json"
        path.write_text(json.dumps(self.config()))
        configs: list[str | os.PathLike[str]] = [path, str(path)]
        for config in configs:
            with airlock.Gateway(config, [price]) as gateway:
                self.assertEqual(gateway.call("internal-price", {"item": "tea"}).text, "3.5")

    def test_a_call_that_fails_tells_why(self) -> None:
        with airlock.Gateway(self.config(), [price]) as gateway:
            with self.assertRaises(airlock.CallFailed) as raised:
                gateway.call("internal-price", {"item": "milk"})
            self.assertEqual(raised.exception.code, "KeyError")
            with self.assertRaises(airlock.CallFailed) as refused:
                gateway.call("internal-price", {"item": 7})
            self.assertEqual(refused.exception.kind, "invalid_input")
            with self.assertRaises(airlock.CallFailed) as unknown:
                gateway.call("internal-other")
            self.assertEqual(unknown.exception.kind, "not_found")

    def test_a_script_calls_functions_in_code_mode(self) -> None:
        with airlock.Gateway(self.config(), [price], code_mode=True) as gateway:
            done = gateway.run_script("result = internal.price(item='tea')", language="starlark")
            self.assertIn("3.5", done.text)
            with self.assertRaises(airlock.CallFailed):
                gateway.run_script("result = 1 // 0", language="starlark")

    def test_a_call_that_needs_an_approval_waits_for_it(self) -> None:
        with airlock.Gateway(self.config(), [order]) as gateway:
            with self.assertRaises(airlock.ApprovalPending) as waiting:
                gateway.call("internal-order", {"item": "tea", "count": 2})
            pending = waiting.exception.pending
            self.assertEqual(pending.calls, [airlock.CallToApprove("internal-order", {"item": "tea", "count": 2})])
            self.assertEqual([(one.id, one.calls) for one in gateway.pending()], [(pending.id, pending.calls)])
            gateway.approve(pending.id)
            self.assertEqual(gateway.resume(pending.id).text, "ordered 2 tea")
            self.assertEqual(gateway.pending(), [])
            done = gateway.call("internal-order", {"item": "cake", "count": 1}, approving=True)
            self.assertEqual(done.text, "ordered 1 cake")

    def test_the_calls_of_a_script_that_are_approved_as_one_are_shown_as_lines(self) -> None:
        config = self.config(mcp={"tool_manager_config": {"code_mode_approval": "manifest"}})
        with airlock.Gateway(config, [order], code_mode=True) as gateway:
            with self.assertRaises(airlock.ApprovalPending) as waiting:
                gateway.run_script("result = internal.order(item='tea', count=2)", language="starlark")
            pending = waiting.exception.pending
            [call] = pending.calls
            self.assertEqual((call.tool, call.sources, call.argument_sources), ("executeToolCode", (), None))
            self.assertRegex("\n".join(call.manifest), r"^internal\.order\(.*\): at most once$")
            self.assertEqual([one.calls for one in gateway.pending()], [pending.calls])
            kept = pickle.loads(pickle.dumps(waiting.exception))
            self.assertEqual(kept.pending, pending)
            gateway.approve(pending.id)
            self.assertIn("ordered 2 tea", gateway.resume(pending.id).text)

    def test_what_a_call_that_waits_has_is_optional(self) -> None:
        call: dict[str, Any] = {"tool": "mail-send", "arguments": {}}
        members: dict[str, Any] = {
            "sources": ["crm", "web"],
            "argument_sources": {"to": ["crm"]},
            "asked_by": [{"guard": "mail", "reason": "to others"}],
            "manifest": ["mail.send(to=any value): at most once"],
        }
        described: dict[str, Any] = {"id": "run_1.1", "caller": "anonymous", "calls": [call, {**call, **members}]}
        # As an earlier version has described a call, whose exception may have been pickled, and as this one does.
        earlier, full = airlock.ApprovalPending("it waits", "approval_pending", described).pending.calls
        self.assertEqual(earlier, airlock.CallToApprove("mail-send", {}))
        self.assertEqual((earlier.sources, earlier.argument_sources), ((), None))
        self.assertEqual((earlier.asked_by, earlier.manifest), ((), ()))
        for name, value in members.items():
            self.assertEqual(getattr(full, name), value)

    def test_a_call_that_was_denied_is_not_made(self) -> None:
        with airlock.Gateway(self.config(), [order]) as gateway:
            with self.assertRaises(airlock.ApprovalPending) as waiting:
                gateway.call("internal-order", {"item": "tea", "count": 2})
            gateway.deny(waiting.exception.pending.id, "too much tea", operator=True)
            with self.assertRaises(airlock.CallFailed) as denied:
                gateway.resume(waiting.exception.pending.id)
            self.assertEqual(denied.exception.kind, "denied")


class Chats(InDirectory):
    def test_a_function_is_a_model_that_calls_functions(self) -> None:
        with airlock.Gateway(self.config(), [price], ask_once) as gateway:
            reply = gateway.chat(QUESTION, model="own/shop")
        self.assertEqual(reply.text, "It costs 3.5.")
        self.assertEqual(reply["object"], "chat.completion")
        self.assertIn("airlock", reply)

    def test_the_model_receives_the_settings_and_the_tools(self) -> None:
        requests: list[dict[str, Any]] = []

        def listen(request: dict[str, Any]) -> str:
            requests.append(request)
            return "yes"

        with airlock.Gateway(self.config(), [price], listen) as gateway:
            gateway.chat(QUESTION, model="own/shop", settings={"temperature": 0.5})
        [request] = requests
        self.assertEqual((request["model"], request["temperature"]), ("shop", 0.5))
        self.assertEqual([tool["function"]["name"] for tool in request["tools"]], ["internal-price"])

    def test_a_streamed_chat_has_the_pieces_of_the_model(self) -> None:
        def pieces(request: dict[str, Any]) -> Iterator[str | dict[str, Any]]:
            if request["messages"][-1]["role"] == "tool":
                yield "It "
                yield {"content": "costs "}
                yield {"choices": [{"index": 0, "delta": {"content": request["messages"][-1]["content"]}}]}
            else:
                yield {"tool_calls": [{"index": 0, **CALL}]}

        with airlock.Gateway(self.config(), [price], pieces) as gateway:
            chunks = list(gateway.chat(QUESTION, model="own/shop", stream=True))
        self.assertEqual("".join(text_of(chunk) for chunk in chunks), "It costs 3.5")
        events = [chunk["airlock"]["event"]["type"] for chunk in chunks if "event" in chunk.get("airlock", {})]
        self.assertEqual(events, ["call_started", "call_ended", "round"])

    def test_a_chat_that_is_closed_ends(self) -> None:
        def forever(_: dict[str, Any]) -> Iterator[str]:
            while True:
                yield "again "

        with airlock.Gateway(self.config(), on_model=forever) as gateway:
            stream = gateway.chat(QUESTION, model="own/shop", stream=True)
            self.assertIsInstance(next(stream), dict)
            stream.close()
            self.assertEqual(list(stream), [])

    def test_a_model_that_fails_fails_the_chat(self) -> None:
        def busy(_: dict[str, Any]) -> str:
            raise airlock.ModelError("later", 429, "busy", 2.0)

        def broken(_: dict[str, Any]) -> str:
            raise ValueError("no weights")

        with airlock.Gateway(self.config(), on_model=busy) as gateway:
            with self.assertRaises(airlock.ChatFailed) as failed:
                gateway.chat(QUESTION, model="own/shop")
        error = failed.exception
        self.assertEqual((error.status, error.code, error.retry_after), (429, "busy", 2.0))
        with airlock.Gateway(self.config(), on_model=broken) as gateway:
            with self.assertRaises(airlock.ChatFailed) as raised:
                gateway.chat(QUESTION, model="own/shop", stream=True)
        self.assertEqual((raised.exception.status, raised.exception.code), (502, "ValueError"))
        self.assertIn("no weights", str(raised.exception))

    def test_a_status_and_a_wait_that_are_no_numbers_are_refused(self) -> None:
        wrong: list[dict[str, Any]] = [{"status": True}, {"status": 4.5}, {"status": None}, {"retry_after": True}, {"retry_after": "1"}]
        for details in wrong:
            with self.subTest(details=details), self.assertRaisesRegex(TypeError, next(iter(details))):
                airlock.ModelError("later", **details)

    def test_messages_that_are_none_are_refused(self) -> None:
        with airlock.Gateway(self.config(), on_model=ask_once) as gateway:
            with self.assertRaises(airlock.BadConversation):
                gateway.chat([{"role": 7}], model="own/shop")


class Async(InDirectory):
    def test_functions_and_the_model_run_on_the_event_loop(self) -> None:
        async def main() -> None:
            loop = asyncio.get_running_loop()
            begun = asyncio.Event()

            async def first() -> str:
                begun.set()
                return "first"

            async def second() -> str:
                # Never ends unless both run at the same time.
                await begun.wait()
                self.assertIs(asyncio.get_running_loop(), loop)
                return "second"

            async def pieces(_: dict[str, Any]) -> AsyncIterator[str]:
                for piece in ["a", "b"]:
                    yield piece

            async with airlock.Gateway(self.config(), [first, second], pieces) as gateway:
                calls = [gateway.call_async("internal-second"), gateway.call_async("internal-first")]
                self.assertEqual([done.text for done in await asyncio.gather(*calls)], ["second", "first"])
                self.assertEqual((await gateway.chat_async(QUESTION, model="own/any")).text, "ab")
                stream = await gateway.chat_async(QUESTION, model="own/any", stream=True)
                self.assertEqual("".join([text_of(chunk) async for chunk in stream]), "ab")
                self.assertEqual(await gateway.pending_async(), [])
                with self.assertRaises(RuntimeError):
                    gateway.call("internal-first")
                stream = await gateway.chat_async(QUESTION, model="own/any", stream=True)
                with self.assertRaisesRegex(RuntimeError, "async for"):
                    next(stream)
                self.assertEqual("".join([text_of(chunk) async for chunk in stream]), "ab", "it goes on")

        run_async(main())

    def test_a_plain_gateway_has_async_functions_too(self) -> None:
        async def twice(value: int) -> int:
            await asyncio.sleep(0)
            return value * 2

        async def model(_: dict[str, Any]) -> dict[str, Any]:
            return {"role": "assistant", "content": "yes"}

        with airlock.Gateway(self.config(), [twice], model) as gateway:
            self.assertEqual(gateway.call("internal-twice", {"value": 4}).text, "8")
            self.assertEqual(gateway.chat(QUESTION, model="own/any").text, "yes")

    def test_a_task_that_is_cancelled_cancels_its_call(self) -> None:
        async def main() -> None:
            begun = asyncio.Event()
            ended = asyncio.Event()

            async def forever() -> None:
                begun.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    ended.set()

            async with airlock.Gateway(self.config(), [forever]) as gateway:
                task = asyncio.create_task(gateway.call_async("internal-forever"))
                await begun.wait()
                task.cancel()
                await ended.wait()
                with self.assertRaises(asyncio.CancelledError):
                    await task

        run_async(main())


@unittest.skipUnless((PEERS / "python/bin/mcp-server-time").exists(), "`make peers` has not installed the servers")
class Servers(InDirectory):
    def test_a_real_server_over_stdio_has_its_calls_approved(self) -> None:
        client = {
            "name": "time",
            "connection_type": "stdio",
            "stdio_config": {"command": str(PEERS / "python/bin/mcp-server-time"), "args": ["--local-timezone", "UTC"]},
            "tools_to_execute": ["convert_time"],
        }
        config = self.config(mcp={"client_configs": [client]}, server={"startup_wait": f"{WAIT_SECONDS}s"})
        arguments = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Kathmandu"}
        with airlock.Gateway(config) as gateway:
            self.assertIn("time-convert_time", [tool.name for tool in gateway.tools(clients=["time"])])
            with self.assertRaises(airlock.ApprovalPending) as waiting:
                gateway.call("time-convert_time", arguments)
            gateway.approve(waiting.exception.pending.id)
            self.assertIn("17:45", gateway.resume(waiting.exception.pending.id).text)


def text_of(chunk: dict[str, Any]) -> str:
    """Returns the text of a chunk."""
    return "".join(choice["delta"].get("content") or "" for choice in chunk["choices"])


if __name__ == "__main__":
    unittest.main()
