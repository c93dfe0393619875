def _airlock_callable(it):
    return type(it).__name__ in ("function", "builtin_function_or_method", "type", "method")
def _airlock_sorted(iterable, key=None, reverse=False):
    them = list(iterable)
    if key is None:
        return sorted(them, reverse=reverse)
    keys = [key(it) for it in them]
    return [them[at] for at in sorted(range(len(them)), key=lambda at: keys[at], reverse=reverse)]
def _airlock_sort(them, *a, **k):
    if not isinstance(them, list):
        return them.sort(*a, **k)
    if a:
        raise TypeError("sort() takes no positional arguments")
    ordered = _airlock_sorted(them, **k)
    them.clear()
    them.extend(ordered)
def _airlock_max(*them, key=None, **k):
    return _airlock_most(max, "max", them, key, k)
def _airlock_min(*them, key=None, **k):
    return _airlock_most(min, "min", them, key, k)
def _airlock_most(best, name, them, key, rest):
    them = list(them[0]) if len(them) == 1 else list(them)
    if key is None:
        return best(them, **rest)
    if not them:
        if "default" in rest:
            return rest["default"]
        raise ValueError(f"{name}() iterable argument is empty")
    keys = [key(it) for it in them]
    return them[best(range(len(them)), key=lambda at: keys[at])]
def _airlock_map(function, *iterables):
    return iter([function(*each) for each in zip(*iterables)])
def _airlock_filter(function, iterable):
    return iter([it for it in iterable if function(it)])
