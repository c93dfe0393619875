#!/usr/bin/env python3
"""Installs the wheel and the npm package of `make packages` on clean roots, by pip, uv and npm, and runs a program with each.

A root has an interpreter, its package manager, and the shared libraries of both and of the native module: no compiler and no
shell. Nothing is taken from the network. Needs root.
"""

import argparse
import os
import shutil
import sys
import sysconfig
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/dist"), str(ROOT / "deploy")]
sys.dont_write_bytecode = True

from packaging import elf  # noqa: E402
from support import Failure, Root, expect, run  # noqa: E402

UV = "uv==0.13.9"
LEFT_OUT = shutil.ignore_patterns("__pycache__", "test", "site-packages", "dist-packages")
# Wheels of Debian's `ensurepip`.
DEBIAN_WHEELS = Path("/usr/share/python-wheels")
ORDER = """\
import { runScript, tool } from 'airlock-gateway';

const parameters = { type: 'object', properties: { value: { type: 'integer' } }, required: ['value'] };
const double = tool({ name: 'double', parameters, execute: ({ value }) => value * 2 });
console.log(await runScript('double(20) + 2', { tools: [double] }));
"""


def package(packages, pattern):
    found = list(packages.glob(pattern))
    expect(len(found) == 1, f"{packages} has {len(found)} packages {pattern}")
    return found[0]


def clean_root(scratch, programs, directories, files):
    """Makes a root with programs and libraries, what they load, and whole directories, at the places where they are here, and with
    files in /tmp."""
    libraries = {library for program in programs for library in elf.libraries(program)}
    root = Root(scratch, [*map(str, programs), *libraries])
    for directory in directories:
        shutil.copytree(directory, root.path / str(directory).lstrip("/"), symlinks=True, ignore=LEFT_OUT, dirs_exist_ok=True)
    for file in files:
        shutil.copy(file, root.path / "tmp")
    return root


def python_root(scratch, packages, *programs):
    """Makes a root with this interpreter, the wheel, and the first example of the page. Returns it, and the interpreter."""
    library = Path(sysconfig.get_path("stdlib"))
    interpreter = Path(sys._base_executable).resolve()
    modules = list((library / "lib-dynload").glob("*.so"))
    directories = [library, *([DEBIAN_WHEELS] if DEBIAN_WHEELS.is_dir() else [])]
    wheel = package(packages, "airlock_gateway-*.whl")
    files = [wheel, ROOT / "host/bindings/python/examples/plain.py"]
    libraries = elf.libraries(native_module(scratch, wheel))
    return clean_root(scratch, [interpreter, *modules, *programs, *libraries], directories, files), interpreter


def native_module(scratch, wheel):
    """Unpacks the native module of a wheel. It needs libgcc, as manylinux permits, which an interpreter may not need."""
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract("airlock/_airlock.abi3.so", f"{scratch}-module"))


def check_python(root, environment):
    """Runs the example, which prints the lines at its end, and the command line of the wheel."""
    lines = (ROOT / "host/bindings/python/examples/plain.py").read_text().splitlines()
    first = next(number for number in range(len(lines), 0, -1) if not lines[number - 1].startswith("# "))
    printed = root.run(f"{environment}/bin/python", "/tmp/plain.py").splitlines()
    expect(printed == [line[2:] for line in lines[first:]], printed)
    expect(root.run(f"{environment}/bin/airlock", "--version").startswith("airlock "), "the wheel has no command line")


def by_pip(scratch, packages):
    root, interpreter = python_root(scratch, packages)
    root.run(interpreter, "-m", "venv", "/home/environment")
    wheel = f"/tmp/{package(packages, 'airlock_gateway-*.whl').name}"
    root.run("/home/environment/bin/python", "-m", "pip", "install", "--quiet", "--no-index", wheel)
    check_python(root, "/home/environment")


def by_uv(scratch, packages):
    tools = ROOT / ".cache/uv"
    wanted = tools / "installed"
    if not wanted.is_file() or wanted.read_text() != UV:
        run([sys.executable, "-m", "venv", "--clear", tools])
        run([tools / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", UV])
        wanted.write_text(UV)
    uv = tools / "bin/uv"
    root, interpreter = python_root(scratch, packages, uv)
    root.run(uv, "venv", "--quiet", "--offline", "--python", interpreter, "/home/environment")
    wheel = f"/tmp/{package(packages, 'airlock_gateway-*.whl').name}"
    root.run(uv, "pip", "install", "--quiet", "--offline", "--no-index", "--python", "/home/environment", wheel)
    check_python(root, "/home/environment")


def by_npm(scratch, packages):
    node = run(["node", "--print", "process.execPath"]).strip()
    npm = Path(shutil.which("npm")).resolve()
    archive = package(packages, "airlock-gateway-*.tgz")
    # With what Debian has beside npm.
    root = clean_root(scratch, [node], [npm.parents[2]], [archive])
    place = root.path / "home/order"
    place.mkdir()
    (place / "order.mjs").write_text(ORDER)
    root.run(node, npm, "install", "--silent", "--offline", "--no-audit", "--no-fund", "--prefix", "/home/order", f"/tmp/{archive.name}")
    printed = root.run(node, "/home/order/order.mjs")
    expect(printed == "42\n", printed)


PARTS = {"pip": by_pip, "uv": by_uv, "npm": by_npm}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packages", type=Path, help="what `make packages` has made")
    parser.add_argument("--part", action="append", choices=PARTS, help="one part; may be repeated")
    arguments = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="airlock-test-libraries-"))
    failed = []
    try:
        for name in arguments.part or PARTS:
            begun = time.monotonic()
            try:
                PARTS[name](scratch / name, arguments.packages.resolve())
                outcome = "ok"
            except Failure as failure:
                outcome = f"FAILED: {failure}"
                failed.append(name)
            print(f"{name}: {outcome} ({time.monotonic() - begun:.1f} s)", flush=True)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    os.umask(0o022)
    main()
