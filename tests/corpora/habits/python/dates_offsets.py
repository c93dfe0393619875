from datetime import date, datetime, time, timedelta, timezone

raw = ["2024-03-01T12:30:00+0200", "2024-03-01T12:30:00-05:30", "2024-03-01T12:30:00Z"]
parsed = [datetime.strptime(text, "%Y-%m-%dT%H:%M:%S%z") for text in raw]
utc = [when.astimezone(timezone.utc).isoformat() for when in parsed]
local = parsed[0].astimezone(timezone(timedelta(hours=-3, minutes=-30)))
micro = datetime(2024, 3, 1, 12, 30, 5, 67)
lines = [
    micro.strftime("%H:%M:%S.%f"),
    f"{micro:%S.%f}",
    micro.strftime("100%%f %z|"),
    date(2024, 3, 1).strftime("%d.%m.%Y"),
    micro.isoformat(" "),
    micro.isoformat(sep=" ", timespec="minutes"),
    micro.isoformat(timespec="milliseconds"),
    parsed[1].isoformat(timespec="hours"),
    time(4, 5).isoformat(timespec="seconds"),
]
try:
    datetime.strptime("yesterday", "%Y-%m-%d%z")
except ValueError as error:
    bad = str(error)
result = {
    "utc": utc,
    "local": str(local),
    "offsets": [str(when.utcoffset()) for when in parsed] + [micro.utcoffset()],
    "lines": lines,
    "bad": bad,
    "sorted": [when.hour for when in sorted(parsed)],
}
