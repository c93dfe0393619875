"""The bill of materials, as CycloneDX 1.5."""

import datetime
import json
import uuid

from . import crates

# For identifiers that are the same for the same contents.
NAMESPACE = uuid.UUID("6f0c8e9e-2f5b-5d3f-9d68-0a8f0a1c7a11")


def write(root, target, version, epoch, path):
    found, edges = crates.shipped(root, target)
    program = f"pkg:generic/airlock@{version}"
    components = [component(crate) for _, crate in sorted(found.items())]
    roots = {name for _, names, _ in crates.WORKSPACES for name in names}
    own = sorted(crate.reference for crate in found.values() if crate.name in roots and not crate.is_foreign)
    dependencies = [{"ref": program, "dependsOn": own}]
    dependencies += [{"ref": reference, "dependsOn": on} for reference, on in edges.items()]
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": datetime.datetime.fromtimestamp(epoch, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "application",
                "bom-ref": program,
                "name": "airlock",
                "version": version,
                "purl": program,
                "licenses": [{"expression": "Apache-2.0"}],
            },
        },
        "components": components,
        "dependencies": dependencies,
    }
    content = json.dumps(document, sort_keys=True)
    document["serialNumber"] = f"urn:uuid:{uuid.uuid5(NAMESPACE, content)}"
    path.write_text(json.dumps(document, indent=2) + "\n")


def component(crate):
    found = {"type": "library", "bom-ref": crate.reference, "name": crate.name, "version": crate.version}
    if crate.description:
        found["description"] = crate.description
    if crate.licence:
        found["licenses"] = [{"expression": crate.licence}]
    if crate.checksum:
        found["hashes"] = [{"alg": "SHA-256", "content": crate.checksum}]
    if crate.purl:
        found["purl"] = crate.purl
    if crate.repository:
        found["externalReferences"] = [{"type": "vcs", "url": crate.repository}]
    return found
