"""The provenance of the packages: a statement of in-toto with the predicate of SLSA, in a DSSE envelope; and signatures.

Without a key the envelope has no signature. The same key and packages make the same bytes.
"""

import base64
import hashlib
import json
import os
import subprocess
import tempfile
import tomllib
from pathlib import Path

from . import crates

PAYLOAD_TYPE = "application/vnd.in-toto+json"


def write(root, packages, version, epoch, key, path):
    """Writes the envelope about packages. `key` is the path of an Ed25519 key in PKCS#8 PEM, or None."""
    statement = json.dumps(statement_about(root, packages, version, epoch), sort_keys=True, separators=(",", ":")).encode()
    signatures = [sign(key, encoded(statement))] if key else []
    envelope = {"payloadType": PAYLOAD_TYPE, "payload": base64.b64encode(statement).decode(), "signatures": signatures}
    path.write_text(json.dumps(envelope, separators=(",", ":")) + "\n")


def statement_about(root, packages, version, epoch):
    repository = tomllib.loads((root / "Cargo.toml").read_text())["workspace"]["package"]["repository"]
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": package.name, "digest": {"sha256": crates.sha256(package)}} for package in packages],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": f"{repository}/blob/v{version}/docs/install.md#provenance-and-signatures",
                "externalParameters": {"repository": repository, "version": version},
                "internalParameters": {"SOURCE_DATE_EPOCH": epoch},
                "resolvedDependencies": [source(root, repository)],
            },
            "runDetails": {"builder": {"id": os.environ.get("BUILDER_ID") or f"{repository}/blob/v{version}/deploy/dist"}},
        },
    }


def source(root, repository):
    """Describes the sources: the commit, and whether files differ from it. Sources without Git have no digest."""
    described = {"uri": f"git+{repository}"}
    commit = git(root, "rev-parse", "HEAD")
    if commit:
        described["digest"] = {"gitCommit": commit}
        described["annotations"] = {"isChanged": bool(git(root, "status", "--porcelain"))}
    return described


def git(root, *words):
    try:
        asked = subprocess.run(["git", "-C", root, *words], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return asked.stdout.strip() if asked.returncode == 0 else ""


def encoded(statement):
    """Returns the bytes that are signed: DSSE's pre-authentication encoding."""
    return b"DSSEv1 %d %s %d %s" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(statement), statement)


def sign(key, message):
    """Signs with OpenSSL. The identifier of the key is the SHA-256 of its public part as DER."""
    public = openssl("pkey", "-in", key, "-pubout", "-outform", "DER")
    # OpenSSL signs no standard input with these keys.
    with tempfile.NamedTemporaryFile(prefix="airlock-dist-") as file:
        file.write(message)
        file.flush()
        signature = openssl("pkeyutl", "-sign", "-rawin", "-inkey", key, "-in", file.name)
    return {"keyid": hashlib.sha256(public).hexdigest(), "sig": base64.b64encode(signature).decode()}


def openssl(*words):
    signed = subprocess.run(["openssl", *words], capture_output=True, stdin=subprocess.DEVNULL, check=False)
    if signed.returncode != 0:
        raise SystemExit(f"openssl {words[0]} with the key of SIGN_KEY: {signed.stderr.decode(errors='replace').strip()}")
    return signed.stdout


def minisign(key, path, version):
    """Signs a file with minisign, whose comment has no time. A key with a password asks for it."""
    comment = f"airlock {version} {Path(path).name}"
    subprocess.run(["minisign", "-S", "-s", key, "-m", path, "-t", comment, "-c", comment], check=True)
