//! Items → `messages`.

use std::{
    collections::{BTreeMap, VecDeque},
    mem,
};

use serde_json::Value;

use super::super::{
    form::ChatForm,
    members::{TOOL_CALLS, restore_inner, take_list},
    parts::{self, PlacedPart},
    reasoning,
};
use crate::{
    CallInput, Content, Item, Message, Object, Reasoning, Role, Seal, ToolCall, ToolResult, Wire,
    object_of,
    read::{ItemSite, Result},
};

/// Text between the texts of a message that is not of the model.
const BETWEEN_PARTS: &str = "\n\n";

/// Results by the identifier of their call, in order, each with its number among all results: some servers
/// use the same identifiers in every reply.
type CallResults = BTreeMap<String, VecDeque<(usize, ItemSite, ToolResult)>>;

/// Messages so far.
struct MessageWriter {
    form: ChatForm,
    messages: Vec<Value>,
    turn: AssistantTurn,
    results: CallResults,
    /// Results that were passed.
    passed: usize,
}

/// The message of the model that is being collected.
#[derive(Default)]
struct AssistantTurn {
    reasoning: Vec<Reasoning>,
    /// Content and unknown members.
    message: Option<(Vec<PlacedPart>, Object)>,
    calls: Vec<ToolCall>,
}

/// Writes items as messages.
///
/// Items of the model that follow one another are one message, and content after its calls belongs to it.
/// Only content or reasoning after content without calls begins another message, so that signed reasoning
/// stays where it was. The results of the calls follow the message at once, as chat completions require, even if other messages stand between. A result
/// without a call stays in its place.
pub(super) fn write(
    mut items: Vec<Item>,
    sites: Vec<ItemSite>,
    form: ChatForm,
) -> Result<Vec<Value>> {
    let mut writer = MessageWriter {
        form,
        messages: Vec::with_capacity(items.len()),
        turn: AssistantTurn::default(),
        results: take_results(&mut items, &sites),
        passed: 0,
    };
    for (item, site) in items.into_iter().zip(sites) {
        writer.add(item, site)?;
    }
    writer.end_turn()?;
    Ok(writer.messages)
}

/// Takes the results, and leaves empty ones in their places.
fn take_results(items: &mut [Item], sites: &[ItemSite]) -> CallResults {
    let mut results = CallResults::new();
    let taken = items.iter_mut().zip(sites).filter_map(|(item, site)| match item {
        Item::ToolResult(result) => Some((site, result)),
        _ => None,
    });
    for (number, (site, result)) in taken.enumerate() {
        let marker = ToolResult::new(result.call_id.clone(), Vec::new());
        let result = mem::replace(result, marker);
        results.entry(result.call_id.clone()).or_default().push_back((number, *site, result));
    }
    results
}

impl MessageWriter {
    fn add(&mut self, item: Item, site: ItemSite) -> Result<()> {
        match item {
            Item::Message(message) if message.role == Role::Assistant => {
                self.end_turn_with_content()?;
                self.turn.add_message(message, site);
            }
            Item::Message(message) => {
                self.end_turn()?;
                let message = self.plain(message, site)?;
                self.messages.push(message.into());
            }
            Item::Reasoning(reasoning) => {
                self.end_turn_with_content()?;
                self.turn.reasoning.push(reasoning);
            }
            Item::ToolCall(call) => self.turn.calls.push(call),
            Item::ToolResult(marker) => {
                self.end_turn()?;
                self.add_unmatched(&marker.call_id)?;
            }
            Item::Native(native) if native.wire == Wire::Chat => {
                self.end_turn()?;
                self.messages.push(native.object.into());
            }
            Item::Native(native) => return Err(self.form.at(site).unknown(native.kind)),
        }
        Ok(())
    }

    /// Ends a turn that has content and no calls, unless the caller's API would join it with the next one.
    fn end_turn_with_content(&mut self) -> Result<()> {
        let has_content = self.turn.message.is_some() && self.turn.calls.is_empty();
        if has_content && !self.form.merges() {
            return self.end_turn();
        }
        Ok(())
    }

    /// Writes the next result, unless a call before it took it.
    fn add_unmatched(&mut self, call_id: &str) -> Result<()> {
        let number = self.passed;
        self.passed += 1;
        let queue = self.results.get_mut(call_id);
        let result = queue.and_then(|queue| queue.pop_front_if(|(next, ..)| *next == number));
        if let Some((_, site, result)) = result {
            self.add_result(result, site)?;
        }
        Ok(())
    }

    fn add_result(&mut self, result: ToolResult, site: ItemSite) -> Result<()> {
        let ToolResult { call_id, parts, is_error, cache_control, extra } = result;
        let parts = parts::placed(parts, site);
        let content = parts::write(parts, self.form.separator(BETWEEN_PARTS), self.form)?;
        let mut out = object_of([
            ("role", "tool".into()),
            ("tool_call_id", call_id.into()),
            ("content", content),
        ]);
        if self.form.has_error_flag() {
            out.extend(is_error.map(|is_error| ("is_error".to_owned(), is_error.into())));
        }
        out.extend(self.form.extra(extra));
        self.form.mark(&mut out, cache_control);
        self.messages.push(out.into());
        Ok(())
    }

