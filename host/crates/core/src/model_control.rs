//! The control of requests to models across callers: limits, which refuse a request, and the record of
//! each.

use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use crate::{
    door::Membership,
    tenant::Tenant,
    tool::{GuardAct, HostCode},
};

/// Accompanies the requests to models of a gateway, each from before it is sent to its end. The requests
/// of one loop are several. The controls of a gateway are asked in the order of those of calls, see
/// [`CallControl`](crate::door::CallControl).
pub trait ModelControl: Send + Sync + 'static {
    /// Returns whether the control has to know of the requests of a caller. Those of others are sent without
    /// a delay, and nothing of them is measured.
    fn applies(&self, _membership: &Membership) -> bool {
        true
    }

    /// Controls a request that is about to be sent. It is sent only if this succeeds. Dropping the future
    /// means that it is not sent.
    fn begin<'c>(
        &'c self,
        request: ModelRequest<'c>,
    ) -> BoxFuture<'c, Result<Box<dyn ControlledModelRequest>, ControlRefusal>>;

    /// Takes note of a request that is not sent, because of a control before this one. Must neither block nor
    /// fail.
    fn request_refused(&self, _request: ModelRequest<'_>, _refusal: &ControlRefusal) {}
}

/// A request that runs under control. Dropping the value without [`Self::end`] means that it was cut off:
/// the provider may have done all of it.
pub trait ControlledModelRequest: Send {
    /// Returns whether the control uses the outcome. If it does not, the request runs as without a control:
    /// its usage is not asked for, and the value is dropped at once.
    fn needs_outcome(&self) -> bool {
        true
    }

    /// Takes note of a part of a streamed response that was received: it has a token or more. It is all that is
    /// known of the length of a response that is cut off before its usage. Must not block.
    fn receives_part(&mut self) {}

    /// Returns the cost of the request in millionths of a US dollar; `None` if the control knows no price
    /// for it. Called at most once, before [`Self::end`], whose outcome has the cost. Must not block.
    fn cost(&self, _outcome: &ModelOutcome<'_>) -> Option<u64> {
        None
    }

    /// Takes note of the end. Must not block.
    fn end(self: Box<Self>, outcome: &ModelOutcome<'_>);
}

/// A request to a model that is about to be sent.
#[derive(Clone, Copy)]
pub struct ModelRequest<'r> {
    /// The party that it is accounted to.
    pub tenant: &'r Tenant,
    /// The key that its caller came with.
    pub membership: &'r Membership,
    /// The model that is asked first, as `NAME/model`: with the name of its provider, even if the caller
    /// left that out.
    pub model: &'r str,
    /// The models that are asked if it fails, in the same form. One of them may respond instead.
    pub fallbacks: &'r [String],
    /// Length of the request in bytes: the conversation and the definitions of tools. Each image counts for
    /// a few thousand, however long it is, and another file as the request has it.
    pub bytes: usize,
    /// Number of choices of the response.
    pub choices: u64,
    /// Maximum number of tokens that the request sets for each choice; `None` for none.
    pub max_output_tokens: Option<u64>,
    /// Tier of service that the request asks for.
    pub tier: ServiceTier,
    /// True if the response is streamed.
    pub is_streamed: bool,
    /// Estimated tokens of the gateway's tools; `None` if it offers none.
    pub tool_tokens: Option<ToolTokens>,
}

/// Estimated tokens of the gateway's tools in one request of a caller, up to now. Each text counts once, although the
/// model reads definitions and earlier results again in every round. Images do not count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ToolTokens {
    /// Definitions of the tools that are offered.
    pub definitions: u64,
    /// Results of calls, as the model receives them.
    pub results: u64,
    /// Arguments of calls that run scripts, with the source of these.
    pub scripts: u64,
    /// Tokens that the model does not read.
    pub kept_out: KeptOutTokens,
}

/// Estimated tokens that a model does not read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeptOutTokens {
    /// Definitions of tools that scripts call, which code mode does not send.
    pub definitions: u64,
    /// Parts of large results that are kept, of which the model receives previews.
    pub results: u64,
    /// Results of calls that scripts have made. The parts of them that a script returns are among the results.
    pub script_results: u64,
}

impl ToolTokens {
    /// Returns the numbers in the form of responses and logs.
    pub fn to_json(&self) -> Value {
        let Self { definitions, results, scripts, kept_out } = self;
        json!({
            "estimated": true,
            "definitions": definitions,
            "results": results,
            "scripts": scripts,
            "kept_out": {
                "definitions": kept_out.definitions,
                "results": kept_out.results,
                "script_results": kept_out.script_results,
            },
        })
    }
}

