//! Limits of keys, groups, clients and models, and prices, as written.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ranged::Count;

/// Maximum number of requests or calls in one window.
const MOST_CALLS: u64 = 1_000_000_000;
/// Maximum number of tokens in one window.
const MOST_TOKENS: u64 = 1_000_000_000_000;
/// Maximum bytes of arguments in one window.
const MOST_ARGUMENT_BYTES: u64 = 1_000_000_000_000;

/// An amount of US dollars.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline, extend("minimum" = 0))]
pub struct Dollars(pub f64);

/// Money that may be spent in one window: what models cost, and calls of tools with a price.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Maximum cost in one window, in US dollars.
    pub max_limit: Dollars,
    /// Length of the window, from a minute to a year: a number with `m`, `h`, `d`, `w`, `M` (30 days), `Q`
    /// (90 days) or `Y` (365 days), such as `1d`; or `daily`, `weekly`, `monthly`, `yearly`; or `never` for a
    /// prepaid amount.
    pub reset_duration: String,
    /// Details of windows of the calendar.
    pub reset_config: Option<ResetConfig>,
}

/// Details of windows of the calendar.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResetConfig {
    /// For `1Q` with `calendar_aligned`: month in which the first quarter of a year begins, 1 to 12.
    pub quarter_start_month: Option<Count<1, 12>>,
}

/// Limits on requests to models, tokens and calls of tools. Each number needs its duration, which is written
/// as `reset_duration` of a budget.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RateLimit {
    /// Maximum tokens of requests to models and of their responses in one window.
    pub token_max_limit: Option<Count<1, MOST_TOKENS>>,
    /// Length of the window of `token_max_limit`.
    pub token_reset_duration: Option<String>,
    /// Maximum requests to models in one window.
    pub request_max_limit: Option<Count<1, MOST_CALLS>>,
    /// Length of the window of `request_max_limit`.
    pub request_reset_duration: Option<String>,
    /// Maximum calls of tools in one window, those of scripts and plugins included.
    pub tool_call_max_limit: Option<Count<1, MOST_CALLS>>,
    /// Length of the window of `tool_call_max_limit`.
    pub tool_call_reset_duration: Option<String>,
    /// Maximum bytes of arguments that calls of tools send in one window, those of scripts and plugins included.
    pub argument_byte_max_limit: Option<Count<1, MOST_ARGUMENT_BYTES>>,
    /// Length of the window of `argument_byte_max_limit`.
    pub argument_byte_reset_duration: Option<String>,
    /// Maximum requests to models and calls of tools that run at the same time.
    pub max_concurrent: Option<Count<1, 100_000>>,
}

/// Limits on calls of tools. Each number needs its duration, which is written as `reset_duration` of a budget.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CallRateLimit {
    /// Maximum calls in one window, those of scripts and plugins included.
    pub tool_call_max_limit: Option<Count<1, MOST_CALLS>>,
    /// Length of the window of `tool_call_max_limit`.
    pub tool_call_reset_duration: Option<String>,
    /// Maximum bytes of arguments that calls send in one window, those of scripts and plugins included.
    pub argument_byte_max_limit: Option<Count<1, MOST_ARGUMENT_BYTES>>,
    /// Length of the window of `argument_byte_max_limit`.
    pub argument_byte_reset_duration: Option<String>,
    /// Maximum calls that run at the same time.
    pub max_concurrent: Option<Count<1, 100_000>>,
}

/// Limits on the requests to one model, of all callers or of one virtual key.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelConfig {
    /// Its identifier.
    pub id: String,
    /// The model, without the name of a provider; `*` for all.
    pub model_name: String,
    /// Name of the provider. Default: any.
    pub provider: Option<String>,
    /// Callers whose requests count together.
    #[serde(default)]
    pub scope: LimitScope,
    /// For the scope `virtual_key`: name or identifier of the key.
    pub scope_id: Option<String>,
    /// Money that may be spent, each entry in windows of another length.
    #[serde(default)]
    pub budgets: Vec<Budget>,
    /// Limits on requests and tokens.
    pub rate_limit: Option<RateLimit>,
    /// True for windows of the calendar, in UTC: `1d` begins at midnight, `1w` on Monday, `1M`, `1Q` and `1Y` on
    /// the first day.
    #[serde(default)]
    pub calendar_aligned: bool,
}

/// Callers whose requests count together.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LimitScope {
    /// All callers.
    #[default]
    Global,
    /// One virtual key.
    VirtualKey,
}

/// Prices of models in place of those that the gateway knows. The entry that fits best has effect: one of the
/// provider before one for all, an exact one before a pattern, a longer pattern before a shorter one.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PricingOverride {
    /// Its identifier.
    pub id: String,
    /// A name for people.
    #[serde(rename = "name")]
    _name: Option<String>,
    /// Requests that the prices are for.
    #[serde(default)]
    pub scope_kind: PricingScope,
    /// For the scope `provider`: name of the provider.
    pub provider_id: Option<String>,
    /// Kind of `pattern`.
    #[serde(default)]
    pub match_type: PricingMatch,
    /// The model, without the name of a provider. For `wildcard`, the beginning of its name and `*`.
    pub pattern: String,
    /// Kinds of requests, for programs: all have the same prices.
    #[serde(default, rename = "request_types")]
    _request_types: Vec<PricedRequest>,
    /// The prices.
    pub patch: PricingPatch,
}

/// Requests that prices are for.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PricingScope {
    /// Those to every provider.
    #[default]
    Global,
    /// Those to one provider.
    Provider,
}

/// Kind of a pattern.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PricingMatch {
    /// The whole name.
    #[default]
    Exact,
    /// The beginning of the name, before `*`.
    Wildcard,
}

/// A kind of requests that the gateway makes.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum PricedRequest {
    /// Requests to models.
    ChatCompletion,
    /// The same.
    ChatCompletionStream,
    /// The same.
    Responses,
    /// The same.
    ResponsesStream,
}

/// Prices of a model, in US dollars.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PricingPatch {
    /// Price of one token of a request.
    pub input_cost_per_token: Option<Dollars>,
    /// Price of one token of a response.
    pub output_cost_per_token: Option<Dollars>,
    /// Price of one token of a request that comes from the provider's cache. Default: that of the others.
    pub cache_read_input_token_cost: Option<Dollars>,
    /// Price of one token of a request in the tier of service `priority`; needs that of a response. Default: as in the
    /// standard tier.
    pub input_cost_per_token_priority: Option<Dollars>,
    /// Price of one token of a response in the tier `priority`; needs that of a request. Default: as in the standard tier.
    pub output_cost_per_token_priority: Option<Dollars>,
    /// Price of one token of a request in the tier `priority` that comes from the provider's cache. Default: that of the
    /// others in the tier.
    pub cache_read_input_token_cost_priority: Option<Dollars>,
    /// Price of one token of a request in the tier of service `flex`; needs that of a response. Default: as in the
    /// standard tier.
    pub input_cost_per_token_flex: Option<Dollars>,
    /// Price of one token of a response in the tier `flex`; needs that of a request. Default: as in the standard tier.
    pub output_cost_per_token_flex: Option<Dollars>,
    /// Price of one token of a request in the tier `flex` that comes from the provider's cache. Default: that of the
    /// others in the tier.
    pub cache_read_input_token_cost_flex: Option<Dollars>,
}
