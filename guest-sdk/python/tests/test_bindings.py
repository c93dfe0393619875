"""The substitutes of `_native` have the names and fields of the bindings that componentize-py generates.

Skipped if componentize-py is not installed. `WIT` is the directory of the contract.
"""

import dataclasses
import importlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import airlock_guard._native
from airlock_plugin import _native

ROOT = Path(__file__).resolve().parents[3]
INTERFACES = ["log", "context", "config", "secrets", "secrets_reveal", "kv", "tools", "http"]


def compiler() -> str | None:
    installed = ROOT / ".cache/peers/componentize/bin/componentize-py"
    return os.environ.get("COMPONENTIZE_PY") or (str(installed) if installed.exists() else shutil.which("componentize-py"))


def world(directory: Path) -> None:
    """Writes a world that imports every interface."""
    for package in ("types", "host", "plugin"):
        (directory / "deps" / package).mkdir(parents=True)
        shutil.copy(ROOT / f"wit/{package}/0.1.0/{package}.wit", directory / "deps" / package)
    imports = "".join(f"import airlock:host/{name.replace('_', '-')}@0.1.0;" for name in INTERFACES)
    (directory / "world.wit").write_text(f"package a:a; world plugin {{ {imports} export airlock:plugin/tools@0.1.0; }}")


def names(module: Any) -> dict[str, list[str]]:
    """Returns the classes of a module with their fields or cases, and its functions without any."""
    found = {}
    for name, value in vars(module).items():
        if dataclasses.is_dataclass(value) and isinstance(value, type):
            found[name] = [field.name for field in dataclasses.fields(value)]
        elif hasattr(value, "__members__") and name != "Enum":
            found[name] = list(value.__members__)
    return found


class Imports(unittest.TestCase):
    def test_one_module_imports_the_bindings(self) -> None:
        for name in ("airlock_plugin", "airlock_guard"):
            package = ROOT / "guest-sdk/python" / name
            importing = [file.name for file in sorted(package.glob("*.py")) if re.search(r"import.*(wit_world|componentize_py)", file.read_text())]
            self.assertEqual(importing, ["_host.py"], name)


@unittest.skipUnless(compiler(), "componentize-py is not installed")
class Bindings(unittest.TestCase):
    maxDiff = None

    def test_the_substitutes_of_guards_have_the_names_of_the_generated_bindings(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            wit = Path(directory) / "wit"
            shutil.copytree(ROOT / "wit/guard/0.1.0", wit / "deps/guard")
            (wit / "world.wit").write_text("package a:a; world plugin { export airlock:guard/hooks@0.1.0; }")
            out = Path(directory) / "out"
            # A module of its own, because that of the other test has the same name.
            subprocess.run([str(compiler()), "--quiet", "-d", str(wit), "-w", "plugin", "--world-module", "guard_world", "bindings", str(out)],
                           check=True)
            sys.path.insert(0, str(out))
            self.addCleanup(sys.path.remove, str(out))
            generated = importlib.import_module("guard_world.exports.hooks")
            expected = {name: fields for name, fields in names(generated).items() if name not in ("Ok", "Err", "Some", "Flag")}
            ours = {name: fields for name, fields in names(airlock_guard._native).items() if name != "Err"}
            self.assertEqual(ours, expected)

    def test_the_substitutes_have_the_names_of_the_generated_bindings(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            world(Path(directory) / "wit")
            out = Path(directory) / "out"
            subprocess.run([str(compiler()), "--quiet", "-d", f"{directory}/wit", "-w", "plugin", "bindings", str(out)], check=True)
            sys.path.insert(0, str(out))
            self.addCleanup(sys.path.remove, str(out))
            for interface in ["types", *(name for name in INTERFACES if name != "context")]:
                generated = importlib.import_module(f"wit_world.imports.{interface}")
                ours: SimpleNamespace = getattr(_native, interface)
                expected = {name: fields for name, fields in names(generated).items() if name not in ("Ok", "Err", "Some", "Flag")}
                self.assertEqual(names(ours), expected, interface)
                functions = {name for name, value in vars(generated).items()
                             if callable(value) and getattr(value, "__module__", "") == generated.__name__ and not isinstance(value, type)}
                self.assertLessEqual(functions, set(vars(ours)), interface)