/// The end of a request to a model.
#[derive(Debug, Clone, Copy, Default)]
pub struct ModelOutcome<'o> {
    /// The provider that responded; `None` if none did.
    pub provider: Option<&'o str>,
    /// The model that responded: as the provider names it, or as it was asked for if the provider does not
    /// name it. `None` if no provider responded.
    pub model: Option<&'o str>,
    /// The model that responded as it was asked for, as `NAME/model`: that of the request, or one of its
    /// fallbacks. `None` if no provider responded.
    pub asked: Option<&'o str>,
    /// True if a model that was asked before that one may have worked for the request too.
    pub has_others: bool,
    /// Tokens, as the provider counts them; `None` if it does not tell. Not to be trusted. With an error, those
    /// until then.
    pub usage: Option<TokenUsage>,
    /// Tier of service of the response, as the provider names it. If it names none, [`ServiceTier::Priority`] for a
    /// request that asked for that, and else [`ServiceTier::Standard`].
    pub tier: ServiceTier,
    /// Cost in millionths of a US dollar; `None` if no price is known.
    pub cost: Option<u64>,
    /// Code of the error; `None` if the response is complete.
    pub error: Option<&'o str>,
    /// True if no provider has begun the request, so that it costs nothing: none received it, or each that
    /// did refused it at once.
    pub has_not_begun: bool,
    /// Decisions of guards about the request and its response that have changed something, in their order.
    pub guards: &'o [GuardAct],
}

/// Tier of service of a request, as prices tell tiers apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ServiceTier {
    /// The one without a surcharge or a discount.
    #[default]
    Standard,
    /// A slower one, for a lower price.
    Flex,
    /// A faster one, for a higher price.
    Priority,
}

impl ServiceTier {
    /// Reads the name of a tier in a request or a response; `None` if it names none of these, such as `auto`. The names are
    /// those of OpenAI, Anthropic and Google, without regard to case.
    pub fn parse(name: &str) -> Option<Self> {
        let prefix = name.get(..TIER_PREFIX.len());
        let has_prefix = prefix.is_some_and(|prefix| prefix.eq_ignore_ascii_case(TIER_PREFIX));
        let bare = if has_prefix { &name[TIER_PREFIX.len()..] } else { name };
        let named = TIERS.iter().find(|(known, _)| known.eq_ignore_ascii_case(bare));
        named.map(|(_, tier)| *tier)
    }
}

/// Beginning of the names of tiers in Google's enumeration.
const TIER_PREFIX: &str = "service_tier_";
/// The tiers by their names.
const TIERS: [(&str, ServiceTier); 5] = [
    ("default", ServiceTier::Standard),
    ("standard", ServiceTier::Standard),
    ("standard_only", ServiceTier::Standard),
    ("flex", ServiceTier::Flex),
    ("priority", ServiceTier::Priority),
];

/// Tokens of one request, as its provider counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TokenUsage {
    /// Tokens of the request, those from the cache of the provider included.
    pub input: u64,
    /// Tokens of the request that came from the cache of the provider.
    pub cached_input: u64,
    /// Tokens of the response, those of its reasoning included.
    pub output: u64,
    /// Tokens of the reasoning.
    pub reasoning: u64,
}

/// A request to a model that a limit, or the lack of a record, does not permit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlRefusal {
    /// Code for machines: `limit_reached`, `budget_exceeded`, `records_unavailable`, `cancelled`, or
    /// `unavailable` if a limit cannot be checked.
    pub code: HostCode,
    /// Explanation for people, without secrets.
    pub message: String,
    /// Time to wait before a retry; `None` if the reason does not end by itself.
    pub retry_after: Option<Duration>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tier_is_read_by_the_names_of_all_providers() {
        for (name, tier) in [
            ("default", Some(ServiceTier::Standard)),
            ("standard_only", Some(ServiceTier::Standard)),
            ("Flex", Some(ServiceTier::Flex)),
            ("priority", Some(ServiceTier::Priority)),
            ("SERVICE_TIER_PRIORITY", Some(ServiceTier::Priority)),
            ("service_tier_", None),
            ("auto", None),
            ("", None),
            ("prioritä", None),
        ] {
            assert_eq!(ServiceTier::parse(name), tier, "{name}");
        }
    }
}
