//! `governance.pricing_overrides`, and `tool_pricing` of clients.

use std::collections::BTreeSet;

use airlock_core::{
    money::Money,
    tool::{ClientName, ToolName},
};
use airlock_limits::price::{ModelPrice, PriceOverride, PriceTable, TierPrice};

use super::{
    LimitedParts, check_id,
    written::{money, out_of_range},
};
use crate::resolve::resolved::{Problems, Resolved};
use airlock_config_file::{
    file::{self, Dollars},
    key_path::KeyPath,
    refused::NamedPart,
};

/// Keys of the prices of a model: of a request, of one from the cache, and of a response.
const STANDARD: [&str; 3] =
    ["input_cost_per_token", "cache_read_input_token_cost", "output_cost_per_token"];
/// Highest price of a token, in US dollars.
const MOST_DOLLARS_PER_TOKEN: f64 = 100.0;
/// Tokens that a price of [`ModelPrice`] is for.
const TOKENS: f64 = 1_000_000.0;
/// Keys of the prices in the tier `priority`: of a request, of one from the cache, and of a response.
const PRIORITY: [&str; 3] = [
    "input_cost_per_token_priority",
    "cache_read_input_token_cost_priority",
    "output_cost_per_token_priority",
];
/// Keys of the prices in the tier `flex`, as of [`PRIORITY`].
const FLEX: [&str; 3] =
    ["input_cost_per_token_flex", "cache_read_input_token_cost_flex", "output_cost_per_token_flex"];
/// Name of all tools of a client.
const ALL_TOOLS: &str = "*";

/// Resolves the prices. The problems have their keys in the whole file.
pub(super) fn resolve(parts: &LimitedParts<'_>) -> Resolved<PriceTable> {
    Resolved::new(|problems| {
        let models = problems.take(NamedPart::PricingOverrides.key(), of_models(parts));
        let tools = problems.take(NamedPart::Clients.key(), of_tools(parts.clients));
        PriceTable::default().with_models(models).with_calls(tools)
    })
}

fn of_models(parts: &LimitedParts<'_>) -> Resolved<Vec<PriceOverride>> {
    let mut ids = BTreeSet::new();
    let mut subjects = BTreeSet::new();
    Resolved::elements(&parts.governance.pricing_overrides, |problems, entry| {
        check_id(problems, &entry.id, &mut ids);
        let provider = problems.merge(provider(entry, parts));
        let model = problems.merge(pattern(entry))?;
        if !subjects.insert((provider.clone(), model.to_ascii_lowercase())) {
            problems.refuse("pattern", "another element has this pattern and scope already");
        }
        let price = problems.take("patch", price(entry.patch))?;
        Some(PriceOverride { provider, model, price })
    })
}

fn price(patch: file::PricingPatch) -> Resolved<Option<ModelPrice>> {
    Resolved::new(|problems| {
        let standard = [
            patch.input_cost_per_token,
            patch.cache_read_input_token_cost,
            patch.output_cost_per_token,
        ];
        let priority = [
            patch.input_cost_per_token_priority,
            patch.cache_read_input_token_cost_priority,
            patch.output_cost_per_token_priority,
        ];
        let flex = [
            patch.input_cost_per_token_flex,
            patch.cache_read_input_token_cost_flex,
            patch.output_cost_per_token_flex,
        ];
        let standard = tokens_price(problems, STANDARD, standard);
        let priority = tier_price(problems, PRIORITY, priority);
        let flex = tier_price(problems, FLEX, flex);
        let [input, cached_input, output] = standard?;
        Some(ModelPrice { priority, flex, ..ModelPrice::new(input, cached_input, output) })
    })
}

/// Returns the price in a tier; `None` if none of its keys is set, or if one is refused.
fn tier_price(
    problems: &mut Problems,
    keys: [&str; 3],
    prices: [Option<Dollars>; 3],
) -> Option<TierPrice> {
    if prices.iter().all(Option::is_none) {
        return None;
    }
    let [input, cached_input, output] = tokens_price(problems, keys, prices)?;
    Some(TierPrice { input, cached_input, output })
}

