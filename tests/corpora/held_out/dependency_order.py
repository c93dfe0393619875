from collections import deque

deps = {
    "app": ["auth", "db", "ui"],
    "auth": ["db", "crypto"],
    "ui": ["assets"],
    "db": ["config"],
    "crypto": [],
    "assets": [],
    "config": [],
}

indegree = {name: len(d) for name, d in deps.items()}
dependents = {name: [] for name in deps}
for name, requires in deps.items():
    for r in requires:
        dependents[r].append(name)

queue = deque(sorted(n for n, d in indegree.items() if d == 0))
order = []
while queue:
    node = queue.popleft()
    order.append(node)
    for dep in sorted(dependents[node]):
        indegree[dep] -= 1
        if indegree[dep] == 0:
            queue.append(dep)

if len(order) != len(deps):
    raise ValueError("cycle detected")
print(" -> ".join(order))
result = {"order": order, "levels": {n: len(deps[n]) for n in order}}
