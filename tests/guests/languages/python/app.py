# The example's tool, and additional tools for the tests.

import random
import uuid
from dataclasses import dataclass

from airlock_plugin import http, plugin, tool
from example import get_weather


@dataclass
class Refused:
    kind: str


@tool
def knock(url: str) -> Refused:
    """Asks a server that nobody granted; answers what kind of failure that is."""
    print("about to knock")
    try:
        http.get(url)
    except http.HttpError as error:
        return Refused(error.kind)
    return Refused("none")


@tool
def visit(url: str) -> str:
    """Asks a server; answers what it says."""
    return http.get(url).text()


@dataclass
class Dice:
    random: float
    uuid: str


@tool
def dice() -> Dice:
    """Returns random numbers of each kind that the language has."""
    return Dice(random.random(), str(uuid.uuid4()))


@tool
def crash() -> str:
    """Fails by accident."""
    return None.nothing


Tools = plugin(get_weather, knock, visit, dice, crash)
