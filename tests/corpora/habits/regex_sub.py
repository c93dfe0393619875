import re
s = "Contact: ann@example.com, bob@example.org"
result = [re.sub(r"[\w.]+@([\w.]+)", r"***@\1", s), re.sub(r"\d", lambda m: str(int(m.group()) * 2), "a1b2c3"), re.split(r"[,;]\s*", "a, b;c"), re.sub(r"\s+", " ", "a  b \n c").strip(), bool(re.fullmatch(r"[a-z]+", "abc")), re.match(r"(\d+)", "x1") is None, re.search("B+", "abbb", re.IGNORECASE).span()]
