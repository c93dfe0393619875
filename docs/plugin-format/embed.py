"""Appends the sections of Airlock to a component that has neither: embed.py COMPONENT PLUGIN_TOML TOOLS_JSON OUTPUT"""

import json
import pathlib
import sys
import tomllib


def leb128(number):
    """Encodes an unsigned number as WebAssembly does."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def section(name, content):
    """Encodes a custom section: its id 0 and its size, then its name with the length, then its content."""
    payload = leb128(len(name)) + name + content
    return b"\0" + leb128(len(payload)) + payload


component, manifest, tools, output = map(pathlib.Path, sys.argv[1:])
table = tomllib.loads(manifest.read_text())
table.pop("build", None)
if "schema_file" in table.get("config", {}):
    file = manifest.with_name(table["config"].pop("schema_file"))
    table["config"]["schema"] = json.loads(file.read_text())
output.write_bytes(
    component.read_bytes()
    + section(b"airlock:manifest", json.dumps(table).encode())
    + section(b"airlock:tools", tools.read_bytes())
)
