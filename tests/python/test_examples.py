"""The examples print what the comments at their end say."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

from support import WAIT_SECONDS

import airlock

EXAMPLES = Path(os.environ["AIRLOCK_PYTHON_EXAMPLES"])
PAGE = Path(os.environ["AIRLOCK_PYTHON_PAGE"])


class Examples(unittest.TestCase):
    def test_each_example_prints_the_lines_at_its_end(self) -> None:
        examples = sorted(EXAMPLES.glob("*.py"))
        self.assertEqual([example.stem for example in examples], ["adapter", "approvals", "async_tools", "gateway", "plain"])
        for example in examples:
            with self.subTest(example=example.name):
                lines = example.read_text().splitlines()
                first = next(number for number in range(len(lines), 0, -1) if not lines[number - 1].startswith("# "))
                done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertEqual(done.stdout.splitlines(), [line[2:] for line in lines[first:]])

    def test_the_page_shows_the_examples(self) -> None:
        blocks = [block for block in PAGE.read_text().split("```python\n")[1:] if block.startswith("import ")]
        programs = [block.partition("```")[0] for block in blocks]
        for program, name in zip(programs, ["plain", "async_tools", "approvals", "gateway"], strict=True):
            with self.subTest(name=name):
                docstring, _, body = (EXAMPLES / f"{name}.py").read_text().partition("\n\n")
                self.assertTrue(docstring.startswith('"""'))
                self.assertEqual(program, body)

    def test_the_parts_of_programs_on_the_page_run(self) -> None:
        blocks = [block.partition("```")[0] for block in PAGE.read_text().split("```python\n")[1:]]
        program, *others = blocks
        names: dict[str, Any] = {}
        parts = [block for block in others if not block.startswith("import ")]
        with contextlib.redirect_stdout(io.StringIO()):
            for part in [program, *parts]:
                exec(part, names)
        self.assertEqual([tool.name for tool in names["tools"]], ["pay", "search"])
        self.assertIsInstance(names["limits"], airlock.Limits)
        with tempfile.TemporaryDirectory() as directory:
            # Neither the server nor the plugin is there, which is no mistake of the configuration.
            with airlock.Gateway({**names["config"], "store": str(Path(directory, "airlock.db"))}) as gateway:
                self.assertEqual(gateway.tools(), [])


if __name__ == "__main__":
    unittest.main()
