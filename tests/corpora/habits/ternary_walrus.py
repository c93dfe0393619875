data = [1, 5, 10]
if (n := len(data)) > 2:
    size = f"{n} items"
squares = [y for x in data if (y := x * x) > 20]
result = [size, squares, "big" if n > 5 else "small", n]
