//! Limits of requests to models.

use std::{iter, sync::Arc};

use airlock_core::{
    door::Membership,
    model_control::{
        ControlRefusal, ControlledModelRequest, ModelControl, ModelOutcome, ModelRequest,
        ServiceTier, TokenUsage,
    },
};
use futures_util::future::BoxFuture;
use uuid::Uuid;

use crate::{
    batch::Demand,
    limit::{Limit, Measure},
    limiter::{HeldAmounts, Limiter},
    live::LiveLimit,
    price::{ModelPrice, PriceTable},
    refusal::Denied,
    usage::{TokenEstimate, is_told, total},
};

impl ModelControl for Limiter {
    fn applies(&self, membership: &Membership) -> bool {
        self.limits_any(membership, |limit| !limit.measure.is_of_calls_alone())
    }

    fn begin<'c>(
        &'c self,
        request: ModelRequest<'c>,
    ) -> BoxFuture<'c, Result<Box<dyn ControlledModelRequest>, ControlRefusal>> {
        Box::pin(async move {
            let fallbacks = request.fallbacks.iter().map(String::as_str);
            let models: Vec<_> = iter::once(request.model).chain(fallbacks).collect();
            let limits = self.applied(request.membership, |limit| {
                models.iter().any(|model| counts(limit, model))
            });
            let prices = self.prices();
            if limits.is_empty() {
                let unlimited = UnlimitedRequest { prices };
                return Ok(Box::new(unlimited) as Box<dyn ControlledModelRequest>);
            }
            let estimate = TokenEstimate::new(&request);
            let demands = demands(&limits, &models, &estimate, &prices, reserved(request.tier));
            let demands = demands.inspect_err(|denied| self.metrics.count(denied))?;
            let (provider, model) = split(request.model);
            let price = prices.model(provider, model);
            let id = Uuid::now_v7().to_string();
            let taken = self.take(request.tenant, &limits, demands, Some(id)).await;
            let held = taken.inspect_err(|denied| self.metrics.count(denied))?;
            let limited = LimitedRequest { held: Some(held), estimate, received: 0, price, prices };
            Ok(Box::new(limited) as Box<dyn ControlledModelRequest>)
        })
    }
}

/// Splits the name of a model at that of its provider, if it has one.
fn split(model: &str) -> (Option<&str>, &str) {
    match model.split_once('/') {
        Some((provider, model)) => (Some(provider), model),
        None => (None, model),
    }
}

/// Returns whether a limit counts requests to a model, by its name with or without that of its provider.
fn counts(limit: &Limit, model: &str) -> bool {
    let (provider, model) = split(model);
    limit.counts_request(provider, model)
}

/// Returns the tier whose price is reserved for a request that asks for `tier`. A provider may take the standard one for
/// `flex`.
fn reserved(tier: ServiceTier) -> ServiceTier {
    if tier == ServiceTier::Flex { ServiceTier::Standard } else { tier }
}

/// Returns what each limit needs. Any of the models may respond.
fn demands(
    limits: &[Arc<LiveLimit>],
    models: &[&str],
    estimate: &TokenEstimate,
    prices: &PriceTable,
    tier: ServiceTier,
) -> Result<Vec<Demand>, Denied> {
    let counted = limits.iter().filter(|limit| limit.limit.measure != Measure::Concurrency);
    let demands = counted.map(|limit| {
        let TokenEstimate { most, least, .. } = estimate;
        let (amount, least) = match limit.limit.measure {
            Measure::Tokens => (total(most), total(least)),
            Measure::Cost => {
                let [amount, least] = costs(&limit.limit, models, prices, tier, [most, least])?;
                // Something has to be left, also for a request that costs nothing.
                (amount, least.max(1))
            }
            Measure::Requests
            | Measure::ToolCalls
            | Measure::ArgumentBytes
            | Measure::Concurrency => (1, 1),
        };
        Ok(Demand { limit: limit.clone(), amount, least })
    });
    demands.collect()
}

/// Returns the costs of these tokens with the most expensive of the models that a limit counts. Fails if one of them has
/// no price.
fn costs(
    limit: &Limit,
    models: &[&str],
    prices: &PriceTable,
    tier: ServiceTier,
    tokens: [&TokenUsage; 2],
) -> Result<[u64; 2], Denied> {
    let mut costs = [0; 2];
    for &model in models.iter().filter(|model| counts(limit, model)) {
        let (provider, bare) = split(model);
        let price = prices.model(provider, bare).ok_or_else(|| unpriced(model, limit))?;
        let price = price.of_tier(tier);
        for (cost, tokens) in costs.iter_mut().zip(tokens) {
            *cost = price.cost(tokens).max(*cost);
        }
    }
    Ok(costs)
}

