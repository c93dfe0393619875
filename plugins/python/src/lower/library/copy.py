class _airlock_copy:
    def copy(it):
        if isinstance(it, dict):
            return {**it}
        if isinstance(it, list):
            return list(it)
        return set(it) if isinstance(it, set) else it

    def deepcopy(it):
        if isinstance(it, dict):
            return {key: _airlock_copy.deepcopy(value) for key, value in it.items()}
        if isinstance(it, list):
            return [_airlock_copy.deepcopy(each) for each in it]
        if isinstance(it, tuple):
            return tuple([_airlock_copy.deepcopy(each) for each in it])
        return set(it) if isinstance(it, set) else it
