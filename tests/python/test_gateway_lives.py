"""The life of a gateway within the program: its start, its end, and what ends it."""

from __future__ import annotations

import gc
import json
import os
import pickle
import signal
import threading
import unittest
import urllib.request
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from support import WAIT_SECONDS, is_refused, run_program, start_program, wait_until
from test_gateway import InDirectory, describe, price

import airlock


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
            wait_until("the end of its server", lambda: is_refused(host, int(port)))

    def test_a_further_stop_waits_for_calls_in_flight_as_the_first_does(self) -> None:
        begun = threading.Event()
        released = threading.Event()

        def held() -> str:
            begun.set()
            return "released" if released.wait(WAIT_SECONDS) else "not released"

        gateway = airlock.Gateway(self.config(), [held]).start()

        def is_stopping() -> bool:
            try:
                gateway.tools()
            except airlock.GatewayStopped:
                return True
            return False

        with ThreadPoolExecutor() as pool:
            call = pool.submit(gateway.call, "internal-held")
            self.assertTrue(begun.wait(WAIT_SECONDS))
            first = pool.submit(gateway.stop)
            wait_until("the gateway to stop", is_stopping)
            second = pool.submit(gateway.stop)
            # Each is a round trip to the runtime of the gateway, on which a stop that waits for nothing has ended.
            self.assertTrue(all(is_stopping() for _ in range(20)))
            self.assertFalse(first.done() or second.done())
            released.set()
            self.assertEqual(call.result(WAIT_SECONDS).text, "released")
            first.result(WAIT_SECONDS)
            second.result(WAIT_SECONDS)
        gateway.stop()

    def test_an_address_that_is_taken_is_refused(self) -> None:
        with airlock.Gateway(self.config(server={"listen": "127.0.0.1:0"})) as gateway:
            taken = {"store": str(self.directory / "other.db"), "server": {"listen": gateway.serve()}}
            other = airlock.Gateway(taken).start()
            with self.assertRaises(airlock.StartFailed) as refused:
                other.serve()
            self.assertEqual(refused.exception.code, "listen")
            with self.assertRaisesRegex(airlock.GatewayStopped, "could not serve"):
                other.serve()
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
                work = gateway._native.tools((None,) * 7 + (False, False, 0, 0))
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


if __name__ == "__main__":
    unittest.main()
