d = {"a": None, "b": 0}
result = [d["a"] is None, d["b"] is not None, d.get("x") is None, [] is not None, True is True, type(1) is int, type("a") == str]
