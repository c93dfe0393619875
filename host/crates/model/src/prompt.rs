//! Requests as they came, with what the gateway adds to them.

mod choice;
mod controlled;

use std::{
    borrow::Cow,
    collections::BTreeSet,
    sync::{Arc, OnceLock},
};

use serde_json::Value;

use self::choice::{allowed_by, is_for_any, unforced};
use airlock_conversation::{Item, ItemPlace, Wire, chat, read::Untranslatable};
use airlock_core::{memory::Charge, tool::Tool};
use airlock_json::{RawObject, raw};

/// Member that holds the definitions of tools.
const TOOLS: &str = "tools";
/// Member that forces or restricts calls.
const TOOL_CHOICE: &str = "tool_choice";
/// Member that holds the conversation.
const MESSAGES: &str = "messages";

/// Member with the options of a stream.
pub(super) const STREAM_OPTIONS: &str = "stream_options";
/// Members that ask for a tier of service: of OpenAI's and Anthropic's APIs, and of Google's.
const TIERS: [&str; 2] = ["service_tier", "serviceTier"];
/// Maximum length of the name of a tier as JSON, in bytes. The longest one has 26, and an escape takes six for one.
const MAX_TIER_TEXT: usize = 256;

/// Option that asks for the usage of a stream.
const INCLUDE_USAGE: &str = "include_usage";

/// A request to a model: the members that the caller sent, the rounds that were added, and the gateway's
/// tools. The caller's members keep their text, so that numbers stay exact. Schemas of the gateway's tools
/// are copied into the request as they are.
#[derive(Debug, Clone)]
pub struct Prompt {
    /// API in which the request came.
    pub wire: Wire,
    /// The caller's members. Its own `tools`, if any, are offered before the gateway's.
    pub body: RawObject,
    /// Places of the elements of `input` in the caller's list; see
    /// [`read_request`](airlock_conversation::responses::read_request).
    pub places: Arc<[ItemPlace]>,
    /// The finished rounds: the items of the model, and the results of its calls. Those of a model
    /// whose provider has the Responses API are native, as they came. Unknown members of the others
    /// are those of chat completions.
    pub rounds: Arc<Vec<Item>>,
    /// The gateway's tools.
    pub tools: Vec<Arc<Tool>>,
    /// Bytes of the caller's images in Base64; `None` if they were not counted. What else looks like one is text.
    pub image_bytes: Option<usize>,
    /// The caller's members in other APIs, written when a provider first needs them.
    translated: TranslatedMembers,
}

/// API in which members are sent that came in another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TargetApi {
    /// Chat completions.
    Chat,
    /// Chat completions with the members of Anthropic's that a request of the Messages API has.
    AnthropicChat,
    /// The Responses API.
    Responses,
}

/// The caller's members of a request in the APIs in which it did not come.
#[derive(Debug, Clone, Default)]
struct TranslatedMembers {
    chat: OnceLock<Arc<HeldMembers>>,
    anthropic_chat: OnceLock<Arc<HeldMembers>>,
    responses: OnceLock<Arc<HeldMembers>>,
}

/// Members whose memory is held until they are dropped.
#[derive(Debug)]
pub(crate) struct HeldMembers {
    pub(crate) members: RawObject,
    pub(crate) _held: Charge,
}

/// A `tool_choice` that forces no call; `None` if none is forced.
#[derive(Debug, Default)]
pub struct Unforced(Option<Arc<str>>);

impl Prompt {
    /// Creates a chat completion request with the caller's members.
    pub fn new(body: RawObject) -> Self {
        Self {
            wire: Wire::Chat,
            body,
            places: Arc::default(),
            rounds: Arc::default(),
            tools: Vec::new(),
            image_bytes: None,
            translated: TranslatedMembers::default(),
        }
    }

    /// Creates a request of the Responses API, with the places of the elements of `input`.
    pub fn responses(body: RawObject, places: Arc<[ItemPlace]>) -> Self {
        Self { wire: Wire::Responses, places, ..Self::new(body) }
    }

