//! Reasoning in messages and deltas, in both directions.

use serde_json::Value;

use super::members::{take_list, take_string};
use crate::{Object, Reasoning, Seal, delta::MAX_NAME_BYTES, object_of};

/// Members with the text of reasoning, the most common one first. A server that sends both sends the
/// same text twice.
const TEXT: [&str; 2] = ["reasoning_content", SHORT];
/// The less common one.
pub(super) const SHORT: &str = "reasoning";
/// Member with the text of a message.
pub(super) const CONTENT: &str = "content";
/// Type of Mistral's content parts with reasoning.
pub(super) const THINKING: &str = "thinking";
/// Member with Anthropic's blocks of thinking.
pub(super) const BLOCKS: &str = "thinking_blocks";
/// Member with reasoning in `OpenRouter`'s form.
pub(crate) const DETAILS: &str = "reasoning_details";
/// Format of details that hold reasoning of OpenAI's Responses API.
const FORMAT: &str = "openai-responses-v1";
/// Types of details.
const ENCRYPTED: &str = "reasoning.encrypted";
const SUMMARY: &str = "reasoning.summary";
/// Types of details that come in pieces, with the member that has the piece.
const IN_PIECES: [(&str, &str); 2] = [(SUMMARY, "summary"), ("reasoning.text", "text")];
/// Text between two blocks of reasoning in one message, and between two parts of a block.
pub(crate) const SEPARATOR: &str = "\n\n";

/// Takes the readable reasoning of a message or a delta; `None` if it has none.
pub(super) fn take_text(object: &mut Object) -> Option<String> {
    let texts = TEXT.map(|name| take_string(object, name));
    texts.into_iter().flatten().find(|text| !text.is_empty())
}

/// Returns the marks of a delta: members of the reply that tell the form in which its server has its message,
/// because it may refuse another one in the next request. They are an empty piece of [`SHORT`] for this name,
/// one of `reasoning_content` and of the content for an empty text, and a content [`THINKING`] for reasoning
/// in content parts.
pub(super) fn marks(delta: &Object) -> impl Iterator<Item = (&'static str, &'static str)> {
    let name = match TEXT.map(|name| delta.get(name).and_then(Value::as_str)) {
        [Some(""), None] => Some(TEXT[0]),
        [None, Some(_)] => Some(SHORT),
        [Some(""), Some(text)] if !text.is_empty() => Some(SHORT),
        _ => None,
    };
    let content = match delta.get(CONTENT) {
        Some(Value::String(text)) if text.is_empty() => Some(""),
        Some(Value::Array(parts)) if parts.iter().any(is_thinking) => Some(THINKING),
        _ => None,
    };
    let content = content.map(|mark| (CONTENT, mark));
    name.map(|name| (name, "")).into_iter().chain(content)
}

/// Returns whether a member of a reply is one of the [`marks`].
pub(super) fn is_mark(name: &str, value: &Value) -> bool {
    (name == CONTENT && value.is_string()) || (TEXT.contains(&name) && value == "")
}

/// Applies a mark to a message.
pub(super) fn apply_mark(message: &mut Object, name: &str, mark: &Value) {
    match name {
        SHORT => {
            let text = message.shift_remove(TEXT[0]).unwrap_or_else(|| "".into());
            message.insert(SHORT.to_owned(), text);
        }
        CONTENT if mark == "" => {
            if let Some(content @ Value::Null) = message.get_mut(CONTENT) {
                *content = "".into();
            }
        }
        CONTENT => {}
        _ if message.contains_key(SHORT) => {}
        _ => drop(message.entry(TEXT[0]).or_insert_with(|| "".into())),
    }
}

/// Moves the readable reasoning of a message into the first part of its content.
pub(super) fn move_to_content(message: &mut Object) {
    let text = take_text(message).map(text_part);
    let thinking: Vec<Value> = text.into_iter().collect();
    let thinking = object_of([("type", THINKING.into()), (THINKING, thinking.into())]);
    let mut parts = vec![thinking.into()];
    match message.get_mut(CONTENT).map(Value::take) {
        Some(Value::Array(mut more)) => parts.append(&mut more),
        Some(Value::String(text)) if !text.is_empty() => parts.push(text_part(text)),
        _ => {}
    }
    message.insert(CONTENT.to_owned(), parts.into());
}

/// Returns a content part that is a text.
pub(super) fn text_part(text: String) -> Value {
    object_of([("type", "text".into()), ("text", text.into())]).into()
}

