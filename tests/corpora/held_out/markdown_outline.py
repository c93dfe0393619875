import re

outline = []
todos = []
for entry in files.list(path="/docs")["entries"]:
    text = files.read(path=entry["path"])["content"]
    in_code = False
    for n, line in enumerate(text.split("\n"), start=1):
        if line.startswith("```"):
            in_code = not in_code
            continue
        if in_code:
            continue
        if m := re.match(r"(#+)\s+(.*)", line):
            outline.append("  " * (len(m.group(1)) - 1) + "- " + m.group(2))
        if "TODO" in line:
            owner = re.search(r"TODO\((\w+)\)", line)
            todos.append({"file": entry["path"], "line": n, "owner": owner.group(1) if owner else None})
    links = re.findall(r"\[([^\]]+)\]\(([^)]*)\)", text)
    print(entry["path"], len(links), "links", sep=" | ")

result = {"outline": "\n".join(outline), "todos": todos}
