tree = {"name": "root", "children": [{"name": "a", "children": [{"name": "a1", "children": []}]}, {"name": "b", "children": []}]}
def walk(node, depth=0):
    lines = ["  " * depth + node["name"]]
    for child in node["children"]:
        lines += walk(child, depth + 1)
    return lines
def depth(node):
    return 1 + max((depth(c) for c in node["children"]), default=0)
result = [walk(tree), depth(tree)]
