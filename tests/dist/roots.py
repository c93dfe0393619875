"""The archive and the Debian package, each on a root that has the C library and nothing else; and the units."""

import json
import os
import shutil
import subprocess
import tarfile
import time

from packaging import elf
from support import LIMIT, Gateway, Root, expect, run

SYSTEM_UNITS = ["basic.target", "multi-user.target", "network-online.target", "shutdown.target", "sockets.target", "sysinit.target"]
CALL = {"function": {"name": "text-word_count", "arguments": '{"text": "one two three"}'}}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


def archive(release):
    # Without certificates of authorities: nothing here needs TLS.
    root = Root(release.scratch / "archive", elf.libraries(release.program))
    begun = time.monotonic()
    with tarfile.open(release.package("*.tar.gz")) as packed:
        packed.extractall(root.path, filter="data")
    directory = "/" + next(root.path.glob("airlock-*")).name
    program = f"{directory}/bin/airlock"
    config = f"{directory}/gateway.json"
    expect(root.run(program, "--version") == f"airlock {release.version}\n", "another version")
    counted = root.run(program, "call", "text-word_count", '{"text": "one two three"}', "--config", config, "--json")
    release.measured["seconds from unpacking to the first call"] = f"{time.monotonic() - begun:.2f}"
    expect('"words": 3' in counted, counted)
    root.run(program, "precompile", f"{directory}/plugins/text.wasm", f"{directory}/plugins/files.wasm")
    check(root, program, config)
    first_minutes(release, root, program, free_port(root, config))
    # The gateway has made its store by now.
    listed = root.run(program, "call", "files-list_directory", '{"path": "docs"}', "--config", config, "--json")
    expect("install.md" in listed, listed)
    demo(root, program)


def check(root, program, config):
    checked = json.loads(root.run(program, "check", "--config", config, "--json"))
    expect(checked["ok"] is True, checked)


def free_port(root, config):
    """Copies a configuration of which only the port is another one."""
    path = root.path / config.lstrip("/")
    document = json.loads(path.read_text())
    document["server"]["listen"] = "127.0.0.1:0"
    copy = path.with_name("free-port.json")
    copy.write_text(json.dumps(document))
    return f"/{copy.relative_to(root.path)}"


def first_minutes(release, root, program, config):
    """Serves, calls a tool, asks for the health, and stops; then measures a start with compiled code."""
    with Gateway(root, program, config) as gateway:
        gateway.wait_until_loaded()
        expect(gateway.ask("/ready") == {"status": "ready"}, "it is not ready")
        answer = json.dumps(gateway.ask("/v1/mcp/tool/execute", CALL))
        expect("3" in answer and "words" in answer, answer)
        expect("ready" in root.run(program, "health", "--url", gateway.address), "it is not healthy")
        gateway.stop()
    health = subprocess.run(root.command(program, "health", "--url", gateway.address), capture_output=True, env=root.environment, timeout=LIMIT)
    expect(health.returncode == 1, "a gateway that has stopped is healthy")
    with Gateway(root, program, config) as gateway:
        release.measured["milliseconds of a start with compiled code"] = round(gateway.wait_until_loaded() * 1000)
        resident, own = gateway.idle_kibibytes()
        release.measured["KiB resident when idle"] = resident
        release.measured["KiB of it that are no pages of files"] = own
        gateway.stop()
    release.measured["milliseconds to `initialize` of airlock mcp"] = round(initialize(root, program, config) * 1000)
    took = initialize(root, program, config, AIRLOCK_CACHE_DIR="/tmp/no-code")
    release.measured["milliseconds to `initialize` of airlock mcp, with nothing compiled"] = round(took * 1000)


def initialize(root, program, config, **variables):
    """Returns the seconds until `airlock mcp` has answered its first request."""
    environment = {**root.environment, **variables}
    begun = time.monotonic()
    command = root.command(program, "mcp", "--config", config)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment) as agent:
        agent.stdin.write(json.dumps(INITIALIZE) + "\n")
        agent.stdin.flush()
        answer = json.loads(agent.stdout.readline())
        took = time.monotonic() - begun
        agent.stdin.close()
        expect(agent.wait(LIMIT) == 0, "airlock mcp failed")
    expect("serverInfo" in answer["result"], answer)
    return took


