//! Takes over the lists of tools of one instance.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use tracing::{debug, info, warn};

use super::{
    super::{
        server::{PerCall, ServerAccess, UsedLink},
        status::ServerPhase,
    },
    Supervisor,
    entry::ListOutcome,
};
use crate::limits::{QUICK_LIST_CHANGES, SUSPICION_DELAYS};
use airlock_mcp_client::{Attempt, Backoff, Handshake, Lifecycle, Link, Restart, ToolList};

impl Supervisor {
    /// Takes over a list. One that is suspiciously short after a longer one is not believed: the
    /// longer one is kept. A list that was read to its end is believed once it was the same in
    /// several readings; that of one of several instances, if its definitions differ from the accepted
    /// ones. Returns the time after which the list is to be read again; `None` if it was believed.
    pub(super) async fn adopt(&mut self, list: ToolList, link: &Arc<Link>) -> Option<Duration> {
        // Otherwise, an instance with other definitions would get calls as long as it lists too few.
        if let Some(delay) = self.doubt(&list)
            && !self.entry.differs(&list.tools).await
        {
            let reason = format!(
                "it listed {} tools after {}; the last list is kept",
                list.tools.len(),
                self.published
            );
            warn!(client = %self.settings.name, reason, "upstream list of tools is in doubt");
            let status = self.instance.status();
            status.set_stale(true);
            status.enter(ServerPhase::Degraded, &reason);
            self.give_access(link);
            self.entry.set_connected(&self.instance);
            return Some(delay);
        }
        self.suspicions = 0;
        self.warned = None;
        let is_cut = list.is_cut;
        let listed = list.tools.len();
        let held_out = self.publish(list, link).await;
        let status = self.instance.status();
        status.set_stale(false);
        if let Some(reason) = held_out {
            status.enter(ServerPhase::HeldOut, &reason);
        } else if is_cut {
            status
                .enter(ServerPhase::Degraded, "its list of tools was cut; the log has the reason");
        } else {
            status.enter(ServerPhase::Ready, &self.listed(listed));
        }
        None
    }

    /// Returns the reason for the state of a server that has listed this many tools.
    fn listed(&self, tools: usize) -> String {
        let held = self.pins.held().len();
        let problem = self.pins.problem().map(|problem| format!("; {problem}")).unwrap_or_default();
        if held == 0 {
            format!("it listed {} tools{problem}", self.published)
        } else {
            format!("it listed {tools} tools, {held} in quarantine{problem}")
        }
    }

    /// Returns the time until a list is to be read again that is not believed; `None` if it is
    /// believed.
    fn doubt(&mut self, list: &ToolList) -> Option<Duration> {
        let is_short = list.tools.is_empty() || list.is_cut && list.tools.len() < self.published;
        if self.published == 0 || !is_short {
            return None;
        }
        let delay = SUSPICION_DELAYS.get(self.suspicions);
        self.suspicions += 1;
        let repeated = SUSPICION_DELAYS.last().filter(|_| list.is_cut);
        delay.or(repeated).copied()
    }

    /// Publishes a list. Returns the reason that the instance is held out; `None` if it gets calls.
    async fn publish(&mut self, list: ToolList, link: &Arc<Link>) -> Option<String> {
        let client = &self.settings.name;
        let instance = self.numbered();
        let ToolList { tools, mut skipped, .. } = list;
        let listing = self.entry.list(&self.instance, tools, || self.give_access(link));
        let ListOutcome { tools, left_out, held_out } = listing.await;
        for reason in left_out {
            skipped.push(&reason);
        }
        skipped.log_new(client, &self.logged);
        self.logged = skipped;
        let is_news =
            self.announced.replace((Arc::downgrade(link), tools)).is_none_or(|(of, before)| {
                before != tools || !Weak::ptr_eq(&of, &Arc::downgrade(link))
            });
        self.published = tools;
        let agreed = link.agreed();
        let version = agreed.map(|agreed| agreed.version.as_str()).unwrap_or_default();
        if is_news {
            info!(%client, instance, version, tools, "upstream server listed its tools");
        } else {
            debug!(%client, instance, version, tools, "upstream server listed its tools again");
        }
        held_out
    }

    fn give_access(&self, link: &Arc<Link>) {
        // Calls of a server with one connection for each do not use this one.
        if self.settings.lifecycle != Lifecycle::PerCall {
            self.instance.set_access(ServerAccess::Up(UsedLink::new(link.clone())));
        }
    }

    /// Permits calls over connections of their own.
    pub(super) fn give_own_access(&self, handshake: Handshake) {
        let settings = self.settings.clone();
        let credentials = self.credentials.clone();
        let attempt = Attempt { handshake, has_headers: self.framing.has_headers() };
        let own = PerCall { settings, credentials, attempt };
        self.instance.set_access(ServerAccess::PerCall(Arc::new(own)));
    }
}

/// Returns the backoff between readings of a list that keeps changing.
pub(super) fn list_pace() -> Backoff {
    Backoff::new(Restart::default(), QUICK_LIST_CHANGES)
}
