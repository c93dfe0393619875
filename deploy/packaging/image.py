"""The container image: one layer from scratch, in an archive that `docker load`, `podman load` and `skopeo` read."""

import datetime
import hashlib
import json
from pathlib import Path

from . import tree as trees

USER = 65532
SECOND = 1_000_000_000
CONFIG = "/etc/airlock/gateway.json"
AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")


def write(parts, version, epoch, scratch, path):
    layer = trees.tar(filled(parts, scratch), epoch, own=[("data", 0o700, USER), ("tmp", 0o1777, 0)])
    packed = trees.compressed(layer)
    config = encoded(configuration(version, epoch, layer))
    blobs = [packed, config]
    manifest = encoded({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": described("application/vnd.oci.image.config.v1+json", config),
        "layers": [described("application/vnd.oci.image.layer.v1.tar+gzip", packed)],
    })
    blobs.append(manifest)
    index = described("application/vnd.oci.image.manifest.v1+json", manifest)
    index["annotations"] = {"io.containerd.image.name": f"docker.io/library/airlock:{version}", "org.opencontainers.image.ref.name": version}
    index["platform"] = {"architecture": "amd64", "os": "linux"}
    archive = trees.Tree(scratch / "oci")
    for blob in blobs:
        archive.write(blob_path(blob), blob)
    archive.write("oci-layout", '{"imageLayoutVersion":"1.0.0"}')
    archive.write("index.json", encoded({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [index]}))
    # For programs that do not read the layout of OCI.
    archive.write("manifest.json", encoded([{"Config": blob_path(config), "RepoTags": [f"airlock:{version}"], "Layers": [blob_path(packed)]}]))
    path.write_bytes(trees.tar(archive, epoch))


def filled(parts, scratch):
    tree = trees.Tree(scratch / "image")
    tree.add(parts.program, "usr/bin/airlock", executable=True)
    for library in parts.libraries:
        # By the names that the program and its loader have for them.
        tree.add(library, library.lstrip("/"), executable=True)
    if AUTHORITIES.is_file():
        tree.add(AUTHORITIES, str(AUTHORITIES).lstrip("/"))
    tree.add_all(parts.plugins, "usr/lib/airlock/plugins")
    tree.add(parts.root / "deploy/image/gateway.json", CONFIG.lstrip("/"))
    tree.add(parts.root / "LICENSE", "usr/share/doc/airlock/LICENSE")
    tree.add(parts.notices, "usr/share/doc/airlock/NOTICE")
    tree.write("etc/passwd", f"root:x:0:0:root:/:/sbin/nologin\nairlock:x:{USER}:{USER}:airlock:/data:/sbin/nologin\n")
    tree.write("etc/group", f"root:x:0:\nairlock:x:{USER}:\n")
    return tree


def configuration(version, epoch, layer):
    created = datetime.datetime.fromtimestamp(epoch, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    program = "/usr/bin/airlock"
    return {
        "created": created,
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "User": f"{USER}:{USER}",
            "ExposedPorts": {"8080/tcp": {}},
            "Env": ["PATH=/usr/bin", "HOME=/data", "AIRLOCK_CACHE_DIR=/data/cache", "SSL_CERT_FILE=" + str(AUTHORITIES)],
            "Entrypoint": [program],
            "Cmd": ["serve", "--config", CONFIG],
            "Volumes": {"/data": {}},
            "WorkingDir": "/data",
            "StopSignal": "SIGTERM",
            "Labels": {
                "org.opencontainers.image.title": "airlock",
                "org.opencontainers.image.version": version,
                "org.opencontainers.image.licenses": "Apache-2.0",
                "org.opencontainers.image.source": "https://github.com/airlock-gateway/airlock",
            },
            "Healthcheck": {
                "Test": ["CMD", program, "health", "--config", CONFIG],
                "Interval": 10 * SECOND,
                "Timeout": 6 * SECOND,
                "StartPeriod": 30 * SECOND,
                "StartInterval": SECOND,
                "Retries": 3,
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [digest(layer)]},
        "history": [{"created": created, "created_by": "make dist"}],
    }


def described(media_type, blob):
    return {"mediaType": media_type, "digest": digest(blob), "size": len(blob)}


def digest(blob):
    return "sha256:" + hashlib.sha256(blob).hexdigest()


def blob_path(blob):
    return "blobs/sha256/" + hashlib.sha256(blob).hexdigest()


def encoded(document):
    return json.dumps(document, separators=(",", ":")).encode()
