//! One change of an element of the configuration: checked against the whole configuration as it would
//! be, stored with a record of it, and taken by the running gateway.

use std::{collections::BTreeSet, mem, sync::Arc};

use http::StatusCode;
use serde_json::Value;
use tokio::sync::SemaphorePermit;
use tracing::{info, warn};

use crate::{
    kind::word,
    refusal::{Result, conflict, invalid, not_found, refusal},
    service::Service,
};
use airlock_config::{
    ConfigError, ConfigSource, Element, LeftOut, LeftOutReason, Loaded, Merged, StoredComponents,
    written_secrets,
};
use airlock_core::{
    act::Actor,
    operator::{Operator, Right},
    tenant::Tenant,
    threads,
};
use airlock_operator_api::ManagementRefusal;
use airlock_store::{
    components::{ComponentDigest, MAX_USED_BYTES},
    entries::{
        Entries, Entry, EntryChange, EntryChanged, EntryKind, EntryValue, MAX_DOCUMENT_BYTES,
        UnreadableEntry,
    },
};
use airlock_strings::{cut, with_causes};

/// Number of times that a change is checked and made again because one of another gateway came first: each resolves the
/// whole configuration.
const ATTEMPTS: usize = 8;
/// Longest list of problems in a refusal, in bytes: a person reads it, and one mistake can be in every row.
const MAX_PROBLEM_BYTES: usize = 2_000;

/// The elements of the configuration at one moment.
pub(crate) struct ConfigState {
    pub(crate) entries: Entries,
    pub(crate) merged: Merged,
}

impl ConfigState {
    /// Returns the element with this kind and name, if it is there and not removed.
    pub(crate) fn element(&self, kind: EntryKind, name: &str) -> Option<&Element> {
        self.elements(kind).find(|element| element.name == name)
    }

    /// Finds an element by its identifier or its name. An identifier takes precedence.
    pub(crate) fn named(&self, kind: EntryKind, text: &str) -> Option<&Element> {
        let member = if kind == EntryKind::Client { "client_id" } else { "id" };
        let by_id = self
            .elements(kind)
            .find(|element| element.value.as_ref().is_some_and(|value| value[member] == text));
        by_id.or_else(|| self.element(kind, text))
    }

    /// Finds an element by its identifier or its name. Fails if there is none, with the title of its kind, or if
    /// its entry cannot be opened here.
    pub(crate) fn known(&self, kind: EntryKind, text: &str, title: &str) -> Result<&Element> {
        let found = self.named(kind, text);
        if found.is_none() {
            self.check_readable(kind, text)?;
        }
        found.ok_or_else(|| not_found(format!("{title} not found")))
    }

    /// Returns the elements of a kind, without those that are removed.
    pub(crate) fn elements(&self, kind: EntryKind) -> impl Iterator<Item = &Element> {
        let elements = self.merged.elements.iter();
        elements.filter(move |element| element.kind == kind && element.value.is_some())
    }

    /// Returns the entry of the store with this kind and name.
    pub(crate) fn entry(&self, kind: EntryKind, name: &str) -> Option<&Entry> {
        self.entries.entries.iter().find(|entry| entry.kind == kind && entry.name == name)
    }

    /// Fails if the entry of the store with this kind and name cannot be opened: it is not to be mistaken
    /// for one that does not exist.
    pub(crate) fn check_readable(&self, kind: EntryKind, name: &str) -> Result<()> {
        match self.unreadable(kind, name) {
            None => Ok(()),
            Some(entry) => Err(conflict(format!(
                "{} {name:?} cannot be opened by this gateway, and has no effect here: {}; change it at a gateway that has the key, or remove it as an administrator",
                word(kind),
                entry.reason
            ))),
        }
    }

    /// Returns the name of what a request removes: the one that was `found`, or that of an entry which cannot
    /// be opened. Only an administrator removes such an entry, because it may be anything of its kind.
    pub(crate) fn name_to_remove(
        &self,
        actor: &Operator,
        kind: EntryKind,
        name: &str,
        found: Result<String>,
    ) -> Result<String> {
        let is_unread = actor.role.has(Right::Administer) && self.unreadable(kind, name).is_some();
        found.or_else(|refused| if is_unread { Ok(name.to_owned()) } else { Err(refused) })
    }

    fn unreadable(&self, kind: EntryKind, name: &str) -> Option<&UnreadableEntry> {
        self.entries.unreadable.iter().find(|entry| entry.kind == kind && entry.name == name)
    }

    /// Returns whether the entry of the store with this kind and name is this one.
    fn has(&self, kind: EntryKind, name: &str, entry: Option<&EntryValue>) -> bool {
        let present = self.entry(kind, name).map(entry_content);
        self.unreadable(kind, name).is_none() && present.as_ref() == entry
    }

