//! Layout of the virtual files of code mode: one file for a client, or one for each of its tools.

use std::collections::BTreeMap;

use airlock_core::tool::ClientName;

/// Layout of the virtual files of code mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BindingLevel {
    /// One file per client.
    Server,
    /// One file per tool.
    Tool,
}

/// Layout of the files of all clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    default: BindingLevel,
    clients: BTreeMap<ClientName, BindingLevel>,
}

/// Layouts that a text for all clients describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LayoutKind {
    /// One file per client.
    Server,
    /// One file per tool.
    Tool,
    /// Both exist.
    Mixed,
}

impl From<BindingLevel> for Layout {
    fn from(default: BindingLevel) -> Self {
        Self { default, clients: BTreeMap::new() }
    }
}

impl Layout {
    /// Sets the layout of one client.
    #[must_use]
    pub fn with(mut self, client: ClientName, level: BindingLevel) -> Self {
        self.clients.insert(client, level);
        self
    }

    /// Returns the layout of one client.
    pub(super) fn level(&self, client: &ClientName) -> BindingLevel {
        self.clients.get(client).copied().unwrap_or(self.default)
    }

    /// Returns the layouts that clients have: the default one if no client has its own.
    pub(super) fn kind(&self) -> LayoutKind {
        match (self.has(BindingLevel::Server), self.has(BindingLevel::Tool)) {
            (true, true) => LayoutKind::Mixed,
            (false, true) => LayoutKind::Tool,
            (false, false) if self.default == BindingLevel::Tool => LayoutKind::Tool,
            _ => LayoutKind::Server,
        }
    }

    /// Returns whether a client has this layout of its own.
    fn has(&self, level: BindingLevel) -> bool {
        self.clients.values().any(|own| *own == level)
    }
}
