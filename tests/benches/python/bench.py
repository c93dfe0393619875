"""Costs of a script from Python: `make bench-python`.

Prints a table with the 50th and 99th percentile of each measurement, beside Monty (`pydantic-monty`, which runs each script in a worker
process) if the interpreter has it, and beside a call of a plain function. `--json` prints one document. The aims are those of the
issue that this package was made for.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import airlock

EMPTY = ""
CALLS = "for n in range(10): add(n, 1)"
LOOP = "total = 0\nfor n in range(100_000): total += n\ntotal"
FIRST = """
import time
begun = time.perf_counter()
import airlock
assert airlock.run_script("1 + 1") == 2
print(time.perf_counter() - begun)
"""
SCRIPTS = 10_000

Measurement = dict[str, Any]


def add(a: int, b: int) -> int:
    """Adds numbers."""
    return a + b


async def add_async(a: int, b: int) -> int:
    """Adds numbers."""
    return a + b


def measure(work: Callable[[], object], seconds: float = 2.0) -> list[float]:
    """Returns the times of runs, in seconds, after some that do not count."""
    for _ in range(20):
        work()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 100 or time.perf_counter() < end:
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return times


def first_result() -> list[float]:
    """Returns the times from the import to the first result, each of a new process, with compiled code in the cache."""
    command = [sys.executable, "-c", FIRST]
    return [float(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(12)][2:]


def resident_mb() -> float:
    """Returns the memory of this process."""
    try:
        with open("/proc/self/status") as status:
            kilobytes = next(line.split()[1] for line in status if line.startswith("VmRSS:"))
        return int(kilobytes) / 1024
    except OSError:
        # The largest so far, in bytes, where there is no /proc.
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)


def memory() -> tuple[float, float]:
    """Returns the memory of this process after many scripts, and its growth since a tenth of them."""
    early = 0.0
    for number in range(SCRIPTS):
        airlock.run_script(CALLS, [add])
        if number == SCRIPTS // 10:
            early = resident_mb()
    late = resident_mb()
    return late, late - early


def of_airlock() -> dict[str, list[float]]:
    async def async_calls() -> list[float]:
        times: list[float] = []
        for _ in range(200):
            begun = time.perf_counter()
            await airlock.run_script_async("for n in range(10): add_async(n, 1)", [add_async])
            times.append(time.perf_counter() - begun)
        return times[20:]

    def bare_calls() -> None:
        for n in range(10):
            add(n, 1)

    return {
        "empty script": measure(lambda: airlock.run_script(EMPTY)),
        "empty script in Starlark": measure(lambda: airlock.run_script(EMPTY, language="starlark")),
        "10 calls of a function": measure(lambda: airlock.run_script(CALLS, [add])),
        "10 calls of a function, without a sandbox": measure(bare_calls, 0.2),
        "10 calls of an async function, on a loop": asyncio.run(async_calls()),
        "100,000 additions": measure(lambda: airlock.run_script(LOOP)),
        "import to first result": first_result(),
    }


def of_monty() -> tuple[str, dict[str, list[float]]] | None:
    """Returns version and times of Monty; `None` if it is not installed."""
    try:
        from pydantic_monty import Monty  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return None
    with Monty() as pool:

        def run(code: str, **given: Any) -> Any:
            with pool.checkout() as session:
                return session.feed_run(code, **given)

        times = {
            "empty script": measure(lambda: run(EMPTY)),
            "10 calls of a function": measure(lambda: run(CALLS, external_lookup={"add": add})),
            "100,000 additions": measure(lambda: run(LOOP)),
        }
    return importlib.metadata.version("pydantic-monty"), times


AIMS = {
    "empty script": 80e-6,
    "10 calls of a function": 200e-6,
    "100,000 additions": 10e-3,
    "import to first result": 60e-3,
}


def summary(times: list[float]) -> Measurement:
    return {"p50_us": statistics.median(times) * 1e6, "p99_us": statistics.quantiles(times, n=100)[98] * 1e6, "runs": len(times)}


def shown(microseconds: float | None) -> str:
    if microseconds is None:
        return ""
    return f"{microseconds:,.1f} µs" if microseconds < 10_000 else f"{microseconds / 1000:,.1f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description="Costs of a script from Python.")
    parser.add_argument("--json", action="store_true", help="print one document")
    is_json = parser.parse_args().json
    monty = of_monty()
    own = {name: summary(times) for name, times in of_airlock().items()}
    resident, growth = memory()
    other = {name: summary(times) for name, times in monty[1].items()} if monty else {}
    if is_json:
        print(json.dumps({"airlock": own, "monty": other, "memory_mb": resident, "memory_growth_mb": growth}))
        return
    versions = f"airlock {airlock.__version__}, Python {sys.version.split()[0]}, " + (f"Monty {monty[0]}" if monty else "Monty not installed")
    print(f"{versions}; medians, with the 99th percentile in brackets\n")
    print(f"| {'':<42} | {'airlock':>24} | {'Monty':>24} | {'aim':>10} |")
    print(f"|{'-' * 44}|{'-' * 25}:|{'-' * 25}:|{'-' * 11}:|")
    for name, times in own.items():
        cells = [f"{shown(one['p50_us'])} ({shown(one['p99_us'])})" if one else "" for one in (times, other.get(name))]
        aim = AIMS.get(name)
        print(f"| {name:<42} | {cells[0]:>24} | {cells[1]:>24} | {shown(aim * 1e6) if aim else '':>10} |")
    print(f"| {f'memory after {SCRIPTS:,} scripts':<42} | {f'{resident:.1f} MB ({growth:+.1f} MB)':>24} | {'':>24} | {'60 MB':>10} |")


if __name__ == "__main__":
    main()
