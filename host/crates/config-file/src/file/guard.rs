//! `guards`, as written.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::ranged::{Bytes, Count, KIB, MIB, MILLISECOND, SECOND, Time};

/// A component that decides about the arguments and the results of calls.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Guard {
    /// Its name: 1 to 64 letters, digits, `.`, `_` or `-`. No other guard has it.
    pub name: String,
    /// The file of the component.
    pub component: PathBuf,
    /// The calls that it is asked about. Default: all.
    #[serde(default)]
    pub on: GuardScope,
    /// The hooks that are run. Default: `both`.
    #[serde(default)]
    pub phase: GuardPhase,
    /// Its own settings, which it checks when the gateway starts: at most 64 KiB of JSON.
    #[serde(default)]
    pub settings: Map<String, Value>,
    /// Limits of one hook.
    #[serde(default)]
    pub limits: GuardLimits,
}

/// The calls that a guard is asked about: those that every list has.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GuardScope {
    /// Full names of tools, `CLIENT-TOOL`, where `*` stands for any text. Default: all.
    pub tools: Option<Vec<String>>,
    /// Clients. Default: all.
    pub clients: Option<Vec<String>>,
    /// Names of virtual keys, and `roles:NAME` for users who have a role. Default: all, and requests without one.
    pub keys: Option<Vec<String>>,
}

/// Hooks of a guard.
#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GuardPhase {
    /// The one before a call.
    Before,
    /// The one after a call.
    After,
    /// Both.
    #[default]
    Both,
}

/// Limits of one hook of a guard. A call waits for it, and so does the thread that decides.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GuardLimits {
    /// Work, in fuel: one unit for an operator, one for a byte in bulk operations.
    #[serde(default)]
    pub fuel: Count<1_000, 10_000_000_000, 100_000_000>,
    /// Time.
    #[serde(default)]
    pub time: Time<MILLISECOND, SECOND, { 50 * MILLISECOND }>,
    /// Linear memory.
    #[serde(default)]
    pub memory: Bytes<{ 64 * KIB }, { 256 * MIB }, { 16 * MIB }>,
    /// Size of the arguments or the outcome that it writes.
    #[serde(default)]
    pub result: Bytes<KIB, { 64 * MIB }, MIB>,
}
