from functools import lru_cache
from itertools import chain

orders = [{"items": [1, 2]}, {"items": [3]}]


@lru_cache
def square(n, add=0):
    return n * n + add


result = [
    list(chain.from_iterable(order["items"] for order in orders)),
    sum(chain.from_iterable(order["items"] for order in orders)),
    list(chain.from_iterable([[1], [2, 3]])),
    [square(3), square(3, add=1)],
    [callable(square), callable(len), callable(3)],
]
