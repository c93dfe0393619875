class _airlock_math:
    def hypot(*them):
        return sum([it * it for it in them]) ** 0.5

    def prod(them, *, start=1):
        for it in them:
            start *= it
        return start
