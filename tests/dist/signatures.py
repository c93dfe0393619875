"""Provenance and signatures, checked with OpenSSL and minisign, and not with the code that makes them."""

import base64
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from support import expect, run


def signatures(release):
    scratch = release.scratch / "signatures"
    scratch.mkdir()
    expect(shutil.which("minisign"), "minisign is not installed")
    key = scratch / "key.pem"
    public = scratch / "public.pem"
    run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", key])
    run(["openssl", "pkey", "-in", key, "-pubout", "-out", public])
    secret = scratch / "minisign.key"
    run(["minisign", "-G", "-W", "-p", scratch / "minisign.pub", "-s", secret])
    unsigned = dist(release, scratch / "unsigned", {"SIGN_KEY": "", "MINISIGN_KEY": ""})
    expect("provenance: unsigned" in unsigned and "checksums: unsigned" in unsigned, unsigned)
    expect(envelope(release, scratch / "unsigned")["signatures"] == [], "a signature without a key")
    packages = scratch / "signed"
    signed = dist(release, packages, {"SIGN_KEY": str(key), "MINISIGN_KEY": str(secret), "BUILDER_ID": "https://builder.example"})
    expect("provenance: signed" in signed and "checksums: signed" in signed, signed)
    provenance(release, packages, public)
    checksums(packages, scratch / "minisign.pub")
    refused = subprocess.run(command(release, scratch / "none"), env={**os.environ, "SIGN_KEY": "/none"}, capture_output=True, check=False)
    expect(refused.returncode != 0 and b"SIGN_KEY" in refused.stderr, "a key that is not there")


def command(release, output):
    return [release.root / "deploy/dist", "--program", release.program, "--plugins", release.plugins, "--output", output]


def dist(release, output, variables):
    return run(command(release, output), env={**os.environ, **variables})


def envelope(release, packages):
    return json.loads((packages / f"airlock-{release.version}.intoto.jsonl").read_text())


def provenance(release, packages, public):
    signed = envelope(release, packages)
    payload = base64.b64decode(signed["payload"], validate=True)
    expect(len(signed["signatures"]) == 1 and verifies(signed, payload, public), "the signature of the provenance")
    expect(not verifies(signed, changed(payload), public), "a statement with another byte has a good signature")
    statement = json.loads(payload)
    expect(statement["_type"] == "https://in-toto.io/Statement/v1", statement["_type"])
    expect(statement["predicateType"] == "https://slsa.dev/provenance/v1", statement["predicateType"])
    subjects = {subject["name"]: subject["digest"]["sha256"] for subject in statement["subject"]}
    beside = {"SHA256SUMS", "SHA256SUMS.minisig", f"airlock-{release.version}.intoto.jsonl"}
    found = {path.name: path.read_bytes() for path in packages.iterdir() if path.name not in beside}
    expect(subjects == {name: digest(content) for name, content in found.items()}, subjects)
    expect(all(digest(changed(content)) != subjects[name] for name, content in found.items()), "a changed byte")
    predicate = statement["predicate"]
    expect(predicate["runDetails"]["builder"]["id"] == "https://builder.example", predicate["runDetails"])
    [source] = predicate["buildDefinition"]["resolvedDependencies"]
    expect(source["uri"].startswith("git+https://"), source)
    if (release.root / ".git").exists():
        commit = run(["git", "-C", release.root, "rev-parse", "HEAD"]).strip()
        expect(source["digest"] == {"gitCommit": commit}, source)


def checksums(packages, public):
    run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=packages)
    run(["minisign", "-V", "-p", public, "-m", "SHA256SUMS"], cwd=packages)
    sums = packages / "SHA256SUMS"
    good = sums.read_bytes()
    sums.write_bytes(changed(good))
    expect(is_refused(["minisign", "-V", "-p", public, "-m", "SHA256SUMS"], packages), "checksums with another byte")
    sums.write_bytes(good)
    package = next(packages.glob("*.deb"))
    package.write_bytes(changed(package.read_bytes()))
    expect(is_refused(["sha256sum", "--check", "--strict", "SHA256SUMS"], packages), "a package with another byte")


def verifies(signed, payload, public):
    """Returns whether the signature of an envelope is one of this payload."""
    kind = signed["payloadType"].encode()
    with tempfile.TemporaryDirectory() as directory:
        message = Path(directory) / "message"
        message.write_bytes(b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload))
        signature = Path(directory) / "signature"
        signature.write_bytes(base64.b64decode(signed["signatures"][0]["sig"], validate=True))
        verify = ["openssl", "pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", public, "-in", message, "-sigfile", signature]
        return not is_refused(verify, directory)


def is_refused(command, directory):
    return subprocess.run(command, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode != 0


def changed(content):
    """Returns the content with one other bit, in its middle."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def digest(content):
    return hashlib.sha256(content).hexdigest()
