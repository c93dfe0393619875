//! Authorization of tool calls. A tool runs only as an [`Admitted`] call, and only this module can
//! make one.
//!
//! A [`View`] holds the tools that a request may see. A [`Caller`] is a view with the origin of a
//! request. [`Caller::admit`] decides the calls of the request. [`Chain::admit`] decides the nested
//! calls that a running call makes; they use what is left of the first call's budget. Each decision
//! uses the real name and arguments, at the moment of the call. Resources and prompts are used in the
//! same way: a [`RelayView`] decides, and a [`Relay`] is the permission. A source may ask its caller
//! a [`Question`](crate::tool::Question), with whose [`Answers`](crate::tool::Answers) the request is
//! resumed. A [`Provider`] runs admitted calls, and may be an [`McpServer`]; this module defines the
//! traits and does not depend on their implementations. It does no I/O.

mod admitted;
mod approved;
mod arguments;
mod budget;
mod call_log;
mod caller;
mod caller_token;
mod chain;
mod control;
mod event;
mod filter;
mod group;
mod headers;
mod key;
mod language;
mod ledger;
mod meter;
mod origin;
mod policy;
mod relay;
mod report;
mod rules;
mod switch;
mod trace;
mod view;

pub use self::{
    admitted::{Admitted, CallId, McpServer, Permission, Provider, Resumed},
    approved::{ApprovalChoice, Approved},
    arguments::{Arguments, MAX_ARGUMENT_BYTES, ToArguments},
    budget::{Budget, NESTED_CALLS},
    call_log::{log_call, log_failure},
    caller::{Caller, Hearing, SessionId},
    caller_token::{CallerToken, HeldToken},
    chain::Chain,
    control::{CallControl, ControlledCall, Refusal},
    event::{Event, Events, Log, LogLevel, Progress},
    filter::{EXCLUDE_TOOLS, Filter, INCLUDE_CLIENTS, INCLUDE_TOOLS},
    group::{BadSlug, GroupSlug, ToolGroup},
    headers::{CallerHeaders, MAX_CALLER_HEADER_BYTES},
    key::{
        CertificateDigest, Environment, Grants, Keys, LiveKeys, Membership, ROLES_PREFIX, RelayRow,
        VirtualKey, credential_digest, roles_of_view, roles_view,
    },
    language::{SCRIPT_LANGUAGE, ScriptLanguage},
    ledger::{CallRecord, Ledger, Outcome},
    meter::Meter,
    origin::{Approval, Origin},
    policy::{CallPolicy, PolicyVerdict, ProposedCall},
    relay::{
        Claims, Mailbox, Relay, RelayError, RelayRequest, RelaySource, RelayView, Subject,
        Subscription,
    },
    report::Reporter,
    rules::{HidingRule, ToolApproval, ToolRules},
    switch::ToolSwitch,
    view::{Entry, OwnTools, Placement, Source, View, ViewId},
};

#[cfg(test)]
mod tests;