    /// Returns the digest of the element of the file with this kind and name.
    pub(crate) fn in_file(&self, kind: EntryKind, name: &str) -> Option<[u8; 32]> {
        let mut elements = self.merged.elements.iter();
        let element = elements.find(|element| element.kind == kind && element.name == name)?;
        element.in_file
    }
}

/// A change that an operator wants.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RequestedChange {
    /// The act, for the record.
    pub(crate) action: &'static str,
    pub(crate) kind: EntryKind,
    pub(crate) name: String,
    pub(crate) content: ChangeContent,
}

/// Content of the element after the change.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ChangeContent {
    /// This element.
    Element(Value),
    /// No element.
    Absent,
    /// The entry of an earlier time: `None` for none.
    Earlier(Option<EntryValue>),
    /// The entry before a change that is the latest one of the entry: `None` for none.
    Reverted {
        /// Number of the change in the record.
        change: i64,
        before: Option<EntryValue>,
    },
}

/// A change that leaves a valid configuration.
struct CheckedChange {
    /// The entry after it; `None` for none.
    after: Option<EntryValue>,
    /// Identifiers of the limits that it removes.
    removed_limits: BTreeSet<String>,
}

/// Outcome of storing a change.
#[derive(Debug, Clone, Copy)]
pub(crate) enum StoredChange {
    /// It has this number in the record, and is one of an element of this kind.
    Made { id: i64, kind: EntryKind },
    /// Nothing changes, and nothing is recorded. The number is that of the latest change.
    Unchanged(i64),
}

impl Service {
    /// Reads the elements as they are.
    pub(crate) async fn state(&self) -> Result<ConfigState> {
        let _place = self.place().await;
        self.read_state().await
    }

