import json
from datetime import date, datetime

row = {"when": datetime(2024, 1, 2, 3), "days": [date(2024, 1, 3)], "tags": {"a"}, "n": 1.5, "none": None}


def plain(value):
    return sorted(value) if isinstance(value, set) else value.isoformat()


result = [json.dumps(row, default=plain), json.dumps({"d": date(2024, 1, 1)}, default=str, indent=1), json.dumps([1], default=str)]
