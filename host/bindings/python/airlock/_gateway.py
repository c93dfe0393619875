"""A gateway within this process, with functions as tools and as a model."""

from __future__ import annotations

import contextvars
import os
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypedDict, overload

from . import _airlock, _depth, _loop, _model
from ._errors import GatewayError, GatewayStopped
from ._numbers import check_number
from ._pending import PendingApproval
from ._run import Tools
from ._tools import listed, prepare

if TYPE_CHECKING:
    import asyncio

    from typing_extensions import Unpack

Messages: TypeAlias = Iterable[Mapping[str, Any]]


class RequestOptions(TypedDict, total=False):
    """Sender of a request, and the tools that it selects. What is absent has the default of the gateway."""

    key: str | None
    """Credential of the virtual key of the sender. Without one, it is a caller without a key."""
    clients: Sequence[str] | None
    """Clients that the request selects, by name; `*` stands for all."""
    tools: Sequence[str] | None
    """Tools that the request selects, as `client-tool`, or all of a client as `client-*`."""
    exclude_tools: Sequence[str] | None
    """Tools that the request takes away."""
    language: Literal["python", "starlark"] | None
    """Language of scripts."""
    approval: Literal["return", "omit", "wait"] | None
    """What becomes of the calls of a model that need an approval."""
    timeout: float | None
    """Bound on the time of each call and each chat, in seconds."""
    operator: bool
    """The program is the operator: it sees the clients of all owners, and decides about the calls of all callers."""
    approving: bool
    """Each call of the program is its own approval, as over HTTP: for a program whose user has asked for the call."""


class ToolInfo(NamedTuple):
    """A tool of the gateway, as a request sees it."""

    name: str
    description: str
    """Untrusted text of the source of the tool."""
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    client: str | None
    """Name of the client that it belongs to; `None` for the gateway's own tools."""
    title: str | None
    read_only: bool | None


class CallResult(NamedTuple):
    """Result of a call."""

    text: str
    """The result as text."""
    result: dict[str, Any]
    """The result as MCP has it: `content`, and `structuredContent` if there is data."""

    @property
    def data(self) -> Any:
        """The result as data; `None` if there is none."""
        return self.result.get("structuredContent")


class ChatReply(dict[str, Any]):
    """A chat completion. Its member `airlock` describes the calls that the gateway has made."""

    @property
    def message(self) -> dict[str, Any]:
        """The message of the model. Its `tool_calls` are those that the gateway has not made."""
        message: dict[str, Any] = self["choices"][0]["message"]
        return message

    @property
    def text(self) -> str:
        """The text of the message."""
        text: str = self.message.get("content") or ""
        return text


class ChatStream:
    """The chunks of a chat completion that is streamed, for `for` or `async for`.

    The model runs only while the next chunk is waited for. An event of a call is a chunk without text that has it as its member
    `airlock`.
    """

    __slots__ = ("_loop", "_native")

    def __init__(self, native: _airlock.NativeChat, loop: asyncio.AbstractEventLoop | None) -> None:
        self._native = native
        # That of the functions of the gateway.
        self._loop = loop

    def __iter__(self) -> ChatStream:
        return self

    def __next__(self) -> dict[str, Any]:
        chunk: dict[str, Any] | None = _waited(self._native.next(), self._loop, "iterate with `async for`")
        if chunk is None:
            raise StopIteration
        return chunk

    def __aiter__(self) -> ChatStream:
        return self

    async def __anext__(self) -> dict[str, Any]:
        chunk: dict[str, Any] | None = await _beside_loop(self._native.next())
        if chunk is None:
            raise StopAsyncIteration
        return chunk

    def close(self) -> None:
        """Cancels the chat."""
        self._native.close()


