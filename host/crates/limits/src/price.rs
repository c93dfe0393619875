//! Prices of models and tools.
//!
//! A price is for text alone, and the one of its provider for each tier of service: without surcharges for writes to a
//! cache, and without discounts for batches. An operator overrides it for what differs.

mod builtin;
mod pattern;

use std::collections::BTreeMap;

use airlock_core::{
    model_control::{ServiceTier, TokenUsage},
    money::Money,
};

use self::pattern::Patterns;
use crate::{set::below, usage::clamped};

/// Tokens that a price of [`ModelPrice`] is for.
const PER: u128 = 1_000_000;

/// Price of a model, in millionths of a US dollar for a million tokens: 3 US dollars are 3,000,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelPrice {
    /// Of tokens of the request.
    pub input: u64,
    /// Of tokens of the request that come from the cache of the provider.
    pub cached_input: u64,
    /// Of tokens of the response, those of its reasoning included.
    pub output: u64,
    /// The price if the request is long; `None` if it is the same.
    pub long: Option<LongPrice>,
    /// The price in the tier `priority`; `None` if it is the same.
    pub priority: Option<TierPrice>,
    /// The price in the tier `flex`; `None` if it is the same.
    pub flex: Option<TierPrice>,
}

/// Price of a request in another tier than the standard one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TierPrice {
    /// As [`ModelPrice::input`].
    pub input: u64,
    /// As [`ModelPrice::cached_input`].
    pub cached_input: u64,
    /// As [`ModelPrice::output`].
    pub output: u64,
}

/// Price of all tokens of a long request and of its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LongPrice {
    /// Tokens of the request from which on it is long, exclusively.
    pub above: u64,
    /// As [`ModelPrice::input`].
    pub input: u64,
    /// As [`ModelPrice::cached_input`].
    pub cached_input: u64,
    /// As [`ModelPrice::output`].
    pub output: u64,
}

/// Price of an operator for some models. It precedes the built-in one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriceOverride {
    /// Name of the provider; `None` for any. An override for one provider precedes one for any.
    pub provider: Option<String>,
    /// Name of the model, or a prefix of names with `*` at its end, with or without the folder `models/`. A name
    /// precedes a prefix, and a longer prefix a shorter one.
    pub model: String,
    /// The price.
    pub price: ModelPrice,
}

/// The prices of a gateway. The default has the built-in prices alone.
#[derive(Debug, Clone, Default)]
pub struct PriceTable {
    by_provider: BTreeMap<String, Patterns<ModelPrice>>,
    any_provider: Patterns<ModelPrice>,
    calls: Patterns<Money>,
}

impl PriceTable {
    /// Version of the built-in prices: the month in which they were collected.
    pub const VERSION: &str = builtin::VERSION;

    /// Adds prices of models. Of two for the same models, the later one is kept.
    #[must_use]
    pub fn with_models(mut self, overrides: impl IntoIterator<Item = PriceOverride>) -> Self {
        for PriceOverride { provider, model, price } in overrides {
            let patterns = match provider {
                Some(provider) => {
                    self.by_provider.entry(provider.to_ascii_lowercase()).or_default()
                }
                None => &mut self.any_provider,
            };
            patterns.insert(&compared(&model), price);
        }
        self
    }

    /// Adds prices of calls, by full names of tools, or prefixes of them with `*` at the end. A call without a
    /// price costs nothing.
    #[must_use]
    pub fn with_calls(mut self, prices: impl IntoIterator<Item = (String, Money)>) -> Self {
        for (tool, price) in prices {
            self.calls.insert(&tool, price);
        }
        self
    }

    /// Returns the price of a model; `None` if it is not known. Without a provider, overrides for one
    /// provider do not apply.
    pub fn model(&self, provider: Option<&str>, model: &str) -> Option<ModelPrice> {
        let model = compared(model);
        let of_provider = provider
            .and_then(|provider| self.by_provider.get(&provider.to_ascii_lowercase()))
            .and_then(|patterns| patterns.find(&model));
        of_provider
            .or_else(|| self.any_provider.find(&model))
            .copied()
            .or_else(|| builtin::price(&model))
    }

    /// Returns what a request of the standard tier has cost, in millionths of a US dollar, rounded up; `None` if the price of
    /// the model is not known. Counts of tokens that no model can have are taken for the greatest possible
    /// ones.
    pub fn cost(&self, provider: &str, model: &str, usage: &TokenUsage) -> Option<u64> {
        Some(self.model(Some(provider), model)?.cost(usage))
    }

