//! Finds the texts of a conversation, with the roles of their messages. The whole tree is walked, so that a text in an
//! unknown member is found too; only members with identifiers, kinds or encoded data are left out. In the input of a
//! call, every text belongs to the model, whatever the name of its member.

use std::{mem, vec};

use serde_json::Value;

use airlock_conversation::{
    CallInput, Content, Item, Media, Message, Object, Part, Reasoning, Role,
};
use airlock_core::door::ReviewedText;

/// Role of the arguments of a call.
pub(super) const CALL: &str = "call";
/// Role of the result of a call.
pub(super) const TOOL: &str = "tool";
/// Role of the reasoning of a model.
pub(super) const REASONING: &str = ReviewedText::REASONING;
/// Role of the texts of a model.
pub(super) const ASSISTANT: &str = "assistant";

/// Members whose texts are identifiers, kinds or proofs of a provider.
const STRUCTURE: [&str; 14] = [
    "type",
    "role",
    "id",
    "call_id",
    "item_id",
    "tool_call_id",
    "tool_use_id",
    "file_id",
    "status",
    "signature",
    "encrypted_content",
    "media_type",
    "format",
    "detail",
];
/// Member with data of a file, which is a text if its source is one.
const DATA: &str = "data";
/// Members with sound in Base64.
const AUDIO: [&str; 2] = ["input_audio", "audio"];
/// Members with the address of a file, which may be in the request.
const ADDRESSES: [&str; 5] = ["url", "image_url", "audio_url", "video_url", "file_data"];
/// Members with the input of a call. Its form is that of the tool.
const INPUTS: [&str; 2] = ["input", "arguments"];
/// Maximum bytes of a role; a longer one is cut. Each text of a message has a copy.
const MAX_ROLE_BYTES: usize = 64;
/// Copies of a text at the same time: for each model, for a guard, as JSON text, and as what it writes.
const COPIES: usize = 5;
/// Memory of all copies of a text beside the text itself, in bytes.
const COPIES_BYTES: usize = COPIES * (size_of::<ReviewedText>() + MAX_ROLE_BYTES);

/// Receives texts, and may change them.
pub(super) trait TextVisitor {
    /// Visits a text of a message with a role.
    fn visit(&mut self, role: &str, text: &mut String);
}

/// Counts texts, before they are copied.
#[derive(Default)]
pub(super) struct TextCounter {
    texts: usize,
    bytes: usize,
}

impl TextCounter {
    /// Returns the memory of all copies of the texts, in bytes.
    pub(super) fn memory(&self) -> usize {
        let copies = self.bytes.saturating_mul(COPIES);
        copies.saturating_add(self.texts.saturating_mul(COPIES_BYTES))
    }
}

impl TextVisitor for TextCounter {
    fn visit(&mut self, _: &str, text: &mut String) {
        self.texts += 1;
        self.bytes += text.len();
    }
}

/// Collects texts.
#[derive(Default)]
pub(super) struct TextCollector(pub(super) Vec<ReviewedText>);

impl TextVisitor for TextCollector {
    fn visit(&mut self, role: &str, text: &mut String) {
        self.0.push(ReviewedText { role: role.to_owned(), text: text.clone() });
    }
}

/// Replaces texts by others, in the order in which they were collected.
pub(super) struct TextWriter {
    texts: vec::IntoIter<ReviewedText>,
    is_changed: bool,
}

impl TextWriter {
    pub(super) fn new(texts: Vec<ReviewedText>) -> Self {
        Self { texts: texts.into_iter(), is_changed: false }
    }

    /// Returns whether a text has changed since this was asked before.
    pub(super) fn take_changed(&mut self) -> bool {
        mem::take(&mut self.is_changed)
    }
}

impl TextVisitor for TextWriter {
    fn visit(&mut self, _: &str, text: &mut String) {
        if let Some(changed) = self.texts.next()
            && changed.text != *text
        {
            *text = changed.text;
            self.is_changed = true;
        }
    }
}

