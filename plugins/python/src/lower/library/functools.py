class _airlock_functools:
    def lru_cache(*a, **k):
        if a and a[0] is not None and not isinstance(a[0], int):
            return _airlock_functools.cache(a[0])
        return _airlock_functools.cache

    def cache(function):
        kept = {}
        def cached(*a, **k):
            key = (a, tuple(k.items()))
            if key not in kept:
                kept[key] = function(*a, **k)
            return kept[key]
        return cached

    def wraps(of, **k):
        return lambda function: function
