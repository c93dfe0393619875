"""Limits of one run."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from ._airlock import CheckedLimits
from ._numbers import check_number


@dataclass(frozen=True)
class Limits:
    """Limits of one run. A field that is `None` has its default. Raises `ValueError` if a value is out of range, and
    `TypeError` if it is no number.

    Make the limits once and use them for many runs: they are checked when they are made.
    """

    memory_mb: float | None = None
    """Memory of the script, in MiB (2^20 bytes)."""
    cpu_seconds: float | None = None
    """Time in which the script computes. Waiting for tools is free."""
    seconds: float | None = None
    """Time of the whole run, with that of its tools."""
    calls: int | None = None
    """Calls of tools."""
    parallel_calls: int | None = None
    """Calls of tools at the same time. Further ones wait."""
    nesting: int | None = None
    """Scripts in each other, this one included: a tool of the first runs the second, and so on."""
    _checked: CheckedLimits = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name) if one.init else None
            if value is not None:
                check_number(value, f"the limit {one.name} is a number")
        checked = CheckedLimits(self.memory_mb, self.cpu_seconds, self.seconds, self.calls, self.parallel_calls, self.nesting)
        object.__setattr__(self, "_checked", checked)

    def __reduce__(self) -> tuple[type[Limits], tuple[float | None, ...]]:
        return Limits, (self.memory_mb, self.cpu_seconds, self.seconds, self.calls, self.parallel_calls, self.nesting)
