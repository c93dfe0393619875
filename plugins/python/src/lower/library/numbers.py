def _airlock_number(it):
    return 1 if it is True else 0 if it is False else it
def _airlock_sum(iterable, start=0):
    them = list(iterable)
    try:
        return sum(them, start)
    except TypeError:
        return sum([int(it) if it is True or it is False else it for it in them], start)
