//! `management`, as written.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::forms::SHA256;
use crate::env_text::EnvText;

/// The management API, with which operators change clients and virtual keys while the gateway runs.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Management {
    /// True for no management API: no socket, and no setup token.
    pub(crate) disabled: bool,
    /// Path of a Unix socket for programs of the gateway's user; `""` for none. Default:
    /// `airlock.sock` beside this file.
    pub(crate) socket: Option<PathBuf>,
    /// Operators, in addition to those that the API adds.
    pub(crate) operators: Vec<Operator>,
}

/// An operator with a token. Needs either `token` or `token_sha256`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Operator {
    /// Name for people, which the record of changes has: 1 to 64 characters.
    pub(crate) name: String,
    /// Acts that the operator may do.
    pub(crate) role: OperatorRole,
    /// The token: at least 32 characters; may be `env.NAME`.
    pub(crate) token: Option<EnvText>,
    /// SHA-256 of the token, as 64 hexadecimal digits, instead of `token`.
    #[schemars(extend("pattern" = SHA256))]
    pub(crate) token_sha256: Option<String>,
    /// True if the operator may read arguments and results of calls that are not its own.
    #[serde(default)]
    pub(crate) sees_payloads: bool,
}

/// Role of an operator. Every role may read settings and states, without secrets.
#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OperatorRole {
    /// Changes nothing.
    Viewer,
    /// Decides about calls that wait for an approval.
    Approver,
    /// Changes clients and keys, reconnects servers and reloads plugins; decides about no call.
    Operator,
    /// May do everything.
    Admin,
}
