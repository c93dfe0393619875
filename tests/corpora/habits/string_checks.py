words = ["level", "Hello", "12", "", "a b", "ABC"]
result = [[w for w in words if w == w[::-1]], [w for w in words if w.isdigit()], [w.islower() for w in words], [len(w) for w in words], [w.isspace() for w in words], [w.istitle() for w in words], "abc".endswith("bc"), "a" * 0 == ""]
