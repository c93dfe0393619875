//! Limits on one service.

use std::time::Duration;

use crate::Service;

/// Limits on the time and memory that a service may use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServiceBounds {
    /// Time limit for a connection, TLS included.
    pub(crate) connect: Duration,
    /// Time limit for the whole response, streamed or not.
    pub(crate) answer: Duration,
    /// Time limit for the first chunk of a stream.
    pub(crate) first_byte: Duration,
    /// Time limit for the next bytes of a stream, comments included.
    pub(crate) idle: Duration,
    /// Time limit for the list of models.
    pub(crate) list: Duration,
    /// Maximum bytes of a response.
    pub(crate) answer_bytes: usize,
    /// Maximum bytes of one event of a stream.
    pub(crate) event_bytes: usize,
    /// Maximum memory of a parsed response, in bytes.
    pub(crate) answer_tree_bytes: usize,
}

impl ServiceBounds {
    /// Returns the bounds of a service.
    pub(crate) fn new(service: &Service) -> Self {
        let timeouts = service.timeouts;
        Self {
            connect: timeouts.connect,
            answer: timeouts.request,
            first_byte: timeouts.first_byte,
            idle: timeouts.idle,
            list: Duration::from_secs(3),
            answer_bytes: 16 << 20,
            event_bytes: 4 << 20,
            answer_tree_bytes: 64 << 20,
        }
    }
}
