"""The native module. Everything in it is private to this package."""

import asyncio
import contextvars
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, final

__version__: str
MAX_VALUE_BYTES: int

@final
class ToolSet:
    """Tools whose schemas are compiled. It has no functions: each run brings its own."""

    def __new__(
        cls,
        tools: Sequence[
            # Name, description, JSON Schema as text, names for positional arguments, needs an approval, is read-only, is
            # `async def`, converts its arguments in place.
            tuple[str, str, str, Sequence[str], bool, bool, bool, Callable[[dict[str, Any]], None] | None]
        ],
    ) -> ToolSet: ...
    @property
    def has_async(self) -> bool: ...

@final
class CheckedLimits:
    def __new__(
        cls,
        memory_mb: float | None,
        cpu_seconds: float | None,
        seconds: float | None,
        calls: int | None,
        parallel_calls: int | None,
        nesting: int | None,
    ) -> CheckedLimits: ...

@final
class NativeRun:
    def is_done(self) -> bool: ...
    def value(self) -> Any: ...
    def output(self) -> str: ...
    def pending(self) -> list[tuple[int, str, dict[str, Any]]]: ...
    def usage(self) -> tuple[int, int, int] | None: ...
    def approve(self, ids: Sequence[int] | None) -> None: ...
    def deny(self, ids: Sequence[int] | None, reason: str) -> None: ...
    def dump(self) -> bytes: ...

@final
class NativeGateway:
    def tools(self, options: Options) -> GatewayWork: ...
    def call(self, options: Options, name: str, arguments: Mapping[str, Any]) -> GatewayWork: ...
    def run_script(self, options: Options, code: str) -> GatewayWork: ...
    def chat(self, options: Options, body: Mapping[str, Any]) -> GatewayWork: ...
    def chat_stream(self, options: Options, body: Mapping[str, Any]) -> GatewayWork: ...
    def pending(self, options: Options) -> GatewayWork: ...
    def approve(self, options: Options, id: str) -> GatewayWork: ...
    def deny(self, options: Options, id: str, reason: str) -> GatewayWork: ...
    def resume(self, options: Options, id: str) -> GatewayWork: ...
    def serve(self) -> GatewayWork: ...
    def stop(self) -> GatewayWork: ...

@final
class NativeChat:
    def next(self) -> GatewayWork: ...
    def close(self) -> None: ...

@final
class GatewayWork:
    """Work that has not begun, or was begun. It is done once."""

    def wait(self) -> Any: ...
    def spawn(self, event_loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any]) -> SpawnedRun: ...

@final
class SpawnedRun:
    def cancel(self) -> None: ...

@final
class LineQueue:
    """Printed lines that wait for the event loop, in batches."""

    def take(self) -> list[str]: ...

@final
class Reply:
    """Takes the end of a call of an `async def` tool."""

    def succeed(self, result: Any) -> None: ...
    def fail(self, error: BaseException) -> None: ...

# Code, inputs, language, limits, whether a finished run keeps its journal.
_Script: TypeAlias = tuple[str, Mapping[str, Any] | None, str, CheckedLimits | None, bool]
# The functions of the tools, a receiver of printed text, an event loop, the context of the caller, scripts in each other around it,
# depth of the call of a gateway around it.
_Place: TypeAlias = tuple[
    tuple[Callable[..., Any], ...],
    Callable[[str], object] | None,
    asyncio.AbstractEventLoop | None,
    contextvars.Context,
    int,
    int,
]

def run(tools: ToolSet, script: _Script, place: _Place) -> NativeRun: ...
def spawn_run(tools: ToolSet, script: _Script, place: _Place, future: asyncio.Future[NativeRun]) -> SpawnedRun: ...
def resume(run: NativeRun, place: _Place) -> NativeRun: ...
def spawn_resume(run: NativeRun, place: _Place, future: asyncio.Future[NativeRun]) -> SpawnedRun: ...
def close() -> None: ...
def forked() -> None: ...
def load(dump: bytes, tools: ToolSet) -> NativeRun: ...
def replay(dump: bytes) -> NativeRun: ...

# Key, clients, tools, tools to take away, language, approval, seconds, is the operator, is approving, depth of the call around it,
# scripts in each other around it.
Options: TypeAlias = tuple[
    str | None,
    Sequence[str] | None,
    Sequence[str] | None,
    Sequence[str] | None,
    str | None,
    str | None,
    float | None,
    bool,
    bool,
    int,
    int,
]
# A path, or the content.
Config: TypeAlias = tuple[str | None, Mapping[str, Any] | None]
# The functions of the tools, the answers of the model function, whether it is `async def`, an event loop, the context of the program.
_Program: TypeAlias = tuple[
    tuple[Callable[..., Any], ...],
    Any,
    bool,
    asyncio.AbstractEventLoop | None,
    contextvars.Context,
]

def start_gateway(config: Config, tools: ToolSet, code_mode: bool, place: _Program) -> GatewayWork: ...
