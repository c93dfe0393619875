"""Threads, forks, signals, and the end of the process."""

from __future__ import annotations

import os
import signal
import threading
import unittest
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from support import WAIT_SECONDS, run_async, run_program, start_program

import airlock


def double(value: int) -> int:
    return value * 2


class Threads(unittest.TestCase):
    def test_many_threads_run_scripts_at_the_same_time(self) -> None:
        def work(number: int) -> Any:
            return [airlock.run_script("double(number) + 1", [double], {"number": number + turn}) for turn in range(20)]

        with ThreadPoolExecutor(8) as threads:
            results = list(threads.map(work, range(0, 800, 100)))
        self.assertEqual(results, [[(number + turn) * 2 + 1 for turn in range(20)] for number in range(0, 800, 100)])

    def test_scripts_of_two_threads_meet(self) -> None:
        barrier = threading.Barrier(2, timeout=60)

        def meet() -> bool:
            barrier.wait()
            return True

        with ThreadPoolExecutor(2) as threads:
            self.assertEqual(list(threads.map(lambda _: airlock.run_script("meet()", [meet]), range(2))), [True, True])

    def test_the_interpreter_is_free_while_a_script_computes(self) -> None:
        begun = threading.Event()
        order: list[str] = []

        def work() -> None:
            limits = airlock.Limits(cpu_seconds=2)
            with self.assertRaises(airlock.LimitExceeded):
                airlock.run_script("begin()\nwhile True: pass", [airlock.tool(begun.set, name="begin")], limits=limits)
            order.append("script")

        thread = threading.Thread(target=work)
        thread.start()
        self.assertTrue(begun.wait(60))
        order.append("program")
        thread.join()
        self.assertEqual(order, ["program", "script"])


class Nested(unittest.TestCase):
    limits = airlock.Limits(nesting=3)

    def check(self, code: str) -> None:
        calls = 0

        def again() -> Any:
            nonlocal calls
            calls += 1
            try:
                return airlock.run_script(code, tools=[again], limits=self.limits)
            except airlock.LimitExceeded as error:
                return error.limit

        self.assertEqual(again(), "nesting")
        # The first is not made by a script.
        self.assertEqual(calls, 4)
        calls = 0
        self.assertEqual(again(), "nesting", "a run that has ended is not one around the next")

    def test_scripts_in_each_other_end_at_their_limit(self) -> None:
        self.check("again()")

    def test_scripts_in_each_other_on_other_threads_end_at_their_limit(self) -> None:
        self.check("import asyncio\nresult = (await asyncio.gather(again()))[0]")

    def test_scripts_in_each_other_beside_an_event_loop_end_at_their_limit(self) -> None:
        async def again() -> Any:
            try:
                return await airlock.run_script_async("again()", tools=[again], limits=self.limits)
            except airlock.LimitExceeded as error:
                return error.limit

        self.assertEqual(run_async(again()), "nesting")
        # On the event loop of the package.
        self.assertEqual(airlock.run_script("again()", tools=[again], limits=self.limits), "nesting")

    def test_the_default_limit_ends_a_recursion(self) -> None:
        def again() -> Any:
            return airlock.run_script("again()", tools=[again])

        with self.assertRaises(airlock.ToolFailed) as caught:
            again()
        cause: BaseException | None = caught.exception
        while isinstance(cause, airlock.ToolFailed):
            cause = cause.__cause__
        assert isinstance(cause, airlock.LimitExceeded)
        self.assertEqual(cause.limit, "nesting")


