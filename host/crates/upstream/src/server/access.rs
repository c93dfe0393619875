//! The way to an instance: none, one that a call starts, a link, or a connection of the call's own.

use std::sync::Arc;

use tokio_util::task::task_tracker::TaskTrackerToken;

use airlock_mcp_client::{Attempt, Credentials, Link, Settings};

/// Way to an instance for a call.
#[derive(Clone, Default)]
pub(crate) enum ServerAccess {
    /// There is none at present.
    #[default]
    Down,
    /// The instance is started by a call, or is starting because of one.
    OnDemand,
    /// Over this link.
    Up(UsedLink),
    /// Over a connection of the call's own.
    PerCall(Arc<PerCall>),
}

/// A link in use. A connection that is replaced is closed once every clone is dropped.
#[derive(Clone)]
pub(crate) struct UsedLink {
    pub(super) link: Arc<Link>,
    _user: TaskTrackerToken,
}

impl UsedLink {
    pub(crate) fn new(link: Arc<Link>) -> Self {
        let user = link.users().token();
        Self { link, _user: user }
    }

    /// Returns whether the link is in use elsewhere too.
    pub(super) fn has_others(&self) -> bool {
        self.link.users().len() > 1
    }
}

/// Settings for connections of single calls.
pub(crate) struct PerCall {
    pub(crate) settings: Settings,
    pub(crate) credentials: Arc<Credentials>,
    pub(crate) attempt: Attempt,
}
