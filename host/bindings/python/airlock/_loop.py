"""Calls of `async def` tools, on the event loop of their caller or on one of this package.

One private loop runs in a thread of its own for the whole process, so that what a tool keeps on it, such as a client with
connections, works in the next run too.
"""

from __future__ import annotations

import atexit
import contextvars
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ._airlock import LineQueue, Reply

if TYPE_CHECKING:
    # Imported where it is used: it takes longer than all else that a first script needs.
    import asyncio

_lock = threading.Lock()
_private: asyncio.AbstractEventLoop | None = None


def current() -> asyncio.AbstractEventLoop | None:
    """Returns the event loop that runs in this thread; `None` if there is none."""
    import asyncio

    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def private_loop() -> asyncio.AbstractEventLoop:
    """Returns the loop for tools of callers that have none. Raises `RuntimeError` if the caller runs on it."""
    import asyncio

    global _private
    with _lock:
        if _private is None:
            _private = asyncio.new_event_loop()
            thread = threading.Thread(target=_run, args=(_private,), name="airlock-tools", daemon=True)
            thread.start()
            atexit.register(_stop, _private, thread)
        loop = _private
    if current() is loop:
        raise RuntimeError("the event loop that runs async functions would wait for itself; await the variant of this function whose "
                           "name ends with _async")
    return loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    import asyncio

    asyncio.set_event_loop(loop)
    while True:
        try:
            loop.run_forever()
            return
        except (KeyboardInterrupt, SystemExit):
            # Of a tool: it ends the run of that tool, and not the loop for all others.
            continue


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    # Not that of the parent, in the child of a fork.
    if loop is _private:
        loop.call_soon_threadsafe(loop.stop)
        # A tool that blocks it does not keep the program.
        thread.join(1)


def forget() -> None:
    """Forgets the loop: in the child of a fork, where its thread is missing."""
    global _lock, _private
    _lock = threading.Lock()
    _private = None


class Call:
    """A call of an `async def` function, made from another thread."""

    __slots__ = ("_arguments", "_function", "_is_cancelled", "_loop", "_reply", "_task")

    def __init__(self, loop: asyncio.AbstractEventLoop, context: contextvars.Context, function: Callable[..., Any],
                 arguments: dict[str, Any], reply: Reply) -> None:
        self._loop = loop
        self._function = function
        self._arguments = arguments
        self._reply = reply
        self._task: asyncio.Task[Any] | None = None
        self._is_cancelled = False
        try:
            # Raises if the loop is closed. A context is entered once at a time.
            loop.call_soon_threadsafe(self._start, context=context.copy())
        except BaseException:
            # Perhaps of the handler of a signal, after the loop was told.
            self.cancel()
            raise

    def cancel(self) -> None:
        """Cancels the call, from any thread."""
        try:
            self._loop.call_soon_threadsafe(self._cancel)
        except RuntimeError:
            # The loop is closed, and has no tasks.
            pass

    def _start(self) -> None:
        function, arguments = self._function, self._arguments
        # The native module keeps this object until it takes the end of the call, which may be never.
        del self._function, self._arguments
        if self._is_cancelled:
            return
        try:
            self._task = self._loop.create_task(function(**arguments))
        except BaseException as error:
            self._reply.fail(error)
        else:
            self._task.add_done_callback(self._end)

    def _cancel(self) -> None:
        if self._is_cancelled:
            return
        self._is_cancelled = True
        if self._task is not None:
            self._task.cancel()

    def _end(self, task: asyncio.Task[Any]) -> None:
        self._task = None
        if task.cancelled():
            # CancelledError would end the run, as if its caller were cancelled.
            self._reply.fail(RuntimeError("the task of the tool was cancelled"))
        elif (error := task.exception()) is not None:
            self._reply.fail(error)
        else:
            self._reply.succeed(task.result())


def deliver(future: asyncio.Future[Any], run: Any, error: BaseException | None) -> None:
    """Ends a future on its loop, unless its caller has gone."""
    if future.done():
        return
    if error is None:
        future.set_result(run)
    else:
        future.set_exception(error)


def deliver_lines(future: asyncio.Future[Any], on_print: Callable[[str], object], lines: LineQueue) -> None:
    """Passes a batch of printed lines on. An exception of `on_print` ends the run."""
    for line in lines.take():
        if future.done():
            return
        try:
            on_print(line)
        except StopIteration as error:
            # `Future.set_exception` refuses a `StopIteration`.
            stopped = RuntimeError("on_print raised StopIteration")
            stopped.__cause__ = error
            future.set_exception(stopped)
        except BaseException as error:
            future.set_exception(error)