class Signals(unittest.TestCase):
    def test_programs_get_interrupts_although_the_shell_of_the_tests_ignores_them(self) -> None:
        done = run_program("""
            import signal
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            import support
            done = support.run_program("import signal; print(signal.getsignal(signal.SIGINT) == signal.default_int_handler)")
            print(done.stdout, end="")
        """)
        self.assertEqual(done.stdout, "True\n", done.stderr)

    def check(self, code: str) -> None:
        """Interrupts a program while this script runs."""
        program = start_program(f"""
            import airlock, asyncio, threading

            async def forever():
                print("begun", flush=True)
                await asyncio.Event().wait()

            def begin():
                print("begun", flush=True)

            def block():
                print("begun", flush=True)
                threading.Event().wait()

            try:
                airlock.run_script({code!r}, [forever, begin, block], limits=airlock.Limits(cpu_seconds=600, seconds=600))
            except KeyboardInterrupt:
                print("interrupted", airlock.run_script("1 + 1"))
        """)
        assert program.stdout is not None
        with program:
            self.assertEqual(program.stdout.readline(), "begun\n")
            program.send_signal(signal.SIGINT)
            output, errors = program.communicate(timeout=WAIT_SECONDS)
        self.assertEqual(output, "interrupted 2\n", errors)

    def test_an_interrupt_stops_a_script_that_computes(self) -> None:
        self.check("begin()\nwhile True: pass")

    def test_an_interrupt_stops_a_script_that_waits_for_an_async_tool(self) -> None:
        self.check("forever()")

    def interrupt(self, source: str) -> None:
        """Interrupts a program of its own after the first line that it prints."""
        program = start_program(source)
        assert program.stdout is not None
        with program:
            self.assertEqual(program.stdout.readline(), "begun\n")
            program.send_signal(signal.SIGINT)
            output, errors = program.communicate(timeout=WAIT_SECONDS)
        self.assertEqual(output.splitlines()[-1:], ["interrupted 2"], errors)

    def test_an_interrupt_stops_a_script_whose_functions_run_on_other_threads(self) -> None:
        self.interrupt("""
            import airlock, os, threading
            stop = threading.Event()
            def block():
                # In one piece: both functions write.
                os.write(1, b"begun\\n")
                stop.wait()
            try:
                airlock.run_script("import asyncio\\nawait asyncio.gather(block(), block())", tools=[block])
            except KeyboardInterrupt:
                stop.set()
                print("interrupted", airlock.run_script("1 + 1"))
        """)

    def test_an_interrupt_stops_a_script_that_a_tool_runs_and_that_of_the_tool(self) -> None:
        self.interrupt("""
            import airlock
            limits = airlock.Limits(cpu_seconds=600, seconds=600)
            def begin():
                print("begun", flush=True)
            def nested():
                airlock.run_script("begin()\\nwhile True: pass", tools=[begin], limits=limits)
            try:
                airlock.run_script("try:\\n    nested()\\nexcept Exception: pass\\nwhile True: pass", tools=[nested], limits=limits)
            except KeyboardInterrupt:
                print("interrupted", airlock.run_script("1 + 1"))
        """)

    def test_an_interrupt_stops_a_script_beside_an_event_loop(self) -> None:
        self.interrupt("""
            import airlock, asyncio
            limits = airlock.Limits(cpu_seconds=600, seconds=600)
            async def begin():
                print("begun", flush=True)
            try:
                asyncio.run(airlock.run_script_async("begin()\\nwhile True: pass", tools=[begin], limits=limits))
            except KeyboardInterrupt:
                print("interrupted", airlock.run_script("1 + 1"))
        """)

    def test_an_interrupt_stops_a_script_whose_function_returns_a_large_value(self) -> None:
        self.interrupt("""
            import airlock
            value = [[0] * 1000] * 200
            def large():
                print("begun", flush=True)
                return value
            try:
                while True:
                    airlock.run_script("large()\\nNone", tools=[large])
            except KeyboardInterrupt:
                print("interrupted", airlock.run_script("1 + 1"))
        """)

    def test_an_interrupt_in_a_plain_function_ends_the_run(self) -> None:
        self.check("block()")


