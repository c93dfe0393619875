import unittest

from airlock_plugin import ToolError
from airlock_plugin.testing import Host
from app import Tools


class GetWeather(unittest.TestCase):
    def test_a_known_city_has_weather(self):
        host = Host()
        output = host.call(Tools, "get_weather", {"city": "Oslo"})
        self.assertEqual(output.structured_content, {"city": "oslo", "celsius": 4.0, "sky": "snow"})
        self.assertEqual(host.progress[-1], (1, 1, "found"))

    def test_an_unknown_city_is_not_found(self):
        with self.assertRaises(ToolError) as failed:
            Host().call(Tools, "get_weather", {"city": "Olso"})
        self.assertEqual((failed.exception.kind, failed.exception.code), ("not-found", "unknown_city"))
