need = {"a", "b"}
have = {"a", "b", "c"}
d, e = {"x": 1, "y": 2}, {"y": 3, "x": 4}
result = [{"a"} <= have, set(need) >= {"a"}, d.keys() == e.keys(), need == {"b", "a"}, type(1) == int, type("") != int, (1, 2) == (1, 2), need.union(["z"], {"q"}) == {"a", "b", "z", "q"}, sorted(have.intersection(need, {"a"})), sorted(have.difference(need))]