fn is_thinking(part: &Value) -> bool {
    part.get("type").is_some_and(|kind| kind == THINKING)
        && part.get(THINKING).is_some_and(Value::is_array)
}

/// Returns the name of readable reasoning.
pub(super) fn name(is_short: bool) -> &'static str {
    TEXT[usize::from(is_short)]
}

/// Adds the readable reasoning to a message, unless it is empty.
pub(super) fn add_text(message: &mut Object, text: String) {
    if !text.is_empty() {
        message.insert(TEXT[0].to_owned(), text.into());
    }
}

/// Appends a block of reasoning to the text of a message.
pub(super) fn join(sum: &mut String, text: &str) {
    if !sum.is_empty() && !text.is_empty() {
        sum.push_str(SEPARATOR);
    }
    sum.push_str(text);
}

/// Returns the summaries of a block as one text.
pub(super) fn summary(reasoning: &Reasoning) -> String {
    reasoning.summary.join(SEPARATOR)
}

/// Reads an element of `thinking_blocks`. Returns the element itself if it is none of Anthropic's blocks.
/// One without a signature is a piece of a block, or cannot be sent back; it has no seal.
pub(super) fn read_block(block: Value) -> Result<Reasoning, Value> {
    let Value::Object(mut block) = block else { return Err(block) };
    let reasoning = match block.get("type").and_then(Value::as_str) {
        Some("thinking") => {
            let text = take_string(&mut block, "thinking").unwrap_or_default();
            let signature = take_string(&mut block, "signature").filter(|text| !text.is_empty());
            Reasoning { text, seal: signature.map(Seal::Signature), ..Reasoning::default() }
        }
        Some("redacted_thinking") if block.get("data").is_some_and(Value::is_string) => {
            let data = take_string(&mut block, "data").unwrap_or_default();
            Reasoning { seal: Some(Seal::Redacted(data)), ..Reasoning::default() }
        }
        _ => return Err(block.into()),
    };
    // Clients that collect a stream keep the position of each block.
    block.retain(|name, value| name != "type" && name != "index" && !value.is_null());
    Ok(Reasoning { extra: block, ..reasoning })
}

/// Reads reasoning that was kept as its text and the lists of a message that the model needs back: the
/// members `thinking_blocks` and `reasoning_details`. What cannot be read, and blocks that are not those
/// of the text, are unknown members of the reasoning.
pub(crate) fn read_state(text: String, mut state: Object) -> Vec<Reasoning> {
    let blocks = state.get(BLOCKS).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let mut joined = String::new();
    for block in blocks {
        join(&mut joined, block["thinking"].as_str().unwrap_or_default());
    }
    let is_text = joined.is_empty() || text.is_empty() || joined == text;
    let mut read = Vec::new();
    if is_text && blocks.iter().all(is_sealed) {
        let blocks = take_list(&mut state, BLOCKS).into_iter();
        read.extend(blocks.filter_map(|block| read_block(block).ok()));
    }
    let details = take_list(&mut state, DETAILS);
    match read_details(details) {
        Ok(items) => read.extend(items),
        Err(details) if details.is_empty() => {}
        Err(details) => drop(state.insert(DETAILS.to_owned(), details.into())),
    }
    let is_repeated = read.iter().any(|block| !block.text.is_empty());
    let text = if is_repeated { String::new() } else { text };
    if !text.is_empty() || !state.is_empty() {
        read.insert(0, Reasoning { text, extra: state, ..Reasoning::default() });
    }
    read
}

/// Returns whether an element of `thinking_blocks` is a block that can be sent back.
fn is_sealed(block: &Value) -> bool {
    let seal = match block.get("type").and_then(Value::as_str) {
        Some("thinking") => block.get("signature"),
        Some("redacted_thinking") => block.get("data"),
        _ => None,
    };
    seal.and_then(Value::as_str).is_some_and(|seal| !seal.is_empty())
}

/// Adds the unknown members of reasoning to a message. Lists are joined.
pub(super) fn add_unknown(message: &mut Object, extra: Object) {
    for (name, value) in extra {
        match (message.get_mut(&name), value) {
            (Some(Value::Array(list)), Value::Array(more)) => list.extend(more),
            (_, value) => drop(message.insert(name, value)),
        }
    }
}

/// Returns the element of `thinking_blocks` of a block; `None` if it has no seal of Anthropic's.
pub(crate) fn write_block(reasoning: Reasoning) -> Option<Object> {
    let mut block = match reasoning.seal? {
        Seal::Signature(signature) => object_of([
            ("type", "thinking".into()),
            ("thinking", reasoning.text.into()),
            ("signature", signature.into()),
        ]),
        Seal::Redacted(data) => {
            object_of([("type", "redacted_thinking".into()), ("data", data.into())])
        }
        Seal::Encrypted(_) => return None,
    };
    block.extend(reasoning.extra);
    Some(block)
}

