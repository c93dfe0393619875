add = lambda x, y=10: x + y
fs = [lambda i=i: i * 2 for i in range(3)]
compose = lambda f, g: lambda x: f(g(x))
result = [add(1), add(1, 2), [f() for f in fs], compose(str, abs)(-5), (lambda *a, **k: [len(a), sorted(k)])(1, 2, z=1)]
