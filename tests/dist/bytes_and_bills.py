"""The packages are the same each time, and say what is in them."""

import json
import os
import re
import tarfile
import urllib.parse

from support import expect, run

COMPONENT = {"type", "bom-ref", "name", "version", "description", "licenses", "hashes", "purl", "externalReferences"}


def same_bytes(release):
    again = release.scratch / "again"
    run([release.root / "deploy/dist", "--program", release.program, "--plugins", release.plugins, "--output", again])
    names = sorted(path.name for path in release.packages.iterdir())
    expect(names == sorted(path.name for path in again.iterdir()), f"other packages: {names}")
    other = [name for name in names if (release.packages / name).read_bytes() != (again / name).read_bytes()]
    expect(not other, f"other bytes: {', '.join(other)}")
    run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=release.packages)
    for name in names:
        release.measured[f"bytes of {name}"] = (release.packages / name).stat().st_size


def documents(release):
    """Each link of a document in the archive leads to a file of it, or to the repository."""
    with tarfile.open(release.package("*.tar.gz")) as archive:
        files = {name.partition("/")[2]: archive.extractfile(name) for name in archive.getnames() if archive.getmember(name).isfile()}
        pages = {name: file.read().decode() for name, file in files.items() if name.endswith(".md")}
    expect({"README.md", "docs/install.md", "docs/decisions/README.md"} <= set(pages), sorted(pages))
    lost, elsewhere = [], 0
    for name, text in pages.items():
        for target in re.findall(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)", "".join(text.split("```")[::2])):
            if re.match(r"[a-z]+:", target):
                elsewhere += f"/v{release.version}/" in target
            elif os.path.normpath(os.path.join(os.path.dirname(name), target)) not in files:
                lost.append(f"{name}: {target}")
    expect(not lost, f"links to files that the archive lacks: {lost}")
    expect(elsewhere, "no link leads to the sources")


def bill(release):
    document = json.loads(release.package("*.cdx.json").read_text())
    expect((document["bomFormat"], document["specVersion"], document["version"]) == ("CycloneDX", "1.5", 1), "the format")
    expect(re.fullmatch(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", document["serialNumber"]), "the serial number")
    program = document["metadata"]["component"]
    expect((program["type"], program["version"]) == ("application", release.version), "the program")
    references = {program["bom-ref"]}
    for component in document["components"]:
        name = f"{component['name']} {component['version']}"
        expect(set(component) <= COMPONENT, f"{name}: other members than CycloneDX has")
        expect(component["bom-ref"] not in references, f"{name} is there twice")
        references.add(component["bom-ref"])
        expect(component.get("licenses"), f"{name}: no licence")
        if "purl" in component:
            expect(re.fullmatch(r"pkg:cargo/[A-Za-z0-9_-]+@[^@]+", component["purl"]), f"{name}: purl")
            expect(re.fullmatch(r"[0-9a-f]{64}", component["hashes"][0]["content"]), f"{name}: hash")
        for reference in component.get("externalReferences", []):
            expect(urllib.parse.urlparse(reference["url"]).scheme, f"{name}: {reference}")
    known = {entry["ref"]: entry["dependsOn"] for entry in document["dependencies"]}
    expect(set(known) == references, "each component has its dependencies")
    expect({on for each in known.values() for on in each} < references, "each dependency is a component")
    reached, waiting = set(), [program["bom-ref"]]
    while waiting:
        reference = waiting.pop()
        if reference not in reached:
            reached.add(reference)
            waiting += known[reference]
    expect(reached == references, f"the program does not depend on {sorted(references - reached)}")
    names = {component["name"] for component in document["components"]}
    # Of the gateway, of each executor, and of plugins.
    for name in ["wasmtime", "rustls", "starlark", "monty", "airlock-text"]:
        expect(name in names, f"{name} is not there")
    expect("proptest" not in names, "a crate of the tests is there")


def notices(release):
    text = (release.packages / "NOTICE").read_text()
    document = json.loads(release.package("*.cdx.json").read_text())
    for component in document["components"]:
        if "purl" in component:
            line = f"{component['name']} {component['version']}: "
            expect(f"\n{line}" in text, f"{line} is not in NOTICE")
    for part in ["Permission is hereby granted, free of charge", "Apache License", "\nThe standard library of Rust"]:
        expect(part in text, f"{part!r} is not in NOTICE")
    with tarfile.open(release.package("*.tar.gz")) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for name in ["LICENSE", "NOTICE", "README.md", "gateway.json", "bin/airlock", "plugins/text.wasm", "systemd/airlock.service"]:
        expect(name in names, f"the archive has no {name}")
