import re
from datetime import timedelta

UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}

def parse_duration(text):
    matches = re.findall(r"(\d+(?:\.\d+)?)\s*([dhms])", text.lower())
    if not matches:
        raise ValueError(f"invalid duration: {text!r}")
    return sum(float(n) * UNITS[u] for n, u in matches)

def human(seconds):
    parts = []
    remaining = int(seconds)
    for unit, size in UNITS.items():
        count, remaining = divmod(remaining, size)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts) or "0s"

out, bad = {}, []
for text in ["1h 30m", "2d", "90s", "1.5h", "soon", "3D 4H 5m 6s"]:
    try:
        secs = parse_duration(text)
        out[text] = [secs, human(secs), str(timedelta(seconds=secs))]
    except ValueError as e:
        bad.append(str(e))
result = {"parsed": out, "bad": bad}
