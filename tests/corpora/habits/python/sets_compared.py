paid = {"a", "b"}
seen = set(["a", "b", "c"])
rows = [["a", "b"], ["b", "c"]]
tags = [set(row) for row in rows]
known = set()
known.update(*rows)
known.update(["x"], ["y"])
kept = {1, 2, 3}


def add(them):
    them |= {9}


add(kept)
result = [
    paid <= seen,
    paid < seen,
    seen >= paid,
    seen > seen,
    paid <= {"a"},
    {"a": 1}.keys() <= paid,
    sorted(set().union(*rows)),
    sorted(set.union(*tags)),
    sorted(set.intersection(*tags)),
    sorted(paid.intersection(["a"], ["a", "b"])),
    sorted(seen.difference(["a"], ["c"])),
    sorted(known),
    sorted(kept),
    1 <= 2,
]
