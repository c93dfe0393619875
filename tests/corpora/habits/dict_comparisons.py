old = {"a": 1, "b": 2, "c": 3}
new = {"b": 2, "c": 30, "d": 4}
added = {k: new[k] for k in new.keys() - old.keys()}
removed = sorted(old.keys() - new.keys())
common = sorted(old.keys() & new.keys())
changed = {k: (old[k], new[k]) for k in common if old[k] != new[k]}
result = [added, removed, changed, sorted(set(old) ^ set(new)), old == {"c": 3, "b": 2, "a": 1}]
