"""Runs of scripts."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from . import _airlock, _depth, _loop
from ._errors import ApprovalNeeded
from ._limits import Limits
from ._tools import PreparedTools, prepare

if TYPE_CHECKING:
    import asyncio

Language = Literal["python", "starlark"]
OnPrint = Callable[[str], object]
# Functions and what `tool` made of them: mypy finds no closer type for a list of functions with different signatures.
Tools = Iterable[Any]
_Script = tuple[str, Mapping[str, Any] | None, str, _airlock.CheckedLimits | None, bool]
_Place: TypeAlias = (
    "tuple[tuple[Callable[..., Any], ...], OnPrint | None, asyncio.AbstractEventLoop | None, contextvars.Context, int, int]"
)


class PendingCall(NamedTuple):
    """A call that waits for a decision."""

    id: int
    tool: str
    arguments: dict[str, Any]


class Usage(NamedTuple):
    """What a finished run used."""

    fuel: int
    """Work in units of the sandbox, the same in each run of the same script with the same results of its tools."""
    peak_memory: int
    """Bytes of memory of the script at its largest."""
    calls: int
    """Calls of tools."""


class Run:
    """A run of a script that is finished, or that waits for decisions about calls of tools."""

    __slots__ = ("__weakref__", "_native", "_on_print", "_tools", "_value")

    def __init__(self, native: _airlock.NativeRun, tools: PreparedTools, on_print: OnPrint | None) -> None:
        self._native = native
        # A run that waits keeps the functions that it will call.
        self._tools = tools
        self._on_print = on_print
        self._value = native.value() if native.is_done() else None

    @property
    def done(self) -> bool:
        """Whether the run is finished."""
        return self._native.is_done()

    @property
    def value(self) -> Any:
        """The value of `result`, or else of the last expression. Raises `ApprovalNeeded` if the run is not finished."""
        if not self._native.is_done():
            raise ApprovalNeeded(self)
        return self._value

    @property
    def output(self) -> str:
        """The text that the script has printed."""
        return self._native.output()

    @property
    def pending(self) -> list[PendingCall]:
        """The calls that wait for a decision."""
        return [PendingCall(*call) for call in self._native.pending()]

    @property
    def usage(self) -> Usage | None:
        """What the run used; `None` if it is not finished."""
        usage = self._native.usage()
        return None if usage is None else Usage(*usage)

    def approve(self, ids: int | Iterable[int] | EllipsisType = ...) -> None:
        """Approves calls: those with these ids, or else the only one that is pending. An empty list approves none.

        Raises `ValueError` if `ids` is left out and several calls are pending, and `KeyError` if one of `ids` is not pending. No
        call is approved then.
        """
        self._native.approve(_numbers(ids))

    def deny(self, ids: int | Iterable[int] | EllipsisType = ..., reason: str = "") -> None:
        """Denies calls: those with these ids, or else all that are pending. The script receives the reason as the failure of the call.

        Raises `KeyError` if one of `ids` is not pending. No call is denied then.
        """
        self._native.deny(_numbers(ids), reason)

    def resume(self) -> Run:
        """Continues the run, and returns it: finished, or waiting again. This object is then used up, also if the run fails: `dump`
        it before to resume it once more.

        The script runs once more from its start. Calls that were answered are not made again.
        """
        tools = self._tools
        with _placed(tools, self._on_print) as place:
            return Run(_airlock.resume(self._native, place), tools, self._on_print)

    async def resume_async(self) -> Run:
        """Continues the run like `resume`, with the tools on the running event loop."""
        return await _on_loop(self._tools, self._on_print, lambda *place: _airlock.spawn_resume(self._native, *place))

    def dump(self) -> bytes:
        """Returns the run as bytes, for `load_run` in this process or another one; those of a finished run are for `replay`.

        They hold the script, its inputs, its limits, the calls with their arguments, results and decisions, and a checksum. They
        are neither encrypted nor signed: a program that can change them can approve calls.
        Raises `ValueError` for a finished run of `run_script`, which keeps no journal.
        """
        return self._native.dump()

    def __repr__(self) -> str:
        state = "done" if self.done else f"waits for {len(self.pending)} decisions"
        return f"<airlock.Run {state}>"


def run_script(code: str, tools: Tools = (), inputs: Mapping[str, Any] | None = None, *, language: Language = "python",
               limits: Limits | None = None, on_print: OnPrint | None = None) -> Any:
    """Runs a script in a fresh sandbox and returns its value: that of `result`, or else of its last expression.

    Args:
        code: The script.
        tools: Functions that the script may call by their names: plain ones, `async def`, or what `airlock.tool` made. A plain
            function is called on this thread, except for calls that the script makes at the same time. An `async def` runs on an
            event loop of this package.
        inputs: Global variables of the script.
        language: `python` or `starlark`.
        limits: Limits of the run.
        on_print: Is called with each line that the script prints.

    Raises:
        ScriptError: The script failed; `ScriptSyntaxError` if it does not parse, `ToolFailed` if a tool failed in it.
        LimitExceeded: A limit stopped the script.
        ApprovalNeeded: The script waits for an approval. The exception has the run.
        BadTool: A function cannot be a tool.
        ValueError, TypeError: An input has no JSON form, or its name is not that of a variable.
    """
    prepared = prepare(tools)
    script = _script(code, inputs, language, limits, on_print, False)
    with _placed(prepared, on_print) as place:
        native = _airlock.run(prepared.set, script, place)
    if native.is_done():
        return native.value()
    raise ApprovalNeeded(Run(native, prepared, on_print))


async def run_script_async(code: str, tools: Tools = (), inputs: Mapping[str, Any] | None = None, *, language: Language = "python",
                           limits: Limits | None = None, on_print: OnPrint | None = None) -> Any:
    """Runs a script like `run_script`, beside the running event loop.

    `async def` tools and `on_print` run on this loop, plain functions on threads. Cancelling the task stops the script, and cancels
    the tools that it waits for.
    """
    return (await _started_async(code, tools, inputs, language, limits, on_print, False)).value


def start_script(code: str, tools: Tools = (), inputs: Mapping[str, Any] | None = None, *, language: Language = "python",
                 limits: Limits | None = None, on_print: OnPrint | None = None) -> Run:
    """Runs a script like `run_script`, until it is finished or waits for an approval, and returns the run.

    A finished run has a journal: `dump` returns it, and `replay` derives the value from it.
    """
    prepared = prepare(tools)
    script = _script(code, inputs, language, limits, on_print, True)
    with _placed(prepared, on_print) as place:
        return Run(_airlock.run(prepared.set, script, place), prepared, on_print)


async def start_script_async(code: str, tools: Tools = (), inputs: Mapping[str, Any] | None = None, *, language: Language = "python",
                             limits: Limits | None = None, on_print: OnPrint | None = None) -> Run:
    """Runs a script like `start_script`, with the tools on the running event loop."""
    return await _started_async(code, tools, inputs, language, limits, on_print, True)


def load_run(dump: bytes, tools: Tools = (), *, on_print: OnPrint | None = None) -> Run:
    """Loads a run that waits, from the bytes of `Run.dump`, also in another process.

    The bytes are believed, with the approvals, results and limits in them: take them only from where nobody else can write.

    Raises `BadDump` if the bytes are damaged, or if a tool that the run has called is missing or has another schema now.
    """
    prepared = prepare(tools)
    return Run(_airlock.load(dump, prepared.set), prepared, on_print)


def replay(dump: bytes) -> Run:
    """Runs the script of a finished run again from its journal alone: no tool is called.

    Raises `BadDump` if the bytes are damaged or the script no longer makes the calls that they hold.
    """
    return Run(_airlock.replay(dump), prepare(()), None)


async def _started_async(code: str, tools: Tools, inputs: Mapping[str, Any] | None, language: Language, limits: Limits | None,
                         on_print: OnPrint | None, has_journal: bool) -> Run:
    prepared = prepare(tools)
    script = _script(code, inputs, language, limits, on_print, has_journal)
    return await _on_loop(prepared, on_print, lambda *place: _airlock.spawn_run(prepared.set, script, *place))


async def _on_loop(tools: PreparedTools, on_print: OnPrint | None, spawn: Callable[..., _airlock.SpawnedRun]) -> Run:
    """Waits for a run that the native module spawns. Stops it if the caller is cancelled."""
    import asyncio

    loop = asyncio.get_running_loop()
    future: asyncio.Future[_airlock.NativeRun] = loop.create_future()
    context = contextvars.copy_context()
    nesting = _depth.nesting.get()
    context.run(_depth.nesting.set, nesting + 1)
    spawned = spawn((tools.functions, on_print, loop, context, nesting, _depth.call_depth.get()), future)
    try:
        return Run(await future, tools, on_print)
    finally:
        spawned.cancel()


def _numbers(ids: int | Iterable[int] | EllipsisType) -> list[int] | None:
    """Returns the ids of calls, or `None` if they are left out. An answer such as `True` or `None` is not an id."""
    if isinstance(ids, EllipsisType):
        return None
    numbers = [ids] if isinstance(ids, int) else list(ids)
    if any(isinstance(number, bool) or not isinstance(number, int) for number in numbers):
        raise TypeError("the ids of calls must be integers, as `run.pending` has them")
    for number in numbers:
        if not 0 <= number < 2**32:
            raise KeyError(number)
    return numbers


def _script(code: str, inputs: Mapping[str, Any] | None, language: Language, limits: Limits | None, on_print: OnPrint | None,
            has_journal: bool) -> _Script:
    """Returns a script as the native module takes it. Raises `TypeError` for an argument of a wrong type."""
    if not isinstance(code, str):
        raise TypeError(f"the code of a script is a text, not a value of type {type(code).__name__}")
    if not isinstance(language, str):
        raise TypeError(f"the language of a script is a text, not a value of type {type(language).__name__}")
    if on_print is not None and not callable(on_print):
        raise TypeError(f"on_print is a function, not a value of type {type(on_print).__name__}")
    return code, inputs, language, _checked(limits), has_journal


def _checked(limits: Limits | None) -> _airlock.CheckedLimits | None:
    if limits is None:
        return None
    if not isinstance(limits, Limits):
        raise TypeError(f"limits are airlock.Limits, such as airlock.Limits(seconds=10), not a value of type {type(limits).__name__}")
    return limits._checked


@contextmanager
def _placed(tools: PreparedTools, on_print: OnPrint | None) -> Iterator[_Place]:
    """Returns the parts of its caller that a run on this thread needs. Scripts that its tools run meanwhile are nested in it."""
    loop = _loop.private_loop() if tools.set.has_async else None
    nesting = _depth.nesting.get()
    token = _depth.nesting.set(nesting + 1)
    try:
        yield tools.functions, on_print, loop, contextvars.copy_context(), nesting, _depth.call_depth.get()
    finally:
        _depth.nesting.reset(token)
