//! Prices of well-known models, as their providers have published them.

use super::{LongPrice, ModelPrice, TierPrice};

/// The month in which the prices were last compared.
pub(super) const VERSION: &str = "2026-10";

/// Beginning of the names of models without prices for tiers: Anthropic's tier `priority` is capacity that is paid for in
/// advance, and it has no `flex`.
const WITHOUT_TIERS: &str = "claude-";

/// Thousandths of a US dollar for a million tokens: of the request, of the request from the cache, and of
/// the response.
type Thousandths = [u64; 3];

/// A model.
struct PricedModel {
    /// Its name without a version, in lower case.
    name: &'static str,
    price: Thousandths,
    /// Tokens of a request above which it has another price.
    long: Option<(u64, Thousandths)>,
}

/// The models, sorted by their names.
const MODELS: &[PricedModel] = &[
    flat("claude-3-5-haiku", [800, 80, 4_000]),
    flat("claude-3-5-sonnet", [3_000, 300, 15_000]),
    flat("claude-3-7-sonnet", [3_000, 300, 15_000]),
    flat("claude-3-haiku", [250, 30, 1_250]),
    flat("claude-3-opus", [15_000, 1_500, 75_000]),
    flat("claude-fable-5", [10_000, 1_000, 50_000]),
    flat("claude-fable-5-1", [10_000, 250, 50_000]),
    flat("claude-haiku-4-5", [1_000, 100, 5_000]),
    tiered("claude-haiku-5-5", [100, 10, 500], (100_000, [500, 50, 2_500])),
    flat("claude-opus-4", [15_000, 1_500, 75_000]),
    flat("claude-opus-4-1", [15_000, 1_500, 75_000]),
    flat("claude-opus-4-5", [5_000, 500, 25_000]),
    flat("claude-opus-4-6", [5_000, 500, 25_000]),
    flat("claude-opus-4-7", [5_000, 500, 25_000]),
    flat("claude-opus-5", [5_000, 500, 25_000]),
    flat("claude-opus-5-5", [4_000, 200, 20_000]),
    tiered("claude-sonnet-4", [3_000, 300, 15_000], (200_000, [6_000, 600, 22_500])),
    tiered("claude-sonnet-4-5", [3_000, 300, 15_000], (200_000, [6_000, 600, 22_500])),
    flat("claude-sonnet-4-6", [3_000, 300, 15_000]),
    flat("claude-sonnet-5", [2_000, 200, 10_000]),
    flat("claude-sonnet-5-5", [2_000, 100, 10_000]),
    flat("gemini-2.0-flash", [100, 25, 400]),
    flat("gemini-2.5-flash", [300, 30, 2_500]),
    flat("gemini-2.5-flash-lite", [100, 10, 400]),
    tiered("gemini-2.5-pro", [1_250, 125, 10_000], (200_000, [2_500, 250, 15_000])),
    flat("gpt-4.1", [2_000, 500, 8_000]),
    flat("gpt-4.1-mini", [400, 100, 1_600]),
    flat("gpt-4.1-nano", [100, 25, 400]),
    flat("gpt-4o", [2_500, 1_250, 10_000]),
    flat("gpt-4o-mini", [150, 75, 600]),
    flat("gpt-5", [1_250, 125, 10_000]),
    flat("gpt-5-mini", [250, 25, 2_000]),
    flat("gpt-5-nano", [50, 5, 400]),
    tiered("gpt-5.4", [2_500, 250, 15_000], (272_000, [5_000, 500, 22_500])),
    flat("gpt-5.4-mini", [750, 75, 4_500]),
    flat("gpt-5.4-nano", [200, 20, 1_250]),
    tiered("gpt-5.5", [5_000, 500, 30_000], (272_000, [10_000, 1_000, 45_000])),
    flat("o1", [15_000, 7_500, 60_000]),
    flat("o3", [2_000, 500, 8_000]),
    flat("o3-mini", [1_100, 550, 4_400]),
    flat("o4-mini", [1_100, 275, 4_400]),
];

const fn flat(name: &'static str, price: Thousandths) -> PricedModel {
    PricedModel { name, price, long: None }
}

const fn tiered(name: &'static str, price: Thousandths, long: (u64, Thousandths)) -> PricedModel {
    PricedModel { name, price, long: Some(long) }
}

impl PricedModel {
    fn price(&self) -> ModelPrice {
        let [input, cached_input, output] = self.price.map(|price| price * 1_000);
        let long = self.long.map(|(above, price)| {
            let [input, cached_input, output] = price.map(|price| price * 1_000);
            LongPrice { above, input, cached_input, output }
        });
        let standard = ModelPrice { long, ..ModelPrice::new(input, cached_input, output) };
        if self.name.starts_with(WITHOUT_TIERS) {
            return standard;
        }
        // OpenAI and Google publish half of the price for `flex`, and most often the double one for `priority`.
        let [priority, flex] = [4, 1].map(|halves| TierPrice {
            input: input * halves / 2,
            cached_input: cached_input * halves / 2,
            output: output * halves / 2,
        });
        ModelPrice { priority: Some(priority), flex: Some(flex), ..standard }
    }
}

/// Returns the price of a model, whose name is in lower case, without a folder, and may have a version.
pub(super) fn price(model: &str) -> Option<ModelPrice> {
    let name = without_version(model);
    let found = MODELS.binary_search_by_key(&name, |model| model.name).ok()?;
    Some(MODELS[found].price())
}

/// Returns the name of a model without its version: a date, in one of the forms `20250929`, `2024-08-06`
/// and `@20250929`, or `latest`. Anything else is another model, with another price.
fn without_version(model: &str) -> &str {
    let separated = model.strip_suffix("-latest").or_else(|| without_date(model));
    separated.unwrap_or(model)
}

fn without_date(model: &str) -> Option<&str> {
    let dated = model.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-');
    // The digits at the end of the name itself stay.
    let ends = model
        .len()
        .checked_sub("20250929".len())
        .into_iter()
        .chain(model.len().checked_sub("2024-08-06".len()));
    ends.filter(|end| *end >= dated.len())
        .filter(|end| is_date(&model[*end..]))
        .find_map(|end| model[..end].strip_suffix(['-', '@']))
}

fn is_date(text: &str) -> bool {
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    let dashes: Vec<_> = text.match_indices('-').map(|(place, _)| place).collect();
    digits == 8 && (dashes.is_empty() || dashes == [4, 7])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prices_are_sorted_by_names_without_versions() {
        assert!(MODELS.is_sorted_by(|one, next| one.name < next.name));
        for model in MODELS {
            assert_eq!(without_version(model.name), model.name);
            let long = model.long.map(|(_, long)| long);
            for [input, cached_input, output] in [Some(model.price), long].into_iter().flatten() {
                assert!(cached_input < input && input < output, "{}", model.name);
            }
        }
    }

    #[test]
    fn a_version_does_not_change_the_price_and_another_model_has_another_one() {
        for name in ["gpt-4o-2024-08-06", "gpt-4o-latest", "gpt-4o"] {
            assert_eq!(price(name), price("gpt-4o"), "{name}");
        }
        for name in ["claude-sonnet-4-5-20250929", "claude-sonnet-4-5@20250929"] {
            assert_eq!(price(name), price("claude-sonnet-4-5"), "{name}");
        }
        for name in ["gpt-4o-audio-preview", "claude-opus-4-9", "gpt-4o-2024-0806", "", "20250929"]
        {
            assert_eq!(price(name), None, "{name}");
        }
    }
}
