"""What a program needs of the system: shared libraries, and the version of glibc."""

import re
import struct
import subprocess
from pathlib import Path

# Types of the program headers that have the entries of the dynamic section, and that names the loader.
DYNAMIC, INTERPRETER = 2, 3
# Tag of an entry that names a library.
NEEDED = 1
# The Debian package of the C library of static programs.
MUSL = "musl-dev"


def is_static(program):
    """Returns whether a program or a module names neither a loader nor a library, so that it runs on a system without any."""
    content = Path(program).read_bytes()
    if content[:6] != b"\x7fELF\x02\x01":
        raise SystemExit(f"{program} is no ELF program of 64 bits")
    (start,) = struct.unpack_from("<Q", content, 32)
    size, number = struct.unpack_from("<HH", content, 54)
    return not any(names_loader_or_library(content, start + index * size) for index in range(number))


def names_loader_or_library(content, header):
    (kind,) = struct.unpack_from("<I", content, header)
    if kind != DYNAMIC:
        return kind == INTERPRETER
    (offset,) = struct.unpack_from("<Q", content, header + 8)
    (length,) = struct.unpack_from("<Q", content, header + 32)
    return any(tag == NEEDED for tag, _ in struct.iter_unpack("<qQ", content[offset : offset + length]))


def libraries(program):
    """Returns the shared libraries that a program or a module loads, with the loader. Empty for a static one."""
    if is_static(program):
        return []
    listed = subprocess.run(["ldd", program], capture_output=True, text=True)
    lines = listed.stdout.splitlines()
    if listed.returncode != 0 or any("not found" in line for line in lines):
        raise SystemExit(f"{program} needs libraries that are not here:\n{listed.stdout}{listed.stderr}")
    return sorted({match.group(0) for line in lines if (match := re.search(r"/[^ ]+", line))})


def glibc(program):
    """Returns the newest version of glibc that a program needs, such as `2.34`; `None` for a static program."""
    if not libraries(program):
        return None
    # The names of versions are plain in the program.
    found = {tuple(map(int, version.split(b"."))) for version in re.findall(rb"GLIBC_(\d+\.\d+)", Path(program).read_bytes())}
    return ".".join(map(str, max(found)))


def copyrights(paths):
    """Returns the name and the copyright of each Debian package that has one of these libraries.

    Without libraries the program is static, and contains musl.
    """
    owners = {name for path in paths if (name := owner(path))} if paths else {MUSL}
    found = [(name, text) for name in sorted(owners) if (text := copyright_of(name))]
    if not paths and not found:
        raise SystemExit(f"the licence of musl is not here: install Debian's {MUSL}")
    return found


def copyright_of(package):
    """Returns the copyright of a Debian package; empty if it is not installed."""
    text = Path("/usr/share/doc") / package / "copyright"
    return text.read_text(errors="replace").strip() if text.is_file() else ""


def owner(path):
    # Packages list files as they were before /lib became a link.
    for name in (str(path), str(Path(path).resolve()), str(Path(path).resolve()).removeprefix("/usr")):
        answer = subprocess.run(["dpkg-query", "--search", name], capture_output=True, text=True)
        if answer.returncode == 0:
            return answer.stdout.split(":")[0]
    return None
