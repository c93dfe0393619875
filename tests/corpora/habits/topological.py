deps = {"app": ["lib", "db"], "lib": ["core"], "db": ["core"], "core": []}
order, visited = [], set()
def visit(n):
    if n in visited:
        return
    visited.add(n)
    for d in deps[n]:
        visit(d)
    order.append(n)
for name in deps:
    visit(name)
result = order