class Gateway:
    """A gateway within this process. It runs between `start` and `stop`, or in a `with` or an `async with`.

        with airlock.Gateway("airlock.json", tools=[price]) as gateway:
            gateway.call("internal-price", {"item": "tea"}).text

    Each method has a variant for event loops whose name ends with `_async`. The interpreter's lock is not held while the gateway
    works, and `KeyboardInterrupt` ends the waiting. A gateway that the program no longer refers to stops at once, also if it serves:
    requests in flight end without a response.
    """

    def __init__(self, config: str | os.PathLike[str] | Mapping[str, Any] | None = None, tools: Tools = (),
                 on_model: _model.ModelFunction | None = None, *, code_mode: bool = False) -> None:
        """Describes a gateway. Nothing is made before it starts.

        Args:
            config: Path of the configuration file, or its content. Paths in a content are relative to the working directory.
            tools: Functions of the program as tools, as in `run_script`: callers see `price` as `internal-price`. A tool with
                `needs_approval` waits for an approval of each call, and others are called without one.
            on_model: A function of the program as a model, which requests name as `own/NAME`. It takes the body of a chat
                completion request and returns a text, a message, a chat completion, or an iterator of their pieces.
            code_mode: The functions are for scripts, and models see them behind the tools of code mode.
        """
        if config is not None and not isinstance(config, (str, os.PathLike, Mapping)):
            raise TypeError(f"a configuration is a path or a mapping, not a value of type {type(config).__name__}")
        if on_model is not None and not callable(on_model):
            raise TypeError(f"a model is a function, not a value of type {type(on_model).__name__}")
        self._config = config
        self._tools = listed(tools)
        self._on_model = on_model
        self._code_mode = code_mode
        self._native: _airlock.NativeGateway | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> Gateway:
        """Starts the gateway, and waits until its plugins are loaded; the MCP servers connect meanwhile. Returns the gateway.

        `async def` functions run on an event loop of this package. Raises `ConfigurationError`, `StartFailed` or `BadTool`.
        """
        self._native = self._starting(None).wait()
        return self

    async def start_async(self) -> Gateway:
        """Starts the gateway like `start`. `async def` functions run on the running event loop."""
        self._native = await _beside_loop(self._starting(_loop.current()))
        return self

    def stop(self) -> None:
        """Stops the gateway: takes no further requests, lets those in flight end for a while, and stops the MCP servers.

        Further calls wait for the same. Raises `StartFailed` if serving has failed since `serve` returned.
        """
        if self._native is not None:
            self._wait(self._native.stop())

    async def stop_async(self) -> None:
        """Stops the gateway like `stop`."""
        if self._native is not None:
            await _beside_loop(self._native.stop())

    def __enter__(self) -> Gateway:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.stop()

    async def __aenter__(self) -> Gateway:
        return await self.start_async()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        traceback: TracebackType | None) -> None:
        await self.stop_async()

    def serve(self) -> str:
        """Begins to serve HTTP in the background, as `server` of the configuration says, and returns `ADDRESS:PORT`.

        Raises `StartFailed` if the address cannot be used; the gateway has stopped then.
        """
        address: str = self._wait(self._running.serve())
        return address

    async def serve_async(self) -> str:
        """Begins to serve HTTP like `serve`."""
        address: str = await _beside_loop(self._running.serve())
        return address

    def tools(self, **options: Unpack[RequestOptions]) -> list[ToolInfo]:
        """Returns the tools that a request sees. Waits for servers that connect for the first time."""
        return [ToolInfo(**tool) for tool in self._wait(self._running.tools(_fields(options)))]

    async def tools_async(self, **options: Unpack[RequestOptions]) -> list[ToolInfo]:
        """Returns the tools like `tools`."""
        return [ToolInfo(**tool) for tool in await _beside_loop(self._running.tools(_fields(options)))]

    def call(self, name: str, arguments: Mapping[str, Any] | None = None, **options: Unpack[RequestOptions]) -> CallResult:
        """Calls a tool. Raises `ApprovalPending` if the call waits for an approval, and `CallFailed` if it was refused or failed."""
        return CallResult(**self._wait(self._running.call(_fields(options), name, arguments or {})))

    async def call_async(self, name: str, arguments: Mapping[str, Any] | None = None,
                         **options: Unpack[RequestOptions]) -> CallResult:
        """Calls a tool like `call`. Cancelling the task cancels the call."""
        return CallResult(**await _beside_loop(self._running.call(_fields(options), name, arguments or {})))

    def run_script(self, code: str, **options: Unpack[RequestOptions]) -> CallResult:
        """Runs a script in code mode, in the language of the configuration unless `language` names one.

        Its tools are those of clients in code mode, and the functions if `code_mode` is true: `internal.price(item="tea")`. The
        value of `result` is `data["result"]`. Raises `ApprovalPending` if calls of it wait for an approval, and `CallFailed` if it
        failed, with the kind `not_found` if it has no tools.
        """
        return CallResult(**self._wait(self._running.run_script(_fields(options), code)))

    async def run_script_async(self, code: str, **options: Unpack[RequestOptions]) -> CallResult:
        """Runs a script like `run_script`."""
        return CallResult(**await _beside_loop(self._running.run_script(_fields(options), code)))

    @overload
    def chat(self, messages: Messages, *, model: str, stream: Literal[False] = False, settings: Mapping[str, Any] | None = None,
             **options: Unpack[RequestOptions]) -> ChatReply: ...

    @overload
    def chat(self, messages: Messages, *, model: str, stream: Literal[True], settings: Mapping[str, Any] | None = None,
             **options: Unpack[RequestOptions]) -> ChatStream: ...

    def chat(self, messages: Messages, *, model: str, stream: bool = False, settings: Mapping[str, Any] | None = None,
             **options: Unpack[RequestOptions]) -> ChatReply | ChatStream:
        """Sends messages to a model, makes the calls that it asks for, and returns its last reply.

        Args:
            messages: Messages of a chat completion request.
            model: Name of the model, as `provider/model`; `own/NAME` for `on_model`.
            stream: The result is an iterator of chunks.
            settings: Further members of the request, such as `temperature`, or `tools` that the program calls itself.
            options: Sender of the request, and the tools that it selects.

        Raises `ChatFailed` if the model has no reply, and `BadConversation` for messages that cannot be sent.
        """
        body = _body(messages, model, settings)
        if stream:
            return ChatStream(self._wait(self._running.chat_stream(_fields(options), body)), self._loop)
        return ChatReply(self._wait(self._running.chat(_fields(options), body)))

    @overload
    async def chat_async(self, messages: Messages, *, model: str, stream: Literal[False] = False,
                         settings: Mapping[str, Any] | None = None, **options: Unpack[RequestOptions]) -> ChatReply: ...

    @overload
    async def chat_async(self, messages: Messages, *, model: str, stream: Literal[True], settings: Mapping[str, Any] | None = None,
                         **options: Unpack[RequestOptions]) -> ChatStream: ...

    async def chat_async(self, messages: Messages, *, model: str, stream: bool = False, settings: Mapping[str, Any] | None = None,
                         **options: Unpack[RequestOptions]) -> ChatReply | ChatStream:
        """Sends messages to a model like `chat`."""
        body = _body(messages, model, settings)
        if stream:
            return ChatStream(await _beside_loop(self._running.chat_stream(_fields(options), body)), self._loop)
        return ChatReply(await _beside_loop(self._running.chat(_fields(options), body)))

    def pending(self, **options: Unpack[RequestOptions]) -> list[PendingApproval]:
        """Returns the calls that wait for an approval: those of the sender, or of all callers for the operator."""
        return [PendingApproval.of(one) for one in self._wait(self._running.pending(_fields(options)))]

    async def pending_async(self, **options: Unpack[RequestOptions]) -> list[PendingApproval]:
        """Returns the calls that wait like `pending`."""
        return [PendingApproval.of(one) for one in await _beside_loop(self._running.pending(_fields(options)))]

    def approve(self, id: str, **options: Unpack[RequestOptions]) -> None:
        """Approves calls that wait. Nothing runs before `resume`. Raises `NotWaiting` or `OperatorRequired`."""
        self._wait(self._running.approve(_fields(options), id))

    async def approve_async(self, id: str, **options: Unpack[RequestOptions]) -> None:
        """Approves calls like `approve`."""
        await _beside_loop(self._running.approve(_fields(options), id))

    def deny(self, id: str, reason: str = "", **options: Unpack[RequestOptions]) -> None:
        """Denies calls that wait. The reason is in the records, and the caller of the call or the script receives it."""
        self._wait(self._running.deny(_fields(options), id, reason))

    async def deny_async(self, id: str, reason: str = "", **options: Unpack[RequestOptions]) -> None:
        """Denies calls like `deny`."""
        await _beside_loop(self._running.deny(_fields(options), id, reason))

    def resume(self, id: str, **options: Unpack[RequestOptions]) -> CallResult:
        """Makes a call of the sender that has waited, or lets its script go on. Raises what `call` raises."""
        return CallResult(**self._wait(self._running.resume(_fields(options), id)))

    async def resume_async(self, id: str, **options: Unpack[RequestOptions]) -> CallResult:
        """Makes a call that has waited like `resume`."""
        return CallResult(**await _beside_loop(self._running.resume(_fields(options), id)))

    @property
    def _running(self) -> _airlock.NativeGateway:
        if self._native is None:
            raise GatewayStopped("the gateway was not started; use `with`, or call `start`", "gateway_not_started")
        return self._native

    def _starting(self, loop: asyncio.AbstractEventLoop | None) -> _airlock.GatewayWork:
        if self._native is not None:
            raise GatewayError("the gateway was started before; make another one", "gateway_started")
        prepared = prepare(self._tools)
        on_model = self._on_model
        answers = None if on_model is None else _model.Answers(on_model)
        is_model_async = answers is not None and answers.is_async
        if prepared.set.has_async or is_model_async:
            loop = self._loop = _loop.private_loop() if loop is None else loop
        place = (prepared.functions, answers, is_model_async, loop, contextvars.copy_context())
        config = self._config
        given: _airlock.Config = (None, config) if config is None or isinstance(config, Mapping) else (os.fspath(config), None)
        return _airlock.start_gateway(given, prepared.set, self._code_mode, place)

    def _wait(self, work: _airlock.GatewayWork) -> Any:
        """Waits for work on this thread, unless it is that of the event loop that the functions need."""
        return _waited(work, self._loop, "await the variant of this method whose name ends with _async")


