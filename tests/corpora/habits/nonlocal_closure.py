def make_counter():
    count = 0
    def inc(step=1):
        nonlocal count
        count += step
        return count
    return inc

a, b = make_counter(), make_counter()
a(); a()
b(10)
result = [a(), b()]
