class _airlock_bisect:
    def bisect_left(a, x, lo=0, hi=None):
        hi = len(a) if hi is None else hi
        while lo < hi:
            middle = (lo + hi) // 2
            if a[middle] < x:
                lo = middle + 1
            else:
                hi = middle
        return lo

    def bisect_right(a, x, lo=0, hi=None):
        hi = len(a) if hi is None else hi
        while lo < hi:
            middle = (lo + hi) // 2
            if x < a[middle]:
                hi = middle
            else:
                lo = middle + 1
        return lo

    def bisect(a, x):
        return _airlock_bisect.bisect_right(a, x)

    def insort_left(a, x):
        a.insert(_airlock_bisect.bisect_left(a, x), x)

    def insort_right(a, x):
        a.insert(_airlock_bisect.bisect_right(a, x), x)

    def insort(a, x):
        a.insert(_airlock_bisect.bisect_right(a, x), x)
