"""Runs that wait for an approval: decisions, dumps, other processes, replay."""

from __future__ import annotations

import gc
import hashlib
import os
import pickle
import subprocess
import sys
import unittest
import weakref
from collections.abc import Callable
from typing import Any

from support import WAIT_SECONDS, run_async, wait_until

import airlock

CODE = """
paid = [pay(10), pay(20)]
result = {"paid": paid, "seen": look()}
"""


class Shop:
    """A tool that needs an approval, and one that does not, with the calls that were made."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.tools = [airlock.tool(self.pay, needs_approval=True), airlock.tool(self.look)]

    def pay(self, amount: int) -> str:
        self.calls.append(amount)
        return f"paid {amount}"

    def look(self) -> int:
        self.calls.append("look")
        return len(self.calls)


def pending(run: airlock.Run) -> list[dict[str, Any]]:
    return [call.arguments for call in run.pending]


class Decisions(unittest.TestCase):
    def test_each_call_waits_and_is_made_once_after_its_approval(self) -> None:
        shop = Shop()
        run = airlock.start_script(CODE, shop.tools)
        self.assertFalse(run.done)
        self.assertEqual(pending(run), [{"amount": 10}])
        self.assertEqual(shop.calls, [])
        run.approve()
        self.assertEqual(run.pending, [])
        run = run.resume()
        self.assertEqual(pending(run), [{"amount": 20}])
        self.assertEqual(shop.calls, [10])
        run.approve(run.pending[0].id)
        run = run.resume()
        self.assertTrue(run.done)
        self.assertEqual(run.value, {"paid": ["paid 10", "paid 20"], "seen": 3})
        self.assertEqual(shop.calls, [10, 20, "look"])
        usage = run.usage
        assert usage is not None
        self.assertEqual(usage.calls, 3)
        self.assertGreater(usage.fuel, 0)

    def test_a_denied_call_is_not_made_and_the_script_receives_the_reason(self) -> None:
        shop = Shop()
        code = "try:\n    pay(10)\nexcept ToolError as e:\n    result = [e.code, e.message]"
        run = airlock.start_script(code, shop.tools)
        run.deny(run.pending[0].id, reason="too much")
        code_of_denial, message = run.resume().value
        self.assertEqual(code_of_denial, "airlock.approval_denied")
        self.assertIn("too much", message)
        self.assertEqual(shop.calls, [])
        run = airlock.start_script("pay(10)", shop.tools)
        run.deny()
        with self.assertRaises(airlock.ToolFailed) as caught:
            run.resume()
        self.assertEqual((caught.exception.tool, caught.exception.code), ("pay", "airlock.approval_denied"))

    def test_calls_that_are_made_at_once_are_decided_about_together(self) -> None:
        shop = Shop()
        run = airlock.start_script("import asyncio\nawait asyncio.gather(pay(1), pay(2))", shop.tools)
        first, second = run.pending
        run.approve(second.id)
        self.assertEqual(pending(run), [{"amount": 1}])
        run.approve(first.id)
        self.assertEqual(run.resume().value, ["paid 1", "paid 2"])

    def test_a_call_without_a_decision_waits_on(self) -> None:
        run = airlock.start_script("pay(1)", Shop().tools).resume()
        self.assertEqual(pending(run), [{"amount": 1}])

    def test_an_unknown_call_is_refused(self) -> None:
        run = airlock.start_script("pay(1)", Shop().tools)
        for decide in run.approve, run.deny:
            for unknown in 99, -1, 2**32:
                with self.assertRaises(KeyError):
                    decide(unknown)
            with self.assertRaises(KeyError):
                decide([1, 99])
            self.assertEqual(pending(run), [{"amount": 1}], "none of the calls is decided about")

    def test_an_empty_selection_decides_about_no_call(self) -> None:
        run = airlock.start_script("pay(1)", Shop().tools)
        nothing: list[int] = []
        run.approve(nothing)
        run.approve(call.id for call in run.pending if call.tool == "look")
        run.deny(nothing)
        self.assertEqual(pending(run.resume()), [{"amount": 1}])

    def test_several_calls_are_approved_by_their_ids_alone(self) -> None:
        shop = Shop()
        code = "import asyncio\nawait asyncio.gather(pay(1), pay(2), pay(3))"
        run = airlock.start_script(code, shop.tools)
        with self.assertRaisesRegex(ValueError, "3 calls wait"):
            run.approve()
        with self.assertRaisesRegex(ValueError, "3 calls wait"):
            run.approve(*[])
        self.assertEqual(len(run.pending), 3)
        run.approve([call.id for call in run.pending[1:]])
        self.assertEqual(pending(run), [{"amount": 1}])
        run.approve()
        self.assertEqual(run.resume().value, ["paid 1", "paid 2", "paid 3"])
        run = airlock.start_script(code, shop.tools)
        run.deny(reason="too much")
        self.assertEqual(run.pending, [])

    def test_an_answer_that_is_no_id_is_refused(self) -> None:
        run = airlock.start_script("pay(1)", Shop().tools)
        approve: Callable[..., None] = run.approve
        deny: Callable[..., None] = run.deny
        for answer in True, [True], None, "1", ["1"], 1.0:
            for decide in approve, deny:
                with self.subTest(answer=answer), self.assertRaises(TypeError):
                    decide(answer)
        with self.assertRaises(TypeError):
            approve(1, 1)
        self.assertEqual(pending(run), [{"amount": 1}])

    def test_a_run_is_used_up_when_it_is_resumed(self) -> None:
        run = airlock.start_script("pay(1)", Shop().tools)
        run.approve()
        run.resume()
        with self.assertRaises(ValueError):
            run.approve(1)
        for use in run.resume, run.dump, run.approve, run.deny:
            with self.subTest(use=use), self.assertRaisesRegex(ValueError, "resumed before"):
                use()

    def test_run_script_raises_with_the_run(self) -> None:
        shop = Shop()
        with self.assertRaises(airlock.ApprovalNeeded) as caught:
            airlock.run_script("pay(1)", shop.tools)
        caught.exception.run.approve()
        self.assertEqual(caught.exception.run.resume().value, "paid 1")
        with self.assertRaises(airlock.ApprovalNeeded):
            airlock.start_script("pay(1)", shop.tools).value  # noqa: B018

    def test_an_event_loop_waits_and_resumes(self) -> None:
        shop = Shop()

        async def run() -> Any:
            with self.assertRaises(airlock.ApprovalNeeded) as caught:
                await airlock.run_script_async("pay(1)", shop.tools)
            caught.exception.run.approve()
            return (await caught.exception.run.resume_async()).value

        self.assertEqual(run_async(run()), "paid 1")

    def test_a_run_that_waits_and_is_given_up_leaves_nothing(self) -> None:
        class Printer:
            def __call__(self, line: str) -> None: ...

        async def start() -> weakref.ref[Printer]:
            printer = Printer()
            run = await airlock.start_script_async("print('a')\npay(1)", Shop().tools, on_print=printer)
            self.assertFalse(run.done)
            return weakref.ref(printer)

        printer = run_async(start())
        gc.collect()
        # What a thread of the runtime drops is freed when the native module is called next.
        wait_until("the end of the run", lambda: airlock.run_script("1") == 1 and printer() is None)

    def test_arguments_that_do_not_fit_are_refused_before_someone_is_asked(self) -> None:
        with self.assertRaises(airlock.ToolFailed):
            airlock.start_script("pay('a')", Shop().tools)

    def test_printed_text_is_not_repeated(self) -> None:
        lines: list[str] = []
        run = airlock.start_script("print('a')\npay(1)\nprint('b')", Shop().tools, on_print=lines.append)
        self.assertEqual((lines, run.output), (["a"], "a"))
        run.approve()
        run = run.resume()
        self.assertEqual((lines, run.output), (["a", "b"], "a\nb"))


class Dumps(unittest.TestCase):
    def test_a_run_is_resumed_in_another_process(self) -> None:
        shop = Shop()
        run = airlock.start_script(CODE, shop.tools)
        run.approve()
        dump = run.resume().dump()
        # The other process has read `pay` from its own code.
        program = f"""
