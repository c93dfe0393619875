"""The archive: everything, in one directory that may be anywhere."""

from . import documents, tree as trees


def write(parts, version, epoch, scratch, path):
    source = parts.root / "deploy"
    name = path.name.removesuffix(".tar.gz")
    tree = trees.Tree(scratch / "archive")
    tree.add(parts.program, "bin/airlock", executable=True)
    tree.add_all(parts.plugins, "plugins")
    tree.add(source / "archive/gateway.json", "gateway.json")
    tree.add(parts.notices, "NOTICE")
    # Where links of documents lead.
    places = {}
    tree.add_all((source / "systemd").iterdir(), "systemd")
    for directory in ["kubernetes", "compose", "systemd"]:
        for file in sorted((source / directory).iterdir()):
            places[f"deploy/{directory}/{file.name}"] = f"{directory}/{file.name}"
    for directory in ["kubernetes", "compose"]:
        for file in sorted((source / directory).iterdir()):
            tree.write(f"{directory}/{file.name}", file.read_text().replace("@VERSION@", version))
    pages = {document: document for document in documents.shipped(parts.root)}
    documents.add(tree, parts.root, pages, places, version)
    path.write_bytes(trees.compressed(trees.tar(tree, epoch, prefix=f"{name}/")))
