from datetime import datetime, timezone, timedelta

event = calendar.get_event(id="e5")
start = datetime.fromisoformat(event["start"])
end = datetime.fromisoformat(event["end"])
utc = start.astimezone(timezone.utc)
tokyo = start.astimezone(timezone(timedelta(hours=9)))

result = {
    "title": event["title"].split(":")[-1].strip(),
    "utc": utc.isoformat(),
    "utc_short": utc.strftime("%H:%M"),
    "tokyo": tokyo.strftime("%Y-%m-%d %H:%M"),
    "minutes": (end - start).seconds // 60,
    "epoch": int(start.timestamp()),
    "weekday": start.strftime("%A"),
    "external": [a for a in event["attendees"] if "@" in a],
}
