//! The texts of tools in the list of clients.
//!
//! A tool is rendered once and its text is kept as long as the tool, because rendering is the cost of
//! the list: sixteen connections that asked for the list of 10,000 tools again and again stopped the
//! gateway for seconds.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};

use airlock_core::{request_memory::RequestCharge, tool::Tool};
use airlock_http::respond::ApiError;
use airlock_strings::{visible, visible_line};

/// Maximum bytes of the texts that are kept, those of all tools together: some thousand tools. A tool
/// beyond them is rendered for each request.
const MAX_BYTES: usize = 8 << 20;
/// Part of the kept texts after which, without room, the tools that are gone are searched for: one in this
/// many. To search for each text without room would take a time that grows with the
/// square of the number of tools.
const SEARCHED_PART: usize = 16;

/// Those who read the list; they see the texts of a tool differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Audience {
    /// Sees tools as their sources announce them.
    Operator,
    /// Another sender sees tools as models do.
    Caller,
}

/// The texts that are kept. Cheap to clone; clones share them.
#[derive(Clone, Default)]
pub(crate) struct ToolTexts(Arc<Mutex<RenderedTexts>>);

#[derive(Default)]
struct RenderedTexts {
    /// By the address of the tool. The reference keeps the address from being used again.
    texts: HashMap<(usize, Audience), (Weak<Tool>, Arc<str>)>,
    bytes: usize,
    /// Texts without room since the last search for tools that are gone.
    refused: usize,
}

impl ToolTexts {
    /// Returns the text of a tool, which is rendered if it is not kept.
    fn get(&self, tool: &Arc<Tool>, reader: Audience) -> Arc<str> {
        let key = (Arc::as_ptr(tool).addr(), reader);
        if let Some((_, text)) = self.kept().texts.get(&key) {
            return text.clone();
        }
        let text: Arc<str> = match reader {
            Audience::Operator => describe_tool_for_operator(tool),
            Audience::Caller => describe_tool(tool),
        }
        .to_string()
        .into();
        self.kept().keep(key, tool, &text);
        text
    }

    fn kept(&self) -> MutexGuard<'_, RenderedTexts> {
        self.0.lock()
    }
}

impl RenderedTexts {
    fn keep(&mut self, key: (usize, Audience), tool: &Arc<Tool>, text: &Arc<str>) {
        if self.bytes + text.len() > MAX_BYTES && self.refused >= self.texts.len() / SEARCHED_PART {
            self.texts.retain(|_, (tool, _)| tool.strong_count() > 0);
            self.bytes = self.texts.values().map(|(_, text)| text.len()).sum();
            self.refused = 0;
        }
        if self.bytes + text.len() > MAX_BYTES {
            self.refused += 1;
            return;
        }
        let kept = self.texts.insert(key, (Arc::downgrade(tool), text.clone()));
        self.bytes += text.len();
        self.bytes -= kept.map_or(0, |(_, text)| text.len());
    }
}

/// Writes one list.
pub(super) struct Rendering<'r> {
    pub(super) texts: &'r ToolTexts,
    pub(super) reader: Audience,
    pub(super) charge: &'r RequestCharge,
}

impl Rendering<'_> {
    /// Returns the text of a tool.
    pub(super) fn text(&self, tool: &Arc<Tool>) -> Arc<str> {
        self.texts.get(tool, self.reader)
    }

    /// Appends parts to the list. Charges the memory that it grows by first.
    pub(super) fn push(&self, list: &mut String, parts: &[&str]) -> Result<(), ApiError> {
        Ok(self.charge.append(list, parts)?)
    }
}

/// Describes a tool under the name that its source uses, because allowlists use that name.
fn describe_tool(tool: &Tool) -> Value {
    json!({"name": tool.shown_original(), "description": tool.description, "parameters": tool.input_schema})
}

/// Describes a tool as its source announced it, with hidden characters made visible, and the changes
/// that the gateway made.
fn describe_tool_for_operator(tool: &Tool) -> Value {
    let mut out = json!({
        "name": visible_line(&tool.original),
        "description": visible(tool.announced_description()),
        "parameters": tool.visible_schema(),
        "wire_name": tool.name,
    });
    let repairs: Vec<_> = tool.changes().collect();
    if !repairs.is_empty() {
        out["repairs"] = repairs.into();
    }
    out
}

#[cfg(test)]
mod tests {

    use super::*;
    use airlock_core::{
        request_memory::{Memory, REQUEST_BYTES},
        tenant::Tenant,
        tool::{ClientName, ToolDefinition},
    };

