import re
m = re.search(r"(?P<user>\w+)@(?P<host>[\w.]+)", "mail: Ann@Example.com")
text = "one\ntwo\nthree"
result = [m.group("user"), m.group(1, 2), m["host"], m.start(), m.end("user"), re.findall(r"^t\w+", text, re.M), re.findall("ONE", text, flags=re.I), re.split(r"(-)", "a-b-c"), re.sub(r"(\w+) (\w+)", r"\2 \g<1>", "hello world"), re.escape("a.b*c"), re.findall(r"a|(b)", "ab"), re.sub("x", "y", "xxx", count=2), [m.start() for m in re.finditer("a", "banana")], re.compile("a").pattern, re.findall(r"\{(\w+)\}", "{a} {b}"), re.findall(r"{(\w+)}", "{a}")]
