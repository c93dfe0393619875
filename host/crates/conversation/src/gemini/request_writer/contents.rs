//! Items → `contents` and `systemInstruction`.
//!
//! Gemini knows two roles. What the model wrote in one turn is one content of the role `model`, and the
//! results of all its calls are one content of the role `user`: the API refuses results that do not
//! follow their calls together.

use std::collections::HashMap;

use serde_json::Value;

use super::media::{self, INLINE_DATA, TEXT};
use crate::{
    CallInput, Content, Item, MAX_NAME_BYTES, Message, Object, Role, ToolCall, ToolResult, Wire,
    arguments_object,
    gemini::{THOUGHT_SIGNATURE, object_of},
    read::{ItemSite, Result, Untranslatable, excerpt},
    thought_signature,
};

/// Member of a part with a call.
const FUNCTION_CALL: &str = "functionCall";
/// Member of a part with a result.
const FUNCTION_RESPONSE: &str = "functionResponse";
/// Signature of a call that another model wrote. Gemini 3 refuses calls without one, and documents this
/// value for histories of other models, at ai.google.dev/gemini-api/docs/thought-signatures. Of its two
/// values, this one is also documented for Vertex AI.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// Members of messages without a counterpart.
const WITHOUT_COUNTERPART: [(&str, &str); 3] = [
    ("name", "Names of participants have no counterpart in Gemini's API; write them in the text."),
    ("audio", "Replies in sound have no counterpart in Gemini's API."),
    ("function_call", "It is replaced by `tool_calls`."),
];

/// The contents of a request, as they grow.
#[derive(Debug)]
pub(super) struct ContentsWriter {
    /// Parts of all messages with instructions. The API has one instruction before the conversation,
    /// so messages from its middle move there.
    system: Vec<Value>,
    turns: Vec<ContentTurn>,
    /// Names of the functions that were called, by the id of the call.
    names: HashMap<String, String>,
    /// True if the model is older than Gemini 3.
    is_old: bool,
    /// Position of the list of items.
    list: ItemSite,
}

/// One content.
#[derive(Debug)]
struct ContentTurn {
    kind: TurnKind,
    parts: Vec<Object>,
    /// Media of results that the model does not read inside of them. They follow all results.
    media: Vec<Object>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TurnKind {
    User,
    Model,
    Results,
}

impl ContentsWriter {
    pub(super) fn new(wire: Wire, is_old: bool) -> Self {
        let list = ItemSite::list(wire);
        Self { system: Vec::new(), turns: Vec::new(), names: HashMap::new(), is_old, list }
    }

    /// Adds an item. Reasoning is left out: the API reads the signatures of the calls after it.
    pub(super) fn add(&mut self, item: Item, site: ItemSite) -> Result<()> {
        match item {
            Item::Message(message) => self.add_message(message, site),
            Item::Reasoning(_) => Ok(()),
            Item::ToolCall(call) => self.add_call(call, site),
            Item::ToolResult(result) => self.add_result(result, site),
            Item::Native(item) => Err(site.invalid(&format!(
                "An item of the type '{}' has no counterpart in Gemini's API.",
                excerpt(&item.kind)
            ))),
        }
    }

    /// Returns the parts of the instructions, and the contents. Fails if there are no contents.
    pub(super) fn finish(mut self) -> Result<(Vec<Value>, Vec<Value>)> {
        if self.turns.is_empty() {
            let rule = "There must be a user, assistant or tool message that is not empty.";
            return Err(self.list.invalid(rule));
        }
        if !self.is_old {
            self.sign_foreign_calls();
        }
        Ok((self.system, self.turns.into_iter().map(ContentTurn::into_content).collect()))
    }

    fn add_message(&mut self, message: Message, site: ItemSite) -> Result<()> {
        let Message { role, parts, mut extra } = message;
        for (name, advice) in WITHOUT_COUNTERPART {
            if extra.get(name).is_some_and(|value| !value.is_null()) {
                return Err(site.unsupported_member(name, advice));
            }
        }
        let mut written = Vec::with_capacity(parts.len());
        for (index, part) in parts.into_iter().enumerate() {
            let site = site.part(index);
            let is_text = matches!(part.content, Content::Text(_) | Content::Refusal(_));
            if role != Role::User && !is_text {
                return Err(site.invalid(
                    "A message of the role system, developer or assistant must have text alone.",
                ));
            }
            let part = media::part(part.content, &site)?;
            // The API refuses empty texts.
            if part.get(TEXT).is_none_or(|text| text != "") {
                written.push(part);
            }
        }
        match role {
            Role::System | Role::Developer => {
                self.system.extend(written.into_iter().map(Value::Object));
            }
            Role::User => self.push(TurnKind::User, written),
            Role::Assistant => {
                if let (Some(last), Some(signature)) =
                    (written.last_mut(), thought_signature::take(&mut extra))
                {
                    last.insert(THOUGHT_SIGNATURE.to_owned(), signature);
                }
                self.push(TurnKind::Model, written);
            }
        }
        Ok(())
    }

