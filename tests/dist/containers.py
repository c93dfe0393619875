"""The image, in a Docker daemon of the test's own without networks."""

import json
import os
import shutil
import subprocess

from support import Failure, eventually, expect, run

CONFIG = "/etc/airlock/gateway.json"


class Daemon:
    """A daemon with a private socket."""

    def __init__(self, scratch):
        self.directory = scratch / "docker"
        self.directory.mkdir()
        self.host = f"unix://{self.directory}/socket"
        places = [f"{place}/dockerd" for place in ["/usr/sbin", "/sbin", "/usr/local/sbin"]]
        program = shutil.which("dockerd") or next(filter(os.path.exists, places), None)
        if not program or not shutil.which("docker") or os.geteuid() != 0:
            raise Unavailable("docker and dockerd are not installed, or this is not root")
        self.log = open(self.directory / "log", "w+", encoding="utf-8")
        command = [
            program, "--iptables=false", "--ip6tables=false", "--bridge=none", "--storage-driver=vfs", "--shutdown-timeout=1",
            f"--data-root={self.directory}/data", f"--exec-root={self.directory}/exec", f"--pidfile={self.directory}/pid", f"--host={self.host}",
        ]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.log)
        eventually("the Docker daemon", self.answers, 60)

    def answers(self):
        if self.process.poll() is not None:
            self.log.seek(0)
            raise Unavailable(f"the Docker daemon does not run here: {self.log.read()[-300:]}")
        return subprocess.run(["docker", "--host", self.host, "version"], capture_output=True).returncode == 0

    def docker(self, *words):
        return run(["docker", "--host", self.host, *words])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        listed = subprocess.run(["docker", "--host", self.host, "ps", "--all", "--quiet"], capture_output=True, text=True).stdout.split()
        if listed:
            subprocess.run(["docker", "--host", self.host, "rm", "--force", *listed], capture_output=True)
        self.process.terminate()
        self.process.wait()
        self.log.close()


class Unavailable(Exception):
    """No daemon can run here."""


def image(release):
    try:
        daemon = Daemon(release.scratch)
    except Unavailable as reason:
        if os.environ.get("AIRLOCK_REQUIRE_DOCKER"):
            raise Failure(str(reason)) from None
        return f"SKIPPED: {reason}"
    with daemon:
        inside(daemon, release)


def inside(daemon, release):
    name = f"airlock:{release.version}"
    daemon.docker("load", "--input", release.package("*-image.tar"))
    config = json.loads(daemon.docker("image", "inspect", name))[0]["Config"]
    expect(config["User"] == "65532:65532", config["User"])
    hardened = ["--read-only", "--tmpfs=/tmp", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--network=none"]
    expect(daemon.docker("run", "--rm", *hardened, name, "--version") == f"airlock {release.version}\n", "another version")
    daemon.docker("run", "--detach", "--name=gateway", *hardened, "--volume=data:/data", name)
    eventually("the image to be healthy", lambda: is_healthy(daemon))
    inside = ["exec", "gateway", "/usr/bin/airlock"]
    expect("ready" in daemon.docker(*inside, "health", "--config", CONFIG), "it is not ready")
    counted = daemon.docker(*inside, "call", "text-word_count", '{"text": "one two three"}', "--config", CONFIG, "--json")
    expect('"words": 3' in counted, counted)
    made = json.loads(daemon.docker(*inside, "operator", "add", "ann", "--role", "admin", "--config", CONFIG, "--json"))
    expect(made, "no operator")
    shell = subprocess.run(["docker", "--host", daemon.host, "exec", "gateway", "/bin/sh"], capture_output=True)
    expect(shell.returncode != 0, "the image has a shell")
    daemon.docker("stop", "--time=30", "gateway")
    state = json.loads(daemon.docker("inspect", "gateway"))[0]["State"]
    expect(state["ExitCode"] == 0 and not state["OOMKilled"], state)


def is_healthy(daemon):
    state = json.loads(daemon.docker("inspect", "gateway"))[0]["State"]
    expect(state["Running"], f"the container has ended: {daemon.docker('logs', 'gateway')}")
    expect(state["Health"]["Status"] != "unhealthy", state["Health"])
    return state["Health"]["Status"] == "healthy"