/// Reads `reasoning_details` that hold reasoning of the Responses API. Returns the list itself if an
/// element is of another format, or a summary has no encrypted form after it, as in a stream.
pub(super) fn read_details(details: Vec<Value>) -> Result<Vec<Reasoning>, Vec<Value>> {
    if details.is_empty() || !details.iter().all(is_of_responses) || !are_sealed(&details) {
        return Err(details);
    }
    Ok(items_of(details))
}

/// Returns the items of the Responses API that details hold. The encrypted form is the last detail of an item.
fn items_of(details: Vec<Value>) -> Vec<Reasoning> {
    let mut joined = Vec::new();
    join_details(&mut joined, details);
    let mut items: Vec<Reasoning> = Vec::new();
    for mut detail in joined {
        let id = detail["id"].take();
        let id = id.as_str();
        let is_open = items
            .last()
            .is_some_and(|item| item.seal.is_none() && are_of_one(item.id.as_deref(), id));
        if !is_open {
            items.push(Reasoning::default());
        }
        let Some(item) = items.last_mut() else { continue };
        item.id = item.id.take().or_else(|| id.map(str::to_owned));
        match (detail["data"].take(), detail["summary"].take()) {
            (Value::String(data), _) => item.seal = Some(Seal::Encrypted(data)),
            (_, Value::String(summary)) => item.summary.push(summary),
            _ => {}
        }
    }
    items
}

/// Returns whether each summary is followed by a detail of its item, and the last one by the encrypted form.
fn are_sealed(details: &[Value]) -> bool {
    let following = details.iter().skip(1).map(Some).chain([None]);
    details.iter().zip(following).all(|(detail, next)| {
        detail["type"] == ENCRYPTED
            || next.is_some_and(|next| are_of_one(detail["id"].as_str(), next["id"].as_str()))
    })
}

/// Returns whether two identifiers can be those of one item. Pieces of a stream may have none.
fn are_of_one(one: Option<&str>, other: Option<&str>) -> bool {
    one.is_none() || other.is_none() || one == other
}

/// Returns the index after those of a list of details.
pub(super) fn next_index(details: &Value) -> usize {
    let list = details.as_array().map_or(&[][..], Vec::as_slice);
    let indices = list.iter().filter_map(|detail| detail.get("index")?.as_u64()?.try_into().ok());
    indices.max().map_or(0, |index: usize| index.saturating_add(1))
}

/// Appends details to a list. Pieces of one detail, which have its type and its index, become one.
pub(crate) fn join_details(list: &mut Vec<Value>, details: Vec<Value>) {
    for detail in details {
        match (list.last_mut(), piece_name(&detail)) {
            (Some(previous), Some(name))
                if ["type", "index"].iter().all(|name| previous[name] == detail[name]) =>
            {
                append_piece(previous, detail, name);
            }
            _ => list.push(detail),
        }
    }
}

/// Returns the name of the text of a detail that comes in pieces; `None` for any other.
fn piece_name(detail: &Value) -> Option<&'static str> {
    detail.get("index")?.as_u64()?;
    let kind = detail.get("type")?;
    IN_PIECES.iter().find(|(own, _)| kind == own).map(|(_, name)| *name)
}

fn append_piece(sum: &mut Value, piece: Value, text: &str) {
    let (Value::Object(sum), Value::Object(piece)) = (sum, piece) else { return };
    for (name, value) in piece {
        match (sum.get_mut(&name), value) {
            (_, Value::Null) => {}
            (Some(Value::String(sum)), Value::String(more)) if name == text => sum.push_str(&more),
            (_, value) => drop(sum.insert(name, value)),
        }
    }
}

/// Takes the reasoning of the Responses API from details that [`read_details`] refused, because some are of
/// other formats.
pub(crate) fn take_mixed_details(extra: &mut Object) -> Vec<Reasoning> {
    let mut details = take_list(extra, DETAILS);
    details.retain(is_of_responses);
    items_of(details)
}

fn is_of_responses(detail: &Value) -> bool {
    let content = match detail.get("type").and_then(Value::as_str) {
        Some(ENCRYPTED) => detail.get("data"),
        Some(SUMMARY) => detail.get("summary"),
        _ => None,
    };
    detail.get("format").is_some_and(|format| format == FORMAT)
        && content.is_some_and(Value::is_string)
}

