"""Trees of files, and archives of them that have the same bytes whenever they are made."""

import gzip
import io
import shutil
import tarfile
from pathlib import Path


class Tree:
    """A directory that is filled for a package. Modes are 0755 and 0644, whatever they are in the repository."""

    def __init__(self, path):
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True, mode=0o755)
        self.path = path

    def add(self, source, name, executable=False):
        self.write(name, Path(source).read_bytes(), executable)

    def write(self, name, content, executable=False):
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        path.chmod(0o755 if executable else 0o644)

    def add_all(self, sources, directory):
        for source in sorted(sources):
            self.add(source, f"{directory}/{Path(source).name}")


def tar(tree, epoch, prefix="", own=()):
    """Returns a tar of a tree. `own` has further directories, with their modes and the id of their owner."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(tree.path.rglob("*")):
            entry = tarfile.TarInfo(prefix + str(path.relative_to(tree.path)))
            entry.mtime = epoch
            if path.is_dir():
                entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(entry)
            else:
                entry.mode, entry.size = path.stat().st_mode & 0o777, path.stat().st_size
                with open(path, "rb") as file:
                    archive.addfile(entry, file)
        for name, mode, user in own:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode, entry.mtime, entry.uid, entry.gid = tarfile.DIRTYPE, mode, epoch, user, user
            archive.addfile(entry)
    return buffer.getvalue()


def compressed(content):
    """Compresses without a name and a time."""
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0, compresslevel=6, filename="") as file:
        file.write(content)
    return buffer.getvalue()
