//! The running call, as its tool sees it. The host decides what to do with progress and parts.

use std::time::Duration;

use crate::Content;
use crate::host::context::CallContext;
use crate::wire;

/// The running call. A tool receives it by taking a parameter `&Context`.
///
/// ```
/// use airlock_guest::{Context, tool};
///
/// /// Adds up numbers.
/// #[tool(read_only, idempotent)]
/// fn sum(
///     /// Numbers to add up.
///     numbers: Vec<f64>,
///     context: &Context,
/// ) -> String {
///     let mut sum = 0.0;
///     for (done, number) in numbers.iter().enumerate() {
///         context.progress(done as f64, Some(numbers.len() as f64), None);
///         sum += number;
///     }
///     sum.to_string()
/// }
///
/// let host = airlock_guest::testing::Host::new();
/// assert_eq!(sum(vec![1.0, 2.5], &host.context()), "3.5");
/// assert_eq!(host.progress().len(), 2);
/// ```
#[derive(Debug)]
pub struct Context<'call> {
    handle: &'call CallContext,
}

impl<'call> Context<'call> {
    pub(crate) fn new(handle: &'call CallContext) -> Self {
        Self { handle }
    }

    /// Returns the host's identifier of this call, for correlation.
    pub fn id(&self) -> String {
        self.handle.id()
    }

    /// Returns the wall-clock time left before the host ends the call; `None` if it is not limited.
    pub fn remaining(&self) -> Option<Duration> {
        self.handle.remaining_ms().map(Duration::from_millis)
    }

    /// Reports progress. `done` grows from report to report; `total` is its final value, if known.
    pub fn progress(&self, done: f64, total: Option<f64>, message: Option<&str>) {
        self.handle.progress(done, total, message);
    }

    /// Sends one part of the result before the rest. The content of the result, or of the error,
    /// begins with these parts, so the tool does not return them again. They count towards the
    /// host's limit on the result.
    pub fn emit(&self, part: impl Into<Content>) {
        self.handle.emit(&wire::content_to_host(part.into()));
    }
}
