//! Reads `tools/list`: all pages, within bounds, one tool at a time.

use std::{collections::HashSet, time::Duration};

use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::{
    decode,
    http::mirror,
    limits::{LIST_TIMEOUT, MAX_MESSAGE_BYTES, MAX_PAGES, MAX_TREE_BYTES},
    link::{AskError, Link, Request},
    skipped::SkippedTools,
};
use airlock_catalog::MAX_TOOLS_PER_CLIENT;
use airlock_core::{secret::Scrubber, tool::ToolDefinition};
use airlock_json::{self as json, raw};
use airlock_strings::cut;
use airlock_wire::{error::code, method};

/// Reads the whole list. Tools that cannot be used are left out, with a reason. Fails only if the
/// first page cannot be read; the pages that were read before a later failure, or within
/// [`LIST_TIMEOUT`], are kept, and the list is marked as cut.
pub async fn read_tools(link: &Link) -> Result<ToolList, AskError> {
    let deadline = Instant::now() + LIST_TIMEOUT;
    let checks_headers = link.transport().mirrors_parameters();
    let mut list = ToolList { checks_headers, ..ToolList::default() };
    let mut cursor = None;
    loop {
        match timeout_at(deadline, page(link, cursor.take())).await {
            Ok(Ok(page)) => cursor = list.add(&page, &link.inbox().scrubber()),
            // A server without tools need not know the method.
            Ok(Err(AskError::Refused(error)))
                if error.code == code::METHOD_NOT_FOUND && list.pages == 0 => {}
            Ok(Err(error)) if list.pages == 0 => return Err(error),
            Ok(Err(error)) => list.cut(&format!("all pages after page {}: {error}", list.pages)),
            Err(_) if list.pages == 0 => {
                return Err(AskError::Unreadable("no page arrived in time"));
            }
            Err(_) => list.cut(&format!(
                "all pages after page {}: no further one arrived within {LIST_TIMEOUT:?}",
                list.pages
            )),
        }
        if cursor.is_none() {
            return Ok(list);
        }
    }
}

async fn page(link: &Link, cursor: Option<String>) -> Result<ToolPage, AskError> {
    let mut request = Request::new(method::TOOLS_LIST).in_pages();
    if let Some(cursor) = cursor {
        request = request.with("cursor", Value::from(cursor).to_string());
    }
    let text = link.ask(request).text().await?;
    ToolPage::read(&text)
}

/// One page, whose tools are JSON text that may be invalid, each for itself.
#[derive(Debug)]
struct ToolPage {
    /// `None` if the member is no list.
    tools: Option<Vec<String>>,
    cursor: Option<String>,
    ttl: Option<Duration>,
}

impl ToolPage {
    /// Splits a response. The text is not checked as a whole: one tool that is nested too deeply or
    /// has a number that is out of range must not take the others with it.
    fn read(text: &[u8]) -> Result<Self, AskError> {
        let Ok(text) = std::str::from_utf8(text) else {
            return Err(AskError::Unreadable("it is not UTF-8"));
        };
        let Some(result) = raw::member(text, "result").filter(|text| *text != "null") else {
            return match decode::read_response(text.as_bytes()) {
                Ok(Err(error)) => Err(AskError::Refused(error)),
                Ok(Ok(_)) => Err(AskError::Unreadable("its result is no object")),
                Err(reason) => Err(AskError::Unreadable(reason)),
            };
        };
        let Some(members) = raw::members(result) else {
            return Err(AskError::Unreadable("its result is no object"));
        };
        let mut page = Self { tools: Some(Vec::new()), cursor: None, ttl: None };
        for (name, value) in members {
            match &*name {
                "tools" => {
                    page.tools = raw::elements(value)
                        // The bound on the list follows; this one bounds the memory of a page.
                        .map(|tools| {
                            tools.take(MAX_TOOLS_PER_CLIENT + 1).map(str::to_owned).collect()
                        });
                }
                "nextCursor" => page.cursor = raw::string(value).map(Into::into),
                "ttlMs" => page.ttl = value.parse().ok().map(Duration::from_millis),
                _ => {}
            }
        }
        Ok(page)
    }
}

/// The part of a list that has been read.
#[derive(Debug, Default)]
pub struct ToolList {
    /// The tools that can be used.
    pub tools: Vec<ToolDefinition>,
    /// Reasons that other tools cannot be used.
    pub skipped: SkippedTools,
    /// True if the list may have further tools, which were not read.
    pub is_cut: bool,
    /// Time for which the server says that the list is valid.
    pub ttl: Option<Duration>,
    /// True if tools whose annotations for headers are invalid cannot be used.
    checks_headers: bool,
    cursors: HashSet<String>,
    pages: usize,
    bytes: usize,
    tree_bytes: usize,
}

