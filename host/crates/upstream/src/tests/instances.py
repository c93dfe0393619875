"""An MCP server whose calls wait for a file, and are noted in another one before."""
import json, os, sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

where, how = sys.argv[1], sys.argv[2]
lock = threading.Lock()


def mine(name):
    """Creates a file that only one process can create."""
    try:
        os.close(os.open(os.path.join(where, name), os.O_CREAT | os.O_EXCL))
        return True
    except FileExistsError:
        return False


is_odd = how == "odd" and mine("odd")


def listed():
    text = "does something else" if is_odd else "works"
    return {"tools": [{"name": "work", "description": text,
                       "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}}]}


def work(n):
    with open(os.path.join(where, "calls"), "a") as calls:
        calls.write(f"{os.getpid()} {n}\n")
    while os.path.exists(os.path.join(where, "hold")):
        time.sleep(0.002)
    return {"content": [{"type": "text", "text": str(os.getpid())}]}


def answer(request):
    method = request.get("method")
    if method == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                  "serverInfo": {"name": "fake", "version": "1"}}
    elif method == "tools/list":
        result = listed()
    elif method == "tools/call":
        result = work(request["params"]["arguments"]["n"])
    elif method == "ping":
        result = {}
    else:
        return {"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": "?"}}
    return {"jsonrpc": "2.0", "id": request["id"], "result": result}


def say(request):
    text = json.dumps(answer(request)) + "\n"
    with lock:
        sys.stdout.write(text)
        sys.stdout.flush()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps(answer(request)).encode() if "id" in request else b""
        self.send_response(200 if body else 202)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.send_response(405)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_DELETE = do_GET

    def log_message(self, *_):
        pass


if how == "http":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(f"http://127.0.0.1:{server.server_address[1]}/mcp", flush=True)
    server.serve_forever()
for line in sys.stdin:
    request = json.loads(line)
    if request.get("id") is not None and request.get("method"):
        threading.Thread(target=say, args=(request,), daemon=True).start()
