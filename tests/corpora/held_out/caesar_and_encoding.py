import base64
import hashlib

def caesar(text: str, shift: int) -> str:
    out = []
    for ch in text:
        if ch.isalpha() and ch.isascii():
            base = ord("A") if ch.isupper() else ord("a")
            out.append(chr((ord(ch) - base + shift) % 26 + base))
        else:
            out.append(ch)
    return "".join(out)

secret = "Meet at Café 9!"
enc = caesar(secret, 3)
assert caesar(enc, -3) == secret
raw = secret.encode("utf-8")
result = {
    "encoded": enc,
    "b64": base64.b64encode(raw).decode("ascii"),
    "sha": hashlib.sha256(raw).hexdigest()[:12],
    "bytes": len(raw),
    "hex": " ".join(f"{b:02x}" for b in raw[:4]),
    "bits": f"{raw[0]:08b}",
    "checksum": sum(raw) & 0xFF,
}
