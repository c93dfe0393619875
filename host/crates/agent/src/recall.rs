//! Brings back calls of the gateway's tools that a client does not send back.
//!
//! A model may call the gateway's tools and the caller's own in one answer. The caller receives its
//! own calls alone, and answers them in its next request; the calls that ran here, with their
//! results, are kept until then and put back in their places. The same holds for clients of the
//! Responses API that drop items which they do not know.
//!
//! | file | purpose |
//! |---|---|
//! | `trail` | digests of what a client sends back, by which a record is found |
//! | `chat` | records in the messages of chat completions |
//! | `items` | records in the items of the Responses API |
//! | `note` | notes in texts: about a record whose contents are lost, and about calls that wait for an approval |
//!
//! A record belongs to one tenant. It is in the database if responses may be stored there, and else
//! in memory; the database then has its digests without its contents, so that a later process knows
//! that there was a record. A request repeats its history, so a record is not consumed: it is put
//! back in every request that has the calls, and only where the client did not send them itself.
//!
//! A note about calls that wait for an approval is for people. Where it comes back beside the results of
//! its calls, it is removed, because the model would read that nothing was run.
//!
//! This module makes no policy decisions and runs no calls.

pub mod chat;
pub mod items;
pub mod note;
mod trail;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use tracing::warn;

pub(crate) use self::trail::{ConversationDigests, is_unique};
use crate::results::ResultStore;
use airlock_core::tenant::Tenant;
use airlock_store::{
    Database, LazyDatabase, Unavailable,
    recall::{Anchor, NewRecord, RecallBounds},
    responses,
};
use airlock_strings::with_causes;

/// Time for which a record is kept in memory, at most.
const IN_MEMORY: Duration = Duration::from_hours(24);

/// Maximum number of records of one tenant in the database, as many as there are answers with calls
/// in a day of three a minute. The time of a query grows with them; their bytes have bounds of
/// their own.
const MAX_RECORDS: u32 = 4_096;
/// Records get one part in this many of the bytes of stored responses.
const SHARE: u64 = 8;
/// Bounds where no contents are stored, but digests of them.
const UNSTORED: responses::ResponseBounds = responses::ResponseBounds {
    expire_after: IN_MEMORY,
    owner_bytes: 8 << 20,
    total_bytes: 64 << 20,
};

/// Settings of the records.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The database, which the first record opens; `None` if there is none.
    pub store: Option<LazyDatabase>,
    /// True if contents may be stored in the database.
    pub stores_contents: bool,
    /// Bounds on the database.
    pub bounds: RecallBounds,
    /// Maximum size of the records in memory, in bytes. One tenant gets at most half of it.
    pub memory_bytes: usize,
}

/// The records of all tenants. Cheap to clone.
#[derive(Clone)]
pub struct Recall(Arc<RecallState>);

struct RecallState {
    settings: Settings,
    memory: Arc<ResultStore<Anchor, Arc<str>>>,
}

/// Writes the record of one request.
#[derive(Clone)]
pub struct RecallWriter {
    recall: Recall,
    tenant: Tenant,
    stores_contents: bool,
}

/// A record that was found.
struct FoundRecord {
    /// Position of its anchor among those that were looked up.
    position: usize,
    /// Its text; `None` if it is lost.
    text: Option<Arc<str>>,
}

impl Settings {
    /// Returns the settings that belong to stored responses: the calls get an eighth of the bytes
    /// that responses may take. Without `responses`, contents are kept in memory alone.
    pub fn new(
        store: Option<LazyDatabase>,
        responses: Option<responses::ResponseBounds>,
        memory_bytes: usize,
    ) -> Self {
        let stores_contents = responses.is_some();
        let responses = responses.unwrap_or(UNSTORED);
        let bounds = RecallBounds {
            expire_after: responses.expire_after,
            owner_records: MAX_RECORDS,
            owner_bytes: responses.owner_bytes / SHARE,
            total_bytes: responses.total_bytes / SHARE,
        };
        Self { store, stores_contents, bounds, memory_bytes }
    }

    /// Returns the time for which a record is kept in memory.
    fn life_in_memory(&self) -> Duration {
        self.bounds.expire_after.min(IN_MEMORY)
    }
}

impl Recall {
    /// Creates the place for records. Nothing is opened yet.
    pub fn new(settings: Settings) -> Self {
        let memory = ResultStore::new(settings.life_in_memory(), settings.memory_bytes);
        Self(Arc::new(RecallState { settings, memory: Arc::new(memory) }))
    }