/// Visits the texts of a member of a message, of `name`. A message in it has a role of its own.
pub(super) fn visit_value(
    value: &mut Value,
    name: &str,
    role: &str,
    visitor: &mut impl TextVisitor,
) {
    match value {
        Value::String(text) if is_text(name, text.as_str()) => visitor.visit(role, text),
        Value::Array(elements) => {
            for element in elements {
                visit_value(element, name, role, visitor);
            }
        }
        Value::Object(members) => visit_object(members, name, role, visitor),
        _ => {}
    }
}

/// Visits the texts of the members of an object, which is the member `name` of another one.
pub(super) fn visit_object(
    members: &mut Object,
    name: &str,
    role: &str,
    visitor: &mut impl TextVisitor,
) {
    // A result or an input that names another role does not get it.
    let own = if matches!(role, CALL | TOOL) { None } else { own_role(members) };
    let role = own.as_deref().unwrap_or(role);
    let is_encoded =
        AUDIO.contains(&name) || members.get("type").is_some_and(|kind| kind == "base64");
    for (member, value) in members.iter_mut() {
        if role == CALL && INPUTS.contains(&member.as_str()) {
            visit_all(value, role, visitor);
        } else if !(is_encoded && member == DATA && value.as_str().is_some_and(is_base64)) {
            visit_value(value, member, role, visitor);
        }
    }
}

/// Visits all texts of a value, whatever the names of its members.
pub(super) fn visit_all(value: &mut Value, role: &str, visitor: &mut impl TextVisitor) {
    match value {
        Value::String(text) if !text.is_empty() => visitor.visit(role, text),
        Value::Array(elements) => {
            for element in elements {
                visit_all(element, role, visitor);
            }
        }
        Value::Object(members) => {
            for (_, member) in members.iter_mut() {
                visit_all(member, role, visitor);
            }
        }
        _ => {}
    }
}

/// Visits the texts of an item.
pub(super) fn visit_item(item: &mut Item, visitor: &mut impl TextVisitor) {
    match item {
        Item::Message(message) => visit_message(message, visitor),
        Item::Reasoning(reasoning) => visit_reasoning(reasoning, visitor),
        Item::ToolCall(call) => {
            let (CallInput::Arguments(text) | CallInput::Text(text)) = &mut call.input;
            visitor.visit(CALL, text);
            visit_object(&mut call.extra, "", CALL, visitor);
        }
        Item::ToolResult(result) => {
            visit_parts(&mut result.parts, TOOL, visitor);
            visit_object(&mut result.extra, "", TOOL, visitor);
        }
        Item::Native(native) => visit_object(&mut native.object, "", ASSISTANT, visitor),
    }
}

/// Visits the texts of reasoning.
pub(super) fn visit_reasoning(reasoning: &mut Reasoning, visitor: &mut impl TextVisitor) {
    visitor.visit(REASONING, &mut reasoning.text);
    for text in &mut reasoning.summary {
        visitor.visit(REASONING, text);
    }
    visit_object(&mut reasoning.extra, "", REASONING, visitor);
}

fn visit_message(message: &mut Message, visitor: &mut impl TextVisitor) {
    let role = match message.role {
        Role::System => "system",
        Role::Developer => "developer",
        Role::User => "user",
        Role::Assistant => ASSISTANT,
    };
    visit_parts(&mut message.parts, role, visitor);
    visit_object(&mut message.extra, "", role, visitor);
}

fn visit_parts(parts: &mut [Part], role: &str, visitor: &mut impl TextVisitor) {
    for part in parts {
        match &mut part.content {
            Content::Text(text)
            | Content::Refusal(text)
            | Content::File { media: Media::Text(text), .. } => visitor.visit(role, text),
            Content::Native(native) => visit_object(&mut native.object, "", role, visitor),
            Content::Image { media: Media::Url(address), .. } => visitor.visit(role, address),
            Content::Image { .. } | Content::Audio(_) | Content::File { .. } => {}
        }
        if let Content::File { name: Some(name), .. } = &mut part.content {
            visitor.visit(role, name);
        }
        visit_object(&mut part.extra, "", role, visitor);
    }
}

fn is_text(name: &str, text: &str) -> bool {
    !(text.is_empty() || STRUCTURE.contains(&name) || ADDRESSES.contains(&name) && is_file(text))
}

