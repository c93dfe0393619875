from dataclasses import dataclass
from enum import Enum
from typing import Annotated

from airlock_plugin import Context, Field, ToolError, log, plugin, tool


class Sky(Enum):
    CLEAR = "clear"
    CLOUDS = "clouds"
    RAIN = "rain"
    SNOW = "snow"


# Invented data, so that the plugin works without network access.
WEATHER = {
    "cairo": (34.0, Sky.CLEAR),
    "lima": (19.0, Sky.CLOUDS),
    "oslo": (4.0, Sky.SNOW),
    "rome": (22.0, Sky.CLEAR),
}


@dataclass
class Weather:
    city: Annotated[str, "Name of the city."]
    celsius: Annotated[float, "Temperature of the air."]
    sky: Annotated[Sky, "State of the sky."]


@tool(title="Weather", read_only=True, idempotent=True, open_world=False)
def get_weather(city: Annotated[str, Field(examples=["Oslo"])], context: Context) -> Weather:
    """Tells the weather of a city, as it is right now.

    Args:
        city: Name of the city in English, Oslo for one.
    """
    log.info("weather asked for", known=len(WEATHER))
    context.progress(0, 1, "looking it up")
    name = city.strip().lower()
    if name not in WEATHER:
        known = ", ".join(WEATHER)
        raise ToolError("not-found", f"no weather of {city}; known are {known}", code="unknown_city")
    celsius, sky = WEATHER[name]
    context.progress(1, 1, "found")
    return Weather(name, celsius, sky)


Tools = plugin(get_weather)
