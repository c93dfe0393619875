"""An MCP server of the old era that misbehaves on request."""
import json, os, subprocess, sys, time

how = sys.argv[1]
cancelled, extra, held, gone, later = [], False, None, False, {}


def say(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def tool(name):
    return {"name": name, "inputSchema": {"type": "object"}}


def call(id, name, arguments):
    global extra, held, gone
    text = name
    if name == "hang":
        return None
    if name == "stall":
        time.sleep(1000)
    if name == "die":
        sys.stderr.write("out of cheese\n")
        sys.stderr.flush()
        os._exit(3)
    if name == "grow":
        extra = True
        say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    if name == "empty":
        gone = True
    if name == "eat":
        held = "x" * (100 << 20)
    if name == "huge":
        text = "x" * (5 << 20)
    if name == "env":
        text = " ".join(sorted(key for key in os.environ if key != "LC_CTYPE"))
    if name == "pid":
        text = str(os.getpid())
    if name == "child":
        held = subprocess.Popen(["/bin/sleep", "1000"], stdout=subprocess.DEVNULL)
        text = str(held.pid)
    if name == "cancelled":
        text = str(len(cancelled))
    if name == "echo":
        text = arguments["text"]
        if arguments.get("after_a_cancellation"):
            later[id] = text
            return None
    return {"content": [{"type": "text", "text": text}]}


# A second process of it does not start, or lists nothing, for as long as the file exists.
if how.startswith(("alone:", "empty:")):
    if os.path.exists(how[6:]):
        if how.startswith("alone:"):
            sys.exit(4)
        gone = True
    open(how[6:], "w").close()
if how == "silent":
    for line in sys.stdin:
        pass
if how == "noisy":
    sys.stderr.write("noise\n" * 200_000)
    sys.stdout.write("Welcome!\n{\n\x00\xff\n[1,2]\n{}\n\n" + "x" * (5 << 20) + "\n")
if how == "stubborn":
    import signal

    signal.signal(signal.SIGTERM, signal.SIG_IGN)

for line in sys.stdin:
    request = json.loads(line)
    method, id, params = request.get("method"), request.get("id"), request.get("params", {})
    if method == "notifications/cancelled":
        cancelled.append(params["requestId"])
        for waiting, text in later.items():
            say({"jsonrpc": "2.0", "id": waiting, "result": {"content": [{"type": "text", "text": text}]}})
        later.clear()
    if method is None or id is None:
        continue
    if method == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {"listChanged": True}},
                  "serverInfo": {"name": "fake", "version": "1"}}
    elif method == "tools/list" and how == "unlisted":
        continue
    elif method == "tools/list":
        names = ["hang", "die", "grow", "huge", "env", "pid", "child", "cancelled", "echo", "stall", "empty", "eat"]
        result = {"tools": [tool(name) for name in names + ["grown"] * extra] + [{"name": "broken"}]}
        if gone:
            result = {"tools": []}
    elif method == "tools/call":
        result = call(id, params["name"], params.get("arguments", {}))
    elif method == "ping":
        result = {}
    else:
        say({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "unknown method"}})
        continue
    if result is not None:
        say({"jsonrpc": "2.0", "id": id, "result": result})

if how == "stubborn":
    while True:
        signal.pause()
