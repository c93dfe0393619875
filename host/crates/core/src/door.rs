//! Authorization of tool calls. A tool runs only as an [`Admitted`] call, and only this module can
//! make one.
//!
//! A [`View`] holds the tools that a request may see. A [`Caller`] is a view with the origin of a
//! request. [`Caller::admit`] decides the calls of the request. [`Chain::admit`] decides the nested
//! calls that a running call makes; they use what is left of the first call's budget. Each decision
//! uses the real name and arguments, at the moment of the call. [Guards](CallGuards) of the operator see both
//! first, and the outcome. [Sinks](SinkRules) are refused, or need an approval, once their author has read results of
//! sources that are not trusted. Resources and prompts are used in the
//! same way: a [`RelayView`] decides, and a [`Relay`] is the permission. A source may ask its caller
//! a [`Question`](crate::tool::Question), with whose [`Answers`](crate::tool::Answers) the request is
//! resumed. A [`Provider`] runs admitted calls, and may be an [`McpServer`]; this module defines the
//! traits and does not depend on their implementations. It does no I/O.

mod admitted;
mod approval_choice;
mod approved;
mod arguments;
mod author;
mod budget;
mod call_id;
mod call_log;
mod caller;
mod caller_capabilities;
mod caller_token;
mod chain;
mod definition;
mod event;
mod filter;
mod group;
mod guard;
mod headers;
mod key;
mod language;
mod ledger;
mod meter;
mod model_guard;
mod origin;
mod policy;
mod program;
mod relay;
mod report;
mod rules;
mod sinks;
mod switch;
mod tool_mode;
mod trace;
mod view;

pub use airlock_strings::{PlaceholderError, PlaceholderSpan, Placeholders};

pub use self::{
    admitted::{Admitted, CallControl, ControlledCall, Permission, Provider, Refusal, Resumed},
    approval_choice::ApprovalChoice,
    approved::Approved,
    arguments::{Arguments, MAX_ARGUMENT_BYTES, ToArguments},
    author::SessionSources,
    budget::{Budget, CALL_LEVELS, NESTED_CALLS},
    call_id::CallId,
    call_log::{log_call, log_failure},
    caller::Caller,
    caller_capabilities::{CallerCapabilities, SessionId},
    caller_token::{CallerToken, HeldToken},
    chain::Chain,
    definition::{DefinitionGuards, GuardedList, WithheldTool},
    event::{Event, Events, Log, LogLevel, Progress},
    filter::{EXCLUDE_TOOLS, Filter, INCLUDE_CLIENTS, INCLUDE_TOOLS},
    group::{BadSlug, GroupSlug, MAX_SLUG, ToolGroup},
    guard::{CallGuards, FinishedCall, GuardedCall},
    headers::{CallerHeaders, MAX_CALLER_HEADER_BYTES},
    key::{
        CertificateDigest, Environment, Grants, Keys, LiveKeys, MAX_KEY_NAME_BYTES, MAX_ROLES,
        Membership, ROLES_PREFIX, RelayRow, VirtualKey, credential_digest, roles_of_view,
        roles_view,
    },
    language::{SCRIPT_LANGUAGE, ScriptLanguage},
    ledger::{CallRecord, Ledger, Outcome},
    meter::Meter,
    model_guard::{ModelGuards, ReviewedExchange, ReviewedText, WrittenText},
    origin::{Approval, Origin},
    policy::{CallPolicy, PolicyVerdict, ProposedCall},
    program::{ProgramRequest, at_call_depth, call_depth, poll_at_call_depth},
    relay::{
        Claims, Mailbox, McpServer, Relay, RelayError, RelayRequest, RelaySource, RelayView,
        Subject, Subscription,
    },
    report::Reporter,
    rules::{HidingRule, ToolApproval, ToolRules},
    sinks::{
        ArgumentSources, BadSinkArgument, SinkArgument, SinkDecision, SinkRule, SinkRules,
        SourceSelection,
    },
    switch::ToolSwitch,
    tool_mode::{TOOL_MODE, ToolMode},
    view::{Entry, OwnTools, Placement, Source, View, ViewId},
};

#[cfg(test)]
mod tests;
