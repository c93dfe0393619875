"""A gateway within the program: tools, a model, approvals, a real MCP server, HTTP."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import pickle
import signal
import socket
import tempfile
import threading
import unittest
import urllib.request
import weakref
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from support import WAIT_SECONDS, run_async, run_program, start_program, wait_until

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
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)

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


class Lives(InDirectory):
    def test_mistakes_are_told_by_their_class(self) -> None:
        with self.assertRaises(airlock.ConfigurationError):
            airlock.Gateway({"no_such_key": 1}).start()
        with self.assertRaises(airlock.BadTool):
            airlock.Gateway(self.config(), [price, airlock.tool(describe, name="price")]).start()
        values: list[dict[str, Any]] = [{"config": 7}, {"on_model": 7}]
        for value in values:
            with self.assertRaises(TypeError):
                airlock.Gateway(**value)
        gateway = airlock.Gateway(self.config())
        with self.assertRaises(airlock.GatewayStopped):
            gateway.tools()
        with gateway:
            wrong: list[dict[str, Any]] = [
                {"language": "ruby"}, {"approval": "never"}, {"timeout": 0.0}, {"key": "a", "operator": True},
            ]
            for options in wrong:
                with self.assertRaises(ValueError):
                    gateway.tools(**options)
            mistyped: list[dict[str, Any]] = [{"client": "internal"}, {"operator": "no"}, {"approving": 0}, {"tools": "internal-*"}]
            for options in mistyped:
                with self.assertRaises(TypeError):
                    gateway.tools(**options)
            with self.assertRaises(airlock.BadName):
                gateway.tools(clients=["a,b"])
            with self.assertRaises(airlock.NotWaiting) as unknown:
                gateway.approve("call_of_nobody")
            self.assertEqual(unknown.exception.code, "approval_not_found")
            with self.assertRaises(airlock.GatewayError):
                gateway.start()
        with self.assertRaises(airlock.GatewayStopped):
            gateway.tools()

    def test_a_guard_that_cannot_be_loaded_is_a_failure_of_the_start(self) -> None:
        guards = [{"name": "absent", "component": str(self.directory / "absent.wasm")}]
        with self.assertRaises(airlock.StartFailed) as refused:
            airlock.Gateway(self.config(guards=guards)).start()
        self.assertEqual(refused.exception.code, "guard")

    def test_keys_are_authenticated(self) -> None:
        with airlock.Gateway(self.config(server={"require_virtual_key": True})) as gateway:
            with self.assertRaises(airlock.KeyRequired):
                gateway.tools()
            with self.assertRaises(airlock.UnknownKey) as unknown:
                gateway.tools(key="sk-bf-wrong")
            self.assertEqual(unknown.exception.code, "invalid_api_key")
            gateway.tools(operator=True)

    def test_the_gateway_serves_in_the_background(self) -> None:
        with airlock.Gateway(self.config(server={"listen": "127.0.0.1:0"}), [price]) as gateway:
            address = gateway.serve()
            self.assertEqual(gateway.serve(), address)
            body = json.dumps({"function": {"name": "internal-price", "arguments": '{"item": "tea"}'}}).encode()
            headers = {"Content-Type": "application/json"}
            request = urllib.request.Request(f"http://{address}/v1/mcp/tool/execute", body, headers)
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with opener.open(request, timeout=WAIT_SECONDS) as response:
                self.assertEqual(json.load(response)["content"], "3.5")

    def test_a_gateway_that_is_stopped_or_no_longer_referred_to_keeps_no_functions(self) -> None:
        class Shop:
            def price(self, item: str) -> float:
                return price(item)

        for number, is_stopped in enumerate([True, False]):
            shop = Shop()
            kept = weakref.ref(shop)
            config = {"store": str(self.directory / f"{number}.db"), "server": {"listen": "127.0.0.1:0"}}
            gateway = airlock.Gateway(config, [shop.price]).start()
            host, _, port = gateway.serve().rpartition(":")
            self.assertEqual(gateway.call("internal-price", {"item": "tea"}).text, "3.5")
            if is_stopped:
                gateway.stop()
            del gateway, shop
            gc.collect()
            # Its threads end its tasks meanwhile. What they drop is freed when the native module is called next.
            wait_until("the end of the gateway", lambda: airlock.run_script("1") == 1 and kept() is None)
            with self.assertRaises(ConnectionRefusedError):
                socket.create_connection((host, int(port)), WAIT_SECONDS)

    def test_an_address_that_is_taken_is_refused(self) -> None:
        with airlock.Gateway(self.config(server={"listen": "127.0.0.1:0"})) as gateway:
            taken = {"store": str(self.directory / "other.db"), "server": {"listen": gateway.serve()}}
            other = airlock.Gateway(taken).start()
            with self.assertRaises(airlock.StartFailed) as refused:
                other.serve()
            self.assertEqual(refused.exception.code, "listen")
            other.stop()

    def test_exceptions_are_pickled(self) -> None:
        pending = {"id": "call_1", "caller": "anonymous", "calls": [{"tool": "t", "arguments": {}}]}
        for error in [airlock.ApprovalPending("waits", "approval_pending", pending), airlock.CallFailed("failed", "c", "denied", 1.5),
                      airlock.ChatFailed("failed", "c", 429, {"message": "m"}, 2.0), airlock.NotWaiting("gone", "c")]:
            copy = pickle.loads(pickle.dumps(error))
            self.assertEqual((type(copy), copy.args, str(copy)), (type(error), error.args, str(error)))

    def test_nothing_is_made_before_a_gateway_starts(self) -> None:
        if not Path("/proc/self/task").is_dir():
            self.skipTest("the system does not list threads")
        done = run_program("""
            import os
            import airlock
            airlock.Gateway({"no_such_key": 1}, tools=[len])
            print(len(os.listdir("/proc/self/task")))
        """)
        self.assertEqual((done.stdout, done.stderr), ("1\n", ""))

    def test_an_interrupt_ends_the_waiting(self) -> None:
        program = start_program(f"""
            import airlock, asyncio

            async def forever() -> None:
                print("begun", flush=True)
                await asyncio.Event().wait()

            with airlock.Gateway({self.config()!r}, [forever]) as gateway:
                try:
                    gateway.call("internal-forever")
                except KeyboardInterrupt:
                    print("interrupted", len(gateway.tools(tools=["internal-*"])))
        """)
        assert program.stdout is not None
        with program:
            self.assertEqual(program.stdout.readline(), "begun\n")
            program.send_signal(signal.SIGINT)
            output, errors = program.communicate(timeout=WAIT_SECONDS)
        self.assertEqual(output, "interrupted 1\n", errors)

    @unittest.skipUnless(hasattr(os, "fork"), "the system has no fork")
    def test_a_gateway_is_not_that_of_the_child_of_a_fork(self) -> None:
        done = run_program(f"""
            import os, warnings
            import airlock
            warnings.simplefilter("ignore", DeprecationWarning)

            with airlock.Gateway({self.config()!r}) as gateway:
                child = os.fork()
                if child == 0:
                    try:
                        gateway.tools()
                    except airlock.GatewayStopped:
                        os._exit(7)
                    os._exit(1)
                print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """)
        self.assertEqual((done.stdout, done.stderr), ("7\n", ""))

    @unittest.skipUnless(hasattr(os, "fork"), "the system has no fork")
    def test_a_streamed_chat_is_not_that_of_the_child_of_a_fork(self) -> None:
        done = run_program(f"""
            import os, warnings
            import airlock
            warnings.simplefilter("ignore", DeprecationWarning)

            def forever(request):
                while True:
                    yield "again "

            with airlock.Gateway({self.config()!r}, on_model=forever) as gateway:
                stream = gateway.chat([{{"role": "user", "content": "tea?"}}], model="own/shop", stream=True)
                next(stream)
                work = gateway._native.tools((None,) * 7 + (False, False, 0))
                child = os.fork()
                if child == 0:
                    refused = 0
                    for use in stream.__next__, work.wait:
                        try:
                            use()
                        except airlock.GatewayStopped:
                            refused += 1
                    stream.close()
                    del stream, use
                    os._exit(refused)
                print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
                next(stream)
                stream.close()
        """)
        self.assertEqual((done.stdout, done.stderr), ("2\n", ""))

    @unittest.skipUnless(hasattr(os, "fork"), "the system has no fork")
    def test_the_child_of_a_fork_during_work_beside_an_event_loop_raises_and_does_not_wait(self) -> None:
        done = run_program(f"""
            import asyncio, os, warnings
            import airlock
            warnings.simplefilter("ignore", DeprecationWarning)
            begun, go = asyncio.Event(), asyncio.Event()

            async def wait() -> str:
                begun.set()
                await go.wait()
                return "done"

            async def main():
                async with airlock.Gateway({self.config()!r}, [wait]) as gateway:
                    call = asyncio.ensure_future(gateway.call_async("internal-wait"))
                    await begun.wait()
                    child = os.fork()
                    if child == 0:
                        try:
                            airlock.run_script("3 + 4")
                        except airlock.AirlockError as error:
                            os._exit(9 if "forked" in str(error) else 1)
                        os._exit(0)
                    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
                    go.set()
                    print((await call).text)

            asyncio.run(main())
        """)
        self.assertEqual((done.stdout, done.stderr), ("9\ndone\n", ""))


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
