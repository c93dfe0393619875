def flatten(value, prefix=""):
    out = {}
    for k, v in value.items():
        key = f"{prefix}.{k}" if prefix else k
        if isinstance(v, dict):
            out.update(flatten(v, key))
        elif isinstance(v, list):
            for n, item in enumerate(v):
                out[f"{key}[{n}]"] = item
        else:
            out[key] = v
    return out
result = flatten({"a": {"b": {"c": 1}}, "d": [1, 2], "e": "x"})
