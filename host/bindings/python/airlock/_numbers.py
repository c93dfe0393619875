"""Checks of numbers that programs give."""

from __future__ import annotations

import numbers


def check_number(value: object, what: str, kind: type = numbers.Real) -> None:
    """Raises `TypeError` if a value is no number of a kind, or is a bool: Python counts `True` as the integer 1."""
    if isinstance(value, bool) or not isinstance(value, kind):
        raise TypeError(f"{what}, not a value of type {type(value).__name__}")
