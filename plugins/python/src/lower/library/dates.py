def _airlock_strptime(it, *a, **k):
    from datetime import datetime, timedelta, timezone
    if it is not datetime or len(a) != 2 or "%z" not in a[1].replace("%%", ""):
        return it.strptime(*a, **k)
    import re
    text, format = a
    before, after = format.split("%z")
    for match in re.finditer(r"Z|([+-])(\d\d):?([0-5]\d)(?::?([0-5]\d))?", text):
        sign, hours, minutes, seconds = match.groups()
        rest = text[:match.start()] + "§" + text[match.end():]
        try:
            found = it.strptime(rest, before + "§" + after)
        except ValueError:
            continue
        zone = timezone.utc
        if sign:
            offset = timedelta(hours=int(hours), minutes=int(minutes), seconds=int(seconds or 0))
            zone = timezone(offset if sign == "+" else -offset)
        return found.replace(tzinfo=zone)
    raise ValueError(f"time data {text!r} does not match format {format!r}")
def _airlock_strftime(it, *a, **k):
    if type(it).__name__ not in ("datetime", "date", "time") or len(a) != 1:
        return it.strftime(*a, **k)
    offset = _airlock_utcoffset(it) if type(it).__name__ == "datetime" else None
    digits = _airlock_microseconds(it)
    pieces = [piece.replace("%f", digits) for piece in a[0].split("%%")]
    if offset is None:
        pieces = [piece.replace("%z", "") for piece in pieces]
    return it.strftime("%%".join(pieces))
def _airlock_microseconds(it):
    return f"{getattr(it, 'microsecond', 0):06d}"
def _airlock_isoformat(it, *a, **k):
    kind = type(it).__name__
    if kind == "datetime":
        return _airlock_datetime_isoformat(it, *a, **k)
    if kind == "time":
        return _airlock_clock(it.isoformat(), it.microsecond, *a, **k)
    return it.isoformat(*a, **k)
def _airlock_datetime_isoformat(it, sep="T", timespec="auto"):
    text = it.isoformat()
    return text[:10] + sep + _airlock_clock(text[11:], it.microsecond, timespec)
def _airlock_clock(text, micro, timespec="auto"):
    second, offset = text[:8], text[8:]
    if offset.startswith("."):
        offset = offset[7:]
    if timespec == "auto":
        timespec = "microseconds" if micro else "seconds"
    ways = {"hours": text[:2], "minutes": text[:5], "seconds": second, "milliseconds": f"{second}.{micro // 1000:03d}", "microseconds": f"{second}.{micro:06d}"}
    if timespec not in ways:
        raise ValueError("Unknown timespec value")
    return ways[timespec] + offset
def _airlock_isocalendar(it):
    if type(it).__name__ not in ("datetime", "date"):
        return it.isocalendar()
    from collections import namedtuple
    from datetime import date, timedelta
    weekday = it.isoweekday()
    thursday = date(it.year, it.month, it.day) + timedelta(days=4 - weekday)
    week = (thursday - date(thursday.year, 1, 1)).days // 7 + 1
    return namedtuple("IsoCalendarDate", ["year", "week", "weekday"])(thursday.year, week, weekday)
def _airlock_utcoffset(it):
    from datetime import timedelta
    if type(it).__name__ != "datetime":
        return it.utcoffset()
    text = it.isoformat()[19:]
    if text.startswith("."):
        text = text[7:]
    if not text:
        return None
    hours, minutes, *rest = text[1:].split(":")
    offset = timedelta(hours=int(hours), minutes=int(minutes), seconds=int(rest[0]) if rest else 0)
    return -offset if text[0] == "-" else offset
def _airlock_astimezone(it, *a, **k):
    from datetime import datetime, timedelta, timezone
    if type(it).__name__ != "datetime":
        return it.astimezone(*a, **k)
    tz = a[0] if a else k.get("tz")
    tz = timezone.utc if tz is None else tz
    moment = it.replace(tzinfo=None) - (_airlock_utcoffset(it) or timedelta())
    return (moment + _airlock_utcoffset(datetime(2000, 1, 1, tzinfo=tz))).replace(tzinfo=tz)
