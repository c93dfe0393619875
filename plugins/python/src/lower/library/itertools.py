class _airlock_itertools:
    def groupby(items, key=None):
        groups = []
        for item in items:
            now = key(item) if key else item
            if groups and groups[-1][0] == now:
                groups[-1][1].append(item)
            else:
                groups.append((now, [item]))
        return iter([(now, iter(group)) for now, group in groups])

    def product(*them, repeat=1):
        found = [()]
        for items in [list(it) for it in them] * repeat:
            found = [(*each, item) for each in found for item in items]
        return iter(found)

    def combinations(items, n):
        items = list(items)
        if n == 0:
            return iter([()])
        return iter([(item, *rest) for at, item in enumerate(items) for rest in _airlock_itertools.combinations(items[at + 1:], n - 1)])

    def permutations(items, n=None):
        items = list(items)
        n = len(items) if n is None else n
        if n == 0:
            return iter([()])
        return iter([(item, *rest) for at, item in enumerate(items) for rest in _airlock_itertools.permutations(items[:at] + items[at + 1:], n - 1)])
