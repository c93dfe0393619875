class _airlock_operator:
    def itemgetter(*keys):
        if len(keys) == 1:
            return lambda it: it[keys[0]]
        return lambda it: tuple([it[key] for key in keys])

    def attrgetter(*names):
        if len(names) == 1:
            return lambda it: getattr(it, names[0])
        return lambda it: tuple([getattr(it, name) for name in names])

    def add(a, b):
        return a + b

    def sub(a, b):
        return a - b

    def mul(a, b):
        return a * b

    def truediv(a, b):
        return a / b

    def floordiv(a, b):
        return a // b

    def mod(a, b):
        return a % b

    def neg(a):
        return -a

    def eq(a, b):
        return a == b

    def ne(a, b):
        return a != b

    def lt(a, b):
        return a < b

    def le(a, b):
        return a <= b

    def gt(a, b):
        return a > b

    def ge(a, b):
        return a >= b

    def contains(a, b):
        return b in a