    /// Waits for a place to read the whole configuration. While a request has one, it takes no other.
    pub(crate) async fn place(&self) -> Option<SemaphorePermit<'_>> {
        // The semaphore is never closed.
        self.readers.acquire().await.ok()
    }

    /// Makes a document of the elements. One of many elements would keep a worker from other requests for too
    /// long.
    pub(crate) async fn shown(
        &self,
        describe: impl FnOnce(&ConfigState) -> Value + Send + 'static,
    ) -> Result<Value> {
        let _place = self.place().await;
        let state = self.read_state().await?;
        Ok(threads::run(&Tenant::GATEWAY, move || describe(&state)).await)
    }

    /// Reads the elements as they are. The caller has a place.
    async fn read_state(&self) -> Result<ConfigState> {
        let entries = match self.settings.database.existing().await? {
            Some(database) => database.entries().await?,
            None => Entries::default(),
        };
        let merged = self.merged(entries.clone()).await?;
        Ok(ConfigState { entries, merged })
    }

    /// Makes a change, which `plan` makes from the elements as they are; it is called again if another
    /// change comes first. Returns the number of the change in the record. Fails if the configuration
    /// would not be valid or would lose another entry.
    pub(crate) async fn change(
        &self,
        actor: &Operator,
        plan: impl Fn(&ConfigState) -> Result<RequestedChange>,
    ) -> Result<i64> {
        match self.store_change(&actor.into(), plan).await? {
            StoredChange::Made { id, kind } => {
                self.apply(id, kind).await;
                Ok(id)
            }
            StoredChange::Unchanged(revision) => Ok(revision),
        }
    }

    /// Stores a change as [`Self::change`] does. The caller has the running gateway take it, by
    /// [`Self::apply`].
    pub(crate) async fn store_change(
        &self,
        actor: &Actor,
        plan: impl Fn(&ConfigState) -> Result<RequestedChange>,
    ) -> Result<StoredChange> {
        // The semaphore is never closed.
        let _turn = self.changing.acquire().await;
        for _ in 0..ATTEMPTS {
            let _place = self.place().await;
            let state = self.read_state().await?;
            let wanted = plan(&state)?;
            let CheckedChange { after, removed_limits } = self.checked(&state, &wanted).await?;
            let name = wanted.name.clone();
            if state.has(wanted.kind, &name, after.as_ref()) {
                return Ok(StoredChange::Unchanged(state.entries.revision));
            }
            let change = EntryChange {
                actor: actor.to_string(),
                action: wanted.action.to_owned(),
                kind: wanted.kind,
                name: wanted.name,
                components: components(after.as_ref()),
                after,
                revision: state.entries.revision,
            };
            match self.database().await?.change_entry(change).await? {
                EntryChanged::Done(id) => {
                    info!(%actor, action = wanted.action, name, change = id, "settings changed");
                    self.forget_counts(removed_limits).await;
                    return Ok(StoredChange::Made { id, kind: wanted.kind });
                }
                EntryChanged::Outdated => {}
                EntryChanged::Full => {
                    return Err(conflict("the store has as many entries as may be"));
                }
                EntryChanged::ComponentAbsent(digest) => {
                    return Err(conflict(format!(
                        "the store does not have the component {digest} any more: upload it again"
                    )));
                }
                EntryChanged::ComponentsFull => return Err(components_full()),
            }
        }
        Err(conflict("other changes came first again and again; try again"))
    }

    /// Returns the entry that makes a wanted change. Fails if the configuration with it is not valid. The
    /// caller has a place.
    async fn checked(
        &self,
        state: &ConfigState,
        wanted: &RequestedChange,
    ) -> Result<CheckedChange> {
        if let ChangeContent::Reverted { change, .. } = wanted.content {
            self.check_latest(change, wanted).await?;
        }
        let after = self.entry_value(state, wanted)?;
        let is_removed = match &after {
            Some(after) => after.document.is_none(),
            None => state.in_file(wanted.kind, &wanted.name).is_none(),
        };
        if is_removed {
            state.check_unused(wanted.kind, &wanted.name)?;
        }
        let merged = self.merged_with(state, wanted.kind, &wanted.name, after.clone()).await?;
        check_left_out(&state.merged.left_out, &merged.left_out, wanted)?;
        let kept: BTreeSet<_> = merged.config.limits.iter().map(|limit| &limit.id).collect();
        let before = state.merged.config.limits.iter().map(|limit| &limit.id);
        let removed_limits = before.filter(|id| !kept.contains(id)).cloned().collect();
        Ok(CheckedChange { after, removed_limits })
    }

    /// Fails unless a change is the latest one of the wanted entry. An entry that is as the change has left it
    /// may have had another credential meanwhile. The state was read before: a change that comes after this
    /// check makes it outdated.
    async fn check_latest(&self, change: i64, wanted: &RequestedChange) -> Result<()> {
        let RequestedChange { kind, name, .. } = wanted;
        if self.database().await?.latest_change(*kind, name).await? == Some(change) {
            return Ok(());
        }
        Err(changed_after(name, change))
    }

    /// Returns the configuration as it would be with this entry in the place of the one with its name. The
    /// caller has a place.
    pub(crate) async fn merged_with(
        &self,
        state: &ConfigState,
        kind: EntryKind,
        name: &str,
        after: Option<EntryValue>,
    ) -> Result<Merged> {
        let mut all = state.entries.clone();
        let entries = &mut all.entries;
        entries.retain(|entry| entry.kind != kind || entry.name != name);
        all.unreadable.retain(|entry| entry.kind != kind || entry.name != name);
        if let Some(EntryValue { replaces, document }) = after {
            let name = name.to_owned();
            entries.push(Entry { kind, name, replaces, document, changed_ms: 0 });
            entries.sort_by(|one, other| {
                one.kind.cmp(&other.kind).then_with(|| one.name.cmp(&other.name))
            });
        }
        self.merged(all).await
    }

    fn entry_value(
        &self,
        state: &ConfigState,
        wanted: &RequestedChange,
    ) -> Result<Option<EntryValue>> {
        let replaces = state.in_file(wanted.kind, &wanted.name);
        match &wanted.content {
            ChangeContent::Absent => {
                Ok(replaces.is_some().then_some(EntryValue { replaces, document: None }))
            }
            ChangeContent::Earlier(earlier) | ChangeContent::Reverted { before: earlier, .. } => {
                Ok(earlier.clone())
            }
            ChangeContent::Element(value) => {
                self.check_secrets(wanted.kind, value)?;
                let document = value.to_string();
                if document.len() > MAX_DOCUMENT_BYTES {
                    return Err(invalid(format!(
                        "the element has {} bytes, more than {MAX_DOCUMENT_BYTES}",
                        document.len()
                    )));
                }
                Ok(Some(EntryValue { replaces, document: Some(document) }))
            }
        }
    }

    /// Fails if the element has a secret in plain text and the store does not seal it.
    fn check_secrets(&self, kind: EntryKind, element: &Value) -> Result<()> {
        if self.settings.seals_secrets {
            return Ok(());
        }
        match written_secrets(kind, element).first() {
            None => Ok(()),
            Some(key) => Err(invalid(format!(
                "`{key}` has a secret in plain text, and the store has no key to seal it with: write \
                 \"env.NAME\" for a variable of the gateway's environment, or set `store_key`"
            ))),
        }
    }

    /// Merges entries into the file; while the file is not valid, or is not read in time, into its last valid
    /// content. The caller has a place.
    async fn merged(&self, entries: Entries) -> Result<Merged> {
        let source = self.source()?;
        let entries = Arc::new(entries);
        let file = source.clone();
        let all = entries.clone();
        let loaded = match self.readings.read(move || file.load(&all)).await {
            Some(loaded) => loaded,
            None => merge_unread(source, entries).await,
        };
        loaded.map(|loaded| loaded.merged).map_err(|error| {
            let message = format!("the configuration file is not valid: {}", with_causes(&error));
            let message = cut(message, MAX_PROBLEM_BYTES);
            refusal(StatusCode::UNPROCESSABLE_ENTITY, "configuration_invalid", message)
        })
    }

    fn source(&self) -> Result<Arc<ConfigSource>> {
        self.settings.source.clone().ok_or_else(|| {
            let message = "this gateway was started without a configuration file, so its settings cannot be changed";
            refusal(StatusCode::SERVICE_UNAVAILABLE, "settings_fixed", message)
        })
    }

    /// Makes the running gateway take a change that is stored. If that fails, the gateway tries again by
    /// itself: the change is made, and its response may have a secret that is shown only once. Only a change
    /// of a client waits for plugins, which may have to be compiled.
    pub(crate) async fn apply(&self, id: i64, kind: EntryKind) {
        let Some(gateway) = &self.gateway else { return };
        if let Err(reason) = gateway.apply(kind == EntryKind::Client).await {
            warn!(change = id, %reason, "a change is stored, and not taken yet");
        }
    }
}

