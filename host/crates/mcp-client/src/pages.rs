//! Reads a list of a server page by page: its tools, and what else it offers. The same bounds hold for all lists.

use std::{collections::HashSet, time::Duration};

use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::{
    decode::read_response,
    limits::{LIST_TIMEOUT, MAX_MESSAGE_BYTES, MAX_PAGES},
    link::{AskError, Link, Request},
};
use airlock_json::raw;
use airlock_wire::error::code;

/// One page, whose items are JSON text that may be invalid, each for itself.
#[derive(Debug)]
pub struct ListPage {
    /// The items; `None` if the member is no list.
    pub items: Option<Vec<String>>,
    /// Cursor of the next page; `None` if there is none.
    pub cursor: Option<String>,
    /// Time for which the server says that the list is valid.
    pub ttl: Option<Duration>,
}

/// Reason that further pages of a list were not read.
#[derive(Debug, thiserror::Error)]
pub enum PagesUnread {
    /// A page could not be read.
    #[error("the pages after page {page} were not read: {error}")]
    Failed {
        /// Number of the last page that was read.
        page: usize,
        /// The error.
        error: AskError,
    },
    /// A page did not arrive in time.
    #[error("the pages after page {page} were not read: none arrived within {LIST_TIMEOUT:?}")]
    Late {
        /// Number of the last page that was read.
        page: usize,
    },
    /// The list has more pages than are read.
    #[error("the pages after page {MAX_PAGES} were not read: the limit is {MAX_PAGES} pages")]
    TooMany,
    /// The items and cursors are larger than a list may be.
    #[error("further pages were not read: the list has more than {MAX_MESSAGE_BYTES} bytes")]
    TooLong,
    /// The server returned a cursor for the second time.
    #[error("further pages were not read: the cursor of the next page occurs twice")]
    Repeated,
}

/// The pages of a list that were read.
#[derive(Debug, Default)]
pub struct ReadPages {
    /// Bytes of their items and cursors. The reader of the items adds those of the items.
    pub bytes: usize,
    cursors: HashSet<String>,
    count: usize,
}

/// Reads a list by its method. `member` of a page has the items, at most `limit` of them. Hands each page to `add`, which
/// returns the cursor of the next one, or `None` if no further page is to be read. A server that does not know the method
/// has an empty list. Returns the reason if it stops before the last page, [`LIST_TIMEOUT`] included. Fails only if the
/// first page cannot be read.
pub async fn read_pages(
    link: &Link,
    method: &'static str,
    member: &str,
    limit: usize,
    mut add: impl FnMut(&ListPage) -> Option<String>,
) -> Result<Option<PagesUnread>, AskError> {
    let deadline = Instant::now() + LIST_TIMEOUT;
    let mut page = 0;
    let mut cursor = None;
    loop {
        let mut request = Request::new(method).in_pages();
        if let Some(cursor) = cursor {
            request = request.with("cursor", Value::from(cursor).to_string());
        }
        let asked = timeout_at(deadline, link.ask(request).text()).await;
        let read = asked.map(|text| ListPage::read(&text?, member, limit));
        match read {
            Ok(Ok(read)) => {
                page += 1;
                cursor = add(&read);
                if cursor.is_none() {
                    return Ok(None);
                }
            }
            Ok(Err(AskError::Refused(error)))
                if error.code == code::METHOD_NOT_FOUND && page == 0 =>
            {
                return Ok(None);
            }
            Ok(Err(error)) if page == 0 => return Err(error),
            Ok(Err(error)) => return Ok(Some(PagesUnread::Failed { page, error })),
            Err(_) if page == 0 => return Err(AskError::Unreadable("no page arrived in time")),
            Err(_) => return Ok(Some(PagesUnread::Late { page })),
        }
    }
}

impl ListPage {
    /// Splits a response. The text is not checked as a whole: one item that is nested too deeply or has a number that is
    /// out of range must not take the others with it. `member` has the items, of which at most one more than `limit` is
    /// kept: the list is bounded later, and the memory of a page here.
    pub fn read(text: &[u8], member: &str, limit: usize) -> Result<Self, AskError> {
        let Ok(text) = std::str::from_utf8(text) else {
            return Err(AskError::Unreadable("it is not UTF-8"));
        };
        let Some(members) = raw::member(text, "result").and_then(raw::members) else {
            return match read_response(text.as_bytes()) {
                Ok(Err(error)) => Err(AskError::Refused(error)),
                Ok(Ok(_)) => Err(AskError::Unreadable("its result is not an object")),
                Err(reason) => Err(AskError::Unreadable(reason)),
            };
        };
        let mut page = Self { items: Some(Vec::new()), cursor: None, ttl: None };
        for (name, value) in members {
            if name == member {
                let items = raw::elements(value);
                page.items = items.map(|all| all.take(limit + 1).map(str::to_owned).collect());
            } else if name == "nextCursor" {
                page.cursor = raw::string(value).map(Into::into);
            } else if name == "ttlMs" {
                page.ttl = value.parse().ok().map(Duration::from_millis);
            }
        }
        Ok(page)
    }
}

impl ReadPages {
    /// Counts a page. Returns the cursor of the next one; `None` if there is none. Fails if it is not to be read.
    pub fn next(&mut self, page: &ListPage) -> Result<Option<String>, PagesUnread> {
        self.count += 1;
        let Some(cursor) = &page.cursor else { return Ok(None) };
        if self.count >= MAX_PAGES {
            return Err(PagesUnread::TooMany);
        }
        // Cursors are kept too, so they count.
        self.bytes += cursor.len();
        if self.bytes > MAX_MESSAGE_BYTES {
            return Err(PagesUnread::TooLong);
        }
        if !self.cursors.insert(cursor.clone()) {
            return Err(PagesUnread::Repeated);
        }
        Ok(Some(cursor.clone()))
    }
}
