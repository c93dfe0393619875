"""Diagnostics for the operator: `log.info("table read", rows=3)`. Arguments and results of tools do not belong there.

The module `logging` writes here too, from level info, and `print` at level debug.
"""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Mapping
from typing import Any

from ._host import interface
from ._json import unicode

_host = interface("log")


def trace(message: str, /, **fields: Any) -> None:
    """Writes a line: every step."""
    _write("TRACE", message, fields)


def debug(message: str, /, **fields: Any) -> None:
    """Writes a line: details for finding a fault."""
    _write("DEBUG", message, fields)


def info(message: str, /, **fields: Any) -> None:
    """Writes a line: a normal event."""
    _write("INFO", message, fields)


def warn(message: str, /, **fields: Any) -> None:
    """Writes a line: a problem that the plugin has handled."""
    _write("WARN", message, fields)


def error(message: str, /, **fields: Any) -> None:
    """Writes a line: a failure."""
    _write("ERROR", message, fields)


def _write(level: str, message: str, fields: dict[str, Any]) -> None:
    _host.write(_host.Level[level], unicode(str(message)), [(unicode(name), unicode(str(value))) for name, value in fields.items()])


def traceback(error: BaseException) -> str:
    """Returns where an exception was raised, and its causes.

    The module `traceback` looks for the sources. A component has none, and without a file system looking for them ends the call.
    """
    lines: list[str] = []
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        step = found.__traceback__
        while step is not None:
            code = step.tb_frame.f_code
            lines.append(f'File "{code.co_filename}", line {step.tb_lineno}, in {code.co_name}')
            step = step.tb_next
        lines.append(described(found))
        found = found.__cause__ or (None if found.__suppress_context__ else found.__context__)
        if found is not None:
            lines.append("after:")
    return "\n".join(lines)


def described(error: BaseException) -> str:
    """Returns the type of an exception and its message; the type alone if the message cannot be read."""
    name = type(error).__name__
    try:
        return f"{name}: {error}"
    except Exception:
        return name


class _Record(logging.LogRecord):
    """A record without the time and the process: a component may have no clock, and reading a missing one would end the call."""

    def __init__(self, name: str, level: int, pathname: str, lineno: int, msg: object, args: Any, exc_info: Any,
                 func: str | None = None, sinfo: str | None = None, **more: Any) -> None:
        # As `logging` does for a single mapping.
        is_mapping = args and len(args) == 1 and isinstance(args[0], Mapping) and args[0]
        self.__dict__.update(
            name=name, msg=msg, args=args[0] if is_mapping else args, levelname=logging.getLevelName(level), levelno=level,
            pathname=pathname, filename=pathname, module="", exc_info=exc_info, exc_text=None, stack_info=sinfo, lineno=lineno,
            funcName=func, created=0.0, msecs=0.0, relativeCreated=0.0, thread=None, threadName=None, processName=None,
            process=None, taskName=None)


class _Formatter(logging.Formatter):
    def formatException(self, ei: Any) -> str:
        return traceback(ei[1]) if ei[1] is not None else ""


class _Handler(logging.Handler):
    """Forwards records of `logging`."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(_Formatter())

    def emit(self, record: logging.LogRecord) -> None:
        level = ("ERROR" if record.levelno >= logging.ERROR else "WARN" if record.levelno >= logging.WARNING
                 else "INFO" if record.levelno >= logging.INFO else "DEBUG")
        try:
            _write(level, self.format(record), {"logger": record.name})
        except Exception:
            self.handleError(record)


class _Stream(io.TextIOBase):
    """Forwards printed lines. A component may have no standard output, and writing to a missing one would end the call."""

    def __init__(self) -> None:
        self._line = ""

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            _write("DEBUG", line, {})
        return len(text)

    def finish(self) -> None:
        """Writes the line that has no end yet."""
        line, self._line = self._line, ""
        if line:
            _write("DEBUG", line, {})


_streams: list[_Stream] = []


def install() -> None:
    """Sends `print` and `logging` to the log of the host."""
    if _streams:
        return
    _streams.extend([_Stream(), _Stream()])
    sys.stdout, sys.stderr = _streams
    logging.setLogRecordFactory(_Record)
    root = logging.getLogger()
    root.handlers[:] = [_Handler()]
    root.setLevel(logging.INFO)


def flush() -> None:
    """Writes printed lines that have no end yet."""
    for stream in _streams:
        stream.finish()
