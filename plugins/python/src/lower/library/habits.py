def _airlock_or(a, b):
    first = a[0] if isinstance(a, tuple) and a else a
    if "type" in (type(first).__name__, type(b).__name__):
        return (*_airlock_types(a), *_airlock_types(b))
    if not isinstance(a, dict) or not isinstance(b, dict):
        return a | b
    if type(a).__name__ == "Counter" and type(b).__name__ == "Counter":
        most = a.copy()
        return _airlock_ior(most, b)
    if type(a).__name__ == "defaultdict":
        both = a.copy()
        both.update(b)
        return both
    return {**a, **b}
def _airlock_types(it):
    return it if isinstance(it, tuple) else (type(None),) if it is None else (it,)
def _airlock_ior(a, b):
    if type(a).__name__ == "Counter":
        for key in b:
            a[key] = max(a[key], b[key])
        for key in [key for key in a if a[key] <= 0]:
            a.pop(key)
        return a
    if isinstance(a, dict) or (isinstance(a, set) and isinstance(b, (set, frozenset))):
        a.update(b)
        return a
    return a | b
def _airlock_splice(them, start, stop, new):
    end = len(them)
    start = 0 if start is None else max(start + end, 0) if start < 0 else min(start, end)
    stop = end if stop is None else max(stop + end, 0) if stop < 0 else min(stop, end)
    rest = them[max(start, stop):]
    kept = them[:start]
    new = list(new)
    them.clear()
    them.extend(kept)
    them.extend(new)
    them.extend(rest)
def _airlock_format(value, spec=""):
    return ("{:" + spec + "}").format(value)
def _airlock_percent(format, value):
    if isinstance(value, tuple) and "%r" not in format:
        value = tuple([_airlock_told(it) for it in value])
    elif isinstance(value, dict) and "%(" in format:
        value = {key: _airlock_told(it) for key, it in value.items()}
    elif "%r" not in format:
        value = _airlock_told(value)
    return _airlock_formatted(format, value)
def _airlock_told(it):
    return it if it is None or isinstance(it, (str, int, float, list, dict, tuple, set)) else str(it)
def _airlock_method(it, name, call):
    return getattr(it, name) if hasattr(it, name) else call