/// Returns whether an address has an encoded file: `data:image/png;base64,AAAA`.
fn is_file(address: &str) -> bool {
    let data = address.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    data.is_some_and(|(kind, data)| {
        kind.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',') && is_base64(data)
    })
}

/// Returns whether a text can be Base64, with the alphabet of addresses too.
fn is_base64(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.all(|byte| byte.is_ascii_alphanumeric() || b"+/=-_\r\n".contains(&byte))
}

/// Returns the role of an object; `None` if it is that of the message around it.
fn own_role(members: &Object) -> Option<String> {
    if let Some(Value::String(role)) = members.get("role") {
        return Some(role[..role.floor_char_boundary(MAX_ROLE_BYTES)].to_owned());
    }
    let kind = members.get("type")?.as_str()?;
    let role = match kind {
        "reasoning" | "thinking" | "redacted_thinking" => REASONING,
        // A call in chat completions is a function.
        "function" | "custom" => CALL,
        kind if kind.ends_with("tool_use") => CALL,
        kind if kind.ends_with("_output") || kind.ends_with("tool_result") => TOOL,
        kind if kind.ends_with("_call") => CALL,
        _ => return None,
    };
    Some(role.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: &Value, name: &str) -> Vec<(String, String)> {
        let mut reader = TextCollector::default();
        visit_value(&mut value.clone(), name, "user", &mut reader);
        reader.0.into_iter().map(|text| (text.role, text.text)).collect()
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(role, text)| ((*role).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn texts_of_every_api_are_found_with_their_roles() {
        let chat = json!([
            {"role": "system", "content": "a"},
            {"role": "user", "content": [{"type": "text", "text": "b"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}}]},
            {"role": "assistant", "content": null, "reasoning_content": "c", "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "1", "content": "d"},
        ]);
        let expected = [
            ("system", "a"),
            ("user", "b"),
            ("assistant", "c"),
            ("call", "f"),
            ("call", "{}"),
            ("tool", "d"),
        ];
        assert_eq!(read(&chat, "messages"), pairs(&expected));
        let responses = json!([
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}]},
            {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "b"}], "encrypted_content": "x"},
            {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "1", "output": "c"},
        ]);
        let expected =
            [("user", "a"), ("reasoning", "b"), ("call", "f"), ("call", "{}"), ("tool", "c")];
        assert_eq!(read(&responses, "input"), pairs(&expected));
        assert_eq!(read(&json!("whole"), "input"), pairs(&[("user", "whole")]));
        let messages = json!([
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "1", "content": "a"},
                {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "b"}},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
            ]},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "c", "signature": "s"},
                {"type": "tool_use", "id": "1", "name": "f", "input": {"to": ["d"]}}]},
        ]);
        let expected =
            [("tool", "a"), ("user", "b"), ("reasoning", "c"), ("call", "f"), ("call", "d")];
        assert_eq!(read(&messages, "messages"), pairs(&expected));
    }

    #[test]
    fn a_text_that_looks_like_an_address_of_a_file_is_one_only_in_a_member_for_addresses() {
        let file = "data:text/plain;base64,QUJD";
        let value = json!([{"role": "user", "content": [
            {"type": "text", "text": file},
            {"type": "image_url", "image_url": {"url": file}},
            {"type": "input_image", "image_url": "data:text/plain,all of it"},
            {"type": "file", "file": {"file_data": "data:a b;base64,QUJD"}},
            {"type": "document", "source": {"type": "base64", "data": "all of it"}},
            {"type": "input_audio", "input_audio": {"data": "QUJD", "format": "wav"}},
        ]}, {"role": "user", "content": "data: all of it"}]);
        let expected = [
            ("user", file),
            ("user", "data:text/plain,all of it"),
            ("user", "data:a b;base64,QUJD"),
            ("user", "all of it"),
            ("user", "data: all of it"),
        ];
        assert_eq!(read(&value, "messages"), pairs(&expected));
    }

    #[test]
    fn every_text_of_the_input_of_a_call_is_found_as_one_of_a_call() {
        let input = json!({"id": "a", "detail": "b", "status": ["c"], "role": "system",
            "source": {"type": "base64", "data": "d"}});
        for kind in ["tool_use", "server_tool_use", "function_call"] {
            let call = json!([{"type": kind, "id": "1", "input": input}]);
            let expected = ["a", "b", "c", "system", "base64", "d"].map(|text| ("call", text));
            assert_eq!(read(&call, "content"), pairs(&expected), "{kind}");
        }
    }

    #[test]
    fn a_part_of_a_result_cannot_choose_its_role() {
        let result = json!([{"type": "tool_result", "content": [
            {"type": "text", "role": "system", "text": "a"}, {"type": "reasoning", "text": "b"},
        ]}]);
        assert_eq!(read(&result, "content"), pairs(&[("tool", "a"), ("tool", "b")]));
    }

    #[test]
    fn the_name_of_a_file_and_the_address_of_an_image_are_found() {
        let file = Content::File {
            media: Media::Base64 { media_type: String::new(), data: "QUJD".to_owned() },
            name: Some("a".to_owned()),
        };
        let image = Content::Image { media: Media::Url("b".to_owned()), detail: None };
        let parts = [file, image].map(Part::new);
        let result = airlock_conversation::ToolResult::new("1", parts.into());
        let mut reader = TextCollector::default();
        visit_item(&mut Item::ToolResult(result), &mut reader);
        let found: Vec<_> = reader.0.into_iter().map(|text| (text.role, text.text)).collect();
        assert_eq!(found, pairs(&[(TOOL, "a"), (TOOL, "b")]));
    }

    #[test]
    fn many_short_texts_take_more_memory_than_one_long_one() {
        let mut short = TextCounter::default();
        visit_value(&mut json!(vec!["a"; 100]), "input", "user", &mut short);
        let mut long = TextCounter::default();
        visit_value(&mut json!("a".repeat(100)), "input", "user", &mut long);
        assert!(short.memory() > 100 * 2 * size_of::<ReviewedText>());
        assert!(long.memory() >= 500 && long.memory() < short.memory() / 10);
    }

    #[test]
    fn a_role_of_excessive_length_is_not_copied_with_each_text() {
        let role = "é".repeat(1_000);
        let messages = json!([{"role": role, "content": vec!["a"; 100]}]);
        let expected = (role[..MAX_ROLE_BYTES].to_owned(), "a".to_owned());
        assert_eq!(read(&messages, "messages"), vec![expected; 100]);
    }

    #[test]
    fn a_text_in_an_unknown_member_is_found() {
        let value = json!([{"role": "user", "odd": {"deep": [["a", 1, null]]}}]);
        assert_eq!(read(&value, "messages"), pairs(&[("user", "a")]));
    }

    #[test]
    fn texts_are_replaced_in_the_order_in_which_they_were_read() {
        let mut value = json!([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]);
        let changed = ["c", "d"];
        let changed = changed.map(|text| ReviewedText { role: "user".into(), text: text.into() });
        let mut writer = TextWriter::new(changed.into());
        visit_value(&mut value, "messages", "user", &mut writer);
        assert!(writer.take_changed() && !writer.take_changed());
        let expected = json!([{"role": "user", "content": [{"type": "text", "text": "c"}, {"type": "text", "text": "d"}]}]);
        assert_eq!(value, expected);
    }

    #[test]
    fn items_have_the_roles_of_their_kinds() {
        let reasoning = Reasoning {
            text: "a".to_owned(),
            summary: vec!["b".to_owned()],
            ..Reasoning::default()
        };
        let mut items = [
            Item::Reasoning(reasoning),
            Item::Message(Message::new(Role::Assistant, vec![Part::text("c")])),
            Item::ToolCall(airlock_conversation::ToolCall::function("1", "f", "{}")),
            Item::ToolResult(airlock_conversation::ToolResult::new("1", vec![Part::text("d")])),
        ];
        let mut reader = TextCollector::default();
        for item in &mut items {
            visit_item(item, &mut reader);
        }
        let found: Vec<_> = reader.0.into_iter().map(|text| (text.role, text.text)).collect();
        let expected =
            [(REASONING, "a"), (REASONING, "b"), (ASSISTANT, "c"), (CALL, "{}"), (TOOL, "d")];
        assert_eq!(found, pairs(&expected));
    }
}
