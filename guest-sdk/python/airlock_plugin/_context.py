"""The running call, as its tool sees it."""

from __future__ import annotations

from typing import Any

from ._content import Content, text


class Context:
    """The running call. A tool receives it by a parameter of this type, which is no argument.

    `Context()` belongs to no call, for tests: it has no time limit and drops progress and parts.
    """

    def __init__(self, handle: Any = None) -> None:
        self._handle = handle

    @property
    def id(self) -> str:
        """The host's identifier of this call, for correlation."""
        return "" if self._handle is None else str(self._handle.id())

    @property
    def remaining_ms(self) -> int | None:
        """Wall-clock time left before the host ends the call, in milliseconds; none if it is not limited."""
        left: int | None = None if self._handle is None else self._handle.remaining_ms()
        return left

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Reports the progress of the call: `done` grows; `total` is its last value, if that is known."""
        if self._handle is not None:
            self._handle.progress(float(done), None if total is None else float(total), message)

    def emit(self, part: Content | str) -> None:
        """Sends one part of the result before the rest; a string is a text.

        The content of the result, or of the error, begins with these parts, so the tool does not return them again. They count
        towards the host's limit on the result.
        """
        from ._wire import content_to_host

        if self._handle is not None:
            self._handle.emit(content_to_host(text(part) if isinstance(part, str) else part))
