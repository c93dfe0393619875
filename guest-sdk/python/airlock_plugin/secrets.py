"""Secrets that the plugin requests and the operator grants, without their values: the host adds a value to requests.

    http.get("https://api.github.com/user", credentials=["token"] if secrets.exists("token") else [])
"""

from __future__ import annotations

from ._host import interface

_host = interface("secrets", "[request.secret.NAME]")


def exists(name: str) -> bool:
    """Returns true if the operator has granted a secret of this name and it has a value."""
    found: bool = _host.exists(name)
    return found
