import re

p = re.compile(r"\s*([,;])\s*")
result = [
    re.split(r"([,;])", "a,b;c"),
    re.split(r"([,;])", "a,b;c", maxsplit=1),
    p.split("a , b;c"),
    p.split("é; ü", 1),
    re.split(r"(a)|(b)", "xaybz"),
    re.split(r",\s*", "a, b,c"),
    re.split(r"(?=[A-Z])", "aBcD"),
    re.split(r"\b", "two words"),
    re.split("(x)", "\ue000x\ue001"),
    p.sub(lambda m: m.group(1) + " ", "a ,b;c", count=1),
    re.sub(r"(\w)=(\w)", r"\2=\1", "a=b é=d"),
    re.sub(r"(a)|b", r"[\1]", "ab"),
    re.subn(r"(b)", r"<\1>", "abcb"),
    re.split("(b)", "ABC", flags=re.IGNORECASE),
    re.sub(p, lambda m: "-", "a , b"),
    re.split(p, "a , b"),
    [re.split("(,)", "a,b", maxsplit=-1), re.sub("(,)", lambda m: ";", "a,b,c", count=-1)],
    len(re.split("(,)", "é," * 3000)),
]