def _airlock_fromtimestamp(it, *a, **k):
    from datetime import date, datetime, timezone
    if it is not date and it is not datetime:
        return it.fromtimestamp(*a, **k)
    tz = a[1] if len(a) > 1 else k.get("tz")
    moment = _airlock_utcfromtimestamp(datetime, a[0] if a else k["timestamp"])
    if it is date:
        return moment.date()
    return moment if tz is None else _airlock_astimezone(moment.replace(tzinfo=timezone.utc), tz)
def _airlock_utcfromtimestamp(it, *a, **k):
    from datetime import datetime, timedelta
    if it is not datetime:
        return it.utcfromtimestamp(*a, **k)
    return datetime(1970, 1, 1) + _airlock_timedelta(timedelta, seconds=a[0])
def _airlock_combine(it, *a, **k):
    from datetime import datetime
    if it is not datetime:
        return it.combine(*a, **k)
    day, time = a[0], a[1]
    zone = a[2] if len(a) > 2 else k.get("tzinfo", time.tzinfo)
    return datetime(day.year, day.month, day.day, time.hour, time.minute, time.second, time.microsecond, tzinfo=zone)
def _airlock_toordinal(it):
    from datetime import date
    if type(it).__name__ not in ("datetime", "date"):
        return it.toordinal()
    return (date(it.year, it.month, it.day) - date(1, 1, 1)).days + 1
def _airlock_fromordinal(it, *a):
    from datetime import date, datetime, timedelta
    if it is not date and it is not datetime:
        return it.fromordinal(*a)
    return it(1, 1, 1) + timedelta(days=a[0] - 1)
def _airlock_fromisocalendar(it, *a, **k):
    from datetime import date, datetime, timedelta
    if it is not date and it is not datetime:
        return it.fromisocalendar(*a, **k)
    year, week, day = [*a, *[k[name] for name in ("year", "week", "day") if name in k]]
    first = it(year, 1, 4)
    return first + timedelta(days=(week - 1) * 7 + day - first.isoweekday())
def _airlock_timedelta(it, *a, **k):
    from datetime import timedelta
    units = {"days": 86400000000, "seconds": 1000000, "microseconds": 1, "milliseconds": 1000, "minutes": 60000000, "hours": 3600000000, "weeks": 604800000000}
    given = [*zip(units, a), *k.items()]
    if it is not timedelta or all([type(value) is int for _, value in given]) or len(a) > 7:
        return it(*a, **k)
    whole, part = 0, 0.0
    for name, value in given:
        if name not in units or not isinstance(value, (int, float)):
            return it(*a, **k)
        value = int(value) if isinstance(value, bool) else value
        whole += int(value) * units[name]
        part += (value - int(value)) * units[name]
    return it(microseconds=whole + round(part))
def _airlock_floor(a, b):
    if _airlock_are_lengths(a, b):
        return _airlock_length(a) // _airlock_length(b)
    return a // b
def _airlock_divide(a, b):
    if _airlock_are_lengths(a, b):
        return _airlock_length(a) / _airlock_length(b)
    if type(a).__name__ == "timedelta" and isinstance(b, float):
        return type(a)(microseconds=round(_airlock_length(a) / b))
    return a / b
def _airlock_modulo(a, b):
    if _airlock_are_lengths(a, b):
        return type(a)(microseconds=_airlock_length(a) % _airlock_length(b))
    return a % b
def _airlock_times(a, b):
    if type(b).__name__ == "timedelta":
        a, b = b, a
    if type(a).__name__ == "timedelta" and isinstance(b, float):
        return type(a)(microseconds=round(_airlock_length(a) * b))
    return a * b
def _airlock_are_lengths(a, b):
    return type(a).__name__ == "timedelta" and type(b).__name__ == "timedelta"
def _airlock_length(it):
    return (it.days * 86400 + it.seconds) * 1000000 + it.microseconds