    /// Returns the price of one call of a tool; `None` if it has none, and costs nothing.
    pub fn call(&self, tool: &str) -> Option<Money> {
        self.calls.find(tool).copied()
    }
}

/// Returns the name of a model as prices compare it: as limits on models do.
fn compared(model: &str) -> String {
    below(model).to_ascii_lowercase()
}

impl ModelPrice {
    /// Creates a price that depends neither on the length of the request nor on its tier.
    pub const fn new(input: u64, cached_input: u64, output: u64) -> Self {
        Self { input, cached_input, output, long: None, priority: None, flex: None }
    }

    /// Returns the price of requests in a tier. That of long ones differs in the same proportion as that of others.
    #[must_use]
    pub fn of_tier(&self, tier: ServiceTier) -> Self {
        let other = match tier {
            ServiceTier::Standard => None,
            ServiceTier::Flex => self.flex,
            ServiceTier::Priority => self.priority,
        };
        let Some(TierPrice { input, cached_input, output }) = other else { return *self };
        let long = self.long.map(|long| LongPrice {
            above: long.above,
            input: in_proportion(long.input, input, self.input),
            cached_input: in_proportion(long.cached_input, cached_input, self.cached_input),
            output: in_proportion(long.output, output, self.output),
        });
        Self { long, ..Self::new(input, cached_input, output) }
    }

    /// Returns what a request of the standard tier costs, as [`PriceTable::cost`].
    pub fn cost(&self, usage: &TokenUsage) -> u64 {
        let usage = clamped(usage);
        let price = self.of_length(usage.input);
        let fresh = u128::from(usage.input - usage.cached_input) * u128::from(price.input);
        let cached = u128::from(usage.cached_input) * u128::from(price.cached_input);
        let output = u128::from(usage.output) * u128::from(price.output);
        u64::try_from((fresh + cached + output).div_ceil(PER)).unwrap_or(u64::MAX)
    }

    /// Returns the price of a request with this number of tokens.
    fn of_length(&self, tokens: u64) -> Self {
        match self.long.filter(|long| tokens > long.above) {
            Some(long) => Self::new(long.input, long.cached_input, long.output),
            None => *self,
        }
    }
}

