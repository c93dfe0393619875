"""A static program: its packages have no libraries and need none. BusyBox stands in for a gateway that is built for musl."""

import json
import shutil
import tarfile

from packaging import elf
from support import expect, run

LOADERS = ("lib/", "lib64/", "usr/lib/x86_64-linux-gnu/")


def static(release):
    program = shutil.which("busybox")
    expect(program and elf.is_static(program), "there is no static busybox: install busybox-static")
    expect(elf.libraries(program) == [] and elf.glibc(program) is None, "a static program has libraries")
    loaded = elf.libraries(shutil.which("env"))
    expect(any("ld-linux" in path for path in loaded), f"a dynamic program without its loader: {loaded}")
    if not elf.copyright_of(elf.MUSL):
        return f"SKIPPED: {elf.MUSL} is not installed, whose licence is in the packages of a static program"
    packages = release.scratch / "static"
    run([release.root / "deploy/dist", "--program", program, "--plugins", release.plugins, "--output", packages])
    archives = [path.name for path in packages.glob("*.tar.gz")]
    expect(archives == [f"airlock-{release.version}-x86_64-linux-musl.tar.gz"], archives)
    depends = run(["dpkg-deb", "--field", next(packages.glob("*.deb")), "Depends"]).strip()
    expect(depends == "base-files", depends)
    expect("\nmusl-dev\n" in (packages / "NOTICE").read_text(), "NOTICE has no licence of musl")
    files = in_image(next(packages.glob("*-image.tar")))
    expect("usr/bin/airlock" in files and "etc/ssl/certs/ca-certificates.crt" in files, sorted(files))
    expect(not [name for name in files if name.startswith(LOADERS)], "the image of a static program has libraries")
    dynamic = in_image(release.package("*-image.tar"))
    if not elf.is_static(release.program):
        expect([name for name in dynamic if name.startswith(LOADERS)], "the image of a dynamic program has no libraries")


def in_image(path):
    """Returns the names of the files in the layer of an image."""
    with tarfile.open(path) as image:
        manifest = json.load(image.extractfile("manifest.json"))
        with tarfile.open(fileobj=image.extractfile(manifest[0]["Layers"][0])) as layer:
            return {member.name for member in layer if member.isfile()}