/// Merges entries into the last valid content of the file.
async fn merge_unread(
    source: Arc<ConfigSource>,
    entries: Arc<Entries>,
) -> Result<Loaded, ConfigError> {
    let merging = tokio::task::spawn_blocking(move || source.load_unread(&entries));
    merging.await.unwrap_or_else(|lost| std::panic::resume_unwind(lost.into_panic()))
}

/// Fails if the wanted change would have no effect, or if another entry would lose its effect by it.
fn check_left_out(before: &[LeftOut], after: &[LeftOut], wanted: &RequestedChange) -> Result<()> {
    let before: BTreeSet<_> =
        before.iter().map(|left_out| (left_out.kind, &left_out.name)).collect();
    for left_out in after {
        let is_wanted = left_out.kind == wanted.kind && left_out.name == wanted.name;
        if !is_wanted && before.contains(&(left_out.kind, &left_out.name)) {
            continue;
        }
        match &left_out.reason {
            LeftOutReason::Invalid(problems) => {
                let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
                let problems = cut(problems.join("; "), MAX_PROBLEM_BYTES);
                return Err(if is_wanted {
                    invalid(problems)
                } else {
                    let LeftOut { kind, name, .. } = left_out;
                    conflict(format!("{} {name:?} would not be valid: {problems}", word(*kind)))
                });
            }
            LeftOutReason::FileChanged if is_wanted => {
                return Err(conflict("the configuration file has changed meanwhile; try again"));
            }
            // What cannot be opened could not be opened before either.
            LeftOutReason::FileChanged | LeftOutReason::Unreadable(_) => {}
        }
    }
    Ok(())
}

/// Returns the components in the store that an entry names.
fn components(entry: Option<&EntryValue>) -> Vec<ComponentDigest> {
    let document = entry.and_then(|entry| entry.document.as_deref());
    // It was written by this program.
    let element: Option<Value> = document.and_then(|text| serde_json::from_str(text).ok());
    let stored = element.as_ref().and_then(StoredComponents::read);
    stored.map(|stored| stored.digests()).unwrap_or_default()
}

/// Returns the refusal of a component for which the store has no room.
pub(crate) fn components_full() -> ManagementRefusal {
    let message = format!(
        "the store has no room for the component: those of all plugins have at most {} MiB",
        MAX_USED_BYTES >> 20
    );
    refusal(StatusCode::INSUFFICIENT_STORAGE, "components_full", message)
}

/// Returns the refusal to revert a change of an entry that was changed since.
pub(crate) fn changed_after(name: &str, change: i64) -> ManagementRefusal {
    conflict(format!(
        "{name:?} was changed after the change {change}; revert the later change first"
    ))
}

/// Returns what an entry has.
pub(crate) fn entry_content(entry: &Entry) -> EntryValue {
    EntryValue { replaces: entry.replaces, document: entry.document.clone() }
}

/// Takes a member out of an element.
pub(crate) fn take(element: &mut Value, member: &str) -> Value {
    element.get_mut(member).map(mem::take).unwrap_or_default()
}
