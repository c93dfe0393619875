//! Times of the requests of MCP clients and of their sessions: `mcp.server.operation.duration` and
//! `mcp.server.session.duration` of the conventions for MCP.
//!
//! Labels are methods of the protocol and errors from a closed set: a client sends any method, and a server any code.

use std::{
    collections::BTreeMap,
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::{MetricType, histogram::Histogram},
};

use super::trace::{OF_CLIENT, is_tool_error};
use airlock_telemetry::names;
use airlock_wire::{
    error::{RpcError, code},
    method,
};

/// Upper bounds of the buckets in seconds, as the conventions have them. One more bucket has no bound.
const BOUNDS_SECONDS: [f64; 14] =
    [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

/// Method and error of a request; no error if it has succeeded, or if the client has made it.
type OperationKey = (&'static str, Option<&'static str>);

/// Times of the requests and of the sessions of MCP clients.
#[derive(Debug)]
pub struct ServerTimes {
    operations: Mutex<BTreeMap<OperationKey, Histogram>>,
    sessions: Histogram,
}

impl Default for ServerTimes {
    fn default() -> Self {
        Self { operations: Mutex::default(), sessions: Histogram::new(BOUNDS_SECONDS) }
    }
}

impl ServerTimes {
    /// Adds a request that was begun at a time and has ended.
    pub fn observe(&self, method: &str, began: Instant, result: &Result<String, RpcError>) {
        self.add((method::metric_name(method), error_type(method, result)), began);
    }

    fn add(&self, operation: OperationKey, began: Instant) {
        let mut operations = self.operations.lock();
        let times = operations.entry(operation).or_insert_with(|| Histogram::new(BOUNDS_SECONDS));
        times.observe(began.elapsed().as_secs_f64());
    }

    /// Adds a session that has ended.
    pub(super) fn observe_session(&self, took: Duration) {
        self.sessions.observe(took.as_secs_f64());
    }

    #[cfg(test)]
    pub(super) fn sessions(&self) -> &Histogram {
        &self.sessions
    }

    /// Writes the times as metrics.
    pub fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let name = "mcp_server_operation_duration_seconds";
        let help = "Time of a request of an MCP client, from its receipt to its response.";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        let operations = self.operations.lock().clone();
        for ((method, error_type), times) in &operations {
            let error = error_type.map(|error| ("error_type", error));
            let labels: Vec<_> = [("mcp_method_name", *method)].into_iter().chain(error).collect();
            times.encode(family.encode_family(&labels)?)?;
        }
        let name = "mcp_server_session_duration_seconds";
        let help = "Time of a session of an MCP client that has ended.";
        let family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        self.sessions.encode(family)
    }
}

fn error_type(method: &str, result: &Result<String, RpcError>) -> Option<&'static str> {
    match result {
        Ok(text) if method == method::TOOLS_CALL && is_tool_error(text) => Some(names::TOOL_ERROR),
        Ok(_) => None,
        Err(error) if OF_CLIENT.contains(&error.code) => None,
        Err(error) => Some(code::name(error.code)),
    }
}

/// A request that is being observed. Dropping it before its end means that its client has cancelled it.
pub(super) struct ObservedRequest {
    times: Arc<ServerTimes>,
    method: &'static str,
    began: Instant,
    has_ended: bool,
}

impl ObservedRequest {
    pub(super) fn begin(times: &Arc<ServerTimes>, method: &str) -> Self {
        let method = method::metric_name(method);
        Self { times: times.clone(), method, began: Instant::now(), has_ended: false }
    }

    pub(super) fn end(mut self, result: &Result<String, RpcError>) {
        self.has_ended = true;
        self.times.observe(self.method, self.began, result);
    }
}

impl Drop for ObservedRequest {
    fn drop(&mut self) {
        if !self.has_ended {
            self.times.add((self.method, Some(names::CANCELLED)), self.began);
        }
    }
}

/// A session that is being observed, until it is dropped.
pub(super) struct ObservedSession {
    times: Arc<ServerTimes>,
    opened: Instant,
}

impl ObservedSession {
    pub(super) fn open(times: Arc<ServerTimes>) -> Self {
        Self { times, opened: Instant::now() }
    }
}

impl Drop for ObservedSession {
    fn drop(&mut self) {
        self.times.observe_session(self.opened.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use futures_util::FutureExt as _;

    use super::*;
    use crate::exchange::Exchange;
    use airlock_wire::id::RpcId;

    fn counts(times: &ServerTimes) -> Vec<(OperationKey, u64)> {
        let operations = times.operations.lock();
        operations.iter().map(|(operation, times)| (*operation, times.count())).collect()
    }

    #[test]
    fn errors_of_clients_are_none_and_neither_methods_nor_codes_make_series() {
        let times = ServerTimes::default();
        let began = Instant::now();
        let failed = Ok(r#"{"content":[],"isError":true}"#.to_owned());
        times.observe(method::TOOLS_CALL, began, &failed);
        times.observe(method::TOOLS_CALL, began, &Ok(r#"{"isError":false}"#.to_owned()));
        times.observe("x/one", began, &Err(RpcError::method_not_found("x/one")));
        times.observe("x/two", began, &Err(RpcError::new(-7, "seven")));
        times.observe("x/two", began, &Err(RpcError::new(code::INTERNAL, "no")));
        let calls = method::TOOLS_CALL;
        let expected = [
            (("other", None), 1),
            (("other", Some("-32603")), 1),
            (("other", Some("_OTHER")), 1),
            ((calls, None), 1),
            ((calls, Some("tool_error")), 1),
        ];
        assert_eq!(counts(&times), expected);
    }

    fn begin(times: &Arc<ServerTimes>) -> ObservedRequest {
        ObservedRequest::begin(times, method::PING)
    }

    #[tokio::test]
    async fn an_exchange_is_observed_at_its_end_or_as_cancelled() {
        let times = Arc::<ServerTimes>::default();
        let ready = Exchange::ready(RpcId::from(1), Ok("{}".to_owned()));
        assert!(ready.observed(begin(&times)).response().await.is_some());
        let mut endless = Exchange::new(RpcId::from(2), None, |_| pending());
        endless = endless.observed(begin(&times));
        assert!(endless.response().now_or_never().is_none());
        drop(endless);
        let ping = method::PING;
        assert_eq!(counts(&times), [((ping, None), 1), ((ping, Some("cancelled")), 1)]);
    }
}
