"""The types of the contract: the generated bindings in a component, and their substitutes everywhere else.

This module alone imports bindings.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

IS_COMPONENT = sys.platform == "wasi"
"""True when the guard is built, and in the gateway."""


def hooks() -> Any:
    """Returns the types of the interface `airlock:guard/hooks`."""
    if IS_COMPONENT:
        return importlib.import_module("wit_world.exports.hooks")
    from . import _native

    return _native


def error_type() -> Any:
    """Returns the exception by which the check of settings fails; its `value` is the problem."""
    if IS_COMPONENT:
        return importlib.import_module("componentize_py_types").Err
    from . import _native

    return _native.Err


def silence() -> None:
    """Discards what is printed and logged: without WASI, writing a line or reading the clock for one would end the decision."""
    if not IS_COMPONENT:
        return
    import io

    class Discarded(io.TextIOBase):
        def write(self, text: str) -> int:
            return len(text)

    sys.stdout = sys.stderr = Discarded()
    # Only if the guard has imported it: it takes a part of the memory.
    if logging := sys.modules.get("logging"):
        logging.disable(logging.CRITICAL)