@unittest.skipUnless(hasattr(os, "fork"), "the system has no fork")
class Forks(unittest.TestCase):
    def check(self, source: str) -> None:
        """Runs a program that forks; both processes print."""
        done = run_program("""
            import os, sys, warnings
            import airlock
            # Python warns of every fork in a process with threads.
            warnings.simplefilter("ignore", DeprecationWarning)

            async def add(a: int, b: int) -> int:
                return a + b

            def double(value: int) -> int:
                return value * 2

            def ended(child):
                return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        """ + source)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout, "5\n")

    def test_the_child_of_a_fork_runs_scripts(self) -> None:
        self.check("""
            tools = [add, double]
            airlock.run_script("add(1, double(2))", tools)
            child = os.fork()
            if child == 0:
                os._exit(airlock.run_script("add(3, double(2))", tools))
            assert ended(child) == 7
            print(airlock.run_script("add(1, double(2))", tools))
        """)

    def test_a_run_whose_tool_forks_ends_in_the_child(self) -> None:
        self.check("""
            def fork() -> int:
                global child
                child = os.fork()
                return 5
            try:
                value = airlock.run_script("fork()", [fork])
            except airlock.RunCancelled:
                os._exit(airlock.run_script("3 + 4"))
            assert ended(child) == 7
            print(value)
        """)

    def test_the_child_of_a_fork_during_a_script_of_another_thread_raises_and_does_not_wait(self) -> None:
        self.check("""
            import threading
            begun, go = threading.Event(), threading.Event()
            def wait() -> None:
                begun.set()
                go.wait()
            thread = threading.Thread(target=airlock.run_script, args=("wait()", [wait]))
            thread.start()
            begun.wait()
            child = os.fork()
            if child == 0:
                try:
                    airlock.run_script("3 + 4")
                except airlock.AirlockError as error:
                    os._exit(9 if "forked" in str(error) else 1)
                os._exit(0)
            assert ended(child) == 9
            go.set()
            thread.join()
            # The child of a fork without a script that runs can run some.
            child = os.fork()
            if child == 0:
                os._exit(airlock.run_script("3 + 4"))
            assert ended(child) == 7
            print(5)
        """)

    def test_pools_of_processes_run_scripts(self) -> None:
        self.check("""
            import multiprocessing
            def work(number):
                return airlock.run_script("double(number)", [double], {"number": number})
            airlock.run_script("1")
            with multiprocessing.get_context("fork").Pool(2) as pool:
                assert pool.map(work, range(4)) == [0, 2, 4, 6]
            print(5)
        """)


class Beginnings(unittest.TestCase):
    def test_a_first_script_imports_neither_an_event_loop_nor_a_log(self) -> None:
        done = run_program("""
            import sys
            import airlock

            def double(value: int) -> int:
                return value * 2

            assert airlock.run_script("double(2)", [double]) == 4
            print(sorted({"asyncio", "logging"} & sys.modules.keys()))
        """)
        self.assertEqual((done.stdout, done.stderr), ("[]\n", ""))


class Ends(unittest.TestCase):
    def check(self, source: str, output: str) -> None:
        done = run_program(source)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout, output)

    def test_a_program_ends_after_runs_with_async_tools(self) -> None:
        self.check("""
            import airlock
            async def one() -> int:
                return 1
            print(airlock.run_script("one()", [one]))
        """, "1\n")

    def test_a_program_that_ends_right_after_a_run_beside_an_event_loop_does_not_crash(self) -> None:
        # The thread that delivers the result may still be in the interpreter.
        for _ in range(10):
            self.check("""
                import airlock, asyncio
                async def one() -> int:
                    return 1
                print(asyncio.run(airlock.run_script_async("one()", [one])))
            """, "1\n")

    def test_nothing_runs_at_the_end_of_a_program(self) -> None:
        self.check("""
            import atexit
            def late() -> None:
                try:
                    airlock.run_script("1")
                except airlock.RunCancelled as error:
                    print(error)
            # It is called after the package's own function.
            atexit.register(late)
            import airlock
            print(airlock.run_script("1"))
        """, "1\nthe program is at its end: nothing can be run\n")

    def test_nothing_is_begun_at_the_end_of_a_program_that_has_begun_nothing(self) -> None:
        self.check("""
            import atexit
            def late() -> None:
                for begin in (lambda: airlock.run_script("1"), lambda: airlock.Gateway({}).start()):
                    try:
                        begin()
                    except airlock.RunCancelled as error:
                        print(error)
            # It is called after the package's own function.
            atexit.register(late)
            import airlock
        """, 2 * "the program is at its end: nothing can be run\n")

    def test_a_program_ends_while_a_thread_runs_a_script(self) -> None:
        self.check("""
            import airlock, threading
            begun = threading.Event()
            def work():
                try:
                    airlock.run_script("begin()\\nwhile True: pass", [airlock.tool(begun.set, name="begin")])
                except airlock.RunCancelled:
                    pass
            threading.Thread(target=work, daemon=True).start()
            begun.wait()
            print("end")
        """, "end\n")

    def test_an_event_loop_that_ends_first_takes_its_runs_along(self) -> None:
        self.check("""
            import airlock, asyncio
            async def main():
                begun = asyncio.Event()
                async def wait() -> None:
                    begun.set()
                    await asyncio.Event().wait()
                task = asyncio.create_task(airlock.run_script_async("wait()", [wait]))
                await begun.wait()
            asyncio.run(main())
            print(airlock.run_script("1 + 1"))
        """, "2\n")


if __name__ == "__main__":
    unittest.main()