    /// Returns the place with other settings. The records in memory stay, within the new bounds.
    #[must_use]
    pub fn with_settings(&self, settings: Settings) -> Self {
        let memory = self.0.memory.clone();
        memory.set_bounds(settings.life_in_memory(), settings.memory_bytes);
        Self(Arc::new(RecallState { settings, memory }))
    }

    /// Returns the keeper for a request. `may_store` is false if the request asks that nothing of it
    /// is stored: its record is then kept in memory alone.
    pub fn keeper(&self, tenant: Tenant, may_store: bool) -> RecallWriter {
        let stores_contents = may_store && self.0.settings.stores_contents;
        RecallWriter { recall: self.clone(), tenant, stores_contents }
    }

    /// Returns the records of a tenant that have one of these anchors. `charge` is called with the
    /// bytes of each text before it is copied. Fails if `charge` fails. If the database cannot be
    /// used, the records in it are missing from the result.
    async fn find<E: Send + 'static>(
        &self,
        tenant: &Tenant,
        anchors: &[Anchor],
        mut charge: impl FnMut(usize) -> Result<(), E> + Send + 'static,
    ) -> Result<Vec<FoundRecord>, E> {
        let mut found = Vec::new();
        let mut others = Vec::new();
        for (position, anchor) in anchors.iter().enumerate() {
            match self.0.memory.find(tenant, anchor) {
                Some(text) => found.push(FoundRecord { position, text: Some(text) }),
                None => others.push(position),
            }
        }
        if others.is_empty() {
            return Ok(found);
        }
        let Some(database) = self.database().await else { return Ok(found) };
        let wanted = others.iter().map(|position| anchors[*position]).collect();
        let recall = database.recall(tenant.scope(), self.0.settings.bounds);
        let read = recall
            .find(wanted, move |bytes| charge(usize::try_from(bytes).unwrap_or(usize::MAX)))
            .await;
        let read = match read {
            Ok(read) => read?,
            Err(error) => {
                report(&error, "they cannot be read");
                return Ok(found);
            }
        };
        found.extend(read.into_iter().map(|read| FoundRecord {
            position: others[read.position],
            text: read.text.map(Arc::from),
        }));
        found.sort_by_key(|found| found.position);
        Ok(found)
    }

    /// Returns the database; `None` if there is none, or if it cannot be opened, which is logged.
    async fn database(&self) -> Option<&Database> {
        let opened = self.0.settings.store.as_ref()?.available().await;
        opened.map_err(|error| report(&error, "they cannot be stored")).ok()
    }
}

impl RecallWriter {
    /// Keeps a record under its anchors. Without a text, or if it can be kept nowhere, later requests
    /// learn that it is lost.
    pub(crate) async fn keep(&self, anchors: BTreeSet<Anchor>, text: Option<String>) {
        let anchors: Vec<Anchor> = anchors.into_iter().collect();
        let Some(text) = text else {
            self.store(anchors, None).await;
            return;
        };
        if self.stores_contents
            && let Some(Ok(())) = self.store(anchors.clone(), Some(text.clone())).await
        {
            return;
        }
        let text: Arc<str> = text.into();
        let mut is_kept = false;
        for anchor in &anchors {
            is_kept |= self.recall.0.memory.insert(&self.tenant, *anchor, text.clone(), text.len());
        }
        if !is_kept {
            warn!(
                bytes = text.len(),
                tenant = %self.tenant,
                "calls that a client does not send back are too large to be kept"
            );
        }
        if !self.stores_contents {
            self.store(anchors, None).await;
        }
    }

    /// Stores a record; `None` if there is no database.
    async fn store(
        &self,
        anchors: Vec<Anchor>,
        text: Option<String>,
    ) -> Option<Result<(), Unavailable>> {
        let database = self.recall.database().await?;
        let recall = database.recall(self.tenant.scope(), self.recall.0.settings.bounds);
        let stored = recall.put(NewRecord { anchors, text }).await;
        Some(stored.inspect_err(|error| report(error, "they cannot be stored")))
    }

    /// Returns the digests of a conversation of this tenant.
    pub(crate) fn trail(&self) -> ConversationDigests {
        ConversationDigests::new(&self.tenant)
    }
}

fn report(error: &(dyn std::error::Error + 'static), problem: &'static str) {
    warn!(problem, error = with_causes(error), "the database of kept calls cannot be used");
}

impl std::fmt::Debug for Recall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recall").field("settings", &self.0.settings).finish_non_exhaustive()
    }
}

airlock_strings::debug_fields!(RecallWriter { tenant });

#[cfg(test)]
mod tests;