impl ToolList {
    /// Creates the result of a reading that failed.
    pub fn unread() -> Self {
        Self { is_cut: true, ..Self::default() }
    }

    /// Adds a page. Returns the cursor of the next page; `None` if no further page is to be read.
    fn add(&mut self, page: &ToolPage, scrubber: &Scrubber) -> Option<String> {
        self.pages += 1;
        self.ttl = page.ttl.or(self.ttl);
        let Some(tools) = &page.tools else {
            self.cut("a page whose tools are no list");
            return None;
        };
        for tool in tools {
            if !self.add_tool(tool, scrubber) {
                return None;
            }
        }
        page.cursor.clone().and_then(|cursor| self.next(cursor))
    }

    /// Adds a tool, or a reason if it cannot be used. Returns false if a bound of the list is
    /// reached.
    fn add_tool(&mut self, tool: &str, scrubber: &Scrubber) -> bool {
        self.bytes += tool.len();
        let left = MAX_TREE_BYTES - self.tree_bytes;
        let checked = json::check(tool.as_bytes(), &json::Caps::memory(left));
        let is_full = matches!(&checked, Err(json::Error::TooLarge { .. }))
            || self.bytes > MAX_MESSAGE_BYTES
            || self.tools.len() >= MAX_TOOLS_PER_CLIENT;
        if is_full {
            let tools = MAX_TOOLS_PER_CLIENT;
            let bytes = MAX_MESSAGE_BYTES;
            let memory = MAX_TREE_BYTES;
            self.cut(&format!(
                "all beyond {tools} tools, {bytes} bytes or {memory} bytes of memory"
            ));
            return false;
        }
        let decoded = checked.map_err(|error| error.to_string()).and_then(|cost| {
            self.tree_bytes += cost.tree_bytes;
            let text = scrubber.json(tool.as_bytes());
            let text = text.ok_or("it has a number that is out of range")?;
            serde_json::from_slice(&text).map_err(|error| error.to_string())
        });
        match decoded
            .map_err(|reason| unreadable(tool, &reason))
            .and_then(|tool: Value| self.check_headers(tool))
            .and_then(decode)
        {
            Ok(tool) => self.tools.push(tool),
            Err(reason) => self.skipped.push(&scrubber.text(&reason)),
        }
        true
    }

    /// Returns a tool, or the reason that its annotations for headers make it unusable.
    fn check_headers(&self, tool: Value) -> Result<Value, String> {
        let schema = tool.get("inputSchema").filter(|_| self.checks_headers);
        match schema.map_or(Ok(()), mirror::check) {
            Ok(()) => Ok(tool),
            Err(error) => Err(unreadable(&tool.to_string(), &error.to_string())),
        }
    }

    fn next(&mut self, cursor: String) -> Option<String> {
        if self.pages >= MAX_PAGES {
            self.cut(&format!("all beyond {MAX_PAGES} pages"));
            return None;
        }
        // Cursors are kept too, so they count.
        self.bytes += cursor.len();
        if self.bytes > MAX_MESSAGE_BYTES {
            self.cut(&format!("all beyond {MAX_MESSAGE_BYTES} bytes"));
            return None;
        }
        if !self.cursors.insert(cursor.clone()) {
            self.cut("a page that was read already");
            return None;
        }
        Some(cursor)
    }

    /// Records that the rest of the list is not read.
    fn cut(&mut self, what: &str) {
        self.is_cut = true;
        self.skipped.push(what);
    }
}

/// Returns the reason that a tool is left out whose text cannot be parsed.
fn unreadable(tool: &str, reason: &str) -> String {
    let name = raw::member(tool, "name").and_then(raw::string);
    format!("tool {}: {reason}", name.map_or("without a name".into(), |name| quoted(&name)))
}

fn quoted(name: &str) -> String {
    format!("{:?}", cut(name.to_owned(), 128))
}

fn decode(mut tool: Value) -> Result<ToolDefinition, String> {
    let name = match tool.get("name") {
        Some(Value::String(name)) => quoted(name),
        _ => "without a name".into(),
    };
    // Some servers write absent members as null.
    if let Some(fields) = tool.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    serde_json::from_value(tool).map_err(|error| format!("tool {name}: {error}"))
}

#[cfg(test)]
mod tests;