    /// Returns a message that is not of the model.
    fn plain(&self, message: Message, site: ItemSite) -> Result<Object> {
        let Message { role, parts, extra } = message;
        let (role, separator) = match role {
            Role::System => ("system", self.form.separator(BETWEEN_PARTS)),
            Role::Developer => ("developer", self.form.separator(BETWEEN_PARTS)),
            Role::User | Role::Assistant => ("user", None),
        };
        let content = parts::write(parts::placed(parts, site), separator, self.form)?;
        let mut out = object_of([("role", role.into()), ("content", content)]);
        out.extend(self.form.extra(extra));
        Ok(out)
    }

    /// Writes the message of the model, and the results of its calls. Reasoning without content and calls
    /// is dropped, because services refuse a message of it alone.
    fn end_turn(&mut self) -> Result<()> {
        let AssistantTurn { reasoning, message, calls } = mem::take(&mut self.turn);
        if message.is_none() && calls.is_empty() {
            return Ok(());
        }
        let (parts, extra) = message.unwrap_or_default();
        let mut out = self.content(parts, extra, !calls.is_empty())?;
        self.add_reasoning(&mut out, reasoning, !calls.is_empty());
        let results: Vec<_> = calls.iter().filter_map(|call| self.take_result(&call.id)).collect();
        if !calls.is_empty() {
            let calls: Vec<Value> = calls.into_iter().map(|call| self.call(call).into()).collect();
            out.insert(TOOL_CALLS.to_owned(), calls.into());
        }
        self.messages.push(out.into());
        results.into_iter().try_for_each(|(site, result)| self.add_result(result, site))
    }

    fn take_result(&mut self, call_id: &str) -> Option<(ItemSite, ToolResult)> {
        self.results.get_mut(call_id)?.pop_front().map(|(_, site, result)| (site, result))
    }

    /// Returns a message of the model without its reasoning and its calls.
    fn content(
        &self,
        mut parts: Vec<PlacedPart>,
        extra: Object,
        has_calls: bool,
    ) -> Result<Object> {
        let has_member = self.form.has_refusal_member();
        let refusal = has_member.then(|| take_refusal(&mut parts)).flatten();
        let content = if parts.is_empty() && (has_calls || refusal.is_some()) {
            Value::Null
        } else {
            parts::write(parts, self.form.separator(""), self.form)?
        };
        let mut out = object_of([("role", "assistant".into()), ("content", content)]);
        out.extend(refusal.map(|refusal| ("refusal".to_owned(), refusal.into())));
        out.extend(self.form.extra(extra));
        Ok(out)
    }

    /// Adds the reasoning to a message: blocks with a seal of Anthropic's wherever they are, and readable
    /// reasoning only beside calls, where some services require it. Elsewhere services ignore it, or refuse
    /// it as older `DeepSeek` models do; only what the caller sent in a chat completion request is kept.
    fn add_reasoning(&self, out: &mut Object, reasoning: Vec<Reasoning>, has_calls: bool) {
        let is_shown = has_calls || self.form.is_own();
        let has_blocks = if has_calls {
            self.form.has_anthropic_members()
        } else {
            self.form.has_blocks_without_calls()
        };
        let mut text = String::new();
        let mut blocks = Vec::new();
        let mut details = Vec::new();
        for mut block in reasoning {
            let is_anthropic = matches!(block.seal, Some(Seal::Signature(_) | Seal::Redacted(_)));
            if is_shown && (!is_anthropic || self.form.repeats_sealed_text()) {
                match block.text.as_str() {
                    "" => reasoning::join(&mut text, &reasoning::summary(&block)),
                    own => reasoning::join(&mut text, own),
                }
            }
            match &block.seal {
                Some(Seal::Encrypted(_)) if is_shown => {
                    reasoning::write_details(block, &mut details, 0);
                }
                Some(_) if is_anthropic && has_blocks => {
                    blocks.extend(reasoning::write_block(block).map(Value::from));
                }
                None if is_shown && self.form.is_openai() => {
                    details.extend(take_list(&mut block.extra, reasoning::DETAILS));
                    reasoning::add_unknown(out, block.extra);
                }
                _ => {}
            }
        }
        reasoning::add_text(out, text);
        for (name, list) in [(reasoning::BLOCKS, blocks), (reasoning::DETAILS, details)] {
            if !list.is_empty() {
                reasoning::add_unknown(out, object_of([(name, list.into())]));
            }
        }
    }

    fn call(&self, call: ToolCall) -> Object {
        let ToolCall { id, name, input, cache_control, extra } = call;
        let mut extra = self.form.call_extra(extra);
        let (kind, member, text) = match input {
            CallInput::Arguments(text) => ("function", "arguments", text),
            CallInput::Text(text) => ("custom", "input", text),
        };
        let mut body = object_of([("name", name.into()), (member, text.into())]);
        restore_inner(&mut body, &mut extra, kind);
        let mut out = object_of([("id", id.into()), ("type", kind.into()), (kind, body.into())]);
        out.extend(extra);
        self.form.mark(&mut out, cache_control);
        out
    }
}

impl AssistantTurn {
    fn add_message(&mut self, message: Message, site: ItemSite) {
        let (parts, extra) = self.message.get_or_insert_default();
        parts.extend(parts::placed(message.parts, site));
        extra.extend(message.extra);
    }
}

/// Takes a refusal at the end of a message, which has a member of its own in chat.
fn take_refusal(parts: &mut Vec<PlacedPart>) -> Option<String> {
    let (_, last) = parts.pop_if(|(_, part)| {
        matches!(part.content, Content::Refusal(_))
            && part.cache_control.is_none()
            && part.extra.is_empty()
    })?;
    match last.content {
        Content::Refusal(text) => Some(text),
        _ => None,
    }
}
