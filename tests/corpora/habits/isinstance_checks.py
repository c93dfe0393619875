def describe(v):
    if v is None:
        return "null"
    if isinstance(v, bool):
        return "bool"
    if isinstance(v, (int, float)):
        return "number"
    if isinstance(v, str):
        return "string"
    if isinstance(v, (list, tuple)):
        return "array"
    if isinstance(v, dict):
        return "object"
    return type(v).__name__
result = [describe(v) for v in [None, True, 1, 2.5, "x", [1], (1,), {}, {1}]] + [type(v).__name__ for v in [1, 1.0, "", None, [], {}, (), True]]
