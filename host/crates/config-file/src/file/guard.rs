//! `guards`, as written.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::ranged::{Bytes, Count, KIB, MIB, MILLISECOND, SECOND, Time};

/// A component that decides about tools, their calls, and requests to models.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GuardEntry {
    /// Its name: 1 to 64 letters, digits, `.`, `_` or `-`. No other guard has it.
    pub name: String,
    /// The file of the component.
    pub component: PathBuf,
    /// The calls, definitions and requests to models that it is asked about. Default: all.
    #[serde(default)]
    pub on: GuardScope,
    /// The hooks that are run, which the guard must have. Default: all that it has.
    pub hooks: Option<Vec<NamedHook>>,
    /// Its own settings, which it checks when the gateway starts: at most 64 KiB of JSON.
    #[serde(default)]
    pub settings: Map<String, Value>,
    /// Limits of one hook.
    #[serde(default)]
    pub limits: GuardLimits,
    /// Text of a streamed response that is held back while the hook `after_model` looks at a part of it. What it searches
    /// for passes if it is longer. Default: it looks at responses as a whole, which are not streamed.
    pub stream_window: Option<Bytes<256, { 64 * KIB }>>,
}

/// The calls, definitions and requests to models that a guard is asked about: those that every list has.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GuardScope {
    /// Full names of tools, `CLIENT-TOOL`, where `*` stands for any text. Default: all.
    pub tools: Option<Vec<String>>,
    /// Clients. Default: all.
    pub clients: Option<Vec<String>>,
    /// Names of virtual keys, and `roles:NAME` for users who have a role. Default: all, and requests without one.
    pub keys: Option<Vec<String>>,
    /// Names of environments, to which keys are bound. Default: all, and requests without one.
    pub environments: Option<Vec<String>>,
}

/// A hook of a guard.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NamedHook {
    /// Before a call.
    Before,
    /// After a call.
    After,
    /// On a definition that a source lists. It has no key, so it is not valid with `on.keys` and `on.environments`.
    Definition,
    /// Before a request to a model. It has no tool, so it is not valid with `on.tools` and `on.clients`.
    BeforeModel,
    /// After the response of a model. It is not valid with `on.tools` and `on.clients`.
    AfterModel,
}

/// Limits of one hook of a guard. A call waits for it.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GuardLimits {
    /// Work, in fuel: one unit for an operator, one for a byte in bulk operations.
    #[serde(default)]
    pub fuel: Count<1_000, 10_000_000_000, 100_000_000>,
    /// Time that it computes.
    #[serde(default)]
    pub time: Time<MILLISECOND, SECOND, { 50 * MILLISECOND }>,
    /// Linear memory.
    #[serde(default)]
    pub memory: Bytes<{ 64 * KIB }, { 256 * MIB }, { 16 * MIB }>,
    /// Size of the arguments, the outcome, the definition or the texts that it writes.
    #[serde(default)]
    pub result: Bytes<KIB, { 64 * MIB }, MIB>,
}
