//! The entry of a client in the catalog, as the instances of its server write it together: one set of
//! tools, one state.
//!
//! Each instance lists its tools. Which list is offered is decided in [`agreement`](super::agreement); an
//! instance with another one is held out: it gets no calls, and nothing of it is published.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::timeout,
};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::warn;

use super::agreement::{Listed, offered};
use crate::{
    pins::{Change, ChangeKind, ClientPins, Listing, Screened},
    server::{Instance, Server},
};
use airlock_catalog::{EntryWriter, SourceKind, SourceState};
use airlock_core::tool::{ClientName, ToolDefinition};
use airlock_strings::{MAX_REASON_BYTES, cut};

/// The entry of one client.
pub(super) struct ClientEntry {
    writer: EntryWriter,
    client: ClientName,
    kind: SourceKind,
    pins: Arc<ClientPins>,
    server: Arc<Server>,
    /// Maximum time for an instance to start.
    patience: Duration,
    members: Mutex<Vec<Member>>,
    /// Digest of the list that was published last; `None` before the first one, and for a server with one
    /// instance.
    published: Mutex<Option<String>>,
    /// Permit to decide which list is offered, and to publish it.
    turn: Semaphore,
    /// Permit for the one instance whose resources and prompts are offered.
    leading: Semaphore,
    /// Dropped once the entry in the catalog is this server's.
    starting: Mutex<Option<DropGuard>>,
}

/// An instance, as far as the entry depends on it.
struct Member {
    state: SourceState,
    /// Its last list, also of an earlier connection.
    listing: Option<Arc<Listing>>,
    /// Reason that it is held out.
    held_out: Option<String>,
    /// Cancelled once it has listed its tools, or has failed to.
    first_list: CancellationToken,
}

impl Member {
    fn is_ready(&self) -> bool {
        self.state == SourceState::Connected && self.held_out.is_none()
    }
}

/// Outcome of the list of an instance.
pub(super) struct ListOutcome {
    /// Number of its tools that can be called.
    pub(super) tools: usize,
    /// Reasons that other tools cannot be used.
    pub(super) left_out: Vec<String>,
    /// Reason that the instance gets no calls; `None` if it does.
    pub(super) held_out: Option<String>,
}

impl ClientEntry {
    /// Creates the entry of a server, whose instances have `patience` to start. `starting` is dropped once
    /// the entry is this server's.
    pub(super) fn new(
        writer: EntryWriter,
        kind: SourceKind,
        client: ClientName,
        pins: Arc<ClientPins>,
        server: Arc<Server>,
        patience: Duration,
        starting: DropGuard,
    ) -> Self {
        let members = server.instances().iter().map(|_| Member {
            state: SourceState::Connecting,
            listing: None,
            held_out: None,
            first_list: CancellationToken::new(),
        });
        Self {
            writer,
            client,
            kind,
            pins,
            members: Mutex::new(members.collect()),
            server,
            patience,
            published: Mutex::default(),
            turn: Semaphore::new(1),
            leading: Semaphore::new(1),
            starting: Mutex::new(Some(starting)),
        }
    }

    /// Returns the writer of the entry.
    pub(super) fn writer(&self) -> &EntryWriter {
        &self.writer
    }

    /// Returns whether the server has one instance.
    pub(super) fn is_sole(&self) -> bool {
        self.server.instances().len() == 1
    }

    /// Makes the entry that of this server, whose tools are not known yet.
    pub(super) fn take(&self) {
        self.writer.take(self.kind);
    }

