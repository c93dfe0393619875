//! The metrics of a gateway, for `GET /metrics`. The server, the model, the store and the other parts register their
//! own; here are those that no part alone counts.
//!
//! | module | purpose |
//! |---|---|
//! | `calls` | decisions about calls of tools, and their times |
//! | `acts` | approvals and other acts of people |
//! | `guests` | plugins and scripts: the sandbox, the compiler, circuits |
//! | `process` | the process of the gateway itself |

mod acts;
mod calls;
mod guests;
mod process;

use std::sync::Arc;

use prometheus_client::registry::Registry;

use self::{
    acts::CountedActs,
    calls::{CallCollector, CallMetrics},
    guests::GuestCollector,
    process::ProcessCollector,
};
use super::{parts::GatewayParts, serving::Serving};
use airlock_model::ModelMetrics;
use airlock_server::HttpMetrics;

/// Metrics that are counted while a gateway runs, whether or not they are shown. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct GatewayMetrics {
    pub(super) calls: CallMetrics,
    pub(super) acts: CountedActs,
}

/// Returns the registry of a gateway, with the metrics of all its parts.
pub(super) fn registry(
    parts: &GatewayParts,
    serving: &Arc<Serving>,
    http: &Arc<HttpMetrics>,
) -> Registry {
    let GatewayParts { catalog, sandbox, metrics, .. } = parts;
    let mut registry = Registry::default();
    registry.register_collector(Box::new(ProcessCollector::new()));
    registry.register_collector(Box::new(http.clone()));
    // The settings have the server, which has the registry.
    let serving = Arc::downgrade(serving);
    let models = ModelMetrics::new(move || {
        serving.upgrade().map(|serving| serving.now().models).unwrap_or_default()
    });
    registry.register_collector(Box::new(models));
    let calls = CallCollector::new(metrics.calls.clone(), catalog.clone());
    registry.register_collector(Box::new(calls));
    registry.register_collector(Box::new(metrics.acts.clone()));
    registry.register_collector(Box::new(parts.upstreams.0.metrics()));
    let guests = GuestCollector::new(sandbox.clone(), catalog.clone());
    registry.register_collector(Box::new(guests));
    if let Some(guards) = &parts.guards {
        guards.register_metrics(&mut registry);
    }
    parts.code_mode.now().register_metrics(&mut registry);
    parts.limiter.register_metrics(&mut registry);
    parts.database.register_metrics(&mut registry);
    if let Some(recorder) = &parts.records {
        recorder.register_metrics(&mut registry);
    }
    #[cfg(feature = "otlp")]
    airlock_telemetry::register_metrics(&mut registry);
    registry
}
