def dig(obj, path, default=None):
    for part in path.split("."):
        if isinstance(obj, dict) and part in obj:
            obj = obj[part]
        elif isinstance(obj, list) and part.isdigit() and int(part) < len(obj):
            obj = obj[int(part)]
        else:
            return default
    return obj
data = {"a": {"b": [{"c": 5}]}}
result = [dig(data, "a.b.0.c"), dig(data, "a.x"), dig(data, "a.b.7", "none")]
