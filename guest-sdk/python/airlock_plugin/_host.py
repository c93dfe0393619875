"""The interfaces of the host: the generated bindings in a component, and their substitutes everywhere else.

This module alone imports bindings. Their names contain no version: `wit_world.imports.kv` is the version of `kv` in the plugin's world.
The package is made for `airlock:host`, `airlock:types` and `airlock:plugin` at 0.1.0, so the world must import exactly these versions,
and each interface in one version, also if the host that builds the plugin has later ones.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

IS_COMPONENT = sys.platform == "wasi"
"""True when the plugin is built, and in the gateway."""


def interface(name: str, request: str = "") -> Any:
    """Imports an interface. `request` is the part of `plugin.toml` that puts it into the plugin's world.

    The builder generates the world from `plugin.toml`, so an interface that is not requested does not exist.
    """
    if not IS_COMPONENT:
        from . import _native

        return getattr(_native, name)
    try:
        return importlib.import_module(f"wit_world.imports.{name}")
    except ModuleNotFoundError as error:
        raise ImportError(f"airlock_plugin.{name} needs {request} in plugin.toml") from error


def error_type() -> Any:
    """Returns the exception by which functions of the host and of the plugin fail; its `value` is the failure."""
    if not IS_COMPONENT:
        from . import _native

        return _native.Err
    return importlib.import_module("componentize_py_types").Err
