//! The tool `readContent`: reads a large result in pages.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};

use super::{
    kept::{ResultStore, StoredResult},
    provenance::Provenance,
};
use airlock_core::{
    door::{Admitted, Provider},
    replica::ReplicaId,
    tool::{Annotations, CallError, ClientName, ErrorKind, Tool, ToolError, ToolOutput, Trust},
};

/// Name of the tool.
pub(super) const NAME: &str = "readContent";

/// Longest arguments of the tool that are read for their handle, in bytes: they are three short values.
const MAX_READ_BYTES: usize = 1 << 10;

const DESCRIPTION: &str = "Reads a result that was too large for the conversation, in pages. A tool's result names its \
                           handle and the offset to go on at. Reads only results of this conversation's own tools, \
                           for some minutes.";

/// Runs the tool.
pub(super) struct Reader {
    kept: Arc<ResultStore>,
    /// Maximum length of a page, in bytes.
    max_page_bytes: usize,
}

/// Part of a text.
#[derive(Debug, PartialEq, Eq)]
struct TextPage<'a> {
    start: usize,
    text: &'a str,
    /// Length of the whole text, in bytes.
    of: usize,
}

impl Reader {
    /// Creates the tool, whose pages have at most `max_page_bytes`.
    pub(super) fn new(kept: Arc<ResultStore>, max_page_bytes: usize) -> Self {
        Self { kept, max_page_bytes }
    }

    /// Returns the definition of the tool.
    pub(super) fn tool(&self) -> Arc<Tool> {
        let longest = self.max_page_bytes;
        let usual = self.usual_length();
        let schema = json!({
            "type": "object",
            "properties": {
                "handle": {"type": "string", "description": "As the preview of the result names it: content_…"},
                "offset": {"type": "integer", "minimum": 0, "description": "First byte to read. Default: 0"},
                "length": {"type": "integer", "minimum": 1, "maximum": longest,
                    "description": format!("Bytes to read, at most {longest}. Default: {usual}")},
            },
            "required": ["handle"],
        });
        let mut tool = Tool::own(NAME, DESCRIPTION, schema);
        tool.annotations = Annotations {
            read_only: Some(true),
            destructive: Some(false),
            idempotent: Some(true),
            open_world: Some(false),
            ..Annotations::default()
        };
        Arc::new(tool)
    }

    fn usual_length(&self) -> usize {
        self.max_page_bytes / 2
    }

    fn read(&self, call: &Admitted) -> Result<ToolOutput, ToolError> {
        let arguments = call.arguments().scalars(&["handle", "offset", "length"]);
        let handle = arguments.get("handle").and_then(Value::as_str);
        let handle =
            handle.ok_or_else(|| bad("handle parameter is required and must be a string"))?;
        let offset = number(&arguments, "offset")?.unwrap_or(0);
        let length = number(&arguments, "length")?.unwrap_or(self.usual_length());
        if length == 0 {
            return Err(bad("length parameter must be at least 1"));
        }
        // Results for programs are none of a model's.
        let Some(StoredResult::Text { provenance, text }) =
            self.kept.get(call.chain().tenant(), handle)
        else {
            return Err(ToolError::new(ErrorKind::NotFound, absent(handle)));
        };
        if provenance.trust == Trust::Untrusted {
            let servers = provenance.servers.iter().map(ClientName::as_str);
            call.chain().receive(&servers.collect());
        }
        let page = page(&text, offset, length.min(self.max_page_bytes));
        Ok(ToolOutput::text(page.show(&provenance)))
    }
}

impl Provider for Reader {
    fn call(&self, call: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        Box::pin(async move { self.read(&call).map_err(CallError::from) })
    }
}

impl TextPage<'_> {
    /// Renders the page: marked like the result that it is a part of, with its place.
    fn show(&self, provenance: &Provenance) -> String {
        let end = self.start + self.text.len();
        if self.text.is_empty() {
            return format!("The content has {} bytes; there is nothing at this offset.", self.of);
        }
        let text = match provenance.marks() {
            Some(marks) => marks.wrap(self.text),
            None => self.text.to_owned(),
        };
        let next = if end < self.of {
            format!("Go on at offset {end}.")
        } else {
            "This is the end.".to_owned()
        };
        format!("Bytes {} to {end} of {}.\n{text}\n{next}", self.start, self.of)
    }
}

