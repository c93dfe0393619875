//! Presents the results of tools to models: marks those of MCP servers as untrusted, and keeps large
//! ones out of the conversation.
//!
//! | file | purpose |
//! |---|---|
//! | `marks` | the lines around an untrusted result, and look-alikes of them inside it |
//! | `kept` | large results, and unchanged ones for programs, by tenant, until they expire |
//! | `preview` | beginning and end of a large result, with its handle |
//! | `provenance` | a presented result, and the servers that it comes from |
//! | `reader` | the tool `readContent`, which reads a large result in pages |
//! | `resources` | the tool `readResource`, which reads a resource that a result links to |
//!
//! A result that is marked or shortened becomes the text of one message, which is kept in the
//! conversation as it is: it stays the same in all rounds, so a provider's cache of the prompt stays
//! valid. This module does not call tools and decides nothing about them.

mod kept;
mod marks;
mod preview;
mod provenance;
mod reader;
mod resources;

use std::{sync::Arc, time::Duration};

pub(crate) use self::kept::ResultStore;
pub(crate) use self::marks::untrusted;
use self::{kept::StoredResult, preview::Preview, reader::Reader, resources::ResourceReader};
pub use self::{
    marks::Marks,
    provenance::{Presented, Provenance},
};
use airlock_core::{door::OwnTools, tenant::Tenant};

/// Bounds on large results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Maximum length of the text of a server's result in a conversation, in bytes, without its
    /// marks. A longer text is kept, and replaced by a preview.
    pub max_inline_bytes: usize,
    /// Time for which a large result is kept.
    pub expire_after: Duration,
    /// Maximum size of all kept results, in bytes. One tenant gets at most half of it.
    pub total_bytes: usize,
}

/// Presents results of MCP servers. Cheap to clone; clones share the kept results.
#[derive(Debug, Clone)]
pub struct Results {
    settings: Settings,
    kept: Arc<ResultStore>,
}

impl Results {
    /// Creates the presentation without kept results.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            kept: Arc::new(ResultStore::new(settings.expire_after, settings.total_bytes)),
        }
    }

    /// Returns the text of a result for a message. A text over the bound is kept for `tenant` and
    /// replaced by a preview.
    pub fn present(&self, text: String, provenance: &Provenance, tenant: &Tenant) -> Presented {
        if text.len() <= self.settings.max_inline_bytes {
            return Presented { text, remark: String::new() };
        }
        let preview = Preview::new(&text, self.settings.max_inline_bytes);
        let bytes = text.len();
        let entry = StoredResult::Text { provenance: provenance.clone(), text: text.into() };
        let handle = self.kept.put(tenant, entry);
        let remark = preview.remark(bytes, handle.as_ref(), self.settings.expire_after);
        Presented { text: preview.text, remark }
    }

    /// Keeps the JSON text of a result for the programs of `tenant`. Returns its handle; `None` if it
    /// is larger than a tenant's share.
    pub fn keep_raw(&self, tenant: &Tenant, json: String) -> Option<String> {
        self.kept.put(tenant, StoredResult::Raw(json.into())).map(|handle| handle.to_string())
    }

    /// Returns the JSON text of a result that was kept for programs; `None` if there is none with this
    /// handle, or if it expired or is another tenant's.
    pub fn raw(&self, tenant: &Tenant, handle: &str) -> Option<Arc<str>> {
        match self.kept.get(tenant, handle)? {
            StoredResult::Raw(json) => Some(json),
            StoredResult::Text { .. } => None,
        }
    }

    /// Returns the tool that reads kept results, for
    /// `Catalog::set_reader`.
    pub fn own_tools(&self) -> OwnTools {
        let reader = Reader::new(self.kept.clone(), self.settings.max_inline_bytes);
        OwnTools { tools: vec![reader.tool()], provider: Arc::new(reader) }
    }

    /// Returns the tool that reads resources of MCP servers, for
    /// `Catalog::set_resource_reader`.
    pub fn resource_tools(&self) -> OwnTools {
        let provider = Arc::new(ResourceReader(self.clone()));
        OwnTools { tools: vec![ResourceReader::tool()], provider }
    }
}

/// Settings for tests.
#[cfg(test)]
pub(crate) const SETTINGS: Settings = Settings {
    max_inline_bytes: 4 << 10,
    expire_after: Duration::from_mins(1),
    total_bytes: 64 << 10,
};
