"""Model functions: what a function of the program is asked, and the forms of its reply."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from ._errors import ModelError
from ._tools import _is_async

Piece: TypeAlias = "str | Mapping[str, Any]"
Reply: TypeAlias = "Piece | Iterator[Piece] | AsyncIterator[Piece]"
ModelFunction: TypeAlias = "Callable[[dict[str, Any]], Reply | Awaitable[Reply]]"


class Answers:
    """The answers of a model function that have not ended.

    The native module refers to an answer by its number, so that all references to the objects of the program are those of objects
    that the garbage collector knows.
    """

    __slots__ = ("_numbers", "_on_model", "_open", "is_async")

    def __init__(self, on_model: ModelFunction) -> None:
        self._on_model = on_model
        self._numbers = itertools.count()
        self._open: dict[int, Answer | AsyncAnswer] = {}
        self.is_async = _is_async(on_model) or inspect.isasyncgenfunction(on_model)
        """True if the model function runs on an event loop."""

    def begin(self) -> int:
        """Begins the answer to a request, and returns its number."""
        number = next(self._numbers)
        self._open[number] = AsyncAnswer(self._on_model) if self.is_async else Answer(self._on_model)
        return number

    def get(self, number: int) -> Answer | AsyncAnswer:
        """Returns the answer with this number."""
        return self._open[number]

    def end(self, number: int) -> None:
        """Ends an answer, whose further pieces nothing asks for."""
        self._open.pop(number, None)


class Answer:
    """The answer of a plain model function to one request."""

    __slots__ = ("_on_model", "_pieces")

    def __init__(self, on_model: ModelFunction) -> None:
        self._on_model = on_model
        self._pieces: Iterator[Any] = iter(())

    def ask(self, request: dict[str, Any]) -> Any:
        """Returns the reply; `None` if it comes in pieces."""
        try:
            reply: Any = self._on_model(request)
        except ModelError as error:
            return _failed(error)
        if isinstance(reply, Iterable) and not isinstance(reply, (str, Mapping)):
            self._pieces = iter(reply)
            return None
        return _checked(reply)

    def step(self) -> list[Any]:
        """Returns the next piece; none after the last one."""
        try:
            for piece in self._pieces:
                return [_checked(piece)]
        except ModelError as error:
            return [_failed(error)]
        return []


class AsyncAnswer:
    """The answer of an `async def` model function to one request."""

    __slots__ = ("_on_model", "_pieces")

    def __init__(self, on_model: ModelFunction) -> None:
        self._on_model = on_model
        self._pieces: AsyncIterator[Any] | None = None

    async def ask(self, request: dict[str, Any]) -> Any:
        """Returns the reply; `None` if it comes in pieces."""
        try:
            reply: Any = self._on_model(request)
            if inspect.isawaitable(reply):
                reply = await reply
        except ModelError as error:
            return _failed(error)
        if isinstance(reply, AsyncIterable):
            self._pieces = aiter(reply)
            return None
        if isinstance(reply, Iterable) and not isinstance(reply, (str, Mapping)):
            self._pieces = _as_async(reply)
            return None
        return _checked(reply)

    async def step(self) -> list[Any]:
        """Returns the next piece; none after the last one."""
        if self._pieces is None:
            return []
        try:
            return [_checked(await anext(self._pieces))]
        except StopAsyncIteration:
            return []
        except ModelError as error:
            return [_failed(error)]


async def _as_async(pieces: Iterable[Any]) -> AsyncIterator[Any]:
    for piece in pieces:
        yield piece


def _checked(reply: Any) -> Any:
    if isinstance(reply, (str, Mapping)):
        return reply
    raise TypeError("the model function must return a text, a message, a chat completion or an iterator of pieces, not a value of "
                    f"type {type(reply).__name__}")


def _failed(error: ModelError) -> dict[str, Any]:
    return {"error": {"message": error.message, "status": error.status, "code": error.code, "retry_after": error.retry_after}}
