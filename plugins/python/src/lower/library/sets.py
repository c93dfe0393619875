def _airlock_is_subset(a, b):
    return _airlock_within(a, b) if _airlock_are_sets(a, b) else a <= b
def _airlock_is_proper_subset(a, b):
    return len(a) < len(b) and _airlock_within(a, b) if _airlock_are_sets(a, b) else a < b
def _airlock_is_superset(a, b):
    return _airlock_within(b, a) if _airlock_are_sets(a, b) else a >= b
def _airlock_is_proper_superset(a, b):
    return len(b) < len(a) and _airlock_within(b, a) if _airlock_are_sets(a, b) else a > b
def _airlock_are_sets(a, b):
    kinds = ("set", "frozenset", "dict_keys", "dict_items")
    return type(a).__name__ in kinds and type(b).__name__ in kinds
def _airlock_within(a, b):
    return len(a) <= len(b) and all([each in b for each in a])
def _airlock_union(it, *them):
    if it is set or it is frozenset:
        it, *them = them
    if not isinstance(it, (set, frozenset)):
        return it.union(*them)
    it = it.union([])
    for each in them:
        it = it.union(each)
    return it
def _airlock_intersection(it, *them):
    if it is set or it is frozenset:
        it, *them = them
    if not isinstance(it, (set, frozenset)):
        return it.intersection(*them)
    it = it.union([])
    for each in them:
        it = it.intersection(each)
    return it
def _airlock_difference(it, *them):
    if it is set or it is frozenset:
        it, *them = them
    if not isinstance(it, (set, frozenset)):
        return it.difference(*them)
    it = it.union([])
    for each in them:
        it = it.difference(each)
    return it
def _airlock_update(it, *them):
    if not isinstance(it, set):
        return it.update(*them)
    for each in them:
        it.update(each)
