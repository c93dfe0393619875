"""The values of secrets, for the rare plugin that computes with one, such as a signature."""

from __future__ import annotations

from ._errors import HostError, Kind, ToolError
from ._host import error_type, interface
from ._wire import case

_host = interface("secrets_reveal", "[request.secret.NAME] with `reveal = true`")
_Err = error_type()
_KINDS: dict[str, tuple[Kind, str]] = {
    "no-such-secret": ("internal", "this plugin does not request the secret {!r}"),
    "denied": ("denied", "this tool may not read the secret {!r}: the operator has not granted its value, or plugin.toml does not "
               "declare `secret` for the tool"),
    "unavailable": ("unavailable", "the secret {!r} cannot be read now"),
    "other": ("other", "the secret {!r} cannot be read"),
}


class SecretError(HostError):
    """A failure to read a secret; `kind` is `no-such-secret`, `denied`, `unavailable` or `other`."""

    def tool_error(self) -> ToolError:
        """Returns the failure of a tool that cannot go on."""
        return ToolError(_KINDS[self.kind][0], self.message, code="secret_" + self.kind.replace("-", "_"))


def reveal(name: str) -> bytes:
    """Returns the value. The host still redacts it in results, errors and logs."""
    try:
        value: bytes = _host.reveal(name)
    except _Err as error:
        kind, detail = case(error.value), getattr(error.value, "value", "")
        message = _KINDS[kind][1].format(name)
        raise SecretError(kind, f"{message}: {detail}" if detail else message) from None
    return value
