class _airlock_functools:
    def lru_cache(*a, **k):
        return _airlock_functools.cache(a[0]) if a and callable(a[0]) else _airlock_functools.cache

    def cache(function):
        kept = {}
        def cached(*a):
            if a not in kept:
                kept[a] = function(*a)
            return kept[a]
        return cached
