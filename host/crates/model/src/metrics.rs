//! Metrics of providers, with the names of the conventions for generative AI where these have one.
//!
//! The values of labels are the names of configured providers, and of models: those that the configuration names, and
//! of the others that have responded only so many of each provider, because callers choose them.

mod collector;

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use arc_swap::ArcSwap;
use prometheus_client::metrics::{counter::Counter, histogram::Histogram};

pub use self::collector::ModelMetrics;
use super::{ModelError, ReplyChunk};
use airlock_core::model_control::TokenUsage;

/// Maximum models of one provider that only callers name and that are measured apart: each has four histograms of 14
/// bounds, so 68 time series. Those beyond are `other`.
const MAX_MODELS: usize = 32;
/// Upper bounds of the buckets in seconds, as the conventions have them. One more bucket has no bound.
const BOUNDS_SECONDS: [f64; 14] =
    [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
/// Upper bounds of the buckets of tokens, as the conventions have them. One more bucket has no bound.
const BOUNDS_TOKENS: [f64; 14] = [
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1_024.0,
    4_096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];
/// Model of those that are not measured apart.
const OTHER: &str = "other";
/// Error of a request or a stream that its caller has left.
const CANCELLED: &str = "cancelled";
/// Codes of errors, in the order of their counters: those of [`ModelError::code`] that a provider can cause.
const ERRORS: [&str; 10] = [
    "provider_refused",
    "provider_credential",
    "provider_proxy",
    "provider_bad_answer",
    "provider_unreachable",
    "provider_timeout",
    "model_not_found",
    "gateway_overloaded",
    CANCELLED,
    OTHER,
];

/// Metrics of one provider.
#[derive(Debug)]
pub(super) struct ProviderMetrics {
    models: ArcSwap<BTreeMap<String, Arc<ModelTimes>>>,
    other: Arc<ModelTimes>,
    errors: [Counter; ERRORS.len()],
    /// Requests that were repeated.
    pub(super) retries: Counter,
    /// Requests that another provider got because this one has failed.
    pub(super) fallbacks: Counter,
}

/// Measurements of one model.
#[derive(Debug)]
struct ModelTimes {
    /// True if the configuration names the model.
    is_configured: bool,
    durations: Histogram,
    first_chunks: Histogram,
    input: Histogram,
    output: Histogram,
}

impl ModelTimes {
    fn new(is_configured: bool) -> Self {
        Self {
            is_configured,
            durations: Histogram::new(BOUNDS_SECONDS),
            first_chunks: Histogram::new(BOUNDS_SECONDS),
            input: Histogram::new(BOUNDS_TOKENS),
            output: Histogram::new(BOUNDS_TOKENS),
        }
    }
}

impl ProviderMetrics {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            models: ArcSwap::default(),
            other: Arc::new(ModelTimes::new(false)),
            errors: ERRORS.map(|_| Counter::default()),
            retries: Counter::default(),
            fallbacks: Counter::default(),
        })
    }

    /// Begins to observe a request. It counts as cancelled if the value is dropped before there is a response.
    pub(super) fn begin(&self) -> UnansweredRequest<'_> {
        UnansweredRequest { metrics: self, is_answered: false }
    }

    /// Counts a request that the provider did not respond to.
    pub(super) fn fail(&self, error: &ModelError) {
        self.count_error(error.code());
    }

    fn count_error(&self, code: &str) {
        let at = ERRORS.iter().position(|known| *known == code).unwrap_or(ERRORS.len() - 1);
        self.errors[at].inc();
    }

    /// Begins to observe the response of a model to a request that was begun at a time.
    pub(super) fn observe(self: &Arc<Self>, model: ModelName<'_>, began: Instant) -> ObservedReply {
        let times = self.times(model);
        ObservedReply { metrics: self.clone(), times, began, usage: None, has_ended: false }
    }

    fn times(&self, model: ModelName<'_>) -> Arc<ModelTimes> {
        let known = self.models.load();
        if let Some(times) = known.get(model.name) {
            return times.clone();
        }
        // A model of this name would be shown twice.
        if model.name == OTHER || !model.has_place(&known) {
            return self.other.clone();
        }
        let mut times = self.other.clone();
        self.models.rcu(|known| {
            let mut next = BTreeMap::clone(known);
            times = match next.get(model.name) {
                Some(times) => times.clone(),
                None if !model.has_place(&next) => self.other.clone(),
                None => {
                    let own = Arc::new(ModelTimes::new(model.is_configured));
                    next.entry(model.name.to_owned()).or_insert(own).clone()
                }
            };
            next
        });
        times
    }
}

/// Name of a model.
#[derive(Clone, Copy)]
pub(super) struct ModelName<'n> {
    pub(super) name: &'n str,
    /// True if the configuration has the name, so that callers cannot take its place.
    pub(super) is_configured: bool,
}