    /// Waits until the resources and prompts of this instance are the ones that are offered: it gets calls,
    /// and no other instance has the permit.
    pub(super) async fn lead(&self, instance: &Instance) -> SemaphorePermit<'_> {
        instance.until_admitted(true).await;
        match self.leading.acquire().await {
            Ok(permit) => permit,
            // The semaphore is never closed.
            Err(_) => std::future::pending().await,
        }
    }

    /// Takes over the list of an instance, and publishes the one that is offered. Calls `give_access` when
    /// it is known whether the instance gets calls, and before its tools are published. On first use, waits
    /// for the lists of the other instances before.
    pub(super) async fn list(
        &self,
        instance: &Instance,
        tools: Vec<ToolDefinition>,
        give_access: impl FnOnce(),
    ) -> ListOutcome {
        if self.is_sole() {
            // The semaphore is never closed.
            let _turn = self.turn.acquire().await;
            let screened = self.pins.screen(tools).await;
            instance.set_admitted(true);
            give_access();
            self.change(instance, |member| member.state = SourceState::Connected);
            let outcome = self.publish(screened).await;
            self.end_start();
            instance.settled().cancel();
            return outcome;
        }
        let listing = Arc::new(Listing::new(tools).await);
        if self.pins.is_first_use().await {
            self.take_listing(instance, &listing);
            self.first_lists().await;
        }
        let _turn = self.turn.acquire().await;
        self.take_listing(instance, &listing);
        let chosen = self.admit().await;
        give_access();
        let held_out = self.change(instance, |member| member.held_out.clone());
        let is_own = chosen.as_ref().is_some_and(|chosen| chosen.digest() == listing.digest());
        let published = self.offer(chosen, is_own).await.filter(|_| is_own);
        self.settle_state();
        instance.settled().cancel();
        let tools = listing.count();
        published.unwrap_or(ListOutcome { tools, left_out: Vec::new(), held_out })
    }

    fn take_listing(&self, instance: &Instance, listing: &Arc<Listing>) {
        self.change(instance, |member| {
            member.state = SourceState::Connected;
            member.listing = Some(listing.clone());
            member.first_list.cancel();
        });
    }

    /// Waits until all instances have listed their tools or have failed to, for at most the time that an
    /// instance has to start. The fastest one alone must not decide what is pinned.
    async fn first_lists(&self) {
        let first: Vec<_> =
            self.members.lock().iter().map(|member| member.first_list.clone()).collect();
        let all = async {
            for listed in &first {
                listed.cancelled().await;
            }
        };
        // Without some of them, those that have listed decide.
        let _ = timeout(self.patience, all).await;
    }

    /// Returns whether the list of an instance has definitions that differ from the accepted ones. That is
    /// not asked of a single instance.
    pub(super) async fn differs(&self, tools: &[ToolDefinition]) -> bool {
        if self.is_sole() {
            return false;
        }
        let listing = Arc::new(Listing::new(tools.to_vec()).await);
        let compared = self.pins.compare(vec![listing]).await;
        compared.iter().any(|changes| differing(changes) > 0)
    }

    /// Records that an instance is connected, and that its last list stays in use.
    pub(super) fn set_connected(&self, instance: &Instance) {
        self.change(instance, |member| member.state = SourceState::Connected);
        self.settle_state();
    }

    /// Records that an instance is not connected. The list of other ones may be offered then.
    pub(super) async fn set_away(&self, instance: &Instance, state: SourceState) {
        self.change(instance, |member| {
            member.state = state;
            member.first_list.cancel();
        });
        // On first use, those that have listed their tools decide, once they have waited for the others.
        if !self.is_sole() && !self.pins.is_first_use().await {
            // The semaphore is never closed.
            let _turn = self.turn.acquire().await;
            let chosen = self.admit().await;
            self.offer(chosen, false).await;
        }
        self.settle_state();
        instance.settled().cancel();
    }

    /// Records that an instance was stopped.
    pub(super) fn set_stopped(&self, instance: &Instance) {
        let state = SourceState::Disconnected { reason: "stopped".into() };
        self.change(instance, |member| {
            member.state = state;
            member.first_list.cancel();
        });
        // One that has not started yet leaves the entry to its predecessor.
        if let Some(state) = self.state() {
            self.writer.set_state(state);
        }
        instance.settled().cancel();
    }

    fn change<T>(&self, instance: &Instance, change: impl FnOnce(&mut Member) -> T) -> T {
        change(&mut self.members.lock()[instance.number() - 1])
    }

    /// Decides which list is offered, and which instances get calls. Returns the list.
    async fn admit(&self) -> Option<Arc<Listing>> {
        let listings: Vec<_> = self.members.lock().iter().map(|one| one.listing.clone()).collect();
        let known: BTreeMap<_, _> = listings
            .iter()
            .flatten()
            .map(|list| (list.digest().to_owned(), list.clone()))
            .collect();
        let changes = self.pins.compare(known.values().cloned().collect()).await;
        let changes: BTreeMap<_, _> = known.keys().map(String::as_str).zip(changes).collect();
        let mut members = self.members.lock();
        let lists = listings.iter().zip(&*members).map(|(listing, member)| {
            let listing = listing.as_ref()?;
            // Without a comparison, nothing is accepted.
            let changes = changes.get(listing.digest());
            Some(Listed {
                digest: listing.digest(),
                tools: listing.count(),
                is_accepted: changes.is_some_and(|changes| differing(changes) == 0),
                is_connected: member.state == SourceState::Connected,
            })
        });
        let lists: Vec<_> = lists.collect();
        let present = self.published.lock().clone();
        let chosen = offered(&lists, present.as_deref());
        let mut held_out = Vec::new();
        for ((instance, member), list) in
            self.server.instances().iter().zip(&mut *members).zip(&lists)
        {
            let own = list.as_ref().map(|list| list.digest);
            let is_admitted = own.is_some() && own == chosen;
            let of_list = own.and_then(|digest| changes.get(digest));
            let of_list = of_list.map(Vec::as_slice).unwrap_or_default();
            let reason = (own.is_some() && !is_admitted).then(|| reason(differing(of_list)));
            if let Some(reason) =
                reason.as_ref().filter(|reason| member.held_out.as_ref() != Some(reason))
            {
                let number = instance.number();
                warn!(client = %self.client, instance = number, reason, "instance of an upstream server is held out");
            }
            if !is_admitted {
                held_out.push(of_list);
            }
            instance.set_admitted(is_admitted);
            let shown = reason.as_deref().unwrap_or("its tools are those that are offered");
            instance.status().set_held_out(reason.is_some(), shown);
            member.held_out = reason;
        }
        drop(members);
        self.pins.set_held_out(&held_out);
        known.get(chosen?).cloned()
    }

    /// Publishes the list that is offered, if it is another one than before, or if it `is_new`.
    async fn offer(&self, chosen: Option<Arc<Listing>>, is_new: bool) -> Option<ListOutcome> {
        let Some(chosen) = chosen else {
            self.show_quarantine();
            return None;
        };
        if !is_new && self.published.lock().as_deref() == Some(chosen.digest()) {
            self.show_quarantine();
            return None;
        }
        let screened = self.pins.screen_listing(Listing::clone(&chosen)).await;
        self.take();
        let outcome = self.publish(screened).await;
        *self.published.lock() = Some(chosen.digest().to_owned());
        self.end_start();
        Some(outcome)
    }

    async fn publish(&self, screened: Screened) -> ListOutcome {
        let Screened { tools, unaccepted, mut left_out } = screened;
        self.show_quarantine();
        let count = tools.len();
        let dropped = self.writer.publish(tools, unaccepted, self.server.clone()).await;
        let tools = count - dropped.len().min(count);
        left_out.extend(dropped);
        ListOutcome { tools, left_out, held_out: None }
    }

    fn show_quarantine(&self) {
        self.server.set_quarantine(self.pins.held().into());
    }

    /// Writes the state of the entry. It becomes this server's if all its instances have failed to list
    /// their tools.
    fn settle_state(&self) {
        let Some(state) = self.state() else { return };
        if state != SourceState::Connected && self.starting.lock().is_some() {
            self.take();
            // The tools that its predecessor has listed stay, and are called at this server.
            self.writer.offer(self.server.clone());
            self.end_start();
        }
        self.writer.set_state(state);
    }

    /// Returns the state of all instances; `None` if it is not known yet.
    fn state(&self) -> Option<SourceState> {
        let members = self.members.lock();
        if let [only] = &members[..] {
            return Some(only.state.clone()).filter(|state| *state != SourceState::Connecting);
        }
        if members.iter().any(Member::is_ready) {
            return Some(SourceState::Connected);
        }
        if members.iter().any(|member| member.state == SourceState::Connecting) {
            return None;
        }
        let is_final =
            members.iter().all(|member| !matches!(member.state, SourceState::Disconnected { .. }));
        let reasons = self.server.instances().iter().zip(&*members).map(|(instance, member)| {
            let held_out = member.held_out.as_deref().unwrap_or_default();
            let reason =
                cut(member.state.reason().unwrap_or(held_out).to_owned(), MAX_REASON_BYTES);
            format!("instance {}: {reason}", instance.number())
        });
        let reason = reasons.collect::<Vec<_>>().join("; ");
        Some(if is_final {
            SourceState::Failed { reason }
        } else {
            SourceState::Disconnected { reason }
        })
    }

    fn end_start(&self) {
        let ended = self.starting.lock().take();
        drop(ended);
    }
}

/// Returns the number of tools that differ from the accepted ones. One that is missing does not.
fn differing(changes: &[Change]) -> usize {
    let tools: BTreeSet<_> = changes
        .iter()
        .filter(|change| change.kind != ChangeKind::Removed)
        .map(|change| &change.tool)
        .collect();
    tools.len()
}

/// Returns the reason that an instance is held out, so many of whose tools differ from the accepted ones.
fn reason(differing: usize) -> String {
    match differing {
        0 => "it listed other tools than other instances, so it gets no calls".to_owned(),
        1 => "1 of its tools differs from the accepted ones, so it gets no calls".to_owned(),
        many => {
            format!("{many} of its tools differ from the accepted ones, so it gets no calls")
        }
    }
}

#[cfg(test)]
mod tests;
