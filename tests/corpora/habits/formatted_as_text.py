x = [1, "a"]
result = [
    f"{None!s:6}|",
    f"{[1]!s:>5}|",
    f"{x!s:^12}|{x!r:>12}|",
    f"{True!s:>6}|{1.50!s:8}|",
    f"{x=!s}|{x!s}",
    "{!s:6}|{!r:>6}|".format(None, "a"),
]