/// Appends the `reasoning_details` of a block, unless it has no encrypted form. Each of them has a copy of the
/// identifier, so one of more than [`MAX_NAME_BYTES`] is left out.
pub(super) fn write_details(reasoning: Reasoning, details: &mut Vec<Value>, first_index: usize) {
    let Some(Seal::Encrypted(data)) = reasoning.seal else { return };
    let id = reasoning.id.filter(|id| id.len() <= MAX_NAME_BYTES);
    let summaries = reasoning.summary.into_iter().map(|text| (SUMMARY, "summary", text));
    for (kind, name, text) in summaries.chain([(ENCRYPTED, "data", data)]) {
        let detail = object_of([
            ("type", kind.into()),
            (name, text.into()),
            ("id", id.as_deref().into()),
            ("format", FORMAT.into()),
            ("index", (first_index + details.len()).into()),
        ]);
        details.push(detail.into());
    }
}

/// Returns the member of a message that has a sealed block of reasoning, and its elements; `None` if the block
/// has no seal.
pub fn sealed(reasoning: Reasoning) -> Option<(&'static str, Vec<Value>)> {
    if matches!(reasoning.seal, Some(Seal::Encrypted(_))) {
        let mut details = Vec::new();
        write_details(reasoning, &mut details, 0);
        return Some((DETAILS, details));
    }
    Some((BLOCKS, vec![write_block(reasoning)?.into()]))
}

#[cfg(test)]
mod tests {
    use airlock_json::object;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_server_that_sends_both_members_sends_one_text() {
        for (message, text, rest) in [
            (json!({"reasoning_content": "a", "reasoning": "a"}), Some("a"), json!({})),
            (
                json!({"reasoning_content": "", "reasoning": "b", "x": 1}),
                Some("b"),
                json!({"x": 1}),
            ),
            (json!({"reasoning": {"a": 1}}), None, json!({"reasoning": {"a": 1}})),
        ] {
            let mut left = object(message.clone());
            assert_eq!(take_text(&mut left).as_deref(), text, "{message}");
            assert_eq!(Value::from(left), rest);
        }
    }

    #[test]
    fn blocks_of_thinking_are_read_and_written() {
        for block in [
            json!({"type": "thinking", "thinking": "Hm.", "signature": "s"}),
            json!({"type": "thinking", "thinking": "", "signature": "s", "other": 1}),
            json!({"type": "redacted_thinking", "data": "d"}),
        ] {
            let mut sent = block.clone();
            sent["index"] = 3.into();
            let read = read_block(sent).expect("a block");
            assert_eq!(write_block(read).map(Value::from), Some(block));
        }
        let piece = json!({"type": "thinking", "thinking": "a", "signature": ""});
        assert_eq!(read_block(piece).map(|piece| piece.seal), Ok(None));
        for other in [json!({"type": "text"}), json!({"type": "redacted_thinking"}), json!(1)] {
            assert_eq!(read_block(other.clone()), Err(other));
        }
    }

    #[test]
    fn details_of_the_responses_api_are_read_and_written() {
        let detail = |index: u64, kind: &str, name: &str, id: &str| json!({"type": kind, name: "t", "id": id, "format": FORMAT, "index": index});
        let details = vec![
            detail(0, SUMMARY, "summary", "rs_1"),
            detail(1, SUMMARY, "summary", "rs_1"),
            detail(2, ENCRYPTED, "data", "rs_1"),
            detail(3, ENCRYPTED, "data", "rs_2"),
        ];
        let items = read_details(details.clone()).expect("of the Responses API");
        assert_eq!(items.iter().map(|item| item.summary.len()).collect::<Vec<_>>(), [2, 0]);
        let mut written = Vec::new();
        for item in items {
            write_details(item, &mut written, 0);
        }
        assert_eq!(written, details);
        let long = "x".repeat(MAX_NAME_BYTES + 1);
        let items = read_details(vec![
            detail(0, SUMMARY, "summary", &long),
            detail(1, ENCRYPTED, "data", &long),
        ]);
        let mut written = Vec::new();
        for item in items.expect("of the Responses API") {
            write_details(item, &mut written, 0);
        }
        assert!(written.len() == 2 && written.iter().all(|detail| detail["id"].is_null()));
        for other in [json!({"type": "reasoning.text", "text": "a"}), json!("x")] {
            let mut mixed = details.clone();
            mixed.push(other);
            assert_eq!(read_details(mixed.clone()), Err(mixed));
        }
    }
}
