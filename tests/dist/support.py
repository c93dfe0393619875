"""What the parts of the test share: the release, failures, programs in a root, a gateway that serves."""

import json
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

# Time for a step that takes seconds, also in a debug build on a busy machine.
LIMIT = 300
# Seconds after which an idle gateway has returned freed memory: three times its interval (`host/src/cli/purge.rs`).
IDLE = 6
# Binds what every program needs, and replaces itself by one in the root: signals reach it.
ENTER = 'mount --bind /proc "$0/proc" && mount --bind /dev "$0/dev" && exec chroot "$0" "$@"'


class Failure(Exception):
    """A part of the test that has failed."""


@dataclass
class Release:
    """The packages, and what they were made of."""

    root: Path
    program: Path
    plugins: Path
    packages: Path
    # For one part of the test alone.
    scratch: Path
    measured: dict

    def package(self, pattern):
        found = list(self.packages.glob(pattern))
        expect(len(found) == 1, f"{self.packages} has {len(found)} packages {pattern}")
        return found[0]

    @property
    def version(self):
        return re.search(r"airlock-(.*)-image", self.package("*-image.tar").name).group(1)


def expect(condition, message):
    if not condition:
        raise Failure(message)


def run(command, **options):
    """Runs a program to its end. Returns its standard output."""
    command = [str(word) for word in command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, stdin=subprocess.DEVNULL, **options)
    expect(done.returncode == 0, f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def eventually(what, ask, limit=LIMIT):
    """Asks until the answer is true. Returns it."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        if answer := ask():
            return answer
        time.sleep(0.1)
    raise Failure(f"waited {limit} s for {what}")


class Root:
    """A directory as the root of programs. It has no program but those that are put there."""

    def __init__(self, path, files):
        self.path = path
        for directory in ["proc", "dev", "tmp", "home", "bin", "etc"]:
            (path / directory).mkdir(parents=True, exist_ok=True)
        for file in files:
            place = path / file.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(Path(file).read_bytes())
            place.chmod(0o755)

    def command(self, *words):
        return ["/usr/bin/unshare", "--mount", "/bin/sh", "-c", ENTER, str(self.path), *map(str, words)]

    @property
    def environment(self):
        return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/home", "NO_PROXY": "*"}

    def run(self, *words):
        return run(self.command(*words), env=self.environment)


class Gateway:
    """A gateway that serves in a root."""

    def __init__(self, root, program, config):
        self.begun = time.monotonic()
        command = root.command(program, "serve", "--config", config)
        self.log = open(root.path / "tmp/gateway.log", "w+", encoding="utf-8")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log, text=True, env=root.environment)
        line = self.process.stdout.readline()
        if not line.startswith("listening on "):
            self.process.wait(LIMIT)
            self.log.seek(0)
            raise Failure(f"the gateway did not start: {line}{self.log.read()}")
        self.address = line.removeprefix("listening on ").strip()

    def wait_until_loaded(self):
        expect(self.process.stdout.readline() == "ready\n", "the gateway did not load all")
        return time.monotonic() - self.begun

    def ask(self, path, body=None):
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.address + path, data=data, headers={"content-type": "application/json"})
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            raise Failure(f"{path}: {error.code} {error.read().decode(errors='replace')}") from None

    def idle_kibibytes(self):
        """Returns all resident memory, and what of it is no page of a file, which the system can take back; both once the
        gateway has been idle for so long that it has returned what its start has freed."""
        time.sleep(IDLE)
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return [int(re.search(rf"{field}:\s+(\d+)", status).group(1)) for field in ("VmRSS", "RssAnon")]

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(LIMIT)
        expect(code == 0, f"the gateway ended with {code}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.log.close()
