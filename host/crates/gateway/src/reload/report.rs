//! Logs what was taken of changed settings, and what was not.

use std::{collections::BTreeSet, sync::Arc};

use tracing::{info, warn};

use super::{
    super::{upstreams::ServerChanges, warnings},
    TakenEntries,
};
use airlock_config::{AbsentOwner, Config, Fingerprint, KeyPath, LeftOut, LeftOutReason, Problem};
use airlock_core::tool::ClientName;
use airlock_plugin::Reconfigured;
use airlock_store::entries::EntryKind;
use airlock_strings::{MAX_LINE_BYTES, MAX_LISTED, cut, visible_line};

/// Reports that the log has already.
#[derive(Default)]
pub(super) struct Reported {
    /// Keys that are taken at the next start.
    pending: Vec<String>,
    /// Entries without effect.
    left_out: BTreeSet<(EntryKind, String, String)>,
    /// Owners of clients that do not exist.
    owners: BTreeSet<AbsentOwner>,
    /// Names in scopes that nothing has, with their guards.
    guards: BTreeSet<(Arc<str>, String)>,
    /// Keys of names in rules about sinks that nothing has, with the reasons.
    sinks: BTreeSet<(KeyPath, String)>,
}

impl Reported {
    /// Logs the keys that differ from those of the start and need a restart, if the list has changed since
    /// it was last logged.
    pub(super) fn pending(&mut self, pending: &[String]) {
        if *pending != self.pending && !pending.is_empty() {
            warn!(
                keys = listed(pending),
                "changed in the configuration file, and applied only when the gateway is restarted"
            );
        }
        self.pending = pending.to_vec();
    }

    /// Logs the entries of the store that have no effect, each once for as long as it has none.
    pub(super) fn left_out(&mut self, entries: &[LeftOut]) {
        let present: BTreeSet<_> = entries.iter().map(described).collect();
        let new: Vec<_> = present.difference(&self.left_out).collect();
        for (kind, name, reason) in new.iter().take(MAX_LISTED) {
            warn!(kind = kind.name(), name, reason, "entry of the store is left out");
        }
        if new.len() > MAX_LISTED {
            warn!(more = new.len() - MAX_LISTED, "more entries of the store are left out");
        }
        self.left_out = present;
    }

    /// Logs the owners of clients that do not exist, each once for as long as it does not.
    pub(super) fn owners(&mut self, absent: &[AbsentOwner]) {
        let present: BTreeSet<_> = absent.iter().cloned().collect();
        for absent in present.difference(&self.owners).take(MAX_LISTED) {
            let owner = shown(&absent.to_string());
            warn!(owner, "a client has an owner that does not exist");
        }
        self.owners = present;
    }

    /// Logs the names in the scopes of guards that nothing has, each once for as long as nothing has it. The guard of a
    /// misspelt one is not asked.
    pub(super) fn guards(&mut self, config: &Config) {
        let internal = ClientName::internal();
        let clients = config.clients.iter().map(|client| client.name.as_str());
        let clients: BTreeSet<_> = clients.chain([internal.as_str()]).collect();
        let mut present = BTreeSet::new();
        for guard in &config.guards {
            let unmatched = guard.scope.unmatched(
                &clients,
                |key| has_key(config, key),
                |environment| has_environment(config, environment),
            );
            present.extend(unmatched.into_iter().map(|name| (guard.name.clone(), name)));
        }
        for (guard, name) in present.difference(&self.guards).take(MAX_LISTED) {
            let name = shown(name);
            warn!(%guard, name, "a guard names a client, a key or an environment that does not exist");
        }
        self.guards = present;
    }

    /// Logs the names in rules about sinks that nothing has, each once for as long as nothing has it.
    pub(super) fn sinks(&mut self, unmatched: Vec<Problem>) {
        let unmatched = unmatched.into_iter().map(|problem| (problem.key, problem.message));
        let present: BTreeSet<_> = unmatched.collect();
        for (key, reason) in present.difference(&self.sinks).take(MAX_LISTED) {
            let reason = shown(reason);
            warn!(%key, reason, "a rule of information flow has a name that nothing has");
        }
        self.sinks = present;
    }
}

/// Returns whether there is a key, or a role, also if the key cannot be used at present.
fn has_key(config: &Config, name: &str) -> bool {
    config.keys.view(name).is_some()
        || config.keys_without_value.contains(name)
        || config.keys_withheld.contains(name)
}

/// Returns whether a key is bound to an environment.
fn has_environment(config: &Config, name: &str) -> bool {
    config.keys.iter().any(|key| key.membership().environment.as_deref() == Some(name))
}

/// Logs the clients, the virtual keys and the other keys that have changed, between the settings that were taken
/// `before` and those `after`.
pub(super) fn taken(outcome: &TakenEntries, before: &Fingerprint, after: &Fingerprint) {
    let TakenEntries { added, changed, rechecked, removed, failed, keys, changes, .. } = outcome;
    if outcome.is_empty() {
        return;
    }
    let known = after.clients();
    let (disabled, removed): (Vec<_>, Vec<_>) =
        removed.iter().cloned().partition(|client| known.contains(client.as_str()));
    info!(
        added = names(added),
        changed = changed_keys(changed, before, after),
        rechecked = names(rechecked),
        disabled = names(&disabled),
        removed = names(&removed),
        failed = names(failed),
        keys_added = listed(&keys.added),
        keys_changed = listed(&keys.changed),
        keys_removed = listed(&keys.removed),
        settings = listed(&changes.settings),
        "changed settings applied"
    );
}

/// Warns about new or changed clients that weaken the gateway.
pub(super) fn weaknesses(config: &Config, servers: &ServerChanges, plugins: &Reconfigured) {
    if !(servers.added.is_empty() && servers.changed.is_empty()) {
        warnings::report_without_pins(config, |name| {
            servers.added.contains(name) || servers.changed.contains(name)
        });
        warnings::report_local_callers(config);
    }
    if !plugins.is_empty() {
        warnings::report_unpinned(config);
    }
}

/// Returns the changed clients, each with the keys of its entry that differ.
fn changed_keys(changed: &[ClientName], before: &Fingerprint, after: &Fingerprint) -> String {
    let differences = before.differences(after);
    let changed = changed.iter().map(|client| {
        let own = differences.iter().filter(|key| key.client.as_deref() == Some(client.as_str()));
        let keys: Vec<_> = own.map(|key| key.path.as_str()).collect();
        format!("{client} ({})", keys.join(", "))
    });
    cut(changed.collect::<Vec<_>>().join("; "), MAX_LINE_BYTES)
}

/// Describes an entry without effect, without values that may be secrets.
fn described(entry: &LeftOut) -> (EntryKind, String, String) {
    let reason = match &entry.reason {
        LeftOutReason::FileChanged => {
            "the element of the file was changed after the entry was made".to_owned()
        }
        LeftOutReason::Invalid(problems) => {
            let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
            problems.join("; ")
        }
        LeftOutReason::Unreadable(reason) => format!("it cannot be opened: {reason}"),
    };
    (entry.kind, shown(&entry.name), shown(&reason))
}

fn shown(text: &str) -> String {
    cut(visible_line(text), MAX_LINE_BYTES)
}

fn names(clients: &[ClientName]) -> String {
    let names: Vec<_> = clients.iter().map(ClientName::as_str).collect();
    cut(names.join(", "), MAX_LINE_BYTES)
}

fn listed(names: &[String]) -> String {
    shown(&names.join(", "))
}