import pickle, sys
sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})
import airlock
from test_approvals import Shop
shop = Shop()
run = airlock.load_run(pickle.load(sys.stdin.buffer), shop.tools)
run.approve()
print(run.resume().value, shop.calls)
"""
        other = subprocess.run([sys.executable, "-c", program], input=pickle.dumps(dump), capture_output=True, timeout=WAIT_SECONDS,
                               check=False)
        self.assertEqual(other.stdout.decode().strip(), "{'paid': ['paid 10', 'paid 20'], 'seen': 2} [20, 'look']", other.stderr.decode())
        self.assertEqual(shop.calls, [10])

    def test_a_call_that_was_denied_before_the_dump_stays_denied(self) -> None:
        shop = Shop()
        run = airlock.start_script("import asyncio\nawait asyncio.gather(pay(1), pay(2))", shop.tools)
        run.deny(run.pending[0].id, reason="too much")
        run = airlock.load_run(run.dump(), shop.tools)
        self.assertEqual(pending(run), [{"amount": 2}])
        run.approve()
        with self.assertRaises(airlock.ToolFailed) as caught:
            run.resume()
        self.assertEqual(caught.exception.code, "airlock.approval_denied")
        self.assertEqual(shop.calls, [2])

    def test_a_dump_that_was_changed_is_refused(self) -> None:
        shop = Shop()
        dump = airlock.start_script("pay(1)", shop.tools).dump()
        for damaged in b"", b"x", dump[:-1], dump + b"x", dump.replace(b"pay", b"buy"):
            with self.subTest(length=len(damaged)), self.assertRaises(airlock.BadDump):
                airlock.load_run(damaged, shop.tools)

    def test_a_dump_that_would_take_far_more_memory_than_its_bytes_is_refused(self) -> None:
        version, _, document = airlock.start_script("1").dump().split(b"\n", 2)
        swelling = b'{"more":[' + b'{"":0},' * 1_600_000 + b"0]," + document[1:]
        digest = hashlib.sha256(swelling).hexdigest().encode()
        hostile = b"\n".join([version, digest, swelling])
        for load in airlock.load_run, airlock.replay:
            with self.subTest(load=load.__name__), self.assertRaisesRegex(airlock.BadDump, "memory"):
                load(hostile)

    def test_more_bytes_than_a_dump_has_are_refused(self) -> None:
        for load in airlock.load_run, airlock.replay:
            with self.subTest(load=load.__name__), self.assertRaisesRegex(airlock.BadDump, "268435456"):
                load(bytes((256 << 20) + 1))

    def test_other_tools_than_those_of_the_run_are_refused(self) -> None:
        dump = airlock.start_script("pay(1)", Shop().tools).dump()

        def pay(amount: str) -> str:
            return amount

        for tools in [], [airlock.tool(pay, needs_approval=True)]:
            with self.subTest(tools=tools), self.assertRaises(airlock.BadDump):
                airlock.load_run(dump, tools)

    def test_a_finished_run_is_replayed_without_its_tools(self) -> None:
        shop = Shop()
        run = airlock.start_script("look() + look()", shop.tools)
        replayed = airlock.replay(run.dump())
        self.assertEqual((replayed.value, replayed.usage), (run.value, run.usage))
        self.assertEqual(shop.calls, ["look", "look"])

    def test_a_run_that_waits_cannot_be_replayed_and_a_finished_one_not_be_loaded(self) -> None:
        shop = Shop()
        with self.assertRaises(airlock.BadDump):
            airlock.replay(airlock.start_script("pay(1)", shop.tools).dump())
        with self.assertRaises(airlock.BadDump):
            airlock.load_run(airlock.start_script("look()", shop.tools).dump(), shop.tools)


if __name__ == "__main__":
    unittest.main()
