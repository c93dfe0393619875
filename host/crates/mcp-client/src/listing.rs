//! Reads `tools/list`: all pages, within bounds, one tool at a time.

use std::time::Duration;

use serde_json::Value;

use super::{
    http::mirror,
    limits::{MAX_MESSAGE_BYTES, MAX_TREE_BYTES},
    link::{AskError, Link},
    pages::{ListPage, ReadPages, read_pages},
    skipped::SkippedTools,
};
use airlock_catalog::MAX_TOOLS_PER_CLIENT;
use airlock_core::{secret::Scrubber, tool::ToolDefinition};
use airlock_json::{self as json, raw};
use airlock_strings::cut;
use airlock_wire::method;

/// Reads the whole list. Tools that cannot be used are left out, with a reason. Fails only if the
/// first page cannot be read; the pages that were read before a later failure are kept, and the list is
/// marked as cut.
pub async fn read_tools(link: &Link) -> Result<ToolList, AskError> {
    let checks_headers = link.transport().mirrors_parameters();
    let mut list = ToolList { checks_headers, ..ToolList::default() };
    let reading = read_pages(link, method::TOOLS_LIST, "tools", MAX_TOOLS_PER_CLIENT, |page| {
        list.add(page, &link.inbox().scrubber())
    });
    if let Some(unread) = reading.await? {
        list.cut(&unread.to_string());
    }
    Ok(list)
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
    pages: ReadPages,
    tree_bytes: usize,
}

impl ToolList {
    /// Creates the result of a reading that failed.
    pub fn unread() -> Self {
        Self { is_cut: true, ..Self::default() }
    }

    /// Adds a page. Returns the cursor of the next page; `None` if no further page is to be read.
    fn add(&mut self, page: &ListPage, scrubber: &Scrubber) -> Option<String> {
        self.ttl = page.ttl.or(self.ttl);
        let Some(tools) = &page.items else {
            self.cut("a page whose tools are no list");
            return None;
        };
        for tool in tools {
            if !self.add_tool(tool, scrubber) {
                return None;
            }
        }
        self.pages.next(page).unwrap_or_else(|unread| {
            self.cut(&unread.to_string());
            None
        })
    }

    /// Adds a tool, or a reason if it cannot be used. Returns false if a bound of the list is
    /// reached.
    fn add_tool(&mut self, tool: &str, scrubber: &Scrubber) -> bool {
        self.pages.bytes += tool.len();
        let left = MAX_TREE_BYTES - self.tree_bytes;
        let checked = json::check(tool.as_bytes(), &json::Caps::memory(left));
        let is_full = matches!(&checked, Err(json::Error::TooLarge { .. }))
            || self.pages.bytes > MAX_MESSAGE_BYTES
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
