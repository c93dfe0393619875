def walk(path, depth=0):
    """Return the total size below path, tolerating unreadable directories."""
    total = 0
    try:
        entries = files.list(path=path)["entries"]
    except ToolError as e:
        errors.append(f"{path}: {e.code}")
        return 0
    for entry in entries:
        if entry["type"] == "dir":
            size = walk(entry["path"], depth + 1)
            print("  " * depth + f"{entry['path']}/ {human(size)}")
        else:
            size = entry["size"]
        total += size
    return total

def human(n):
    for unit in ["B", "KB", "MB", "GB"]:
        if n < 1024:
            return f"{n:.1f} {unit}"
        n /= 1024
    return f"{n:.1f} TB"

errors = []
total = walk("/")
result = {"total": total, "human": human(total), "errors": errors}
