//! `records`, as written.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    ranged::{DAY, HOUR, MINUTE, SECOND, Time},
    store_key::StoreKey,
};
use crate::env_text::EnvText;

/// The records of calls, decisions and changes.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Records {
    /// The call log in the store.
    pub call_log: CallLog,
    /// The audit log, which a third party can check.
    pub audit: Audit,
    /// Treatment of a call of a tool that may have effects while a log cannot be written. Default: `refuse` if
    /// the audit log is enabled, else `count`.
    pub on_failure: Option<OnFailure>,
}

/// The call log: one row for each call of a tool and each request to a model.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CallLog {
    /// True to write the log. Default: true if `store` is in this file, else false.
    pub enabled: Option<bool>,
    /// Age at which rows are removed.
    pub retention: Time<HOUR, { 3_660 * DAY }, { 30 * DAY }>,
    /// True to keep arguments and results of calls of tools, each up to 1 MiB, sealed with `store_key`.
    pub contents: bool,
}

/// The audit log: lines in files of this gateway, with signed checkpoints.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Audit {
    /// True to write the log.
    pub enabled: bool,
    /// Directory of the log. Each gateway needs its own. Default: `audit` beside this file.
    pub dir: Option<PathBuf>,
    /// Name of the gateway in the origin of the log, without spaces and `+`. Default: `airlock`.
    pub name: Option<String>,
    /// Private key of Ed25519 that signs, in PEM format: `env.NAME`, or `{"file": "PATH"}`. Default: one that is
    /// made in `dir`.
    pub key: Option<StoreKey>,
    /// The key that has signed so far, if `key` takes its place.
    pub old_key: Option<StoreKey>,
    /// Time from a line until the checkpoint that covers it.
    pub checkpoint_interval: Time<SECOND, DAY, MINUTE>,
    /// Places where checkpoints are published, at most 8: files that they are added to, and https URLs that they are
    /// posted to; each may be `env.NAME`. They show it if the end of the log is cut off.
    pub publish: Vec<EnvText>,
}

/// Treatment of a call whose record cannot be written.
#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// A call waits until its admission is in every log, and is refused if that fails.
    Refuse,
    /// It runs. It is counted in a metric, and a warning is logged each minute.
    Count,
}