    /// Creates a request of the Messages API.
    pub fn messages(body: RawObject) -> Self {
        Self { wire: Wire::Messages, ..Self::new(body) }
    }

    /// Keeps the request as a chat completion request that was already written, so that it is not read again.
    /// With `is_anthropic`, it has the members of Anthropic's.
    pub fn keep_chat(&self, members: RawObject, is_anthropic: bool, held: Charge) {
        let api = if is_anthropic { TargetApi::AnthropicChat } else { TargetApi::Chat };
        self.translated(api).get_or_init(|| Arc::new(HeldMembers { members, _held: held }));
    }

    /// Adds items to the finished rounds.
    pub fn add_round(&mut self, items: impl IntoIterator<Item = Item>) {
        Arc::make_mut(&mut self.rounds).extend(items);
    }

    /// Returns an estimate of the memory of the finished rounds, in bytes.
    pub(crate) fn rounds_bytes(&self) -> usize {
        self.rounds.iter().map(Item::bytes).fold(0, usize::saturating_add)
    }

    /// Returns the bytes of these members whose elements [`to_chat`](Self::to_chat) looks for.
    pub(crate) fn scanned_bytes(&self, members: &RawObject) -> usize {
        let messages = members.get(MESSAGES).filter(|_| !self.rounds.is_empty());
        let tools = members.get(TOOLS).filter(|_| !self.tools.is_empty());
        [messages, tools].into_iter().flatten().map(str::len).sum()
    }

    /// Writes the finished rounds into a JSON list, after its other elements. Fails if a round came from a
    /// provider of another API.
    pub(crate) fn write_rounds(
        &self,
        write: fn(Vec<Item>) -> Result<Vec<Value>, Untranslatable>,
        out: &mut Vec<u8>,
    ) -> Result<(), Untranslatable> {
        // One turn after the other, so that no more than one is copied at a time.
        for turn in self.rounds.chunk_by(|one, next| !is_result(one) || is_result(next)) {
            for value in write(turn.to_vec())? {
                separate(out, b'[');
                serde_json::to_writer(&mut *out, &value).expect("JSON can be written to memory");
            }
        }
        Ok(())
    }

    /// Returns the place for the members in another API.
    pub(crate) fn translated(&self, api: TargetApi) -> &OnceLock<Arc<HeldMembers>> {
        match api {
            TargetApi::Chat => &self.translated.chat,
            TargetApi::AnthropicChat => &self.translated.anthropic_chat,
            TargetApi::Responses => &self.translated.responses,
        }
    }

    /// Returns whether the reply has its usage: in chat completions, if `stream_options.include_usage` is
    /// true.
    pub fn includes_usage(&self) -> bool {
        if self.wire != Wire::Chat {
            return true;
        }
        let options = self.body.get(STREAM_OPTIONS);
        options.is_some_and(|options| raw::member(options, INCLUDE_USAGE) == Some("true"))
    }

    /// Returns the name of the model; `None` if there is none.
    pub(crate) fn model(&self) -> Option<String> {
        self.body.get("model").and_then(raw::string).map(Cow::into_owned)
    }

    /// Returns the names of the tools that the caller defines.
    pub fn own_names(&self) -> impl Iterator<Item = String> {
        let tools = self.own_tools().and_then(raw::elements);
        tools.into_iter().flatten().filter_map(name_of)
    }

    /// Returns whether the caller defines a tool without a name, such as one that runs at the
    /// provider: its calls may have any name. In the Responses API they are items of other types.
    pub fn has_unnamed_tools(&self) -> bool {
        let tools = self.own_tools().and_then(raw::elements).into_iter().flatten();
        self.wire == Wire::Chat && tools.map(name_of).any(|name| name.is_none())
    }

    /// Returns whether the caller defines tools. Does not read them.
    pub fn has_own_tools(&self) -> bool {
        let tools = self.own_tools().unwrap_or_default();
        tools != "null"
            && tools.bytes().any(|byte| !byte.is_ascii_whitespace() && !matches!(byte, b'[' | b']'))
    }

