//! Settings of the gateway as an MCP server.

use std::time::Duration;

/// Settings of the gateway as an MCP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Treatment of a call that needs an approval.
    pub approval: ApprovalMode,
    /// Exceptions from it. The first one that applies to a client counts.
    pub approval_rules: Vec<ApprovalRule>,
    /// Time for a user to answer a question.
    pub approval_timeout: Duration,
    /// Time for which a call waits in the list of pending approvals before it fails. The list keeps it
    /// for longer, so that its client can repeat it.
    pub approval_wait: Duration,
    /// Bounds on sessions and streams.
    pub sessions: SessionBounds,
    /// True if the transport HTTP+SSE of 2024-11-05 is served too.
    pub sse: bool,
}

impl Settings {
    /// Returns whether calls of some client with this virtual key wait for an operator: then the holder of
    /// the key decides about no call of a script either.
    pub fn waits_for_operators(&self, key: Option<&str>) -> bool {
        let mut rules = self.approval_rules.iter();
        self.approval == ApprovalMode::Wait
            || rules.any(|rule| {
                rule.approval == ApprovalMode::Wait && holds(rule.virtual_key.as_deref(), key)
            })
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            approval: ApprovalMode::default(),
            approval_rules: Vec::new(),
            approval_timeout: Duration::from_mins(5),
            approval_wait: Duration::from_secs(45),
            sessions: SessionBounds::default(),
            sse: false,
        }
    }
}

/// Treatment of a call that needs an approval: refused, asked for, or run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ApprovalMode {
    /// It is refused.
    Never,
    /// The client's user is asked, if the client can ask with a form; else the call waits in the list
    /// of pending approvals.
    #[default]
    Elicit,
    /// It waits in the list of pending approvals until an operator decides, also if the client can ask its
    /// user: neither that user nor the caller decides.
    Wait,
    /// It runs, because the client asks its user itself. Each such call is logged.
    Client,
    /// It runs.
    AlwaysAllow,
}

/// Handling of the calls of some clients. A condition that is `None` holds for all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalRule {
    /// Name of the virtual key that the client sends.
    pub virtual_key: Option<String>,
    /// Name that the client gives itself. It authenticates nothing.
    pub client_name: Option<String>,
    /// Handling of its calls.
    pub approval: ApprovalMode,
}

impl ApprovalRule {
    /// Returns whether the rule is for a client with this key and this name.
    pub(super) fn applies(&self, key: Option<&str>, name: Option<&str>) -> bool {
        holds(self.virtual_key.as_deref(), key) && holds(self.client_name.as_deref(), name)
    }
}

fn holds(wanted: Option<&str>, found: Option<&str>) -> bool {
    wanted.is_none_or(|wanted| found == Some(wanted))
}

/// Bounds on sessions and streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionBounds {
    /// Sessions at a time. Beyond it, an idle one of the tenant with the most sessions is closed.
    pub total: usize,
    /// Sessions of one virtual key, or of all callers without a key together. Beyond it, the
    /// one that has been idle for longest is closed.
    pub per_key: usize,
    /// Streams that wait for notifications (the GET stream of a session, `subscriptions/listen`), of
    /// one virtual key.
    pub streams_per_key: usize,
    /// Such streams in all.
    pub streams: usize,
    /// Time after which a session without requests and streams expires.
    pub idle: Duration,
}

impl Default for SessionBounds {
    fn default() -> Self {
        Self {
            total: 4_096,
            per_key: 1_024,
            streams_per_key: 256,
            streams: 512,
            idle: Duration::from_mins(30),
        }
    }
}
