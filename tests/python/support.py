"""What the tests share: programs that they run."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

WAIT_SECONDS = 120
"""Longest time that a test waits for a program or a condition: it has failed then."""

# A shell starts what runs in its background with interrupts ignored, which programs inherit: they would never end.
signal.signal(signal.SIGINT, signal.default_int_handler)


def run_program(source: str) -> subprocess.CompletedProcess[str]:
    """Runs a program in an interpreter of its own, with the environment of the tests."""
    command = [sys.executable, "-c", textwrap.dedent(source)]
    return subprocess.run(command, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)


def start_program(source: str) -> subprocess.Popen[str]:
    """Starts a program in an interpreter of its own, whose output the test reads."""
    command = [sys.executable, "-u", "-c", textwrap.dedent(source)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine on an event loop of its own, for at most the time that a test waits."""
    return asyncio.run(_bounded(work))


async def _bounded(work: Coroutine[Any, Any, T]) -> T:
    # With `-X dev`, a loop logs each step that is slow, as all are on a busy machine.
    asyncio.get_running_loop().slow_callback_duration = WAIT_SECONDS
    return await asyncio.wait_for(work, WAIT_SECONDS)


def is_refused(host: str, port: int) -> bool:
    """Returns whether nothing listens at an address."""
    try:
        socket.create_connection((host, port), WAIT_SECONDS).close()
    except ConnectionRefusedError:
        return True
    return False


def wait_until(what: str, holds: Callable[[], bool]) -> None:
    """Polls until a condition holds. Raises `AssertionError` if that takes longer than a test waits."""
    end = time.monotonic() + WAIT_SECONDS
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(f"waited {WAIT_SECONDS} s for {what}")
        time.sleep(0.01)