/// Returns the price of long requests in a tier, by that of the others in the tier and in the standard one.
fn in_proportion(long: u64, of_tier: u64, standard: u64) -> u64 {
    if standard == 0 {
        return long.max(of_tier);
    }
    let price = u128::from(long) * u128::from(of_tier) / u128::from(standard);
    u64::try_from(price).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOLLAR: u64 = 1_000_000;

    fn priced(provider: Option<&str>, model: &str, dollars: u64) -> PriceOverride {
        let price = ModelPrice::new(dollars * DOLLAR, 0, dollars * DOLLAR);
        PriceOverride { provider: provider.map(str::to_owned), model: model.to_owned(), price }
    }

    fn usage(input: u64, cached_input: u64, output: u64) -> TokenUsage {
        TokenUsage { input, cached_input, output, reasoning: 0 }
    }

    #[test]
    fn a_request_costs_its_tokens_and_a_part_of_a_millionth_is_a_whole_one() {
        let prices = PriceTable::default();
        // 2.5, 1.25 and 10 dollars.
        let cost = prices.cost("openai", "gpt-4o", &usage(1_000_000, 400_000, 100_000));
        assert_eq!(cost, Some(1_500_000 + 500_000 + 1_000_000));
        assert_eq!(prices.cost("openai", "gpt-4o-mini", &usage(1, 0, 0)), Some(1));
        assert_eq!(prices.cost("openai", "gpt-4o-mini", &usage(0, 0, 0)), Some(0));
        assert_eq!(prices.cost("openai", "unheard-of", &usage(1, 0, 0)), None);
    }

    #[test]
    fn a_long_request_has_another_price_for_all_its_tokens() {
        let long = LongPrice { above: 10, input: 3 * DOLLAR, cached_input: 0, output: DOLLAR };
        let price = ModelPrice { long: Some(long), ..ModelPrice::new(DOLLAR, 0, 0) };
        assert_eq!(price.cost(&usage(10, 0, 5)), 10);
        assert_eq!(price.cost(&usage(11, 0, 5)), 38);
    }

    #[test]
    fn a_tier_has_its_price_and_changes_that_of_long_requests_as_much() {
        let long = LongPrice { above: 10, input: 3 * DOLLAR, cached_input: 7, output: DOLLAR };
        let twice = TierPrice { input: 4 * DOLLAR, cached_input: 0, output: DOLLAR };
        let standard = ModelPrice { long: Some(long), ..ModelPrice::new(2 * DOLLAR, 0, DOLLAR) };
        let price = ModelPrice { priority: Some(twice), ..standard };
        let requests = [usage(10, 0, 5), usage(11, 0, 5)];
        for (tier, costs) in [
            (ServiceTier::Standard, [25, 38]),
            (ServiceTier::Priority, [45, 71]),
            (ServiceTier::Flex, [25, 38]),
        ] {
            assert_eq!(requests.map(|usage| price.of_tier(tier).cost(&usage)), costs, "{tier:?}");
        }
        let long = price.of_tier(ServiceTier::Priority).long.expect("a long one has a price");
        assert_eq!(long.cached_input, 7, "nothing was free before, and nothing is now");
        assert_eq!(in_proportion(u64::MAX, u64::MAX, 1), u64::MAX);
    }

    #[test]
    fn the_known_models_of_tiers_cost_double_and_half() {
        let prices = PriceTable::default();
        for (model, priority, flex) in
            [("gpt-5", 2_500_000, 625_000), ("claude-opus-5", 5_000_000, 5_000_000)]
        {
            let price = prices.model(None, model).expect("it has a price");
            let inputs =
                [ServiceTier::Priority, ServiceTier::Flex].map(|tier| price.of_tier(tier).input);
            assert_eq!(inputs, [priority, flex], "{model}");
        }
    }

    #[test]
    fn usage_that_no_model_can_have_costs_a_bounded_amount() {
        let prices = PriceTable::default().with_models([priced(None, "m", u64::MAX / DOLLAR)]);
        let all = usage(u64::MAX, u64::MAX, u64::MAX);
        assert_eq!(prices.cost("p", "m", &all), Some(u64::MAX));
        // 33,554,432 tokens each, for 1.25 and 10 dollars a million.
        let known = PriceTable::default().cost("openai", "gpt-4o", &all);
        assert_eq!(known, Some(41_943_040 + 335_544_320));
    }

    #[test]
    fn the_most_particular_price_holds() {
        let prices = PriceTable::default().with_models([
            priced(None, "*", 1),
            priced(None, "gpt-4o*", 2),
            priced(None, "gpt-4o", 3),
            priced(Some("Azure"), "gpt*", 4),
        ]);
        let expected = [
            (None, "x", 1),
            (None, "gpt-4o-mini", 2),
            (Some("openai"), "GPT-4o", 3),
            (Some("azure"), "gpt-4o", 4),
            (Some("azure"), "x", 1),
        ];
        for (provider, model, dollars) in expected {
            let price = prices.model(provider, model).expect("it has a price");
            assert_eq!(price.input, dollars * DOLLAR, "{provider:?} {model}");
        }
    }

    #[test]
    fn the_folder_of_a_model_does_not_change_its_price() {
        let prices = PriceTable::default().with_models([
            priced(None, "*", 1),
            priced(Some("gemini"), "models/pro", 2),
            priced(None, "flash*", 3),
        ]);
        for (model, dollars) in
            [("pro", 2), ("models/pro", 2), ("flash-1", 3), ("models/flash-1", 3)]
        {
            let price = prices.model(Some("gemini"), model).expect("it has a price");
            assert_eq!(price.input, dollars * DOLLAR, "{model}");
        }
        let known = PriceTable::default();
        let price = known.model(None, "models/gemini-2.5-pro");
        assert!(price.is_some() && price == known.model(None, "gemini-2.5-pro"));
    }

    #[test]
    fn a_call_has_the_price_of_its_tool_or_none() {
        let [all, one] = [5, 7].map(Money::from_millionths);
        let prices = PriceTable::default().with_calls([("a-*".into(), all), ("a-b".into(), one)]);
        let found = ["a-b", "a-c", "b"].map(|tool| prices.call(tool));
        assert_eq!(found, [Some(one), Some(all), None]);
    }
}
