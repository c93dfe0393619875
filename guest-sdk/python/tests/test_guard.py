"""Guards: their decisions, their settings, and the gateway of their tests."""

import unittest
from dataclasses import dataclass, field
from typing import Any, Literal

from airlock_guard import Call, Effects, ListedTool, ModelExchange, ModelText, Verdict, _native, allow, ask, deny, guard, rewrite, rewrite_text
from airlock_guard.testing import BadSettings, Gateway, GuardFailed


def contract_call(settings: str = "{}") -> Any:
    effects = _native.Effects(True, None, None, False, True)
    return _native.Call("mail-send", "mail", '{"n":1}', effects, "model", "ann", 'key "ann"', settings, '{"a":1}')


def returning(hook: str, value: Any) -> Gateway:
    """Returns a gateway whose guard returns this for a hook."""
    functions: dict[str, Any] = {hook: lambda *_: value}
    return Gateway(guard(**functions))


class Decisions(unittest.TestCase):
    def test_a_decision_is_that_of_the_contract(self) -> None:
        for verdict, expected in [
            (allow(), _native.Verdict_Allow()),
            (rewrite({"n": 2**70}), _native.Verdict_Rewrite('{"n": 1180591620717411303424}')),
            (rewrite_text("{}"), _native.Verdict_Rewrite("{}")),
            (deny("no", "not this one"), _native.Verdict_Deny(_native.Denial("no", "not this one"))),
            (ask("sure?"), _native.Verdict_Ask("sure?")),
        ]:
            functions: dict[str, Any] = {"before": lambda _, verdict=verdict: verdict}
            self.assertEqual(guard(**functions)().before_call(contract_call()), expected)

    def test_what_is_no_decision_is_an_error_and_so_is_a_text_that_is_none(self) -> None:
        for value in (None, True, "allow"):
            functions: dict[str, Any] = {"before": lambda _, value=value: value}
            with self.assertRaisesRegex(TypeError, "a hook returns allow"):
                guard(**functions)().before_call(contract_call())
        no_text: Any = 1
        for make in (lambda: deny(no_text, "r"), lambda: deny("c", no_text), lambda: ask(no_text), lambda: rewrite({1}),
                     lambda: rewrite_text(no_text)):
            self.assertRaises(TypeError, make)
        self.assertRaises(ValueError, lambda: rewrite(float("nan")))

    def test_a_guard_is_checked_where_it_is_defined(self) -> None:
        @dataclass
        class Sets:
            words: set[str]

        no_function: Any = True
        for make, problem in [
            (lambda: guard(), "one or more of the hooks"),
            (lambda: guard(before=no_function), "the hook before is no function"),
            (lambda: guard(before=lambda _: allow(), settings=str), "settings is no dataclass"),
            (lambda: guard(before=lambda _: allow(), settings=Sets), r"settings.words: the type set\[str\] is none of a setting"),
        ]:
            self.assertRaisesRegex(TypeError, problem, make)

    def test_a_call_has_every_member_of_the_contract(self) -> None:
        seen: list[Call[Any]] = []

        def before(call: Call[Any]) -> Verdict:
            seen.append(call)
            return allow()

        guard(before=before)().before_call(contract_call())
        call = seen[0]
        self.assertEqual((call.tool, call.client, call.arguments_text, call.arguments), ("mail-send", "mail", '{"n":1}', {"n": 1}))
        self.assertEqual(call.effects, Effects(read_only=True, open_world=False, trusted=True))
        self.assertEqual((call.origin, call.key, call.tenant, call.extra), ("model", "ann", 'key "ann"', {"a": 1}))

    def test_a_hook_that_the_guard_does_not_have_allows_everything(self) -> None:
        hooks = guard(before=lambda _: deny("no", "no"))()
        self.assertEqual(hooks.after_call(contract_call(), _native.Outcome_Success("{}")), _native.Verdict_Allow())
        exchange = _native.ModelExchange("m", None, "t", "[]", "{}", None)
        self.assertEqual(hooks.before_model(exchange), _native.Verdict_Allow())
        self.assertEqual(hooks.after_model(exchange), _native.Verdict_Allow())
        self.assertEqual(hooks.on_definition(_native.ListedTool("a-b", "a", False, "{}", "{}", None)), _native.Verdict_Allow())


@dataclass
class Rule:
    name: str
    most: int | None = None


@dataclass
class Settings:
    mode: Literal["deny", "ask"]
    rules: list[Rule] = field(default_factory=list)
    weights: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.rules) > 2:
            raise ValueError("at most 2 rules")


