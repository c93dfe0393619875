"""Asks a guard without a gateway.

    gateway = Gateway(Hooks, settings={"domain": "example.org"})
    self.assertEqual(gateway.before("mail-send", {"to": "ann@example.org"}), allow())

Accepts what the gateway accepts: a verdict that it would refuse with `guard_failed` raises `GuardFailed`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from . import _native
from ._guard import Hooks
from ._types import Effects, ModelText, Verdict, allow, ask, deny, rewrite_text

_TEXTS = ("title", "description")
"""Members of a definition that a rewrite may change."""


class GuardFailed(Exception):
    """A hook that has made no valid decision. The gateway refuses with `guard_failed`."""


class BadSettings(Exception):
    """Settings that the guard refuses. The gateway does not load it."""


class Gateway:
    """A gateway in memory with one guard: what its `guard.py` calls `Hooks`. A hook that the guard does not have allows everything."""

    def __init__(self, guard: type[Hooks], *, settings: dict[str, Any] | None = None) -> None:
        """Raises `BadSettings` if the guard refuses the settings."""
        self._guard = guard()
        self._settings = json.dumps(settings or {})
        try:
            found = self._guard.check_settings(self._settings)
        except _native.Err as refused:
            raise BadSettings(refused.value) from None
        self.hooks: list[str] = [hook.name.lower() for hook in found]
        """Names of the hooks that the guard has."""

    def before(self, tool: str, arguments: dict[str, Any] | None = None, *, effects: Effects = Effects(), origin: str = "caller",
               key: str | None = None, tenant: str = "anonymous") -> Verdict:
        """Decides about a call of a tool, whose client is the part of the name before the first `-`. A rewrite must be idempotent."""
        def decide(text: str) -> Verdict:
            call = self._call(tool, text, effects, origin, key, tenant)
            return self._decide("before", lambda: self._guard.before_call(call), _object)

        verdict = decide(json.dumps(arguments or {}))
        if verdict.json is not None:
            again = decide(verdict.json)
            if again.json is not None and again.value != verdict.value:
                raise GuardFailed("before: the rewrite is not idempotent: applied to its own output, it changes it again")
        return verdict

    def after(self, tool: str, arguments: dict[str, Any], result: dict[str, Any], *, is_failure: bool = False,
              effects: Effects = Effects(), origin: str = "caller", key: str | None = None, tenant: str = "anonymous") -> Verdict:
        """Decides about the result of a call; with `is_failure`, about the tool's own error."""
        call = self._call(tool, json.dumps(arguments), effects, origin, key, tenant)
        outcome = (_native.Outcome_Failure if is_failure else _native.Outcome_Success)(json.dumps(result))

        def check(value: Any) -> None:
            _object(value)
            if not isinstance(value.get("content") or [], list):
                raise ValueError("`content` is not an array")
            if is_failure and not isinstance(value.get("message"), str):
                raise ValueError("`message` is not a text")

        return self._decide("after", lambda: self._guard.after_call(call, outcome), check)

    def definition(self, client: str, definition: dict[str, Any], *, trusted: bool = False) -> Verdict:
        """Decides about a definition of a client."""
        listed = _native.ListedTool(f"{client}-{definition['name']}", client, trusted, json.dumps(definition), self._settings, None)

        def check(value: Any) -> None:
            if _without_texts(value) != _without_texts(definition):
                raise ValueError("it differs in more than descriptions and titles")

        return self._decide("definition", lambda: self._guard.on_definition(listed), check)

    def before_model(self, texts: Sequence[ModelText], *, model: str = "provider/model", key: str | None = None,
                     tenant: str = "anonymous") -> Verdict:
        """Decides about a request to a model."""
        exchange, check = self._exchange(texts, model, key, tenant)
        return self._decide("before_model", lambda: self._guard.before_model(exchange), check)

    def after_model(self, texts: Sequence[ModelText], *, model: str = "provider/model", key: str | None = None,
                    tenant: str = "anonymous") -> Verdict:
        """Decides about the response of a model."""
        exchange, check = self._exchange(texts, model, key, tenant)
        return self._decide("after_model", lambda: self._guard.after_model(exchange), check)

    def _call(self, tool: str, text: str, effects: Effects, origin: str, key: str | None, tenant: str) -> Any:
        given = _native.Effects(effects.read_only, effects.destructive, effects.idempotent, effects.open_world, effects.trusted)
        return _native.Call(tool, tool.partition("-")[0], text, given, origin, key, tenant, self._settings, None)

    def _exchange(self, texts: Sequence[ModelText], model: str, key: str | None, tenant: str) -> tuple[Any, Callable[[Any], None]]:
        given = json.dumps([{"role": text.role, "text": text.text} for text in texts])
        roles = [text.role for text in texts]

        def check(value: Any) -> None:
            if not isinstance(value, list) or [text["role"] for text in value] != roles:
                raise ValueError("the roles of its texts are not those that it was given")

        return _native.ModelExchange(model, key, tenant, given, self._settings, None), check

    def _decide(self, hook: str, run: Callable[[], Any], check: Callable[[Any], None]) -> Verdict:
        if hook not in self.hooks:
            return allow()
        try:
            decided = run()
        except Exception as error:
            raise GuardFailed(f"{hook}: the guard made no decision: {error}") from error
        if isinstance(decided, _native.Verdict_Allow):
            return allow()
        if isinstance(decided, _native.Verdict_Deny):
            return deny(decided.value.code, decided.value.reason)
        if isinstance(decided, _native.Verdict_Ask):
            if hook != "before":
                raise GuardFailed(f"{hook}: a guard asks only before a call")
            return ask(decided.value)
        try:
            check(json.loads(decided.value))
        except Exception as error:
            raise GuardFailed(f"{hook}: its rewrite is not valid: {error}") from error
        return rewrite_text(decided.value)


def _object(value: Any) -> None:
    if not isinstance(value, dict):
        raise ValueError("it is not an object")


def _without_texts(value: Any) -> Any:
    """Returns a JSON value without the texts of the members that a rewrite may change."""
    if isinstance(value, list):
        return [_without_texts(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {name: _without_texts(item) for name, item in value.items() if not (name in _TEXTS and isinstance(item, str))}
