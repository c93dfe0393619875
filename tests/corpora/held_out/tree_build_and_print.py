employees = [
    (1, None, "Grace"), (2, 1, "Ana"), (3, 1, "Bo"), (4, 2, "Chidi"), (5, 2, "Dee"), (6, 5, "Li"),
]

class Node:
    def __init__(self, name: str):
        self.name = name
        self.children = []

    def depth(self) -> int:
        return 1 + max((c.depth() for c in self.children), default=0)

    def count(self) -> int:
        return 1 + sum(c.count() for c in self.children)

nodes = {eid: Node(name) for eid, _, name in employees}
root = None
for eid, manager, _ in employees:
    if manager is None:
        root = nodes[eid]
    else:
        nodes[manager].children.append(nodes[eid])

def draw(node, prefix="", last=True):
    lines = [prefix + ("└─ " if last else "├─ ") + node.name]
    for i, child in enumerate(node.children):
        lines += draw(child, prefix + ("   " if last else "│  "), i == len(node.children) - 1)
    return lines

print("\n".join(draw(root)))
result = {"depth": root.depth(), "count": root.count(), "drawing": draw(root), "leaves": sorted(n.name for n in nodes.values() if not n.children)}
