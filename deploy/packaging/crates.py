"""The crates that are in the program: those of the gateway, of the executors and of the first-party plugins."""

import functools
import hashlib
import json
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path

PLUGINS = ["text", "files", "fetch", "notes", "marks", "personal", "policy", "secrets"]
# Targets of the program: with glibc, and static.
DYNAMIC = "x86_64-unknown-linux-gnu"
STATIC = "x86_64-unknown-linux-musl"
# Manifest of a workspace, the packages of it that are shipped, and their targets; None for that of the program.
WORKSPACES = [
    ("Cargo.toml", ["airlock"], None),
    ("Cargo.toml", [f"airlock-{plugin}" for plugin in PLUGINS], "wasm32-wasip2"),
    ("plugins/starlark/Cargo.toml", ["airlock-starlark"], "wasm32-unknown-unknown"),
    ("plugins/python/Cargo.toml", ["airlock-python"], "wasm32-unknown-unknown"),
]


@dataclass(frozen=True)
class Crate:
    """One version of a crate."""

    name: str
    version: str
    licence: str
    authors: tuple
    repository: str
    description: str
    directory: Path
    # False for a crate of this repository.
    is_foreign: bool
    # SHA-256 of its archive in the registry; empty for a crate of this repository.
    checksum: str
    purl: str

    @property
    def reference(self):
        return self.purl or f"airlock:{self.name}@{self.version}"


@functools.cache
def shipped(root, target):
    """Returns the crates of a program for a target by their references, and the references of each one's dependencies."""
    crates, edges = {}, {}
    for manifest, roots, own in WORKSPACES:
        collect(root, root / manifest, roots, own or target, crates, edges)
    return crates, {name: sorted(edges[name]) for name in sorted(edges)}


def collect(root, manifest, roots, target, crates, edges):
    command = ["cargo", "metadata", "--format-version=1", "--locked", f"--filter-platform={target}"]
    output = subprocess.run([*command, f"--manifest-path={manifest}"], check=True, capture_output=True, cwd=root)
    metadata = json.loads(output.stdout)
    checksums = locked(manifest.parent / "Cargo.lock")
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    members = {packages[member]["name"]: member for member in metadata["workspace_members"]}
    missing = [name for name in roots if name not in members]
    if missing:
        raise SystemExit(f"{manifest} has no package {', '.join(missing)}")
    waiting = [members[name] for name in roots]
    made = {}
    while waiting:
        package = waiting.pop()
        if package in made:
            continue
        made[package] = crate(packages[package], checksums)
        waiting.extend(dependencies(nodes[package]))
    for package, found in made.items():
        crates[found.reference] = found
        edges.setdefault(found.reference, set()).update(made[other].reference for other in dependencies(nodes[package]))


def dependencies(node):
    """Returns the packages that end up in the program: not those of tests and build scripts."""
    return [dep["pkg"] for dep in node["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"])]


def locked(lock):
    packages = tomllib.loads(lock.read_text())["package"]
    return {(package["name"], package["version"]): package.get("checksum", "") for package in packages}


def crate(package, checksums):
    name, version = package["name"], package["version"]
    source = package["source"] or ""
    is_registered = source.startswith("registry+")
    return Crate(
        name=name,
        version=version,
        licence=(package["license"] or "").replace("/", " OR "),
        authors=tuple(package["authors"]),
        repository=package["repository"] or "",
        description=" ".join((package["description"] or "").split()),
        directory=Path(package["manifest_path"]).parent,
        is_foreign=bool(source),
        checksum=checksums.get((name, version), "") if is_registered else "",
        purl=f"pkg:cargo/{name}@{version}" if is_registered else "",
    )


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
