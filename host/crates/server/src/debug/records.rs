//! The last requests of models, in memory: bounded in number and in bytes. Beyond that, the oldest request of
//! the caller that has most is evicted, so that no caller evicts those of others.
//!
//! The lock of the table covers no copy of a text: each record has a lock of its own, which is never taken
//! together with that of the table.

use std::{
    cmp::Reverse,
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use parking_lot::Mutex;
use uuid::Uuid;

use super::record::{DebugRecord, RequestHead};
use airlock_core::tenant::Tenant;

/// Part of the memory that one request gets.
const SHARE: usize = 4;

/// Bounds on the requests that are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DebugSettings {
    /// Maximum number of requests.
    pub max: usize,
    /// Maximum memory of all, in bytes. One request gets at most a quarter of it.
    pub max_bytes: usize,
}

/// A record, for the request that it is about and for those who read it.
pub(super) type SharedRecord = Arc<Mutex<DebugRecord>>;

/// The requests that are recorded. `Debug` shows none.
pub(crate) struct DebugRecords {
    settings: DebugSettings,
    table: Mutex<RecordTable>,
}

#[derive(Default)]
struct RecordTable {
    by_id: HashMap<Uuid, TableEntry>,
    by_tenant: HashMap<Tenant, TenantRecords>,
    bytes: usize,
    /// Number of requests so far.
    begun: u64,
}

struct TableEntry {
    record: SharedRecord,
    tenant: Tenant,
    bytes: usize,
}

/// The requests of one caller.
#[derive(Default)]
struct TenantRecords {
    /// Their numbers and identifiers, the oldest first.
    order: VecDeque<(u64, Uuid)>,
    bytes: usize,
}

impl DebugRecords {
    pub(crate) fn new(settings: DebugSettings) -> Self {
        Self { settings, table: Mutex::default() }
    }

    /// Begins to record a request.
    pub(super) fn begin(&self, head: &RequestHead) -> SharedRecord {
        let record = DebugRecord::new(head, self.settings.max_bytes / SHARE);
        let bytes = record.bytes();
        let record = Arc::new(Mutex::new(record));
        let entry = TableEntry { record: record.clone(), tenant: head.tenant.clone(), bytes };
        let evicted = self.table.lock().insert(head.id, entry, self.settings);
        empty(evicted);
        record
    }

    /// Changes the record of a request, unless it was evicted. Evicts others to make room for it.
    pub(super) fn change(
        &self,
        id: Uuid,
        record: &Mutex<DebugRecord>,
        change: impl FnOnce(&mut DebugRecord),
    ) {
        let mut content = record.lock();
        if content.is_evicted() {
            return;
        }
        let before = content.bytes();
        change(&mut content);
        let growth = content.bytes() - before;
        drop(content);
        let evicted = self.table.lock().grow(id, growth, self.settings.max_bytes);
        empty(evicted);
    }

    /// Returns the record of a request; `None` if there is none.
    pub(super) fn find(&self, id: Uuid) -> Option<SharedRecord> {
        self.table.lock().by_id.get(&id).map(|entry| entry.record.clone())
    }
}

airlock_strings::debug_fields!(DebugRecords { settings });

/// Drops the content of records that were evicted. Their requests may run on and keep them.
fn empty(evicted: Vec<SharedRecord>) {
    for record in evicted {
        record.lock().evict();
    }
}

impl RecordTable {
    /// Adds a request. Returns those that were evicted for it.
    fn insert(
        &mut self,
        id: Uuid,
        entry: TableEntry,
        settings: DebugSettings,
    ) -> Vec<SharedRecord> {
        let mut evicted = Vec::new();
        while self.by_id.len() >= settings.max
            && let Some(record) = self.evict(id, |records| records.order.len())
        {
            evicted.push(record);
        }
        self.begun += 1;
        self.bytes += entry.bytes;
        let of_tenant = self.by_tenant.entry(entry.tenant.clone()).or_default();
        of_tenant.order.push_back((self.begun, id));
        of_tenant.bytes += entry.bytes;
        self.by_id.insert(id, entry);
        evicted.extend(self.make_room(id, settings.max_bytes));
        evicted
    }

    /// Adds bytes to a request, unless it was evicted. Returns those that were evicted for it.
    fn grow(&mut self, id: Uuid, bytes: usize, max_bytes: usize) -> Vec<SharedRecord> {
        let Some(entry) = self.by_id.get_mut(&id) else { return Vec::new() };
        entry.bytes += bytes;
        self.bytes += bytes;
        if let Some(of_tenant) = self.by_tenant.get_mut(&entry.tenant) {
            of_tenant.bytes += bytes;
        }
        self.make_room(id, max_bytes)
    }

    /// Evicts requests, but not `kept`, until all fit.
    fn make_room(&mut self, kept: Uuid, max_bytes: usize) -> Vec<SharedRecord> {
        let mut evicted = Vec::new();
        while self.bytes > max_bytes
            && let Some(record) = self.evict(kept, |records| records.bytes)
        {
            evicted.push(record);
        }
        evicted
    }

    /// Evicts the oldest request, but not `kept`, of the caller with the greatest `weight`. `None` if there is
    /// no other one.
    fn evict(&mut self, kept: Uuid, weight: fn(&TenantRecords) -> usize) -> Option<SharedRecord> {
        let oldest = self.by_tenant.values().filter_map(|records| {
            let (number, id) = records.order.iter().find(|(_, id)| *id != kept)?;
            Some((weight(records), Reverse(*number), *id))
        });
        let (_, _, id) = oldest.max()?;
        let TableEntry { record, tenant, bytes } = self.by_id.remove(&id)?;
        self.bytes -= bytes;
        if let Some(of_tenant) = self.by_tenant.get_mut(&tenant) {
            of_tenant.bytes -= bytes;
            of_tenant.order.retain(|(_, other)| *other != id);
            if of_tenant.order.is_empty() {
                self.by_tenant.remove(&tenant);
            }
        }
        Some(record)
    }
}

#[cfg(test)]
mod tests;
