def outer():
    def inner():
        return 1

    return inner


def logged(fn):
    def run(*args):
        calls.append(fn.__name__)
        return fn(*args)

    return run


@logged
def total(*xs):
    return sum(xs)


class Box:
    pass


calls = []
double = lambda x: x * 2
held = outer()
total(1, 2)
result = [f.__name__ for f in [outer, held, double, len, Box, str]] + calls + [type(held).__name__]
