raw = [
    {"Name": " Ana  Núñez ", "AGE": "34", "active": "yes", "tags": "a, b,,c"},
    {"Name": "BO", "AGE": "n/a", "active": "0"},
    {"Name": "", "AGE": 51.0, "active": True, "tags": None},
]

def to_bool(v):
    return v if isinstance(v, bool) else str(v).strip().lower() in {"yes", "true", "1"}

def to_int(v, default=None):
    try:
        return int(v)
    except (TypeError, ValueError):
        return default

clean, rejected = [], []
for i, rec in enumerate(raw):
    rec = {k.lower(): v for k, v in rec.items()}
    name = " ".join(rec["name"].split()).title()
    if not name:
        rejected.append((i, "missing name"))
        continue
    clean.append({
        "name": name,
        "slug": name.lower().replace(" ", "-"),
        "age": to_int(rec.get("age")),
        "active": to_bool(rec["active"]),
        "tags": [t.strip() for t in (rec.get("tags") or "").split(",") if t.strip()],
    })
result = {"clean": clean, "rejected": rejected}
