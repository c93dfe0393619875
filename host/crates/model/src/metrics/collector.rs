//! The metrics of all providers, as a scrape reads them.

use std::{fmt, sync::Arc};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::MetricType,
};

use super::{ERRORS, ModelTimes, OTHER};
use crate::Models;

/// Metrics of all providers, to be registered once.
pub struct ModelMetrics(Box<dyn Fn() -> Arc<Models> + Send + Sync>);

impl ModelMetrics {
    /// Creates the metrics of the providers that `models` returns at each scrape.
    pub fn new(models: impl Fn() -> Arc<Models> + Send + Sync + 'static) -> Self {
        Self(Box::new(models))
    }
}

/// The measurements of one model, with the names of its provider and its own.
type ModelRow = (String, String, Arc<ModelTimes>);

impl Collector for ModelMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let models = (self.0)();
        let rows = rows(&models);
        encode_times(&mut encoder, &rows)?;
        encode_tokens(&mut encoder, &rows)?;
        let name = "airlock_model_errors";
        let help = "Requests to a provider that it did not respond to, or whose response was not complete.";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for provider in &models.providers {
            for (code, errors) in ERRORS.iter().zip(&provider.metrics.errors) {
                let labels = [("provider", provider.name.as_str()), ("error_type", *code)];
                errors.encode(family.encode_family(&labels)?)?;
            }
        }
        let name = "airlock_model_retries";
        let help = "Attempts of requests to a provider after one that failed.";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for provider in &models.providers {
            let labels = [("provider", provider.name.as_str())];
            provider.metrics.retries.encode(family.encode_family(&labels)?)?;
        }
        let name = "airlock_model_fallbacks";
        let help = "Requests that another model got because this provider had failed.";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for provider in &models.providers {
            let labels = [("provider", provider.name.as_str())];
            provider.metrics.fallbacks.encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

fn rows(models: &Models) -> Vec<ModelRow> {
    let mut rows = Vec::new();
    for provider in &models.providers {
        let metrics = &provider.metrics;
        let known = metrics.models.load();
        let known = known.iter().map(|(model, times)| (model.clone(), times.clone()));
        let all = known.chain([(OTHER.to_owned(), metrics.other.clone())]);
        rows.extend(all.map(|(model, times)| (provider.name.clone(), model, times)));
    }
    rows
}

fn encode_times(encoder: &mut DescriptorEncoder<'_>, rows: &[ModelRow]) -> fmt::Result {
    let name = "gen_ai_client_operation_duration_seconds";
    let help = "Time from a request to a provider to the end of its response.";
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    for (provider, model, times) in rows {
        let labels = [("provider", provider.as_str()), ("gen_ai_request_model", model.as_str())];
        times.durations.encode(family.encode_family(&labels)?)?;
    }
    let name = "gen_ai_client_operation_time_to_first_chunk_seconds";
    let help = "Time from a request to a provider to the first chunk of a streamed response.";
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    for (provider, model, times) in rows {
        let labels = [("provider", provider.as_str()), ("gen_ai_request_model", model.as_str())];
        times.first_chunks.encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

fn encode_tokens(encoder: &mut DescriptorEncoder<'_>, rows: &[ModelRow]) -> fmt::Result {
    let name = "gen_ai_client_token_usage";
    let help = "Tokens of a request and of its response, if the provider tells them.";
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    for (provider, model, times) in rows {
        for (kind, tokens) in [("input", &times.input), ("output", &times.output)] {
            let labels = [
                ("provider", provider.as_str()),
                ("gen_ai_request_model", model.as_str()),
                ("gen_ai_token_type", kind),
            ];
            tokens.encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

airlock_strings::debug_fields!(ModelMetrics {});
