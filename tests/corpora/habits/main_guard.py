"""Reports on open issues."""

def summarize(issues: list) -> dict:
    """Summarizes issues."""
    open_count: int = len([i for i in issues if i["state"] == "open"])
    return {"open": open_count, "closed": len(issues) - open_count}

def main() -> dict:
    return summarize(tracker.list_issues())

if __name__ == "__main__":
    result = main()
