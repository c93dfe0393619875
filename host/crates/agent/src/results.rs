//! Presents the results of tools to models: marks those of MCP servers as untrusted, and keeps large
//! ones out of the conversation.
//!
//! | file | purpose |
//! |---|---|
//! | `marks` | the lines around an untrusted result, and look-alikes of them inside it |
//! | `kept` | large results, and unchanged ones for programs, by tenant, until they expire |
//! | `preview` | beginning and end of a large result, with its handle |
//! | `reader` | the tool `readContent`, which reads a large result in pages |
//! | `resources` | the tool `readResource`, which reads a resource that a result links to |
//!
//! A result that is marked or shortened becomes the text of one message, which is kept in the
//! conversation as it is: it stays the same in all rounds, so a provider's cache of the prompt stays
//! valid. This module does not call tools and decides nothing about them.

mod kept;
mod marks;
mod preview;
mod reader;
mod resources;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

pub(crate) use self::kept::Kept;
pub use self::marks::Marks;
pub(crate) use self::marks::untrusted;
use self::{kept::Entry, reader::Reader, resources::ResourceReader};
use airlock_core::{
    door::OwnTools,
    tenant::Tenant,
    tool::{ClientName, Trust},
};

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

/// Provenance of a result: the MCP servers whose data it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provenance {
    /// Names of the servers; at least one.
    pub servers: BTreeSet<ClientName>,
    /// The operator's trust in them.
    pub trust: Trust,
}

/// Presents results of MCP servers. Cheap to clone; clones share the kept results.
#[derive(Debug, Clone)]
pub struct Results {
    settings: Settings,
    kept: Arc<Kept>,
}

/// A result as the text of a message has it.
#[derive(Debug, PartialEq, Eq)]
pub struct Presented {
    /// Text of the result, whole or as a preview.
    pub text: String,
    /// The gateway's own remark about a preview. It belongs after the marks. Empty for a whole text.
    pub remark: String,
}

impl Results {
    /// Creates the presentation without kept results.
    pub fn new(settings: Settings) -> Self {
        Self { settings, kept: Arc::new(Kept::new(settings.expire_after, settings.total_bytes)) }
    }

    /// Returns the text of a result for a message. A text over the bound is kept for `tenant` and
    /// replaced by a preview.
    pub fn present(&self, text: String, provenance: &Provenance, tenant: &Tenant) -> Presented {
        if text.len() <= self.settings.max_inline_bytes {
            return Presented { text, remark: String::new() };
        }
        let preview = preview::of(&text, self.settings.max_inline_bytes);
        let bytes = text.len();
        let entry = Entry::Text { provenance: provenance.clone(), text: text.into() };
        let handle = self.kept.put(tenant, entry);
        let remark = preview.remark(bytes, handle.as_ref(), self.settings.expire_after);
        Presented { text: preview.text, remark }
    }

    /// Keeps the JSON text of a result for the programs of `tenant`. Returns its handle; `None` if it
    /// is larger than a tenant's share.
    pub fn keep_raw(&self, tenant: &Tenant, json: String) -> Option<String> {
        self.kept.put(tenant, Entry::Raw(json.into())).map(|handle| handle.to_string())
    }

    /// Returns the JSON text of a result that was kept for programs; `None` if there is none with this
    /// handle, or if it expired or is another tenant's.
    pub fn raw(&self, tenant: &Tenant, handle: &str) -> Option<Arc<str>> {
        match self.kept.get(tenant, handle)? {
            Entry::Raw(json) => Some(json),
            Entry::Text { .. } => None,
        }
    }

    /// Returns the tool that reads kept results, for
    /// [`Catalog::set_reader`](airlock_catalog::Catalog::set_reader).
    pub fn own_tools(&self) -> OwnTools {
        let reader = Reader::new(self.kept.clone(), self.settings.max_inline_bytes);
        OwnTools { tools: vec![reader.tool()], provider: Arc::new(reader) }
    }

    /// Returns the tool that reads resources of MCP servers, for
    /// [`Catalog::set_resource_reader`](airlock_catalog::Catalog::set_resource_reader).
    pub fn resource_tools(&self) -> OwnTools {
        let provider = Arc::new(ResourceReader(self.clone()));
        OwnTools { tools: vec![ResourceReader::tool()], provider }
    }
}

impl Provenance {
    /// Creates the provenance of the result of one server.
    pub fn of(server: ClientName, trust: Trust) -> Self {
        Self { servers: BTreeSet::from([server]), trust }
    }

    /// Creates the provenance of the result of a tool that used servers; `None` if it used none. The
    /// operator trusts none of them.
    pub fn through(servers: BTreeSet<ClientName>) -> Option<Self> {
        (!servers.is_empty()).then_some(Self { servers, trust: Trust::Untrusted })
    }

    /// Returns the marks for one result; `None` if the server is trusted. Each result gets marks of
    /// its own.
    pub fn marks(&self) -> Option<Marks> {
        let names: Vec<_> = self.servers.iter().map(ClientName::as_str).collect();
        (self.trust == Trust::Untrusted).then(|| Marks::new(&names.join(", ")))
    }
}

/// Settings for tests.
#[cfg(test)]
pub(crate) const SETTINGS: Settings = Settings {
    max_inline_bytes: 4 << 10,
    expire_after: Duration::from_mins(1),
    total_bytes: 64 << 10,
};
