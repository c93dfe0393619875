//! Presents a result whole or as a preview, and keeps the whole of a large one.

use std::{sync::Arc, time::Duration};

use super::{
    kept::{ResultStore, StoredResult},
    preview::Preview,
    provenance::{Presented, Provenance},
};
use airlock_core::tenant::Tenant;
use airlock_strings::estimated_tokens;

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
    pub(super) settings: Settings,
    pub(super) kept: Arc<ResultStore>,
}

impl Results {
    /// Creates the presentation without kept results.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            kept: Arc::new(ResultStore::new(settings.expire_after, settings.total_bytes)),
        }
    }

    /// Returns the presentation with other settings, which keeps its results in the same place. The place
    /// has the new bounds from now on.
    #[must_use]
    pub fn with_settings(&self, settings: Settings) -> Self {
        if settings != self.settings {
            self.kept.set_bounds(settings.expire_after, settings.total_bytes);
        }
        Self { settings, kept: self.kept.clone() }
    }

    /// Returns the text of a result for a message. A text over the bound is kept for `tenant` and
    /// replaced by a preview.
    pub fn present(&self, text: String, provenance: &Provenance, tenant: &Tenant) -> Presented {
        if text.len() <= self.settings.max_inline_bytes {
            return Presented::whole(text);
        }
        let preview = Preview::new(&text, self.settings.max_inline_bytes);
        let bytes = text.len();
        let kept_out_tokens =
            estimated_tokens(&text).saturating_sub(estimated_tokens(&preview.text));
        let entry = StoredResult::Text { provenance: provenance.clone(), text: text.into() };
        let handle = self.kept.put(tenant, entry);
        let remark = preview.remark(bytes, handle.as_ref(), self.settings.expire_after);
        Presented { text: preview.text, remark, kept_out_tokens }
    }

    /// Keeps the JSON text of a result for the programs of `tenant`. Returns its handle; `None` if
    /// it is larger than a tenant's share.
    pub fn keep_raw(&self, tenant: &Tenant, json: String) -> Option<String> {
        self.kept.put(tenant, StoredResult::Raw(json.into())).map(|handle| handle.to_string())
    }

    /// Returns the JSON text of a result that was kept for programs; `None` if there is none with
    /// this handle, or if it expired or is another tenant's.
    pub fn raw(&self, tenant: &Tenant, handle: &str) -> Option<Arc<str>> {
        match self.kept.get(tenant, handle)? {
            StoredResult::Raw(json) => Some(json),
            StoredResult::Text { .. } => None,
        }
    }
}

/// Settings for tests.
#[cfg(test)]
pub(crate) const SETTINGS: Settings = Settings {
    max_inline_bytes: 4 << 10,
    expire_after: Duration::from_mins(1),
    total_bytes: 64 << 10,
};