    /// Returns whether definitions can be added to `tools`. If it is not a list, nothing is added,
    /// and the provider reports the error.
    pub fn takes_tools(&self) -> bool {
        self.own_tools().is_none_or(|tools| tools == "null" || tools.starts_with('['))
    }

    /// Returns the bytes of the members that are about tools.
    pub fn tool_bytes(&self) -> usize {
        let members = [self.body.get(TOOLS), self.body.get(TOOL_CHOICE)].into_iter();
        members.flatten().map(str::len).sum()
    }

    /// Returns the `tool_choice` that forces no call, for [`Self::stop_forcing`]. A choice that a tool of
    /// the caller can satisfy stays: the caller does not see the gateway's calls and waits for one of
    /// its own, with which the loop ends.
    pub fn unforced(&self) -> Unforced {
        let Some(choice) = self.body.get(TOOL_CHOICE) else { return Unforced::default() };
        let own: BTreeSet<String> = self.own_names().collect();
        let is_forced = !is_for_any(choice, &own);
        Unforced(is_forced.then(|| unforced(choice)).flatten().map(Arc::from))
    }

    /// Resets a forced `tool_choice`.
    pub fn stop_forcing(&mut self, unforced: Unforced) {
        if let Some(choice) = unforced.0 {
            self.body.set(TOOL_CHOICE, choice);
            self.translated = TranslatedMembers::default();
        }
    }

    /// Replaces a member of the caller's by other JSON text.
    pub fn replace_member(&mut self, name: &str, json: String) {
        self.body.set(name, json);
        self.translated = TranslatedMembers::default();
    }

    /// Replaces the items of the finished rounds from `from` on.
    pub fn replace_rounds(&mut self, from: usize, items: Vec<Item>) {
        let rounds = Arc::make_mut(&mut self.rounds);
        rounds.truncate(from);
        rounds.extend(items);
    }

    /// Returns the names of the tools to which `tool_choice` restricts the model; `None` if it may
    /// call all.
    pub fn allowed_names(&self) -> Option<BTreeSet<String>> {
        allowed_by(self.body.get(TOOL_CHOICE)?)
    }

    /// Returns the tools that the caller defines, as text.
    fn own_tools(&self) -> Option<&str> {
        self.body.get(TOOLS)
    }

