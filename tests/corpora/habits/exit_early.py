def find(xs, pred):
    for i, x in enumerate(xs):
        if pred(x):
            return i
    return None
result = [find([1, 4, 9], lambda x: x > 3), find([], bool)]