/// Returns the prices of tokens of a request, of those from the cache, and of a response. The second one may be missing.
fn tokens_price(
    problems: &mut Problems,
    [input_key, cached_key, output_key]: [&str; 3],
    [input, cached, output]: [Option<Dollars>; 3],
) -> Option<[u64; 3]> {
    let input = required_price(problems, input_key, input);
    let output = required_price(problems, output_key, output);
    let cached = cached.map(|price| problems.accept(cached_key, token_price(price)));
    let input = input?;
    Some([input, cached.unwrap_or(Some(input))?, output?])
}

fn required_price(problems: &mut Problems, key: &str, price: Option<Dollars>) -> Option<u64> {
    let price = problems.required(key, price)?;
    problems.accept(key, token_price(price))
}

/// Returns the price of a million tokens, in millionths of a US dollar, by that of one.
fn token_price(Dollars(price): Dollars) -> Result<u64, String> {
    let bounded = Some(price).filter(|price| *price <= MOST_DOLLARS_PER_TOKEN);
    let found = bounded.and_then(|price| Money::from_dollars(price * TOKENS));
    found.map(Money::millionths).ok_or_else(|| out_of_range(price, MOST_DOLLARS_PER_TOKEN))
}

/// Returns the provider of an entry; `None` for all.
fn provider(entry: &file::PricingOverride, parts: &LimitedParts<'_>) -> Resolved<Option<String>> {
    let named = entry.provider_id.as_deref().filter(|id| !id.is_empty());
    Resolved::new(|problems| match (entry.scope_kind, named) {
        (file::PricingScope::Global, None) => None,
        (file::PricingScope::Global, Some(_)) => {
            problems.refuse("provider_id", "belongs to the `scope_kind` \"provider\"");
            None
        }
        (file::PricingScope::Provider, named) => {
            let named = problems.required("provider_id", named)?;
            problems.accept("provider_id", parts.check_provider(named));
            Some(named.to_owned())
        }
    })
}

/// Returns the name of the model of an entry, or the beginning of the names of several and `*`.
fn pattern(entry: &file::PricingOverride) -> Resolved<Option<String>> {
    let pattern = entry.pattern.as_str();
    Resolved::new(|problems| {
        let is_wildcard = entry.match_type == file::PricingMatch::Wildcard;
        let name = if is_wildcard { pattern.strip_suffix('*') } else { Some(pattern) };
        let is_valid =
            name.is_some_and(|name| !name.contains('*') && (is_wildcard || !name.is_empty()));
        if !is_valid {
            let expected = if is_wildcard {
                "the beginning of a name and `*` at the end"
            } else {
                "the name of a model; with `*` at the end, set `match_type` to \"wildcard\""
            };
            let found = airlock_strings::cut(pattern.to_owned(), 64);
            problems.refuse("pattern", format_args!("found {found:?}, expected {expected}"));
            return None;
        }
        Some(pattern.to_owned())
    })
}

/// Returns the prices of calls, by the full names of tools.
fn of_tools(clients: &[file::Client]) -> Resolved<Vec<(String, Money)>> {
    let prices = Resolved::elements(clients, |problems, client| {
        // The names of clients are checked elsewhere.
        let name = ClientName::parse(&client.name).ok()?;
        let key = KeyPath::default().member("tool_pricing");
        let prices = client.tool_pricing.iter().filter_map(|(tool, price)| {
            let price = problems.accept(key.member(tool), money(*price))?;
            // No other client has tools whose full names begin with the name of this one and `-`.
            let tool = match tool.as_str() {
                ALL_TOOLS => format!("{name}-{ALL_TOOLS}"),
                tool => ToolName::new(&name, tool).as_str().to_owned(),
            };
            Some((tool, price))
        });
        Some(prices.collect::<Vec<_>>())
    });
    prices.map(|prices| prices.concat())
}