class TheSettings(unittest.TestCase):
    def test_the_settings_are_those_of_the_dataclass(self) -> None:
        seen: list[Settings] = []

        def definition(listed: ListedTool[Settings]) -> Verdict:
            seen.append(listed.settings)
            return allow()

        settings = {"mode": "ask", "rules": [{"name": "a"}, {"name": "b", "most": 3}], "weights": {"w": 1}}
        Gateway(guard(definition=definition, settings=Settings), settings=settings).definition("a", {"name": "b"})
        self.assertEqual(seen, [Settings("ask", [Rule("a"), Rule("b", 3)], {"w": 1.0})])

    def test_settings_that_do_not_fit_are_named_with_what_would_fit(self) -> None:
        hooks = guard(before=lambda _: allow(), settings=Settings)
        cases: list[tuple[dict[str, Any], str]] = [
            ({}, "setting `mode` is missing"),
            ({"mode": "allow"}, "setting `mode` must be one of 'deny', 'ask', not a string"),
            ({"mode": "ask", "modes": 1}, "unknown setting `modes`; known are `mode`, `rules`, `weights`"),
            ({"mode": "ask", "rules": {}}, "setting `rules` must be an array, not an object"),
            ({"mode": "ask", "rules": [{"name": "a", "most": True}]}, "setting `rules[0].most` must be an integer, not true or false"),
            ({"mode": "ask", "rules": [{}]}, "setting `rules[0].name` is missing"),
            ({"mode": "ask", "weights": {"a": "1"}}, "setting `weights.a` must be a number, not a string"),
            ({"mode": "ask", "rules": [{"name": "a"}] * 3}, "at most 2 rules"),
        ]
        for settings, problem in cases:
            with self.assertRaises(BadSettings) as refused:
                Gateway(hooks, settings=settings)
            self.assertEqual(str(refused.exception), problem)
        with self.assertRaisesRegex(BadSettings, "unknown setting `a`; none is known"):
            Gateway(guard(before=lambda _: allow()), settings={"a": 1})

    def test_the_check_of_settings_returns_the_hooks(self) -> None:
        hooks = guard(after=lambda *_: allow(), before_model=lambda _: allow())
        self.assertEqual(hooks().check_settings("{}"), [_native.Hook.AFTER, _native.Hook.BEFORE_MODEL])


class TheGateway(unittest.TestCase):
    def test_an_exchange_is_rewritten_text_by_text(self) -> None:
        def before_model(exchange: ModelExchange[Any]) -> Verdict:
            return exchange.rewrite(lambda text: text.text.replace("Ann", "[name]") if "Ann" in text.text else None)

        gateway = Gateway(guard(before_model=before_model))
        texts = [ModelText("system", "Be brief."), ModelText("user", "I am Ann")]
        expected = [{"role": "system", "text": "Be brief."}, {"role": "user", "text": "I am [name]"}]
        self.assertEqual(gateway.before_model(texts).value, expected)
        self.assertEqual(gateway.before_model(texts[:1]), allow())
        self.assertEqual(gateway.after_model(texts), allow(), "it has no such hook")

    def test_it_refuses_what_a_gateway_refuses(self) -> None:
        texts = [ModelText("user", "a")]
        for decide, problem in [
            (lambda: returning("before", None).before("a-b"), "made no decision"),
            (lambda: returning("before", rewrite([])).before("a-b"), "it is not an object"),
            (lambda: returning("before", rewrite_text("{")).before("a-b"), "is not valid"),
            (lambda: returning("after", ask("sure?")).after("a-b", {}, {}), "only before a call"),
            (lambda: returning("after", rewrite({"content": "text"})).after("a-b", {}, {}), "`content` is not an array"),
            (lambda: returning("after", rewrite({})).after("a-b", {}, {"message": "m"}, is_failure=True), "`message` is not a text"),
            (lambda: returning("definition", rewrite({"name": "c"})).definition("a", {"name": "b"}), "more than descriptions and titles"),
            (lambda: returning("before_model", rewrite([])).before_model(texts), "the roles of its texts"),
            (lambda: returning("after_model", ask("sure?")).after_model(texts), "only before a call"),
        ]:
            self.assertRaisesRegex(GuardFailed, problem, decide)
        growing = Gateway(guard(before=lambda call: rewrite({"text": call.arguments["text"] + "!"})))
        self.assertRaisesRegex(GuardFailed, "not idempotent", lambda: growing.before("a-b", {"text": "a"}))

    def test_the_texts_of_a_definition_may_be_rewritten_at_any_depth(self) -> None:
        properties: dict[str, Any] = {"description": {"type": "string", "title": "T"}}
        definition = {"name": "b", "description": "Sends.", "inputSchema": {"type": "object", "properties": properties}}
        changed = {**definition, "description": "", "inputSchema": {"type": "object", "properties": {"description": {"type": "string"}}}}
        self.assertEqual(returning("definition", rewrite(changed)).definition("a", definition).value, changed)
        other = {**definition, "inputSchema": {"type": "object", "properties": {}}}
        self.assertRaises(GuardFailed, lambda: returning("definition", rewrite(other)).definition("a", definition))
