"""Substitutes for the generated bindings outside a component. Names and fields are those of `componentize-py`."""

from __future__ import annotations

import enum
from dataclasses import dataclass, make_dataclass
from typing import Any


@dataclass
class Err(Exception):
    value: Any


def _record(name: str, *fields: str) -> Any:
    return make_dataclass(name, [(field, Any) for field in fields])


class Hook(enum.Enum):
    BEFORE = 0
    AFTER = 1
    DEFINITION = 2
    BEFORE_MODEL = 3
    AFTER_MODEL = 4


Effects = _record("Effects", "read_only", "destructive", "idempotent", "open_world", "trusted")
Call = _record("Call", "tool", "client", "arguments", "effects", "origin", "key", "tenant", "settings", "extra")
Outcome_Success = _record("Outcome_Success", "value")
Outcome_Failure = _record("Outcome_Failure", "value")
ListedTool = _record("ListedTool", "tool", "client", "trusted", "definition", "settings", "extra")
ModelExchange = _record("ModelExchange", "model", "key", "tenant", "texts", "settings", "extra")
Denial = _record("Denial", "code", "reason")
Verdict_Allow = _record("Verdict_Allow")
Verdict_Rewrite = _record("Verdict_Rewrite", "value")
Verdict_Deny = _record("Verdict_Deny", "value")
Verdict_Ask = _record("Verdict_Ask", "value")
