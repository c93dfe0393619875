//! Capabilities of a caller: the messages that it takes of its running calls, and its session.

use std::sync::atomic::{AtomicU64, Ordering};

use super::LogLevel;
use crate::tool::QuestionKinds;

/// Messages of running calls, besides events, that a caller takes: its capabilities in the words of MCP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallerCapabilities {
    /// Least severe log messages of sources that are sent as events; `None` for no messages.
    pub log_level: Option<LogLevel>,
    /// Questions of sources that the caller can answer.
    pub questions: QuestionKinds,
    /// Session of the client that calls; `None` if its calls belong to none.
    pub session: Option<SessionId>,
}

/// Identifier of one session of a client, unique in this process. All calls of a session have the
/// same user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionId(u64);

impl SessionId {
    /// Returns an identifier that no other session has.
    pub fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}
