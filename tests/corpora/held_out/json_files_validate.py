import json

entries = files.list(path="/data")["entries"]
report = []
for entry in entries:
    if not entry["path"].endswith(".json"):
        continue
    text = files.read(path=entry["path"])["content"]
    status = {"path": entry["path"], "size": entry["size"]}
    try:
        parsed = json.loads(text)
    except json.JSONDecodeError:
        status["valid"] = False
    except Exception as e:
        status["valid"] = None
    else:
        status["valid"] = True
        status["keys"] = list(parsed)
    finally:
        report.append(status)
result = report
