"""Costs of a script from Python: `make bench-python`.

Prints a table with the 50th and 99th percentile of each measurement, beside Monty (`pydantic-monty`, which runs each script in a worker
process) if the interpreter has it, and beside a call of a plain function. `--json` prints one document. Memory is that of a process of
its own, which has loaded nothing else, and of its workers.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import importlib.util
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


def resident_mb(process: str = "self") -> float:
    """Returns the memory of a process."""
    status = Path("/proc", process, "status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:")) / 1024


def memory_mb() -> dict[str, float]:
    """Returns the memory of this process, and of its workers."""
    if not Path("/proc/self/status").exists():
        # The largest so far, in bytes.
        return {"process": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20), "workers": 0.0}
    children = [child for thread in Path("/proc/self/task").iterdir() for child in (thread / "children").read_text().split()]
    return {"process": resident_mb(), "workers": sum(resident_mb(child) for child in children)}


def after_scripts(work: Callable[[], object]) -> Measurement:
    """Returns the memory after many scripts, and its growth since a tenth of them."""
    early = 0.0
    for number in range(SCRIPTS):
        work()
        if number == SCRIPTS // 10:
            early = sum(memory_mb().values())
    late = memory_mb()
    return {**late, "growth": sum(late.values()) - early}


def memory(sandbox: str) -> Measurement:
    """Returns the memory of a process that runs scripts in `airlock` or `monty`."""
    done = subprocess.run([sys.executable, __file__, "--memory", sandbox], capture_output=True, check=True)
    found: Measurement = json.loads(done.stdout)
    return found


def of_airlock() -> dict[str, list[float]]:
    import airlock

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


def memory_of_airlock() -> Measurement:
    import airlock

    return after_scripts(lambda: airlock.run_script(CALLS, [add]))


def has_monty() -> bool:
    return importlib.util.find_spec("pydantic_monty") is not None


def run_monty(pool: Any, code: str, **given: Any) -> Any:
    with pool.checkout() as session:
        return session.feed_run(code, **given)


def of_monty() -> dict[str, list[float]]:
    from pydantic_monty import Monty  # type: ignore[import-not-found, unused-ignore]

    with Monty() as pool:
        return {
            "empty script": measure(lambda: run_monty(pool, EMPTY)),
            "10 calls of a function": measure(lambda: run_monty(pool, CALLS, external_lookup={"add": add})),
            "100,000 additions": measure(lambda: run_monty(pool, LOOP)),
        }


def memory_of_monty() -> Measurement:
    from pydantic_monty import Monty

    with Monty() as pool:
        return after_scripts(lambda: run_monty(pool, CALLS, external_lookup={"add": add}))


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


def shown_memory(found: Measurement | None) -> str:
    if found is None:
        return ""
    workers = f" + {found['workers']:.0f}" if found["workers"] else ""
    return f"{found['process']:.0f}{workers} MB ({found['growth']:+.1f} MB)"


def main() -> None:
    parser = argparse.ArgumentParser(description="Costs of a script from Python.")
    parser.add_argument("--json", action="store_true", help="print one document")
    parser.add_argument("--memory", choices=["airlock", "monty"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory:
        print(json.dumps(memory_of_airlock() if options.memory == "airlock" else memory_of_monty()))
        return
    import airlock

    other = {name: summary(times) for name, times in of_monty().items()} if has_monty() else {}
    own = {name: summary(times) for name, times in of_airlock().items()}
    memories = {sandbox: memory(sandbox) for sandbox in ["airlock", *(["monty"] if has_monty() else [])]}
    monty = f"Monty {importlib.metadata.version('pydantic-monty')}" if has_monty() else "Monty not installed"
    if options.json:
        print(json.dumps({"airlock": own, "monty": other, "memory_mb": memories}))
        return
    print(f"airlock {airlock.__version__}, Python {sys.version.split()[0]}, {monty}; medians, with the 99th percentile in brackets\n")
    print(f"| {'':<42} | {'airlock':>24} | {'Monty':>24} | {'aim':>10} |")
    print(f"|{'-' * 44}|{'-' * 25}:|{'-' * 25}:|{'-' * 11}:|")
    for name, times in own.items():
        cells = [f"{shown(one['p50_us'])} ({shown(one['p99_us'])})" if one else "" for one in (times, other.get(name))]
        aim = AIMS.get(name)
        print(f"| {name:<42} | {cells[0]:>24} | {cells[1]:>24} | {shown(aim * 1e6) if aim else '':>10} |")
    own_memory, other_memory = (shown_memory(memories.get(sandbox)) for sandbox in ["airlock", "monty"])
    print(f"| {f'memory after {SCRIPTS:,} scripts (growth)':<42} | {own_memory:>24} | {other_memory:>24} | {'60 MB':>10} |")


if __name__ == "__main__":
    main()
