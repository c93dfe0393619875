def human(n):
    for unit in ["B", "KB", "MB"]:
        if n < 1024:
            return f"{n:.1f}{unit}"
        n /= 1024
    return f"{n:.1f}GB"
result = [human(n) for n in [500, 2048, 5 * 1024 ** 2, 3 * 1024 ** 3]]