def _waited(work: _airlock.GatewayWork, loop: asyncio.AbstractEventLoop | None, remedy: str) -> Any:
    """Waits for work on this thread. Raises `RuntimeError` if it is that of the event loop that runs the functions."""
    if loop is not None and _loop.current() is loop:
        raise RuntimeError(f"the event loop that runs the functions of the gateway would wait for itself; {remedy}")
    return work.wait()


async def _beside_loop(work: _airlock.GatewayWork) -> Any:
    """Waits for work beside the running event loop. Stops it if the caller is cancelled."""
    import asyncio

    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    spawned = work.spawn(loop, future)
    try:
        return await future
    finally:
        spawned.cancel()


def _body(messages: Messages, model: str, settings: Mapping[str, Any] | None) -> dict[str, Any]:
    if isinstance(messages, (str, Mapping)):
        raise TypeError(f"the messages of a chat are a list, not a value of type {type(messages).__name__}")
    return {**(settings or {}), "model": model, "messages": list(messages)}


def _fields(options: RequestOptions) -> _airlock.Options:
    given: dict[str, Any] = dict(options)
    fields = (
        _text(given, "key"), _names(given, "clients"), _names(given, "tools"), _names(given, "exclude_tools"),
        _text(given, "language"), _text(given, "approval"), _seconds(given, "timeout"), _flag(given, "operator"),
        _flag(given, "approving"),
        _depth.call_depth.get(), _depth.nesting.get(),
    )
    if given:
        raise TypeError(f"a request has no option {min(given)!r}; it has {', '.join(sorted(RequestOptions.__annotations__))}")
    return fields


