//! Other tools of the same gateway, from plugins and MCP servers alike.
//!
//! A plugin can use the tools that the operator binds to its slots or grants to it, and that the
//! caller of the chain may use; every other name is not found. The name of a tool is that of the
//! slot to which it is bound, else its full name, `<client>-<tool>`. In a native build the
//! tools are those of a [`testing::Host`](crate::testing::Host), if there is one.
//!
//! ```no_run
//! use airlock_guest::{Error, serde_json::{Value, json}, tools};
//!
//! fn first_line(path: &str) -> Result<String, Error> {
//!     let output = tools::call("read_file", &json!({ "path": path, "limit": 1 }))?;
//!     let file: Value = output.decode()?;
//!     Ok(file["text"].as_str().unwrap_or_default().to_owned())
//! }
//! ```

use std::time::Duration;

use serde::Serialize;

use crate::host::tools as host;
use crate::{Descriptor, Error, Output, wire};

/// A tool that may be called.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolSummary {
    /// Name to call it by.
    pub name: String,
    /// Name for people.
    pub title: Option<String>,
    /// Description of the tool.
    pub description: String,
}

/// One page of the tools that may be called.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page {
    /// First the slots, then the tools by full name, both sorted by name.
    pub items: Vec<ToolSummary>,
    /// Cursor of the next page; `None` on the last.
    pub next: Option<String>,
}

/// Lists at most `limit` (1 to 1,000) of the tools that may be called, from the start or from the
/// cursor of an earlier page.
pub fn list(cursor: Option<&str>, limit: u32) -> Result<Page, Error> {
    let page = host::list(cursor, limit).map_err(wire::error_from_host)?;
    let items = page.items.into_iter().map(|item| {
        let host::ToolSummary { name, title, description } = item;
        ToolSummary { name, title, description }
    });
    Ok(Page { items: items.collect(), next: page.next })
}

/// Returns the descriptor of a tool by its name.
pub fn describe(name: &str) -> Result<Descriptor, Error> {
    host::describe(name).map_err(wire::error_from_host).and_then(wire::descriptor_from_host)
}

/// Calls a tool by its name and waits for its result.
pub fn call(name: &str, arguments: &impl Serialize) -> Result<Output, Error> {
    send(&Call::new(name, arguments)?)
}

/// Makes one call and waits for its result.
pub fn send(call: &Call) -> Result<Output, Error> {
    host::call(&call.0).map_err(wire::error_from_host).and_then(wire::output_from_host)
}

/// Makes several calls concurrently, up to the limit of the chain. The results are in the order of
/// the calls.
///
/// ```no_run
/// use airlock_guest::{Error, serde_json::json, tools::{self, Call}};
/// use std::time::Duration;
///
/// # fn main() -> Result<(), Error> {
/// let calls = [
///     Call::new("weather-today", &json!({ "city": "Oslo" }))?.with_timeout(Duration::from_secs(2)),
///     Call::new("weather-today", &json!({ "city": "Rome" }))?,
/// ];
/// for answer in tools::call_batch(calls) {
///     println!("{}", answer?.first_text().unwrap_or("no text"));
/// }
/// # Ok(())
/// # }
/// ```
pub fn call_batch(calls: impl IntoIterator<Item = Call>) -> Vec<Result<Output, Error>> {
    let requests: Vec<host::CallRequest> = calls.into_iter().map(|call| call.0).collect();
    let answers = host::call_batch(&requests).into_iter();
    answers
        .map(|answer| answer.map_err(wire::error_from_host).and_then(wire::output_from_host))
        .collect()
}

/// A call that is not made yet.
#[derive(Debug, Clone)]
pub struct Call(host::CallRequest);

impl Call {
    /// Creates a call of a tool by its name. The arguments must serialize to a JSON object.
    pub fn new(name: impl Into<String>, arguments: &impl Serialize) -> Result<Self, Error> {
        let arguments = serde_json::to_string(arguments).map_err(|error| {
            Error::internal(format!("the arguments of a nested call are not JSON: {error}"))
        })?;
        Ok(Self(host::CallRequest { name: name.into(), arguments, timeout_ms: None }))
    }

    /// Sets a shorter time limit for this call, in whole milliseconds. The deadline of the chain
    /// still applies.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.0.timeout_ms = Some(wire::milliseconds(timeout));
        self
    }
}