    /// Returns a chat completion request as JSON text: the caller's `members` in their order, then those of
    /// `set`, which replace the caller's, and `tools` last if the gateway adds some. Fails if a round came from a
    /// provider of another API.
    pub(crate) fn to_chat(
        &self,
        members: &RawObject,
        set: &[(&str, Cow<'_, str>)],
    ) -> Result<Vec<u8>, Untranslatable> {
        // The commas that are counted are one too many, and the braces are two.
        let mut out = Vec::with_capacity(members.text_len() + 1);
        out.push(b'{');
        let kept = members.iter().filter(|(name, _)| set.iter().all(|(own, _)| own != name));
        for (name, text) in kept {
            match name {
                TOOLS if !self.tools.is_empty() => {}
                MESSAGES if !self.rounds.is_empty() => {
                    member(&mut out, name);
                    self.write_messages(text, &mut out)?;
                }
                _ => {
                    member(&mut out, name);
                    out.extend_from_slice(text.as_bytes());
                }
            }
        }
        for (name, text) in set {
            member(&mut out, name);
            out.extend_from_slice(text.as_bytes());
        }
        if !self.tools.is_empty() {
            member(&mut out, TOOLS);
            self.write_tools(members, &mut out);
        }
        out.push(b'}');
        Ok(out)
    }

    /// Writes the caller's messages, and those of the rounds after them.
    fn write_messages(&self, own: &str, out: &mut Vec<u8>) -> Result<(), Untranslatable> {
        out.push(b'[');
        for message in raw::elements(own).into_iter().flatten() {
            separate(out, b'[');
            out.extend_from_slice(message.as_bytes());
        }
        self.write_rounds(chat::write_messages, out)?;
        out.push(b']');
        Ok(())
    }

    fn write_tools(&self, members: &RawObject, out: &mut Vec<u8>) {
        out.push(b'[');
        for tool in members.get(TOOLS).and_then(raw::elements).into_iter().flatten() {
            separate(out, b'[');
            out.extend_from_slice(tool.as_bytes());
        }
        for tool in &self.tools {
            separate(out, b'[');
            write_definition(out, tool);
        }
        out.push(b']');
    }
}

/// Returns the name of a tool that a caller defines.
fn name_of(tool: &str) -> Option<String> {
    let named = raw::member(tool, "function").or_else(|| raw::member(tool, "custom"));
    // The Responses API has the name beside the type.
    raw::string(raw::member(named.unwrap_or(tool), "name")?).map(Cow::into_owned)
}

fn is_result(item: &Item) -> bool {
    matches!(item, Item::ToolResult(_))
}

fn write_definition(out: &mut Vec<u8>, tool: &Tool) {
    out.extend_from_slice(br#"{"type":"function","function":{"name":"#);
    write(out, tool.name.as_str());
    out.extend_from_slice(br#","description":"#);
    write(out, &tool.described());
    out.extend_from_slice(br#","parameters":"#);
    out.extend_from_slice(tool.parameters().as_str().as_bytes());
    out.extend_from_slice(b"}}");
}

pub(super) fn member(out: &mut Vec<u8>, name: &str) {
    separate(out, b'{');
    write(out, name);
    out.push(b':');
}

/// Writes a comma, unless the next item is the first after `opening`.
pub(super) fn separate(out: &mut Vec<u8>, opening: u8) {
    if out.last() != Some(&opening) {
        out.push(b',');
    }
}

pub(super) fn write(out: &mut Vec<u8>, value: &str) {
    serde_json::to_writer(out, value).expect("text can be written to memory");
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use airlock_conversation::ToolResult;
    use airlock_json::object;

    fn prompt(body: Value, tools: &[&'static str]) -> Prompt {
        let tools = tools.iter().map(|name| {
            let schema = json!({"type": "object", "z": [{}], "a": 1});
            Arc::new(Tool::own(name, "Says \"hi\".\n", schema))
        });
        let tools = tools.collect();
        Prompt { tools, ..Prompt::new(RawObject::from(&object(body))) }
    }

    fn text(prompt: &Prompt) -> String {
        let text = prompt.to_chat(&prompt.body, &[]).expect("messages");
        String::from_utf8(text).expect("it is text")
    }

    #[test]
    fn members_stay_as_they_are_and_the_gateways_tools_follow_the_callers() {
        let own = json!({"type": "function", "function": {"name": "own"}});
        assert_eq!(text(&prompt(json!({}), &[])), "{}");
        assert_eq!(
            text(&prompt(json!({"b": 1, "tools": "odd", "a": [null]}), &[])),
            r#"{"b":1,"tools":"odd","a":[null]}"#
        );
        let both = prompt(json!({"b\"": 1, "tools": [own], "a": {}}), &["x", "y"]);
        assert_eq!(both.own_names().collect::<Vec<_>>(), ["own"]);
        let text = text(&both);
        let read: Value = serde_json::from_str(&text).expect("it is JSON");
        let [x, y] = ["x", "y"].map(|name| {
            let schema = json!({"type": "object", "z": [{}], "a": 1});
            json!({"type": "function", "function": {"name": name, "description": "Says \"hi\".\n", "parameters": schema}})
        });
        assert_eq!(read, json!({"b\"": 1, "a": {}, "tools": [own, x, y]}));
        assert!(
            text.contains(r#""parameters":{"type":"object","z":[{}],"a":1}"#),
            "the schema's text is not changed: {text}"
        );
    }

    #[test]
    fn numbers_that_a_double_cannot_hold_stay_exact() {
        let body = br#"{"seed":12345678901234567890123,"messages":[{"n":0.10}],"tools":[{"max":18446744073709551616}]}"#;
        let body = RawObject::parse(body.to_vec(), &airlock_json::Caps::memory(1 << 20));
        let mut prompt = Prompt::new(body.expect("an object").0);
        prompt.tools.push(Arc::new(Tool::own("x", "", json!({"type": "object"}))));
        prompt.add_round([Item::ToolResult(ToolResult::new("c", Vec::new()))]);
        let text = text(&prompt);
        assert!(
            text.starts_with(r#"{"seed":12345678901234567890123,"messages":[{"n":0.10},{"role":"tool","tool_call_id":"c","content":""}],"tools":[{"max":18446744073709551616},"#),
            "{text}"
        );
    }

    #[test]
    fn members_can_be_replaced_and_added_in_the_text() {
        let prompt = prompt(json!({"stream": false, "a": 1}), &[]);
        let text = prompt.to_chat(&prompt.body, &[("stream", "true".into()), ("b", "{}".into())]);
        let text = text.expect("messages");
        assert_eq!(String::from_utf8_lossy(&text), r#"{"a":1,"stream":true,"b":{}}"#);
    }

    #[test]
    fn tools_that_are_not_a_list_are_left_to_the_provider() {
        for (tools, takes, has) in [
            (json!([]), true, false),
            (Value::Null, true, false),
            (json!([{}]), true, true),
            (json!({}), false, true),
            (json!("auto"), false, true),
        ] {
            let prompt = prompt(json!({"tools": tools}), &[]);
            assert_eq!((prompt.takes_tools(), prompt.has_own_tools()), (takes, has), "{tools}");
        }
        assert!(!prompt(json!({}), &[]).has_own_tools());
        assert_eq!(
            text(&prompt(json!({"tools": null}), &["x"])).get(..18),
            Some(r#"{"tools":[{"type":"#)
        );
    }

    #[test]
    fn a_tool_from_outside_is_marked_and_its_schema_repaired_for_models() {
        let definition = serde_json::from_value(json!({
            "name": "t", "description": "Reads\u{e0041}.",
            "inputSchema": {"anyOf": [{"properties": {"a": {}}}], "additionalProperties": false, "$defs": {}},
        }));
        let client = airlock_core::tool::ClientName::parse("web").expect("a name");
        let mut tool = Tool::adopt(&client, definition.expect("a definition")).expect("a tool");
        tool.trust = airlock_core::tool::Trust::Untrusted;
        let prompt = Prompt { tools: vec![Arc::new(tool)], ..Prompt::new(RawObject::default()) };
        assert_eq!(
            text(&prompt),
            r#"{"tools":[{"type":"function","function":{"name":"web-t","description":"[MCP Service: web (external)] Reads.","parameters":{"additionalProperties":false,"$defs":{},"type":"object","properties":{"a":{}}}}}]}"#
        );
    }

    #[test]
    fn a_prompt_shares_its_tools_with_the_catalog() {
        let tool = Arc::new(Tool::own("x", "", json!({"type": "object"})));
        let prompt = Prompt { tools: vec![tool.clone()], ..Prompt::new(RawObject::default()) };
        assert!(Arc::ptr_eq(&prompt.clone().tools[0], &tool));
    }

    #[test]
    fn a_tool_without_a_name_is_found_in_a_chat_completion_request_alone() {
        for (tool, is_unnamed) in [
            (function("x"), false),
            (json!({"type": "custom", "custom": {"name": "x"}}), false),
            (json!({"type": "bash_20250124", "name": "bash"}), false),
            (json!({"type": "web_search", "web_search": {"enable": true}}), true),
        ] {
            let mut prompt = prompt(json!({"tools": [function("y"), tool]}), &[]);
            assert_eq!(prompt.has_unnamed_tools(), is_unnamed, "{tool}");
            prompt.wire = Wire::Responses;
            assert!(!prompt.has_unnamed_tools(), "{tool}");
        }
    }

    pub(super) fn function(name: &str) -> Value {
        json!({"type": "function", "function": {"name": name}})
    }
}
