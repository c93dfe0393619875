class _airlock_collections:
    def OrderedDict(*a, **k):
        return dict(*a, **k)
