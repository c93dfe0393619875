"""Runs scripts of the corpora with CPython, over the fixture tools, and prints one JSON object a line.

`python3 -B run.py FILE…` prints {"file", "result", "printed"}, or {"file", "error"} if the script fails.
"""

import contextlib
import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace


class ToolError(Exception):
    def __init__(self, kind, code, message, data=None):
        super().__init__(message)
        self.kind, self.code, self.message, self.data = kind, code, message, data


def tool(name, rules):
    def call(arguments=None, **named):
        given = {**(arguments or {}), **named}
        for rule in rules:
            if all(key in given and given[key] == value for key, value in rule["when"].items()):
                if "error" in rule:
                    error = rule["error"]
                    raise ToolError(error["kind"], error.get("code"), error["message"], error.get("data"))
                # A copy, because a script may change what it gets.
                return json.loads(json.dumps(rule["result"]))
        raise ToolError("invalid-input", None, "no rule")

    call.__name__ = name
    return call


def attempt(call, arguments=None):
    try:
        return SimpleNamespace(ok=True, value=call(arguments or {}), error=None)
    except ToolError as error:
        return SimpleNamespace(ok=False, value=None, error=error)


def gather(calls, limit=8, attempt=False):
    one = globals()["attempt"] if attempt else lambda call, arguments: call(arguments)
    return [one(call, arguments) for call, arguments in calls]


def scope(tools):
    servers = {}
    for full, rules in tools.items():
        server, name = full.split(".")
        servers.setdefault(server, {})[name] = tool(name, rules)
    names = {server: SimpleNamespace(**found) for server, found in servers.items()}
    return {**names, "ToolError": ToolError, "attempt": attempt, "gather": gather, "__name__": "__main__"}


def main(files):
    tools = json.loads((Path(__file__).parent / "tools.json").read_text())
    for file in files:
        outcome = {"file": Path(file).name}
        printed = io.StringIO()
        names = scope(tools)
        try:
            with contextlib.redirect_stdout(printed):
                exec(compile(Path(file).read_text(), file, "exec"), names)
            outcome["result"] = names.get("result")
            outcome["printed"] = printed.getvalue()
            line = json.dumps(outcome)
        except Exception as error:
            line = json.dumps({"file": outcome["file"], "error": f"{type(error).__name__}: {error}"})
        print(line)


main(sys.argv[1:])
