import re

separator = re.compile(r"\s*([,;])\s*")
text = "a, b;c ,d"
doubled = re.compile(r"(\d+)").sub(lambda m: str(int(m.group(1)) * 2), "a1b22")


def snake(name):
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()


result = {
    "pieces": re.split(r"([,;])", text),
    "compiled": separator.split(text),
    "limited": separator.split(text, maxsplit=1),
    "optional": re.split(r"(x)|y", "axbyc"),
    "plain": re.split(r"[,;]", text),
    "doubled": doubled,
    "counted": re.subn("a", "b", "aXa"),
    "counted_once": re.compile("(a)").subn(r"<\1>", "aXa", 1),
    "snake": [snake("createdAt"), snake("userId2Name")],
    "templates": [re.sub("(a)(b)?", r"[\g<1>\2]\n", "ab a"), re.sub("(?P<n>x)", r"\g<n>\\1", "x"), re.sub("a", "$1", "a")],
    "split_text": "a b".split(),
}
