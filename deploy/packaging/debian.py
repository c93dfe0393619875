"""The Debian package, by dpkg-deb."""

import os
import subprocess

from . import documents, elf, tree as trees

DOCUMENTS = "usr/share/doc/airlock"
UNITS = ["airlock.service", "airlock.socket", "airlock-precompile.service"]
UNIT_PLACES = {f"deploy/systemd/{unit}": f"usr/lib/systemd/system/{unit}" for unit in UNITS}
SCRIPTS = ["postinst", "prerm", "postrm"]


def write(parts, version, epoch, scratch, path):
    source = parts.root / "deploy"
    tree = trees.Tree(scratch / "debian")
    tree.add(parts.program, "usr/bin/airlock", executable=True)
    tree.add_all(parts.plugins, "usr/lib/airlock/plugins")
    for unit in UNITS:
        tree.add(source / "systemd" / unit, f"usr/lib/systemd/system/{unit}")
    tree.add(source / "debian/gateway.json", "etc/airlock/gateway.json")
    tree.add(parts.root / "LICENSE", f"{DOCUMENTS}/copyright")
    tree.add(parts.notices, f"{DOCUMENTS}/NOTICE")
    documents.add(tree, parts.root, {"docs/install.md": f"{DOCUMENTS}/install.md"}, UNIT_PLACES, version)
    kibibytes = sum(file.stat().st_size for file in tree.path.rglob("*") if file.is_file()) // 1024
    glibc = elf.glibc(parts.program)
    depends = f"libc6 (>= {glibc}), libgcc-s1" if glibc else "base-files"
    control = (source / "debian/control.in").read_text()
    for name, value in {"VERSION": version, "SIZE": str(kibibytes), "DEPENDS": depends}.items():
        control = control.replace(f"@{name}@", value)
    tree.write("DEBIAN/control", control)
    tree.add(source / "debian/conffiles", "DEBIAN/conffiles")
    for script in SCRIPTS:
        tree.add(source / "debian" / script, f"DEBIAN/{script}", executable=True)
    for directory in [tree.path, *tree.path.rglob("*")]:
        if directory.is_dir():
            directory.chmod(0o755)
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch)}
    # gzip: the bytes of xz depend on the number of processors.
    command = ["dpkg-deb", "--root-owner-group", "-Zgzip", "-z6", "--build", str(tree.path), str(path)]
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
