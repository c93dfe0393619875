"""SDK for Airlock guards in Python. A guard is one or more functions: `before` and `after` a call, `definition`, `before_model` and
`after_model`.

    from dataclasses import dataclass

    from airlock_guard import Call, Verdict, allow, deny, guard

    @dataclass
    class Settings:
        domain: str = "example.com"

    def before(call: Call[Settings]) -> Verdict:
        name, at, domain = str(call.arguments.get("to")).partition("@")
        return allow() if domain == call.settings.domain else deny("foreign_domain", "mail goes to our domain alone")

    Hooks = guard(before=before, settings=Settings)

- A guard imports nothing: there is no host, no clock, no file and no log. `airlock_plugin` cannot be used in one.
- Each hook runs in an instance of its own, so nothing is kept between two.
- An exception refuses the call, or withholds its outcome or the tool, with `guard_failed`; its text is lost. Return `deny` for a
  reason that the caller is to read.
- `airlock_guard.testing.Gateway` asks a guard without a gateway.
"""

from ._guard import guard
from ._types import Call, Effects, ListedTool, ModelExchange, ModelText, Outcome, Verdict, allow, ask, deny, rewrite, rewrite_text

__all__ = [
    "Call", "Effects", "ListedTool", "ModelExchange", "ModelText", "Outcome", "Verdict", "allow", "ask", "deny", "guard", "rewrite",
    "rewrite_text",
]
