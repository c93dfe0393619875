def build(*, name, tags=(), **extra):
    return {"name": name, "tags": list(tags), **extra}
def pos(a, b, /, c=3):
    return a + b + c
result = [build(name="x"), build(name="y", tags=["t"], z=1), pos(1, 2), pos(1, 2, c=0)]
