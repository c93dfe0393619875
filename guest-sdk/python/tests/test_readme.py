"""The sample of the README."""

import json
import re
import unittest
from pathlib import Path
from typing import Any

from airlock_plugin.testing import Host

PAGE = (Path(__file__).resolve().parents[1] / "README.md").read_text()


def block(language: str) -> str:
    """Returns the first fenced block in a language."""
    [first, *_] = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    return str(first)


class Readme(unittest.TestCase):
    def test_the_sample_runs_its_arguments_are_described_and_its_entries_of_plugin_toml_are_those_that_it_needs(self) -> None:
        module: dict[str, Any] = {"__name__": __name__}
        exec(block("python"), module)
        host, tools = Host(stores=["visits"]), module["Tools"]
        host.call(tools, "count_visit", {"page": "/"})
        self.assertEqual(host.call(tools, "count_visit", {"page": "/", "by": 2}).structured_content, {"visits": 3})
        [descriptor] = tools().describe()
        properties = json.loads(descriptor.input_schema)["properties"]
        self.assertEqual([name for name, schema in properties.items() if not schema.get("description")], [])
        for line in (f'name = "{descriptor.name}"', "[request.kv.visits]"):
            self.assertIn(line, block("toml"))
