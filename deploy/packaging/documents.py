"""Documents in packages. A link to a file that the package lacks leads to the repository, at the package's version."""

import os
import re
import tomllib

LINK = re.compile(r"\]\(([^)\s#]+)(#[^)\s]*)?\)")


def shipped(root):
    """Returns the paths, in the repository, of the documents of a package that has them all."""
    pages = (path for path in (root / "docs").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    beside = ["README.md", "CHANGELOG.md", "SECURITY.md", "LICENSE"]
    return beside + sorted(str(path.relative_to(root)) for path in pages)


def add(tree, root, documents, places, version):
    """Adds documents. `documents` and `places` have paths in the package by paths in the repository: `places` those of other files."""
    places = {**places, **documents}
    for source, place in sorted(documents.items()):
        path = root / source
        content = path.read_bytes()
        if path.suffix == ".md":
            content = linked(root, source, content.decode(), places, version)
        tree.write(place, content, executable=os.access(path, os.X_OK))


def linked(root, source, text, places, version):
    """Returns the text of a document whose links fit its place."""
    repository = tomllib.loads((root / "Cargo.toml").read_text())["workspace"]["package"]["repository"]

    def replaced(link):
        target, anchor = link[1], link[2] or ""
        if re.match(r"[a-z]+:", target):
            return link[0]
        path = os.path.normpath(os.path.join(os.path.dirname(source), target))
        if not (root / path).exists():
            raise SystemExit(f"{source} has a link to {target}, which does not exist")
        if path in places:
            return f"]({os.path.relpath(places[path], os.path.dirname(places[source]) or '.')}{anchor})"
        kind = "tree" if (root / path).is_dir() else "blob"
        return f"]({repository}/{kind}/v{version}/{path}{anchor})"

    # Every second part is a block of code.
    parts = text.split("```")
    parts[::2] = [LINK.sub(replaced, part) for part in parts[::2]]
    return "```".join(parts)
