from dataclasses import dataclass

from airlock_guard import Call, Outcome, Verdict, allow, deny, guard, rewrite_text

# The address that results do not show.
SENDER = "robot@example.com"


@dataclass
class Settings:
    """The settings, in `guards[].settings` of the gateway's configuration."""

    domain: str = "example.com"
    """The domain that mail may go to."""


def before(call: Call[Settings]) -> Verdict:
    to, domain = call.arguments.get("to"), call.settings.domain
    # Of one address alone: a list has a second `@`.
    is_own = isinstance(to, str) and to.count("@") == 1 and to.partition("@")[2] == domain
    return allow() if is_own else deny("foreign_domain", f"mail goes to {domain} alone")


def after(call: Call[Settings], outcome: Outcome) -> Verdict:
    # The address has no character that JSON escapes.
    return rewrite_text(outcome.text.replace(SENDER, "[sender]")) if SENDER in outcome.text else allow()


Hooks = guard(before=before, after=after, settings=Settings)