def demo(root, program):
    scenes = json.loads(root.run(program, "demo", "--json"))["scenes"]
    expect(scenes and all(scene["ok"] is True for scene in scenes), scenes)


def debian(release):
    root = Root(release.scratch / "debian", elf.libraries(release.program))
    busybox = shutil.which("busybox")
    expect(busybox, "busybox is not installed: install busybox-static")
    shutil.copy(busybox, root.path / "bin/busybox")
    for name in ["sh", "rm", "echo"]:
        (root.path / "bin" / name).symlink_to("busybox")
    for name in ["info", "updates", "triggers"]:
        (root.path / "var/lib/dpkg" / name).mkdir(parents=True)
    (root.path / "var/lib/dpkg/status").touch()
    package = release.package("*.deb")
    dpkg(root, "--install", package)
    installed = run(["dpkg", f"--root={root.path}", "--status", "airlock"])
    expect("Status: install ok installed" in installed, installed)
    expect(root.run("/usr/bin/airlock", "--version") == f"airlock {release.version}\n", "another version")
    config = root.path / "etc/airlock/gateway.json"
    keys = root.path / "etc/airlock/env"
    expect(keys.stat().st_mode & 0o777 == 0o600, f"the file of keys has the mode {keys.stat().st_mode:o}")
    keys.write_text("KEY=value\n")
    for directory in ["run/airlock", "var/lib/airlock"]:
        # The unit makes them.
        (root.path / directory).mkdir(parents=True)
    check(root, "/usr/bin/airlock", "/etc/airlock/gateway.json")
    with Gateway(root, "/usr/bin/airlock", free_port(root, "/etc/airlock/gateway.json")) as gateway:
        gateway.wait_until_loaded()
        answer = json.dumps(gateway.ask("/v1/mcp/tool/execute", CALL))
        expect("words" in answer, answer)
        root.run("/usr/bin/airlock", "health", "--config", "/etc/airlock/gateway.json")
        gateway.stop()
    changed = config.read_text().replace("127.0.0.1:8080", "127.0.0.1:9999")
    config.write_text(changed)
    dpkg(root, "--install", package)
    expect(config.read_text() == changed, "an upgrade has replaced the configuration")
    expect(keys.read_text() == "KEY=value\n", "an upgrade has replaced the keys")
    dpkg(root, "--remove", "airlock")
    expect(config.read_text() == changed, "the configuration is gone before a purge")
    expect(not (root.path / "usr/bin/airlock").exists(), "the program is still there")
    dpkg(root, "--purge", "airlock")
    expect(not config.exists() and not keys.exists(), "a purge has left the configuration")


def dpkg(root, *words):
    """Runs dpkg with scripts in the root, which has the libraries but not their packages."""
    options = [f"--root={root.path}", "--force-depends", "--force-confold", "--force-not-root", "--log=/dev/null"]
    run(["dpkg", *options, *words], env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})


def units(release):
    """Checks the units of the Debian package, where there is systemd-analyze."""
    if not shutil.which("systemd-analyze"):
        return "SKIPPED: systemd-analyze is not installed"
    root = release.scratch / "units"
    run(["dpkg-deb", "--extract", release.package("*.deb"), root])
    directory = root / "usr/lib/systemd/system"
    names = sorted(path.name for path in directory.iterdir())
    # The units name them, and those of systemd belong to another package.
    place = root / "bin/kill"
    place.parent.mkdir(parents=True)
    place.touch(0o755)
    for unit in SYSTEM_UNITS:
        host = next(base for base in ["/usr/lib/systemd/system", "/lib/systemd/system"] if os.path.isdir(base))
        shutil.copy(f"{host}/{unit}", directory / unit)
    for name in names:
        said = subprocess.run(["systemd-analyze", "verify", f"--root={root}", "--man=no", name], capture_output=True, text=True)
        problems = [line for line in said.stderr.splitlines() if "airlock" in line]
        expect(said.returncode == 0 and not problems, f"{name}: {said.stderr}")
    for name in ["airlock.service", "airlock-precompile.service"]:
        # In tenths: 0 is confined, 100 is not.
        run(["systemd-analyze", "security", f"--root={root}", "--offline=yes", "--threshold=25", name])
