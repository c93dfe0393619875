found = attempt(tracker.get_issue, {"id": 1})
gone = attempt(tracker.get_issue, {"id": 99})
result = [found.ok, found.value["title"], gone.ok, gone.value, gone.error.kind, gone.error.code, str(gone.error), gone.error.message]
