def describe(x):
    match x:
        case None:
            return "none"
        case 0 | 1:
            return "bit"
        case "go" | "stop" as word:
            return "word " + word
        case int(n) if n > 100:
            return f"big {n}"
        case bool() | int() | float():
            return "number"
        case []:
            return "empty"
        case [only]:
            return ["one", only]
        case ["add", int(a), int(b)]:
            return a + b
        case (first, *rest) if first == "all":
            return rest
        case [*_, "end"]:
            return "ended"
        case {"type": "user", "name": str(name), **more}:
            return [name, more]
        case {"point": [x0, y0]}:
            return [x0, y0]
        case {}:
            return "dict"
        case str(text):
            return text.upper()
        case _:
            return "other"

values = [None, 1, 0, "go", 101, 100, 2.5, [], ["z"], ["add", 1, 2], ["add", 1, "2"], ("all", 1, 2), [1, 2, "end"],
    {"type": "user", "name": "ann", "age": 3}, {"type": "user"}, {"point": (1, 2)}, {}, "hi", range(2), {1}]
log = []
for issue in tracker.list_issues(state="open"):
    match issue["labels"]:
        case ["bug", *_]:
            log.append(("bug", issue["id"]))
        case [label]:
            log.append((label, issue["id"]))
            continue
    match issue["id"], issue["state"]:
        case (1, "open"):
            log.append("first")
        case (n, state) if n > 3:
            log.append([n, state])
result = [[describe(v) for v in values], log]