/// Returns the gateway that has the content which a call reads: of the tool with this name, with these
/// arguments as JSON text. `None` for other tools, and without a handle.
pub fn content_owner(name: &str, arguments: &str) -> Option<ReplicaId> {
    if name != NAME || arguments.len() > MAX_READ_BYTES {
        return None;
    }
    let arguments: Value = serde_json::from_str(arguments).ok()?;
    ReplicaId::of_text(arguments.get("handle")?.as_str()?)
}

/// Returns the message about a handle that opens nothing here.
fn absent(handle: &str) -> &'static str {
    let owner = ReplicaId::of_text(handle);
    if owner.is_none_or(|owner| owner == ReplicaId::current()) {
        return "there is no content with this handle; it may have expired: call its tool again";
    }
    "this content was kept by another gateway process and cannot be read here; call its tool again, and read the handle \
     of the new result in the same request"
}

/// Returns the part of a text from `offset`, at most `length` bytes but at least one character. Both
/// ends move back to the start of a character.
fn page(text: &str, offset: usize, length: usize) -> TextPage<'_> {
    let start = text.floor_char_boundary(offset);
    let mut end = text.floor_char_boundary(start.saturating_add(length));
    if end == start {
        end = text.ceil_char_boundary(start.saturating_add(1));
    }
    TextPage { start, text: &text[start..end], of: text.len() }
}

/// Returns a number without a fraction. Models write 3.0, too.
fn number(arguments: &Map<String, Value>, name: &str) -> Result<Option<usize>, ToolError> {
    let number = match arguments.get(name) {
        None | Some(Value::Null) => return Ok(None),
        Some(value) => value.as_f64().filter(|number| *number >= 0.0 && number.fract() == 0.0),
    };
    let number =
        number.ok_or_else(|| bad(&format!("{name} parameter must be a whole number from 0")))?;
    // The conversion saturates, and nothing is at such an offset.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    Ok(Some(number as usize))
}

