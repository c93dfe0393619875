//! A list as JSON text, which clients read in pages.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};

use airlock_wire::error::RpcError;

/// The most items on one page.
pub(super) const PAGE_ITEMS: usize = 1_000;
/// Bytes after which a page ends.
const PAGE_BYTES: usize = 4 << 20;

/// List of items as text.
#[derive(Default)]
pub(super) struct List {
    /// The items, each as JSON, with commas between them.
    text: String,
    /// Key and end in the text of each item, sorted by key.
    items: Vec<(Box<str>, usize)>,
    digest: u64,
}

/// One page of a list.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ItemPage<'t> {
    /// The items, each as JSON, with commas between them.
    pub(crate) items: &'t str,
    /// Cursor of the next page; `None` on the last one.
    pub(crate) next: Option<String>,
}

impl List {
    /// Adds an item. Its key must be greater than those of all others.
    pub(super) fn push(&mut self, key: &str, write: impl FnOnce(&mut String)) {
        if !self.text.is_empty() {
            self.text.push(',');
        }
        write(&mut self.text);
        self.items.push((key.into(), self.text.len()));
    }

    /// Completes the list.
    pub(super) fn finish(mut self) -> Self {
        let mut hasher = DefaultHasher::new();
        self.text.hash(&mut hasher);
        self.digest = hasher.finish();
        self
    }

    /// Returns a number that differs between different lists.
    pub(super) fn digest(&self) -> u64 {
        self.digest
    }

    /// Returns the length of the text.
    pub(super) fn len_bytes(&self) -> usize {
        self.text.len()
    }

    /// Returns a page: the first one, or that after `cursor`. Fails if the cursor is not one of the
    /// gateway's. An item that was added or removed since the last page moves no other.
    pub(super) fn page(
        &self,
        cursor: Option<&str>,
        is_key: impl Fn(&str) -> bool,
    ) -> Result<ItemPage<'_>, RpcError> {
        let Some(cursor) = cursor else { return Ok(self.page_from(0)) };
        let before = BASE64_URL_SAFE_NO_PAD.decode(cursor).ok();
        let before = before.and_then(|before| String::from_utf8(before).ok());
        let before = before.filter(|before| is_key(before));
        let before =
            before.ok_or_else(|| RpcError::invalid_params("`cursor` is not from this server"))?;
        Ok(self.page_from(self.items.partition_point(|(key, _)| **key <= *before)))
    }

    /// Returns the page that begins with the item at `first`.
    fn page_from(&self, first: usize) -> ItemPage<'_> {
        // The comma before the first item is left out.
        let start = first.checked_sub(1).map_or(0, |before| self.end_of(before) + 1);
        let Some(rest) = self.items.get(first..).filter(|rest| !rest.is_empty()) else {
            return ItemPage { items: "", next: None };
        };
        let fitting = rest.iter().take(PAGE_ITEMS).take_while(|(_, end)| end - start <= PAGE_BYTES);
        let last = first + fitting.count().max(1) - 1;
        let has_more = last + 1 < self.items.len();
        let next = has_more.then(|| BASE64_URL_SAFE_NO_PAD.encode(self.items[last].0.as_bytes()));
        ItemPage { items: &self.text[start..self.end_of(last)], next }
    }

    /// Returns where the text of the item at `index` ends.
    fn end_of(&self, index: usize) -> usize {
        self.items[index].1
    }
}
