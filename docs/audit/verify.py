"""Verifies an audit log, as docs/audit.md describes it. Prints each finding, and exits with 1 if there is one.

Usage: python3 verify.py DIRECTORY [--key KEY] [--checkpoint FILE]...        Needs the package `cryptography`.
"""
import argparse, hashlib, json, pathlib, sys
from base64 import b64decode
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
MALFORMED = (ValueError, KeyError, TypeError, AttributeError, IndexError)

def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()

def push(tree, leaf):  # The tree is a list of (size, root) of complete subtrees.
    tree.append((1, leaf))
    while len(tree) > 1 and tree[-1][0] == tree[-2][0]:
        (size, right), (_, left) = tree.pop(), tree.pop()
        tree.append((2 * size, sha256(b"\x01", left, right)))

def root(tree):
    node = tree[-1][1] if tree else sha256()
    for _, left in reversed(tree[:-1]):
        node = sha256(b"\x01", left, node)
    return node

def is_signed(key, message, signature):
    try:
        name, digits, encoded = key.split("+", 2)
        kind, raw = b64decode(encoded)[:1], b64decode(encoded)[1:]
        Ed25519PublicKey.from_public_bytes(raw).verify(signature, message)
        return kind == b"\x01" and sha256(name.encode(), b"\n", kind, raw)[:4].hex() == digits
    except (InvalidSignature, *MALFORMED):
        return False

def checkpoints(path, found):  # One that lacks its text or its signatures takes no part of those after it.
    parts = path.read_text(encoding="utf-8").split("\n\n")
    if path.name == "checkpoints" and parts[-1]:  # The gateway was killed while it wrote the last one.
        parts = parts[:-1]
    for text, signed in zip(parts, parts[1:]):
        if text.startswith("\u2014 ") or not signed.startswith("\u2014 "):
            continue
        try:
            name, size, encoded = text.split("\n")[:3]
            lines = [line.split(" ") for line in signed.strip("\n").split("\n") if line.startswith("\u2014 ")]
            yield name, int(size), b64decode(encoded), (text + "\n").encode(), [(of, b64decode(value)) for _, of, value in lines]
        except MALFORMED:
            found.append(f"a checkpoint in {path} is malformed")

def read(line):
    event, number, before = (json.loads(line)[name] for name in ("event", "n", "prev"))
    if line.startswith(b'{"event":{') and line.endswith(b'},"n":%d,"prev":"%s"}' % (number, before.encode())):
        return event, number, before
    raise ValueError

def verify(directory, trusted, outside):
    found, tree, keys, roots, expected, previous = [], [], [], {}, 0, "0" * 64
    files = [(path, list(checkpoints(path, found))) for path in [directory / "checkpoints", *outside]]
    for line in b"".join(p.read_bytes() for p in [*sorted(directory.glob("log-*")), directory / "log.jsonl"]).split(b"\n")[:-1]:
        try:
            event, number, before = read(line)
        except MALFORMED:
            found.append(f"line {expected} was changed: it does not have the form of a line")
            event, number, before = {}, expected, previous
        if not keys:  # The first line says what it follows.
            if event["kind"] == "log_continued":
                sizes, hashes = [1 << bit for bit in range(63, -1, -1) if number >> bit & 1], bytes.fromhex(event["tree"])
                tree = [(size, hashes[32 * at:32 * at + 32]) for at, size in enumerate(sizes)]
                expected, previous, roots[number] = number, before, root(tree)
            keys.append((-1, event["public_key"]))
        if number != expected:
            found.append(f"where line {expected} should be, there is line {number}")
        elif before != previous:
            found.append(f"line {number - 1} was changed, or the hash of it in line {number}")
        if event.get("kind") == "key_rotated":
            old, new = keys[-1][1], event["new_key"]
            text = f"airlock audit key rotation\n{old.split('+')[0]}\n{number}\n{old}\n{new}\n".encode()
            keys.append((number, new))
            signatures = [(old, event["old_signature"]), (new, event["new_signature"])]
            if not all(is_signed(key, text, b64decode(signature)) for key, signature in signatures):
                return [*found, f"line {number} changes the key without both signatures"]
        previous, expected = sha256(b"\x00", line).hex(), number + 1
        push(tree, bytes.fromhex(previous))
        roots[sum(size for size, _ in tree)] = root(tree)
    log, total = keys[0][1].split("+")[0], max(roots)
    claims = []
    for path, of_file in files:
        compared = [claim for claim in of_file if claim[0] == log and (claim[1] in roots or claim[1] > total)]
        if path in outside and not compared:
            found.append(f"{path} has no checkpoint that can be compared with these lines")
        claims += compared
    for _, size, signed_root, text, signatures in claims:
        key = [key for number, key in keys if number < size][-1]
        if not any(value[:4].hex() == key.split("+")[1] and is_signed(key, text, value[4:]) for _, value in signatures):
            found.append(f"the checkpoint of {size} lines is forged")
        elif size > total:
            found.append(f"lines are missing at the end: {size} were signed, and there are {total}")
        elif roots[size] != signed_root:
            found.append(f"the first {size} lines are not those that were signed")
    if not claims or min(roots) > 1 and min(roots) not in [claim[1] for claim in claims]:
        found.append("no checkpoint signs the log, or the lines before its first file")
    return found if trusted in [None, *(key for _, key in keys)] else [*found, "the log is not signed by the trusted key"]

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--key")
    parser.add_argument("--checkpoint", type=pathlib.Path, action="append", default=[])
    findings = verify(*vars(parser.parse_args()).values())
    print("\n".join(findings) or "the log is as it was signed")
    sys.exit(bool(findings))