def _flag(given: dict[str, Any], name: str) -> bool:
    """Takes an option that gives rights. Only a bool is accepted, because a text such as `"no"` would count as true."""
    flag = given.pop(name, False)
    if not isinstance(flag, bool):
        raise TypeError(f"the option {name} must be True or False, not a value of type {type(flag).__name__}")
    return flag


def _text(given: dict[str, Any], name: str) -> str | None:
    """Takes a text; `None` if it is absent."""
    text = given.pop(name, None)
    if text is not None and not isinstance(text, str):
        raise TypeError(f"the option {name} is a text, not a value of type {type(text).__name__}")
    return text


def _seconds(given: dict[str, Any], name: str) -> float | None:
    """Takes a number of seconds; `None` if it is absent."""
    seconds: float | None = given.pop(name, None)
    if seconds is not None:
        check_number(seconds, f"the option {name} is a number of seconds")
    return seconds


def _names(given: dict[str, Any], name: str) -> list[str] | None:
    """Takes a list of names; `None` if it is absent."""
    names = given.pop(name, None)
    if names is None:
        return None
    if isinstance(names, str):
        raise TypeError(f"names of clients and tools are a list; write [{names!r}]")
    listed_names = list(names)
    for one in listed_names:
        if not isinstance(one, str):
            raise TypeError(f"the option {name} is a list of texts; one item is of type {type(one).__name__}")
    return listed_names
