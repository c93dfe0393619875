//! Records one request while it runs.

use std::sync::{Arc, OnceLock};

use http::StatusCode;

use super::{
    record::{DebugRecord, RequestHead},
    records::{DebugRecords, SharedRecord},
};
use airlock_agent::RequestObserver;
use airlock_conversation::Object;
use airlock_model::{ExchangeObserver, SentRequest};

/// Records one request, from its first exchange or its end on: requests that are refused before would evict
/// those that a model was sent. One that is dropped before the end was cancelled.
#[derive(Debug)]
pub(super) struct ExchangeRecorder {
    records: Arc<DebugRecords>,
    head: RequestHead,
    /// Empty until the record begins.
    record: OnceLock<SharedRecord>,
}

impl ExchangeRecorder {
    pub(super) fn new(records: Arc<DebugRecords>, head: RequestHead) -> Self {
        Self { records, head, record: OnceLock::new() }
    }

    /// Changes the record. Begins it if there is none.
    fn change(&self, change: impl FnOnce(&mut DebugRecord)) {
        let record = self.record.get_or_init(|| self.records.begin(&self.head));
        self.records.change(self.head.id, record, change);
    }

    /// Changes the record if there is one.
    fn change_begun(&self, change: impl FnOnce(&mut DebugRecord)) {
        if let Some(record) = self.record.get() {
            self.records.change(self.head.id, record, change);
        }
    }
}

impl ExchangeObserver for ExchangeRecorder {
    fn begun(&self) {
        self.change_begun(DebugRecord::begun);
    }

    fn sent(&self, request: SentRequest<'_>) {
        self.change(|record| record.sent(request));
    }

    fn answered(&self, status: StatusCode) {
        self.change_begun(|record| record.answered(status));
    }

    fn received(&self, part: &[u8]) {
        self.change_begun(|record| record.received(part));
    }

    fn failed(&self, provider: &str, reason: &str) {
        self.change(|record| record.failed(provider, reason));
    }
}

impl RequestObserver for ExchangeRecorder {
    fn ended(&self, airlock: Option<&Object>, failure: Option<&str>) {
        self.change(|record| record.ended(airlock, failure));
    }
}

impl Drop for ExchangeRecorder {
    fn drop(&mut self) {
        self.change_begun(DebugRecord::cancel);
    }
}
