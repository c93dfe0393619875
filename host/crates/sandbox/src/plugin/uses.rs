//! Records which of its grants a plugin uses, for the author who wants to request no more. A gateway
//! that serves records nothing.
//!
//! A use is what the grants and the effects of the running tool permit, whatever its outcome: a
//! missing file and a server that does not respond count, a refusal does not. Only names of grants
//! are recorded, so the record is bounded by the grants and the tools of the plugin.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parking_lot::Mutex;

use airlock_core::tool::ClientName;
use airlock_egress::EgressObserver;

use crate::Access;

/// Use of a granted request, by the name of the request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Use {
    /// Sent an HTTP request to this destination. A request within several destinations uses all of
    /// them.
    Http(String),
    /// Had this secret attached to an HTTP request.
    AttachedSecret(String),
    /// Learned that this secret exists.
    KnownSecret(String),
    /// Read the value of this secret.
    RevealedSecret(String),
    /// Opened this store.
    ReadKv(String),
    /// Set or deleted a key of this store.
    WriteKv(String),
    /// Read below this directory, or looked for a file there.
    ReadFiles(String),
    /// Changed something below this directory, or opened a file for writing.
    WriteFiles(String),
    /// Touched the scratch directory.
    Scratch,
    /// Called the tool of this slot, or read its description.
    Slot(String),
    /// Called the tool of this full name, or read its description.
    Tool(String),
    /// Read a clock.
    Clocks,
    /// Read the configuration.
    Config,
}

/// Uses of one plugin, by the plugin's own names of its tools.
pub type ToolUses = BTreeMap<String, BTreeSet<Use>>;

/// Records the uses of plugins. Clones share the record.
#[derive(Debug, Clone, Default)]
pub struct UseRecorder(Arc<Mutex<BTreeMap<ClientName, ToolUses>>>);

impl UseRecorder {
    /// Returns the uses of one plugin so far.
    pub fn uses(&self, client: &ClientName) -> ToolUses {
        let plugins = self.0.lock();
        plugins.get(client).cloned().unwrap_or_default()
    }

    /// Returns the recorder for one call of a tool, by the plugin's own name of the tool.
    pub(crate) fn of_call(&self, client: &ClientName, tool: &str) -> CallRecorder {
        let recorder = self.clone();
        let client = client.clone();
        let tool = tool.to_owned();
        CallRecorder(Arc::new(RecordedCall { recorder, client, tool }))
    }
}

/// Records the uses of one call. Cheap to clone.
#[derive(Clone)]
pub(crate) struct CallRecorder(Arc<RecordedCall>);

struct RecordedCall {
    recorder: UseRecorder,
    client: ClientName,
    tool: String,
}

impl CallRecorder {
    pub(crate) fn record(&self, used: Use) {
        let RecordedCall { recorder, client, tool } = &*self.0;
        let mut plugins = recorder.0.lock();
        plugins.entry(client.clone()).or_default().entry(tool.clone()).or_default().insert(used);
    }

    /// Returns the recorder for one granted directory, by the name of its request.
    pub(crate) fn of_directory(&self, request: &str) -> DirectoryRecorder {
        DirectoryRecorder(Arc::new(RecordedDirectory {
            call: self.clone(),
            read: Use::ReadFiles(request.to_owned()),
            written: Use::WriteFiles(request.to_owned()),
        }))
    }

    /// Returns the recorder for the scratch directory.
    pub(crate) fn of_scratch(&self) -> DirectoryRecorder {
        DirectoryRecorder(Arc::new(RecordedDirectory {
            call: self.clone(),
            read: Use::Scratch,
            written: Use::Scratch,
        }))
    }
}

impl EgressObserver for CallRecorder {
    fn permitted(&self, destinations: &[&str], credentials: &[&str]) {
        for name in destinations {
            self.record(Use::Http((*name).to_owned()));
        }
        for name in credentials {
            self.record(Use::AttachedSecret((*name).to_owned()));
        }
    }
}

/// Records the uses of one directory by one call. Cheap to clone.
#[derive(Clone)]
pub(crate) struct DirectoryRecorder(Arc<RecordedDirectory>);

struct RecordedDirectory {
    call: CallRecorder,
    read: Use,
    written: Use,
}

impl DirectoryRecorder {
    /// Records that the directory was read, or changed.
    pub(crate) fn record(&self, access: Access) {
        let RecordedDirectory { call, read, written } = &*self.0;
        call.record(match access {
            Access::ReadOnly => read.clone(),
            Access::ReadWrite => written.clone(),
        });
    }
}
