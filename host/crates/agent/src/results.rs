//! Presents the results of tools to models: marks those of MCP servers as untrusted, and keeps large
//! ones out of the conversation.
//!
//! | file | purpose |
//! |---|---|
//! | `marks` | the lines around an untrusted result, and look-alikes of them inside it |
//! | `kept` | large results, and unchanged ones for programs, by tenant, until they expire |
//! | `presentation` | a result whole or as a preview; keeps the whole of a large one |
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
mod presentation;
mod preview;
mod provenance;
mod reader;
mod resources;

use std::sync::Arc;

pub(crate) use self::kept::ResultStore;
pub(crate) use self::marks::untrusted;
#[cfg(test)]
pub(crate) use self::presentation::SETTINGS;
pub use self::{
    marks::{Marks, names_service},
    presentation::{Results, Settings},
    provenance::{Presented, Provenance},
    reader::content_owner,
};
use self::{reader::Reader, resources::ResourceReader};
use airlock_core::door::OwnTools;

impl Results {
    /// Returns the tool that reads kept results, for
    /// `Catalog::set_reader`.
    pub fn own_tools(&self) -> OwnTools {
        let reader = Reader::new(self.kept.clone(), self.settings.max_inline_bytes);
        OwnTools { tools: vec![reader.tool()], provider: Arc::new(reader) }
    }

    /// Returns the tool that reads resources of MCP servers, for
    /// `Catalog::set_resource_reader`.
    pub fn resource_tools(&self) -> OwnTools {
        let reader = ResourceReader::new(self.clone());
        OwnTools { tools: vec![reader.tool().clone()], provider: Arc::new(reader) }
    }
}
