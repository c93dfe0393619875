todo = [1]
for n in todo:
    if n < 20:
        todo.append(n * 3)
        todo.append(n * 5)
d = {"a": 1, "b": 2}
for k in d:
    d[k] = d[k] * 10
result = [todo, d]
