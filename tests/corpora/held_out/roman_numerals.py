VALUES = [(1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")]

def to_roman(n: int) -> str:
    out = ""
    for value, symbol in VALUES:
        while n >= value:
            out += symbol
            n -= value
    return out

def from_roman(s: str) -> int:
    lookup = {sym: v for v, sym in VALUES if len(sym) == 1}
    total = 0
    for cur, nxt in zip(s, s[1:] + " "):
        v = lookup[cur]
        total += -v if v < lookup.get(nxt, 0) else v
    return total

numbers = [4, 9, 14, 1994, 2024, 3999]
romans = [to_roman(n) for n in numbers]
assert [from_roman(r) for r in romans] == numbers, "round trip failed"
result = dict(zip(map(str, numbers), romans))
