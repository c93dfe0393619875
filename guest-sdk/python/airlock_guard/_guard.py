"""The export of a guard: a class whose methods are the hooks of the contract."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, overload

from ._host import error_type, hooks, silence
from ._settings import BadSetting, NoSettings, check_type, convert
from ._types import Call, Effects, ListedTool, ModelExchange, ModelText, Outcome, Verdict

S = TypeVar("S")
_host = hooks()
_Err = error_type()


class Hooks(Protocol):
    """The interface `airlock:guard/hooks`, which a guard exports."""

    def check_settings(self, settings: str) -> list[Any]:
        """Checks the settings, and returns the hooks of the guard."""

    def before_call(self, call: Any) -> Any:
        """Decides about a call before it is made."""

    def after_call(self, call: Any, outcome: Any) -> Any:
        """Decides about the outcome of a call."""

    def on_definition(self, listed: Any) -> Any:
        """Decides about a definition."""

    def before_model(self, exchange: Any) -> Any:
        """Decides about a request to a model."""

    def after_model(self, exchange: Any) -> Any:
        """Decides about the response of a model."""


@overload
def guard(*, settings: type[S], before: Callable[[Call[S]], Verdict] | None = ...,
          after: Callable[[Call[S], Outcome], Verdict] | None = ..., definition: Callable[[ListedTool[S]], Verdict] | None = ...,
          before_model: Callable[[ModelExchange[S]], Verdict] | None = ...,
          after_model: Callable[[ModelExchange[S]], Verdict] | None = ...) -> type[Hooks]: ...


@overload
def guard(*, before: Callable[[Call[Any]], Verdict] | None = ..., after: Callable[[Call[Any], Outcome], Verdict] | None = ...,
          definition: Callable[[ListedTool[Any]], Verdict] | None = ..., before_model: Callable[[ModelExchange[Any]], Verdict] | None = ...,
          after_model: Callable[[ModelExchange[Any]], Verdict] | None = ...) -> type[Hooks]: ...


def guard(*, settings: Any = NoSettings, before: Any = None, after: Any = None, definition: Any = None, before_model: Any = None,
          after_model: Any = None) -> type[Hooks]:
    """Returns the class that `guard.py` must call `Hooks`: `Hooks = guard(before=before)`. A hook that is left out is never run.

    Fails with `TypeError` if it is no guard.

    Args:
        settings: The dataclass of the settings. Without one, any setting is an error.
        before: Decides about a call before it is made.
        after: Decides about the outcome of a call that was made.
        definition: Decides about a definition before the tool is offered. A rewrite changes descriptions and titles alone.
        before_model: Decides about a request before it is sent to the model. A rewrite has the same roles in the same order.
        after_model: Decides about the response of a model. A rewrite has the same roles in the same order.
    """
    given = {"BEFORE": before, "AFTER": after, "DEFINITION": definition, "BEFORE_MODEL": before_model, "AFTER_MODEL": after_model}
    functions = {name: function for name, function in given.items() if function is not None}
    if not functions:
        raise TypeError("a guard has one or more of the hooks before, after, definition, before_model and after_model")
    for name, function in functions.items():
        if not callable(function):
            raise TypeError(f"the hook {name.lower()} is no function")
    if not (isinstance(settings, type) and hasattr(settings, "__dataclass_fields__")):
        raise TypeError("settings is no dataclass")
    check_type(settings)
    silence()

    def decide(name: str, *about: Any) -> Any:
        function = functions.get(name)
        return _host.Verdict_Allow() if function is None else _to_host(function(*about))

    class Exported:
        def check_settings(self, text: str) -> list[Any]:
            try:
                convert(settings, json.loads(text))
            except BadSetting as bad:
                problem = str(bad)
            except Exception as error:
                # By the dataclass itself, such as a `__post_init__` that checks a value.
                problem = str(error) or type(error).__name__
            else:
                return [_host.Hook[name] for name in functions]
            raise _Err(problem)

        def before_call(self, call: Any) -> Any:
            return decide("BEFORE", _call(call, settings))

        def after_call(self, call: Any, outcome: Any) -> Any:
            is_failure = isinstance(outcome, _host.Outcome_Failure)
            return decide("AFTER", _call(call, settings), Outcome(is_failure, outcome.value))

        def on_definition(self, listed: Any) -> Any:
            own = convert(settings, json.loads(listed.settings))
            return decide("DEFINITION", ListedTool(listed.tool, listed.client, listed.trusted, listed.definition, own, _extra(listed)))

        def before_model(self, exchange: Any) -> Any:
            return decide("BEFORE_MODEL", _exchange(exchange, settings))

        def after_model(self, exchange: Any) -> Any:
            return decide("AFTER_MODEL", _exchange(exchange, settings))

    return Exported


def _call(call: Any, settings: type[S]) -> Call[S]:
    effects = call.effects
    own = Effects(effects.read_only, effects.destructive, effects.idempotent, effects.open_world, effects.trusted)
    given = convert(settings, json.loads(call.settings))
    return Call(call.tool, call.client, call.arguments, own, call.origin, call.key, call.tenant, given, _extra(call))


def _exchange(exchange: Any, settings: type[S]) -> ModelExchange[S]:
    texts = [ModelText(text["role"], text["text"]) for text in json.loads(exchange.texts)]
    given = convert(settings, json.loads(exchange.settings))
    return ModelExchange(exchange.model, exchange.key, exchange.tenant, texts, given, _extra(exchange))


def _extra(given: Any) -> Any:
    return None if given.extra is None else json.loads(given.extra)


def _to_host(verdict: Any) -> Any:
    """Converts a decision to that of the contract. Whatever is none is an error."""
    if not isinstance(verdict, Verdict):
        raise TypeError(f"a hook returns allow(), rewrite(…), deny(…) or ask(…), not {type(verdict).__name__}")
    if verdict.type == "rewrite":
        return _host.Verdict_Rewrite(verdict.json)
    if verdict.type == "deny":
        return _host.Verdict_Deny(_host.Denial(verdict.code, verdict.reason))
    return _host.Verdict_Ask(verdict.reason) if verdict.type == "ask" else _host.Verdict_Allow()
