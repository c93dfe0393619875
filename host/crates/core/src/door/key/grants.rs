//! The tools that a virtual key grants, and the bounds on them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::RelayRow;
use crate::tool::{Allowlist, ClientName, Exclusions, Policy, Tool, UriList};

/// The tools that a key grants, and the bounds on them. Requests with equal grants and headers see the
/// same tools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants {
    /// Tools, by client. A client without a row is denied, unless its policy permits all keys or the
    /// key owns it.
    pub rows: BTreeMap<ClientName, Allowlist>,
    /// Tools of the rows that are taken away, by client.
    pub excluded: BTreeMap<ClientName, Exclusions>,
    /// Resources and prompts, by client. A client with a row for its tools and none here is denied.
    pub relayed: BTreeMap<ClientName, RelayRow>,
    /// Clients that belong to some keys, this one among them.
    pub owned: BTreeSet<ClientName>,
    /// The environment that the key is bound to; `None` for none.
    pub environment: Option<Arc<Environment>>,
}

/// A named set of clients that keys are bound to: their requests see no other client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// Its name.
    pub name: String,
    /// Its clients, each with the tools that are taken away.
    pub clients: BTreeMap<ClientName, Exclusions>,
}

/// Tools of one client that a request may use by its key.
#[derive(Clone, Copy)]
pub(in crate::door) enum Grant<'k> {
    /// All: the request has no key, or the key no row and the client permits the key.
    All,
    /// Those of the row of the key.
    Row(&'k Allowlist),
    /// None: the key has no row.
    Nothing,
}

impl From<BTreeMap<ClientName, Allowlist>> for Grants {
    fn from(rows: BTreeMap<ClientName, Allowlist>) -> Self {
        Self { rows, ..Self::default() }
    }
}

impl Grants {
    /// Adds the rows of others. Both permit what either permits; a tool that either excludes is
    /// excluded.
    pub fn add_rows(&mut self, other: &Self) {
        for (client, tools) in &other.rows {
            let row = self.rows.entry(client.clone()).or_default();
            *row = row.union(tools);
        }
        for (client, tools) in &other.excluded {
            let excluded = self.excluded.entry(client.clone()).or_default();
            *excluded = excluded.union(tools);
        }
        for (client, other) in &other.relayed {
            let row = self.relayed.entry(client.clone()).or_default();
            row.resources = row.resources.union(&other.resources);
            row.prompts = row.prompts.union(&other.prompts);
        }
    }

    /// Returns the tools of `client` that a key with these grants has. A row takes precedence over the
    /// client's `allow_on_all_keys`, even if the row is empty.
    pub(in crate::door) fn grant(&self, client: &ClientName, policy: &Policy) -> Grant<'_> {
        match self.rows.get(client) {
            Some(row) => Grant::Row(row),
            None if self.is_open(client, policy) => Grant::All,
            None => Grant::Nothing,
        }
    }

    /// Returns whether a key with these grants needs no row for `client`.
    fn is_open(&self, client: &ClientName, policy: &Policy) -> bool {
        if policy.is_owned { self.owned.contains(client) } else { policy.allow_on_all_keys }
    }

    /// Returns whether `client` belongs to other keys.
    pub(in crate::door) fn is_of_others(&self, client: &ClientName, policy: &Policy) -> bool {
        policy.is_owned && !self.owned.contains(client)
    }

    /// Returns whether the rows take away a tool of `client`.
    pub(in crate::door) fn excludes(&self, client: &ClientName, tool: &Tool) -> bool {
        self.excluded.get(client).is_some_and(|excluded| excluded.covers(tool))
    }

    /// Returns whether the rows take away all tools of `client`.
    pub(in crate::door) fn excludes_all(&self, client: &ClientName) -> bool {
        self.excluded.get(client).is_some_and(Exclusions::covers_all)
    }

    /// Returns whether `client` is outside of the environment.
    pub(in crate::door) fn is_outside(&self, client: &ClientName) -> bool {
        self.environment.as_ref().is_some_and(|bound| !bound.clients.contains_key(client))
    }

    /// Returns the tools of `client` that the environment takes away; `None` for none.
    pub(in crate::door) fn taken_away(&self, client: &ClientName) -> Option<&Exclusions> {
        self.environment.as_ref()?.clients.get(client)
    }

    /// Returns whether the holder of a key with these grants may know of `client`.
    pub(in crate::door) fn knows(&self, client: &ClientName, policy: &Policy) -> bool {
        !self.is_of_others(client, policy)
            && !self.is_outside(client)
            && !matches!(self.grant(client, policy), Grant::Nothing)
    }

    /// Returns the resources and prompts of `client` that a key with these grants has. As for tools, a
    /// row takes precedence over the client's `allow_on_all_keys`.
    pub(in crate::door) fn relayed(&self, client: &ClientName, policy: &Policy) -> RelayRow {
        if self.is_of_others(client, policy) || self.is_outside(client) {
            return RelayRow::default();
        }
        if self.rows.contains_key(client) || self.relayed.contains_key(client) {
            return self.relayed.get(client).cloned().unwrap_or_default();
        }
        if self.is_open(client, policy) {
            return RelayRow { resources: UriList::All, prompts: Allowlist::All };
        }
        RelayRow::default()
    }
}
