//! Times of the requests to one server, by method: `mcp.client.operation.duration` of the conventions for MCP.

use std::{sync::OnceLock, time::Duration};

use prometheus_client::metrics::histogram::Histogram;

use airlock_wire::method;

/// Methods that are timed apart. Those beyond are `other`.
const METHODS: [&str; 16] = [
    method::TOOLS_CALL,
    method::TOOLS_LIST,
    method::RESOURCES_LIST,
    method::TEMPLATES_LIST,
    method::RESOURCES_READ,
    method::RESOURCES_SUBSCRIBE,
    method::RESOURCES_UNSUBSCRIBE,
    method::PROMPTS_LIST,
    method::PROMPTS_GET,
    method::COMPLETE,
    method::LISTEN,
    method::PING,
    method::TASKS_GET,
    method::TASKS_RESULT,
    method::TASKS_CANCEL,
    "other",
];
/// Upper bounds of the buckets in seconds, as the conventions have them. One more bucket has no bound.
const BOUNDS_SECONDS: [f64; 14] =
    [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

/// Times by method. A method has none before its first request.
#[derive(Default)]
pub(in super::super) struct Operations([OnceLock<Histogram>; METHODS.len()]);

impl Operations {
    /// Adds a request that has ended.
    pub(in super::super) fn observe(&self, method: &str, took: Duration) {
        let at = METHODS.iter().position(|known| *known == method).unwrap_or(METHODS.len() - 1);
        let times = self.0[at].get_or_init(|| Histogram::new(BOUNDS_SECONDS));
        times.observe(took.as_secs_f64());
    }

    /// Iterates over the times of the methods that were used.
    pub(super) fn times(&self) -> impl Iterator<Item = (&'static str, Histogram)> {
        let times = METHODS.into_iter().zip(&self.0);
        times.filter_map(|(method, times)| Some((method, times.get()?.clone())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_method_makes_no_times_of_its_own() {
        let operations = Operations::default();
        for method in [method::TOOLS_CALL, "x/one", "x/two"] {
            operations.observe(method, Duration::from_millis(1));
        }
        let counts: Vec<_> =
            operations.times().map(|(method, times)| (method, times.count())).collect();
        assert_eq!(counts, [(method::TOOLS_CALL, 1), ("other", 2)]);
    }
}
