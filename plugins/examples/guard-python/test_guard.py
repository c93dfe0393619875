import unittest

from airlock_guard import allow
from airlock_guard.testing import BadSettings, Gateway
from guard import Hooks


class OwnDomain(unittest.TestCase):
    def test_mail_goes_to_the_own_domain_alone(self):
        gateway = Gateway(Hooks)
        self.assertEqual(gateway.before("mail-send", {"to": "ann@example.com"}), allow())
        for to in ("ann@example.org", "eve@example.org, ann@example.com", ["ann@example.com"], None):
            self.assertEqual(gateway.before("mail-send", {"to": to}).code, "foreign_domain", to)

    def test_the_settings_name_the_domain(self):
        gateway = Gateway(Hooks, settings={"domain": "example.org"})
        self.assertEqual(gateway.before("mail-send", {"to": "ann@example.org"}), allow())
        with self.assertRaisesRegex(BadSettings, "unknown setting `domains`; known are `domain`"):
            Gateway(Hooks, settings={"domains": []})

    def test_results_do_not_show_the_sender(self):
        result = {"content": [{"type": "text", "text": "by robot@example.com"}]}
        verdict = Gateway(Hooks).after("mail-send", {"to": "ann@example.com"}, result)
        self.assertEqual(verdict.value, {"content": [{"type": "text", "text": "by [sender]"}]})
