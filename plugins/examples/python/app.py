from dataclasses import dataclass
from typing import Annotated, Literal

from airlock import Call, ErrorKind, Failure, log, plugin, tool

Sky = Literal["clear", "clouds", "rain", "snow"]

# Made up, so that the plugin works without asking to be let out.
WEATHER: dict[str, tuple[float, Sky]] = {
    "cairo": (34.0, "clear"),
    "lima": (19.0, "clouds"),
    "oslo": (4.0, "snow"),
    "rome": (22.0, "clear"),
}


@dataclass
class Weather:
    city: Annotated[str, "Name of the city."]
    celsius: Annotated[float, "Temperature of the air."]
    sky: Annotated[Sky, "What the sky looks like."]


@tool(title="Weather", read_only=True, idempotent=True, open_world=False)
def get_weather(city: Annotated[str, "Name of the city in English, Oslo for one.", {"examples": ["Oslo"]}], call: Call) -> Weather:
    """Tells the weather of a city, as it is right now."""
    log("weather asked for", known=len(WEATHER))
    call.progress(0, 1, "looking it up")
    name = city.strip().lower()
    if name not in WEATHER:
        known = ", ".join(WEATHER)
        raise Failure(f"no weather of {city}; known are {known}", ErrorKind.NOT_FOUND, code="unknown_city")
    celsius, sky = WEATHER[name]
    call.progress(1, 1, "found")
    return Weather(name, celsius, sky)


Tools = plugin(get_weather)