fn bad(message: &str) -> ToolError {
    ToolError::new(ErrorKind::InvalidInput, message)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::results::{Provenance, Results, SETTINGS};
    use airlock_catalog::Catalog;
    use airlock_core::{
        door::{Budget, Caller, Origin, View},
        tenant::Tenant,
        tool::{Allowlist, Policy, ToolDefinition},
    };

    #[test]
    fn a_call_that_reads_content_leads_to_the_gateway_that_has_it() {
        let foreign = "content_0011223344558677 8899aabbccddeeff".replace(' ', "");
        let owner = "001122334455".parse().ok();
        let arguments = json!({"handle": foreign}).to_string();
        assert_eq!(content_owner(NAME, &arguments), owner);
        assert_eq!(content_owner("web-t", &arguments), None);
        assert_eq!(
            content_owner(NAME, &format!("{arguments}{}", " ".repeat(MAX_READ_BYTES))),
            None
        );
        for odd in ["", "[]", "{}", r#"{"handle": 1}"#, r#"{"handle": "content_x"}"#] {
            assert_eq!(content_owner(NAME, odd), None, "{odd}");
        }
        let own = format!("content_{}", ReplicaId::handle().simple());
        assert!(absent(&foreign).contains("another gateway"));
        assert!(absent(&own).contains("expired") && absent("x").contains("expired"));
    }

    #[test]
    fn pages_end_between_characters_and_make_progress() {
        assert_eq!(page("aébc", 0, 2), TextPage { start: 0, text: "a", of: 5 });
        assert_eq!(page("aébc", 2, 3), TextPage { start: 1, text: "éb", of: 5 });
        assert_eq!(page("€€", 0, 1).text, "€");
        for (offset, length) in [(5, 1), (6, 9), (usize::MAX, usize::MAX)] {
            assert_eq!(page("aébc", offset, length).text, "", "{offset}");
        }
    }

    /// A server with one tool that is never called.
    struct Unused;
    impl Provider for Unused {
        fn call(&self, _: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
            Box::pin(async { Err(CallError::cancelled()) })
        }
    }

    fn view(results: &Results) -> View {
        let server = ClientName::parse("web").expect("a good name");
        let catalog = Catalog::new();
        let policy = Policy { execute: Allowlist::All, ..Policy::default() };
        catalog.add_client(&server, airlock_catalog::SourceKind::Server("stdio"), policy);
        let tool = json!({"name": "t", "inputSchema": {}});
        let tool: ToolDefinition = serde_json::from_value(tool).expect("a definition");
        catalog.blocking_publish(&server, vec![tool], Arc::new(Unused));
        catalog.set_reader(results.own_tools());
        catalog.snapshot().view(&airlock_core::door::Filter::none(), None)
    }

    fn provenance(trust: Trust) -> Provenance {
        Provenance::new(ClientName::parse("web").expect("a good name"), trust)
    }

    async fn read(results: &Results, arguments: Value) -> String {
        let budget = Budget {
            deadline: Duration::from_secs(30),
            script: Duration::from_secs(30),
            nested_calls: 0,
            depth: 1,
            in_flight: 1,
        };
        let caller = Caller::new(view(results), Origin::Model, budget);
        let call = caller.admit(NAME, &arguments.to_string()).expect("it needs no approval");
        match call.run().await {
            Ok(output) => output.to_text(),
            Err(error) => format!("{}: {error}", error.code().as_str()),
        }
    }

    /// Returns the handle in the remark about a large result.
    fn handle(results: &Results, text: &str, trust: Trust, tenant: &Tenant) -> String {
        let remark = results.present(text.to_owned(), &provenance(trust), tenant).remark;
        let from = remark.find("content_").expect("a handle");
        remark[from..from + "content_".len() + 32].to_owned()
    }

    #[tokio::test]
    async fn a_large_result_is_read_in_marked_pages() {
        let results = Results::new(SETTINGS);
        let text: String =
            (0..1_000).map(|line| format!("line {line}\n")).collect::<Vec<_>>().concat();
        let handle = handle(&results, &text, Trust::Untrusted, &Tenant::ANONYMOUS);
        let mut whole = String::new();
        let mut offset = 0;
        let mut ends = Vec::new();
        loop {
            let page = read(&results, json!({"handle": handle, "offset": offset})).await;
            let lines: Vec<_> = page.lines().collect();
            let first = lines[1];
            let last = lines[lines.len() - 2];
            assert!(first.starts_with("[MCP tool result from \"web\" — "), "{first}");
            assert!(last.starts_with("[end of MCP tool result "), "{last}");
            ends.push(last.to_owned());
            let body =
                &page[page.find("]\n").expect("marked") + 2..page.find(last).expect("marked")];
            let next = lines[lines.len() - 1].strip_prefix("Go on at offset ");
            let next = next.and_then(|rest| rest.strip_suffix('.')?.parse::<usize>().ok());
            // A page that ends inside a line has a line break of the marks after it.
            let length = next.unwrap_or(text.len()) - offset;
            whole.push_str(&body[..length]);
            match next {
                Some(next) => offset = next,
                None => break,
            }
        }
        assert_eq!(whole, text);
        ends.dedup();
        assert_eq!(ends.len(), text.len().div_ceil(SETTINGS.max_inline_bytes / 2));
    }

    #[tokio::test]
    async fn a_page_of_a_trusted_server_is_not_marked() {
        let results = Results::new(SETTINGS);
        let text = "x".repeat(5_000);
        let handle = handle(&results, &text, Trust::Trusted, &Tenant::ANONYMOUS);
        let page = read(&results, json!({"handle": handle, "offset": 4_998.0, "length": 9})).await;
        assert_eq!(page, "Bytes 4998 to 5000 of 5000.\nxx\nThis is the end.");
        let beyond = read(&results, json!({"handle": handle, "offset": 5_000})).await;
        assert_eq!(beyond, "The content has 5000 bytes; there is nothing at this offset.");
    }

    #[tokio::test]
    async fn another_tenants_handle_is_refused_like_an_unknown_one() {
        let results = Results::new(SETTINGS);
        let other = Tenant::of_key([1; 32], "other");
        let foreign = handle(&results, &"x".repeat(5_000), Trust::Untrusted, &other);
        let unknown = format!("content_{}", "0".repeat(32));
        let refused = read(&results, json!({"handle": foreign})).await;
        assert!(refused.starts_with("tool_error: there is no content"), "{refused}");
        assert_eq!(refused, read(&results, json!({"handle": unknown})).await);
    }

    #[tokio::test]
    async fn arguments_of_a_wrong_type_are_refused_with_the_reason() {
        let results = Results::new(SETTINGS);
        for arguments in [
            json!({}),
            json!({"handle": 7}),
            json!({"handle": "x", "offset": -1}),
            json!({"handle": "x", "offset": 1.5}),
            json!({"handle": "x", "length": "all"}),
            json!({"handle": "x", "length": 0}),
        ] {
            let refused = read(&results, arguments.clone()).await;
            assert!(refused.contains(" parameter "), "{arguments}: {refused}");
        }
    }
}