impl ModelName<'_> {
    /// Returns whether the model may be measured apart beside these.
    fn has_place(self, known: &BTreeMap<String, Arc<ModelTimes>>) -> bool {
        let called = known.values().filter(|times| !times.is_configured).count();
        self.is_configured
            || called < MAX_MODELS && self.name.len() <= airlock_strings::MAX_NAME_BYTES
    }
}

/// A request without a response. If it is dropped before, its caller has left.
pub(super) struct UnansweredRequest<'m> {
    metrics: &'m ProviderMetrics,
    is_answered: bool,
}

impl UnansweredRequest<'_> {
    /// The provider has responded, or the request has failed.
    pub(super) fn end(mut self) {
        self.is_answered = true;
    }
}

impl Drop for UnansweredRequest<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.metrics.count_error(CANCELLED);
        }
    }
}

/// A reply that is being received. If it is dropped before its end, its caller has left.
pub(super) struct ObservedReply {
    metrics: Arc<ProviderMetrics>,
    times: Arc<ModelTimes>,
    began: Instant,
    usage: Option<TokenUsage>,
    has_ended: bool,
}

impl ObservedReply {
    /// Takes note that the first chunk of a stream has arrived.
    pub(super) fn begin_stream(&self) {
        self.times.first_chunks.observe(self.began.elapsed().as_secs_f64());
    }

    /// Takes note of a part. A later count of tokens replaces an earlier one.
    pub(super) fn receive(&mut self, chunk: &ReplyChunk) {
        self.usage = chunk.tokens().or(self.usage);
    }

    /// Counts the reply with its error.
    pub(super) fn end(&mut self, error: Option<&ModelError>) {
        self.close(error.map(ModelError::code));
    }

    fn close(&mut self, error: Option<&str>) {
        if std::mem::replace(&mut self.has_ended, true) {
            return;
        }
        self.times.durations.observe(self.began.elapsed().as_secs_f64());
        if let Some(code) = error {
            self.metrics.count_error(code);
        }
        if let Some(usage) = self.usage {
            self.times.input.observe(bounded(usage.input));
            self.times.output.observe(bounded(usage.output));
        }
    }
}

impl Drop for ObservedReply {
    fn drop(&mut self) {
        self.close(Some(CANCELLED));
    }
}

/// Returns a number of tokens that a provider tells, cut to 32 bits: one that lies must not spoil the sum.
fn bounded(tokens: u64) -> f64 {
    f64::from(u32::try_from(tokens).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(name: &str) -> ModelName<'_> {
        ModelName { name, is_configured: false }
    }

    fn whole(metrics: &Arc<ProviderMetrics>, model: ModelName<'_>) {
        let mut observed = metrics.observe(model, Instant::now());
        observed.receive(&ReplyChunk::default());
        observed.end(None);
    }

    #[test]
    fn callers_that_invent_models_make_only_so_many_time_series() {
        let metrics = ProviderMetrics::new();
        for number in 0..10 * MAX_MODELS {
            whole(&metrics, called(&format!("model-{number}")));
        }
        assert_eq!(metrics.models.load().len(), MAX_MODELS);
        let other = metrics.times(called("one more"));
        assert!(Arc::ptr_eq(&other, &metrics.other));
        let configured = ModelName { name: "one more", is_configured: true };
        whole(&metrics, configured);
        assert_eq!(metrics.models.load().len(), MAX_MODELS + 1, "callers cannot take its place");
        assert_eq!(metrics.times(configured).durations.count(), 1);
        let metrics = ProviderMetrics::new();
        whole(&metrics, called(&"x".repeat(airlock_strings::MAX_NAME_BYTES + 1)));
        whole(&metrics, called(OTHER));
        assert!(metrics.models.load().is_empty(), "a long name is no label, and this one is taken");
    }

    #[test]
    fn an_unknown_code_counts_as_other() {
        let metrics = ProviderMetrics::new();
        metrics.count_error("provider_timeout");
        metrics.count_error("no_such_code");
        let counted: Vec<_> = metrics.errors.iter().map(Counter::get).collect();
        assert_eq!(counted, [0, 0, 0, 0, 0, 1, 0, 0, 0, 1]);
    }

    #[test]
    fn a_reply_that_is_dropped_counts_as_cancelled_and_one_that_has_ended_does_not() {
        let metrics = ProviderMetrics::new();
        whole(&metrics, called("m"));
        let cancelled = ERRORS.iter().position(|code| *code == CANCELLED).expect("it is counted");
        assert_eq!(metrics.errors[cancelled].get(), 0);
        let observed = metrics.observe(called("m"), Instant::now());
        observed.begin_stream();
        drop(observed);
        assert_eq!(metrics.errors[cancelled].get(), 1);
        metrics.begin().end();
        assert_eq!(metrics.errors[cancelled].get(), 1);
        drop(metrics.begin());
        assert_eq!(metrics.errors[cancelled].get(), 2, "before its response");
    }
}
