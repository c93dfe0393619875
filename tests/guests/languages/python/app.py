# The example's tool, and additional tools for the tests.

from dataclasses import dataclass

from componentize_py_types import Err
from wit_world.imports import http

from airlock import plugin, tool
from example import get_weather


@dataclass
class Refused:
    kind: str


def get(url: str) -> http.Response:
    return http.send(http.Request("GET", url, [], None, None, None, None))


@tool()
def knock(url: str) -> Refused:
    """Asks a server that nobody granted; answers what kind of failure that is."""
    print("about to knock")
    try:
        get(url)
    except Err as error:
        return Refused(error.value.kind.name.lower())
    return Refused("none")


@tool()
def visit(url: str) -> str:
    """Asks a server; answers what it says."""
    return get(url).body.decode()


@tool()
def crash() -> str:
    """Fails by accident."""
    return None.nothing


Tools = plugin(get_weather, knock, visit, crash)
