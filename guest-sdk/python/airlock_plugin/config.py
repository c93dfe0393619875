"""The plugin's configuration, which the operator writes and the host checks against the schema of `[config]` in `plugin.toml`."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from ._errors import ToolError
from ._host import interface
from ._shape import shape

_host = interface("config", "[config] with `from_code = true`")
T = TypeVar("T")


def get(key: str, default: Any = None) -> Any:
    """Returns one member, or the default if it is absent. A member that is null is `None`."""
    found = _host.get(key)
    return default if found is None else json.loads(found)


def get_all() -> dict[str, Any]:
    """Returns all members."""
    found: dict[str, Any] = json.loads(_host.get_all())
    return found


def load(settings: type[T]) -> T:
    """Returns the configuration as a dataclass; members that are absent have their defaults."""
    try:
        loaded: T = shape(settings).convert(get_all(), "")
    except ToolError as error:
        raise ToolError("internal", f"the plugin's configuration cannot be used: {error.message}") from None
    return loaded