fn unpriced(model: &str, limit: &Limit) -> Denied {
    Denied::Unpriced { model: model.to_owned(), limit: Box::new(limit.clone()) }
}

/// Returns the price of the model that has responded, in its tier: of the model as it was asked for, or else as its
/// provider names it.
fn price_of(prices: &PriceTable, outcome: &ModelOutcome<'_>) -> Option<ModelPrice> {
    let asked = outcome.asked.map(split);
    let price = asked.and_then(|(provider, model)| prices.model(provider, model));
    let price = price.or_else(|| prices.model(outcome.provider, outcome.model?));
    price.map(|price| price.of_tier(outcome.tier))
}

/// Returns what a request with these tokens uses of a limit; `None` for what was taken.
fn amount(limit: &Limit, usage: &TokenUsage, price: Option<ModelPrice>) -> Option<u64> {
    match limit.measure {
        Measure::Tokens => Some(total(usage)),
        Measure::Cost => Some(price?.cost(usage)),
        Measure::Requests | Measure::ToolCalls | Measure::ArgumentBytes | Measure::Concurrency => {
            None
        }
    }
}

/// A request to which no limit applies.
struct UnlimitedRequest {
    prices: Arc<PriceTable>,
}

impl ControlledModelRequest for UnlimitedRequest {
    fn needs_outcome(&self) -> bool {
        false
    }

    fn cost(&self, outcome: &ModelOutcome<'_>) -> Option<u64> {
        Some(price_of(&self.prices, outcome)?.cost(outcome.usage.as_ref()?))
    }

    fn end(self: Box<Self>, _outcome: &ModelOutcome<'_>) {}
}

/// A request with limits. If it is dropped, all that it has reserved is charged, and what was received beyond it.
struct LimitedRequest {
    /// `None` once it is settled.
    held: Option<HeldAmounts>,
    estimate: TokenEstimate,
    /// Parts of the response so far, each of a token or more.
    received: u64,
    /// Price of the model that is asked first.
    price: Option<ModelPrice>,
    prices: Arc<PriceTable>,
}

impl ControlledModelRequest for LimitedRequest {
    fn receives_part(&mut self) {
        self.received = self.received.saturating_add(1);
    }

    fn cost(&self, outcome: &ModelOutcome<'_>) -> Option<u64> {
        Some(self.price(outcome)?.cost(outcome.usage.as_ref()?))
    }

    fn end(mut self: Box<Self>, outcome: &ModelOutcome<'_>) {
        self.settle(outcome);
    }
}

impl LimitedRequest {
    fn settle(&mut self, outcome: &ModelOutcome<'_>) {
        let Some(held) = self.held.take() else { return };
        if outcome.has_not_begun {
            held.release();
            return;
        }
        let usage = self.usage(outcome);
        let price = self.price(outcome);
        let received = TokenUsage { output: self.received, ..self.estimate.input };
        held.settle(|limit, taken| {
            // It was taken for another model, which has not responded.
            if outcome.asked.is_some_and(|asked| !counts(limit, asked)) {
                return (!outcome.has_others).then_some(0);
            }
            match &usage {
                Some(usage) => amount(limit, usage, price),
                None => amount(limit, &received, price).map(|amount| amount.max(taken)),
            }
        });
    }

    /// Returns the tokens to charge; `None` if they are not known.
    fn usage(&self, outcome: &ModelOutcome<'_>) -> Option<TokenUsage> {
        let usage = outcome.usage.filter(is_told)?;
        let is_whole = outcome.error.is_none();
        // The provider has read all of a request that was cut short, whatever it has told until then.
        let input = if is_whole { usage.input } else { usage.input.max(self.estimate.input.input) };
        Some(TokenUsage { input, ..usage })
    }

    /// Returns the price of the model that has responded; of the one that is asked first, if that has none.
    fn price(&self, outcome: &ModelOutcome<'_>) -> Option<ModelPrice> {
        price_of(&self.prices, outcome)
            .or_else(|| self.price.map(|price| price.of_tier(outcome.tier)))
    }
}

impl Drop for LimitedRequest {
    fn drop(&mut self) {
        self.settle(&ModelOutcome::default());
    }
}