    fn add_call(&mut self, call: ToolCall, site: ItemSite) -> Result<()> {
        let ToolCall { id, name, input, mut extra, .. } = call;
        let CallInput::Arguments(arguments) = input else {
            return Err(site.invalid("A call of a custom tool has no counterpart in Gemini's API."));
        };
        if name.len() > MAX_NAME_BYTES {
            return Err(
                site.invalid("A call must have the name of a function, of at most 256 bytes.")
            );
        }
        self.names.insert(id.clone(), name.clone());
        let mut function = Object::new();
        if !id.is_empty() {
            function.insert("id".to_owned(), id.into());
        }
        function.insert("name".to_owned(), name.into());
        function.insert("args".to_owned(), arguments_object(arguments).into());
        let mut part = object_of([(FUNCTION_CALL, function.into())]);
        if let Some(signature) = thought_signature::take(&mut extra) {
            part.insert(THOUGHT_SIGNATURE.to_owned(), signature);
        }
        self.push(TurnKind::Model, vec![part]);
        Ok(())
    }

    fn add_result(&mut self, result: ToolResult, site: ItemSite) -> Result<()> {
        let ToolResult { call_id, parts, is_error, mut extra, .. } = result;
        let name = self.names.get(&call_id).cloned().map(Value::from);
        let name = name.or_else(|| extra.shift_remove("name").filter(Value::is_string));
        let Some(name) = name else {
            let rule =
                format!("'{}' must be the id of a call before the result.", excerpt(&call_id));
            let path = site.path();
            let path = path.member(site.call_id());
            return Err(site.locate(Untranslatable::invalid(&path, &rule)));
        };
        let mut text = String::new();
        let mut nested = Vec::new();
        let mut beside = Vec::new();
        for (index, part) in parts.into_iter().enumerate() {
            let mut part = media::part(part.content, &site.part(index))?;
            match part.get_mut(TEXT).map(Value::take) {
                Some(Value::String(more)) => join(&mut text, more),
                _ if !self.is_old && part.contains_key(INLINE_DATA) => nested.push(part.into()),
                // Only Gemini 3 and later read media inside a result, and only inline.
                _ => beside.push(part),
            }
        }
        let outcome = if is_error == Some(true) { "error" } else { "result" };
        let mut response =
            object_of([("name", name), ("response", object_of([(outcome, text.into())]).into())]);
        if !nested.is_empty() {
            response.insert("parts".to_owned(), Value::Array(nested));
        }
        if !call_id.is_empty() {
            response.insert("id".to_owned(), call_id.into());
        }
        self.push(TurnKind::Results, vec![object_of([(FUNCTION_RESPONSE, response.into())])]);
        if let Some(turn) = self.turns.last_mut() {
            turn.media.append(&mut beside);
        }
        Ok(())
    }

    /// Adds parts to the last content if it is of the same kind, and else to a new one.
    fn push(&mut self, kind: TurnKind, mut parts: Vec<Object>) {
        match self.turns.last_mut() {
            Some(last) if last.kind == kind => last.parts.append(&mut parts),
            _ if parts.is_empty() => {}
            _ => self.turns.push(ContentTurn { kind, parts, media: Vec::new() }),
        }
    }

    /// Marks calls that another model wrote. Gemini requires a signature of the first call in each
    /// content after the last message of the user; it does not check older ones.
    fn sign_foreign_calls(&mut self) {
        for turn in self.turns.iter_mut().rev().take_while(|turn| !turn.is_of_user()) {
            let first = turn.parts.iter_mut().find(|part| part.contains_key(FUNCTION_CALL));
            if let Some(call) = first {
                call.entry(THOUGHT_SIGNATURE).or_insert_with(|| NO_SIGNATURE.into());
            }
        }
    }
}

impl ContentTurn {
    /// Returns whether the user wrote it, or the client sent media in it.
    fn is_of_user(&self) -> bool {
        self.kind == TurnKind::User || !self.media.is_empty()
    }

    fn into_content(mut self) -> Value {
        let role = if self.kind == TurnKind::Model { "model" } else { "user" };
        self.parts.append(&mut self.media);
        let parts: Vec<_> = self.parts.into_iter().map(Value::Object).collect();
        object_of([("role", role.into()), ("parts", parts.into())]).into()
    }
}

/// Appends a text on a line of its own.
fn join(sum: &mut String, more: String) {
    if sum.is_empty() {
        *sum = more;
    } else if !more.is_empty() {
        sum.push('\n');
        sum.push_str(&more);
    }
}