    fn tool(description: &str) -> Arc<Tool> {
        let definition = serde_json::json!({"name": "t", "description": description, "inputSchema": {"type": "object"}});
        let definition: ToolDefinition = serde_json::from_value(definition).expect("a definition");
        let client = ClientName::parse("fs").expect("a name");
        Arc::new(Tool::adopt(&client, definition).expect("a tool"))
    }

    #[test]
    fn a_tool_is_rendered_once_for_each_kind_of_reader() {
        let texts = ToolTexts::default();
        let one = tool("one");
        let other = tool("other");
        let first = texts.get(&one, Audience::Caller);
        assert!(Arc::ptr_eq(&first, &texts.get(&one, Audience::Caller)));
        assert!(!Arc::ptr_eq(&first, &texts.get(&one, Audience::Operator)));
        assert!(texts.get(&other, Audience::Caller).contains("other"));
    }

    #[test]
    fn texts_of_tools_that_are_gone_make_room_and_the_others_are_bounded() {
        let mut kept = RenderedTexts::default();
        let [first, second, third] = ["1", "2", "3"].map(tool);
        let are_kept = [&first, &second, &third].map(|tool| keep(&mut kept, tool));
        assert_eq!(are_kept, [true, true, false]);
        drop(first);
        assert!(keep(&mut kept, &third));
    }

    /// Returns whether there is room for a text of half the size that texts may have together.
    fn keep(kept: &mut RenderedTexts, tool: &Arc<Tool>) -> bool {
        kept.keep(key(tool), tool, &"x".repeat(MAX_BYTES / 2).into());
        assert!(kept.bytes <= MAX_BYTES);
        kept.texts.contains_key(&key(tool))
    }

    fn key(tool: &Arc<Tool>) -> (usize, Audience) {
        (Arc::as_ptr(tool).addr(), Audience::Caller)
    }

    #[test]
    fn tools_that_are_gone_are_searched_for_after_a_part_of_the_texts_without_room() {
        let mut kept = RenderedTexts::default();
        let tools: Vec<_> = (0..4 * SEARCHED_PART).map(|_| tool("a tool")).collect();
        let text: Arc<str> = "x".repeat(MAX_BYTES / tools.len()).into();
        for tool in &tools {
            kept.keep(key(tool), tool, &text);
        }
        let further = tool("another tool");
        let searches = (0..40).filter(|_| {
            kept.keep(key(&further), &further, &text);
            kept.refused == 1
        });
        assert_eq!(searches.count(), 10);
        assert_eq!(kept.texts.len(), tools.len());
    }

    #[test]
    fn a_list_is_charged_before_it_grows() {
        let memory = Memory::new(4 * REQUEST_BYTES);
        let charge = memory.open(Tenant::ANONYMOUS, 0).expect("there is room");
        let texts = ToolTexts::default();
        let rendering = Rendering { texts: &texts, reader: Audience::Caller, charge: &charge };
        let mut list = String::new();
        rendering.push(&mut list, &[&"x".repeat(REQUEST_BYTES)]).expect("there is room");
        let refused = rendering.push(&mut list, &["y"]).expect_err("it would double");
        assert_eq!(refused.status(), http::StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(list.len(), REQUEST_BYTES);
    }

    #[test]
    fn an_operator_sees_hidden_text_and_repairs_and_a_keys_holder_sees_neither() {
        let hidden = "a\u{202e}b";
        let schema = json!({"title": hidden, "properties": {"p": {"type": "array"}}});
        let definition: ToolDefinition = serde_json::from_value(
            json!({"name": hidden, "description": hidden, "inputSchema": schema}),
        )
        .expect("a definition");
        let client = ClientName::parse("fs").expect("a name");
        let tool = Tool::adopt(&client, definition).expect("a tool");
        let visible = "a⟨U+202E⟩b";
        let [visible_schema, plain_schema] = [visible, "ab"].map(|title| json!({"title": title, "properties": {"p": {"type": "array"}}, "type": "object"}));
        assert_eq!(
            describe_tool_for_operator(&tool),
            json!({
                "name": visible, "description": visible, "parameters": visible_schema,
                "wire_name": tool.name,
                "repairs": [
                    "inputSchema: \"type\": \"object\" added",
                    "hidden characters removed",
                    "for models: `items` added to arrays",
                ],
            })
        );
        assert_eq!(
            describe_tool(&tool),
            json!({"name": "ab", "description": "ab", "parameters": plain_schema})
        );
    }
}
