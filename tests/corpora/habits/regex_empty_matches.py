import re

result = [
    re.split(r"\s*", "a b"),
    re.sub(r"x*", "-", "abxd"),
    re.findall(r"\d*", "a12b"),
    [m.span() for m in re.finditer(r"b*", "abb")],
    re.split(r"(,)", "a,b"),
    re.sub(r"^", "> ", "a\nb", flags=re.M),
]
