a = {1, 2}
b = frozenset({1, 2, 3})
few = [{1} < a < {1, 2, 3}, {1} < a < {1, 2}, {1} <= a <= b, a < b <= {1}, b > a >= {1, 2} > {2}, {1} < {1, 'a'} < {1, 'a', 3}]
one = (a  # < is not the operator, nor <=
       <= {1, 2})
many = ({1} < a  # < b
        < (b))


class Box:
    def __init__(self):
        self.got = None

    def sort(self, key=None):
        self.got = key(1)


def named(fn):
    def inner():
        return fn.__name__

    return inner


box = Box()
box.sort(key=lambda n: n + 1)
result = [few, one, many, box.got, named(named)()]
