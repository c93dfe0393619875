"""What the tests share: programs that they run."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

WAIT_SECONDS = 120
"""Longest time that a test waits for a program: it has failed then."""


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
    return asyncio.run(asyncio.wait_for(work, WAIT_SECONDS))
