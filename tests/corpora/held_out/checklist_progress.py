readme = files.read(path="/docs/README.md")["content"]
items = [line for line in readme.splitlines() if line.startswith("- [")]
done = [i[6:] for i in items if i[3] == "x"]
todo = [i[6:] for i in items if i[3] == " "]
bar_len = 20
filled = int(bar_len * len(done) / len(items))
bar = "█" * filled + "░" * (bar_len - filled)
print(f"[{bar}] {len(done)/len(items):.0%}")
result = {"done": done, "todo": todo, "bar": bar, "ratio": len(done) / len(items)}
