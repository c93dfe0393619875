"""NOTICE: the licences of all that is shipped, with the text of each once."""

import re

from . import crates, elf

NAMES = re.compile(r"^(licen[cs]e|copying|copyright|notice|unlicense)", re.IGNORECASE)
# Texts in directories of their own, as with the REUSE convention.
DIRECTORIES = ["LICENSES", "license", "licenses"]


def write(root, target, libraries, path):
    """Writes the notices of all foreign crates, and of the libraries that are shipped."""
    found = crates.shipped(root, target)[0].values()
    foreign = sorted((crate for crate in found if crate.is_foreign), key=lambda crate: (crate.name, crate.version))
    texts, without = {}, []
    for crate in foreign:
        own = [text for text in map(read, files(crate.directory)) if text]
        for text in own:
            texts.setdefault(text, []).append(f"{crate.name} {crate.version}")
        if not own:
            without.append(crate)
    for name, text in elf.copyrights(libraries):
        texts.setdefault(text, []).append(name)
    lines = ["Airlock contains the software below. Airlock itself is under the licence in the file LICENSE.", ""]
    lines += [f"{crate.name} {crate.version}: {crate.licence or 'see its text'}  {crate.repository}".rstrip() for crate in foreign]
    lines += ["The standard library of Rust: MIT OR Apache-2.0  https://github.com/rust-lang/rust"]
    if without:
        lines += ["", "These come without the text of their licence, which is among those below:", ""]
        lines += [f"{crate.name} {crate.version}: {crate.licence}, by {', '.join(crate.authors) or 'its authors'}" for crate in without]
    for text, users in sorted(texts.items(), key=lambda entry: entry[1]):
        lines += ["", "=" * 80, ", ".join(users), "=" * 80, "", text]
    path.write_text("\n".join(lines) + "\n")


def files(directory):
    names = sorted(path for path in directory.iterdir() if NAMES.match(path.name) and path.is_file())
    for name in DIRECTORIES:
        if (directory / name).is_dir():
            names += sorted(path for path in (directory / name).iterdir() if path.is_file())
    return names


def read(path):
    text = path.read_text(errors="replace").replace("\r\n", "\n").expandtabs()
    return "\n".join(line.rstrip() for line in text.strip("\n").split("\n"))
