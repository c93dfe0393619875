"""Depth of what runs in this context, which bounds scripts and calls in each other."""

from __future__ import annotations

import contextvars

nesting: contextvars.ContextVar[int] = contextvars.ContextVar("airlock_nesting", default=0)
"""Scripts in each other, up to the one whose tool runs in this context."""
call_depth: contextvars.ContextVar[int] = contextvars.ContextVar("airlock_call_depth", default=0)
"""Depth of the call of a gateway whose function runs in this context."""


def enter(depth: int, scripts: int) -> None:
    """Sets both, in the context of a function that a gateway calls."""
    call_depth.set(depth)
    nesting.set(scripts)
