//! Tools as plain data: names, definitions, policies, results and errors.
//!
//! This module runs no calls and decides none: the [`door`](crate::door) decides.

mod adopted;
mod arguments;
mod base64;
mod caching;
mod code;
mod content;
mod descriptor;
mod error;
mod exclusions;
mod guard;
mod guard_questions;
mod guard_reason;
mod hidden;
mod listed;
mod login;
mod model_refusal;
mod name;
mod offer;
mod output;
mod pattern;
mod policy;
mod question;
mod readable;
mod source_set;
mod sources_by_path;
mod suspension;
mod trust;

#[cfg(test)]
pub(crate) use self::name::client;
pub use self::{
    adopted::{BadTool, Tool},
    arguments::{argument_lines, whole_argument_lines},
    base64::decode_base64,
    caching::CacheRule,
    code::{HostCode, own_code},
    content::{Content, ContentBlock, Members, Resource, ResourceContents, ResourceLink},
    descriptor::{Annotations, ToolDefinition},
    error::{CallError, CallFailure, Cause, Details, ErrorKind, ReachedLimit, ToolError},
    exclusions::Exclusions,
    guard::{GuardAct, GuardActs, GuardDecision, GuardHook},
    guard_questions::{GuardQuestion, GuardQuestions},
    guard_reason::shown_reason,
    hidden::without_hidden,
    listed::is_same_but_for_texts,
    login::{LOGIN_LINK_LIFE, LoginRequired},
    model_refusal::ModelRefusal,
    name::{
        BadClientName, ClientName, INTERNAL_CLIENT, MAX_WIRE_NAME, OWN_TOOLS, READ_RESOURCE,
        ToolName, distinct_names, with_internal_client,
    },
    offer::{Offer, Offers, may_expand_to},
    output::{ToolOutput, content_size, result_extra},
    pattern::{BadPattern, ToolPattern},
    policy::{Allowlist, BadList, Names, Policy, Prefix, UriList},
    question::{
        ANSWER_TIMEOUT, Answers, InputRequired, MAX_ANSWER_BYTES, OWN_ASKER, Question,
        QuestionKind, QuestionKinds,
    },
    readable::join,
    source_set::SourceSet,
    sources_by_path::SourcesByPath,
    suspension::{MAX_PARSED, RunCall, Suspension, shown_arguments},
    trust::Trust,
};
