"""Runs unreviewed scripts, such as those of language models, in a sandbox within this process.

    import airlock

    def price(item: str) -> float:
        return {"tea": 3.5, "cake": 4.0}[item]

    airlock.run_script("price('tea') * 2 + price('cake')", tools=[price])  # 11.0

A script has no files, no network, no clock and no modules of this process: it has the functions and the inputs that it is given.

`Gateway` is the whole gateway within this process: MCP servers, models, policies and approvals.
"""

from __future__ import annotations

import atexit as _atexit
import os as _os

from . import _airlock, _loop, _tools
from ._airlock import __version__
from ._errors import (
    AirlockError,
    ApprovalNeeded,
    ApprovalPending,
    BadConversation,
    BadDump,
    BadName,
    BadTool,
    CallFailed,
    ChatFailed,
    ConfigurationError,
    GatewayError,
    GatewayNotReady,
    GatewayOverloaded,
    GatewayStopped,
    KeyRequired,
    LimitExceeded,
    ModelError,
    NotWaiting,
    OperatorRequired,
    RunCancelled,
    RunChanged,
    ScriptError,
    ScriptSyntaxError,
    StartFailed,
    StoreUnavailable,
    ToolFailed,
    UnknownKey,
)
from ._gateway import CallResult, ChatReply, ChatStream, Gateway, RequestOptions, ToolInfo
from ._limits import Limits
from ._pending import CallToApprove, GuardQuestion, PendingApproval
from ._run import (
    PendingCall,
    Run,
    Usage,
    load_run,
    replay,
    run_script,
    run_script_async,
    start_script,
    start_script_async,
)
from ._tools import Tool, tool

__all__ = [
    "AirlockError",
    "ApprovalNeeded",
    "ApprovalPending",
    "BadConversation",
    "BadDump",
    "BadName",
    "BadTool",
    "CallFailed",
    "CallResult",
    "CallToApprove",
    "ChatFailed",
    "ChatReply",
    "ChatStream",
    "ConfigurationError",
    "Gateway",
    "GatewayError",
    "GatewayNotReady",
    "GatewayOverloaded",
    "GatewayStopped",
    "GuardQuestion",
    "KeyRequired",
    "LimitExceeded",
    "Limits",
    "ModelError",
    "NotWaiting",
    "OperatorRequired",
    "PendingApproval",
    "PendingCall",
    "RequestOptions",
    "Run",
    "RunCancelled",
    "RunChanged",
    "ScriptError",
    "ScriptSyntaxError",
    "StartFailed",
    "StoreUnavailable",
    "Tool",
    "ToolFailed",
    "ToolInfo",
    "UnknownKey",
    "Usage",
    "__version__",
    "load_run",
    "replay",
    "run_script",
    "run_script_async",
    "start_script",
    "start_script_async",
    "tool",
]

# A thread that enters the interpreter after its end would crash the process.
_atexit.register(_airlock.close)

if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(after_in_child=_airlock.forked)
    _os.register_at_fork(after_in_child=_tools.forget)
    _os.register_at_fork(after_in_child=_loop.forget)
