//! Times of the requests to one server, by method, and of the connections to it: `mcp.client.operation.duration` and
//! `mcp.client.session.duration` of the conventions for MCP.

use std::{collections::BTreeMap, time::Duration};

use parking_lot::Mutex;
use prometheus_client::metrics::histogram::Histogram;

use airlock_wire::method;

/// Upper bounds of the buckets in seconds, as the conventions have them. One more bucket has no bound.
const BOUNDS_SECONDS: [f64; 14] =
    [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

/// Method and error of a request; no error if it has succeeded. The client of MCP has a closed set of errors.
type OperationKey = (&'static str, Option<&'static str>);

/// Times of requests and connections. There are none before the first one.
#[derive(Default)]
pub(super) struct Operations {
    requests: Mutex<BTreeMap<OperationKey, Histogram>>,
    /// By the error that has ended the connection.
    sessions: Mutex<BTreeMap<Option<&'static str>, Histogram>>,
}

impl Operations {
    /// Adds a request that has ended.
    pub(super) fn observe(&self, method: &str, took: Duration, error_type: Option<&'static str>) {
        let method = method::metric_name(method);
        let mut requests = self.requests.lock();
        let times = requests.entry((method, error_type)).or_insert_with(new_times);
        times.observe(took.as_secs_f64());
    }

    /// Adds a connection that has ended.
    pub(super) fn observe_session(&self, took: Duration, error_type: Option<&'static str>) {
        let mut sessions = self.sessions.lock();
        sessions.entry(error_type).or_insert_with(new_times).observe(took.as_secs_f64());
    }

    /// Returns the times of requests.
    pub(super) fn times(&self) -> Vec<(OperationKey, Histogram)> {
        let requests = self.requests.lock();
        requests.iter().map(|(operation, times)| (*operation, times.clone())).collect()
    }

    /// Returns the times of connections by their errors.
    pub(super) fn session_times(&self) -> Vec<(Option<&'static str>, Histogram)> {
        let sessions = self.sessions.lock();
        sessions.iter().map(|(error_type, times)| (*error_type, times.clone())).collect()
    }
}

fn new_times() -> Histogram {
    Histogram::new(BOUNDS_SECONDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_method_makes_no_times_of_its_own_and_errors_are_timed_apart() {
        let operations = Operations::default();
        for (method, error_type) in [
            (method::TOOLS_CALL, None),
            (method::TOOLS_CALL, Some("cancelled")),
            ("x/one", None),
            ("x/two", None),
        ] {
            operations.observe(method, Duration::from_millis(1), error_type);
        }
        let times = operations.times().into_iter();
        let counts: Vec<_> = times.map(|(operation, times)| (operation, times.count())).collect();
        let calls = method::TOOLS_CALL;
        let expected = [(("other", None), 2), ((calls, None), 1), ((calls, Some("cancelled")), 1)];
        assert_eq!(counts, expected);
    }
}
