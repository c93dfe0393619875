"""The command that has the name of the package."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from support import WAIT_SECONDS

# Prints its arguments, one a line, and ends with a code of its own.
PROGRAM = '#!/bin/sh\nprintf "%s\\n" "$@"\nexit 7\n'


class Command(unittest.TestCase):
    def test_it_runs_the_program_beside_it_through_any_link_with_its_arguments(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            installed = Path(directory) / "a b" / "bin"
            installed.mkdir(parents=True)
            command = installed / "airlock-gateway"
            shutil.copy(os.environ["AIRLOCK_PYTHON_COMMAND"], command)
            program = installed / "airlock"
            program.write_text(PROGRAM)
            program.chmod(0o755)
            link = Path(directory) / "linked"
            link.symlink_to(command)
            for called in [command, link]:
                command_line = [str(called), "mcp", "--config", "a b.json", ""]
                done = subprocess.run(command_line, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
                self.assertEqual((done.returncode, done.stdout, done.stderr), (7, "mcp\n--config\na b.json\n\n", ""))
