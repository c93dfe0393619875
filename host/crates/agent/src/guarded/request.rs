//! The texts of a request to a model that no guard has seen: at first those of the caller's members, then those of the
//! rounds that were added. What has the form of a placeholder in them is quoted, or its number is not given: the original
//! is not for the author of such a text. Reasoning keeps its placeholders, also in the next request of its conversation,
//! which numbers the same parts alike.

use std::sync::Arc;

use serde_json::Value;

use super::{
    ModelReview,
    texts::{
        ASSISTANT, REASONING, TextCollector, TextCounter, TextVisitor, TextWriter, visit_all,
        visit_item, visit_value,
    },
};
use crate::{
    Failure,
    conversation::{Conversation, SeenItems},
};
use airlock_conversation::{Item, Wire};
use airlock_core::{
    door::{Placeholders, ReviewedText},
    memory::Charge,
    threads,
    tool::Tool,
};
use airlock_json::{self as json, Caps, RawObject};
use airlock_model::Prompt;

/// Limit on the memory of the tree of one member, in bytes. It is charged to the request too.
const TREE_CAPS: Caps = Caps::memory(1 << 30);
/// Role of the texts of the caller.
const USER: &str = "user";
/// Members with settings of the request, with identifiers, or with definitions of tools and of the output, in one of the
/// APIs. Any other member may have texts that the model reads.
const SETTINGS: [&str; 45] = [
    "anthropic_version",
    "audio",
    "background",
    "betas",
    "cache_control",
    "container",
    "context_management",
    "conversation",
    "function_call",
    "functions",
    "include",
    "logit_bias",
    "max_tool_calls",
    "mcp_servers",
    "metadata",
    "modalities",
    "model",
    "output_config",
    "output_format",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "provider",
    "reasoning",
    "reasoning_effort",
    "response_format",
    "safety_identifier",
    "service_tier",
    "speed",
    "stop",
    "stop_sequences",
    "store",
    "stream",
    "stream_options",
    "text",
    "thinking",
    "tool_choice",
    "tools",
    "top_logprobs",
    "truncation",
    "user",
    "verbosity",
    "web_search_options",
];

/// Texts of a request.
struct RequestTexts {
    members: Vec<RequestMember>,
    items: Vec<Item>,
    /// The texts of both, with quotes.
    texts: Vec<ReviewedText>,
    /// True if a text has a quote.
    is_changed: bool,
    /// The memory of all of them, and of the copies of the texts.
    held: Charge,
}

/// A member of the request that has a part of the conversation.
struct RequestMember {
    place: MemberPlace,
    value: Value,
}

/// Name of a member, and the role of its texts unless they are in messages.
struct MemberPlace {
    name: String,
    role: &'static str,
    /// False if its form is not known, so that each of its texts counts.
    is_known: bool,
}

impl ModelReview<'_> {
    /// Decides about the texts of a conversation that no guard has seen, and replaces those that the guards replace. Fails
    /// if a guard denies the request or fails, or if there is no memory.
    pub(crate) async fn request(
        &self,
        conversation: &mut Conversation,
        held: &Charge,
    ) -> Result<(), Failure> {
        let from = conversation.seen.rounds;
        let unseen = self.unseen(conversation, held.beside()).await?;
        let RequestTexts { members, mut items, texts, is_changed, held: _held } = unseen;
        if let Some(texts) = self.decide(texts, is_changed).await? {
            let mut writer = TextWriter::new(texts);
            for mut member in members {
                member.visit(&mut writer);
                if writer.take_changed() {
                    conversation.rewrite_member(&member.place.name, member.value.to_string());
                }
            }
            if rewrite_items(&mut items, &mut writer) {
                conversation.prompt.replace_rounds(from, items);
            }
        }
        let rounds = conversation.prompt.rounds.len();
        conversation.seen = SeenItems { has_members: true, rounds };
        Ok(())
    }

    /// Reads the texts that no guard has seen: long ones on a blocking thread. Fails if there is no memory.
    async fn unseen(
        &self,
        conversation: &Conversation,
        held: Charge,
    ) -> Result<RequestTexts, Failure> {
        let Prompt { wire, body, rounds, tools, .. } = &conversation.prompt;
        let SeenItems { has_members, rounds: seen } = conversation.seen;
        let items = rounds.get(seen..).unwrap_or_default();
        let bytes = items.iter().map(Item::bytes).fold(0, usize::saturating_add);
        if !held.grow(bytes) {
            return Err(Failure::NoMemory);
        }
        let items = items.to_vec();
        let places = if has_members { Vec::new() } else { places_in(body, *wire) };
        let texts = places.iter().filter_map(|place| body.get(&place.name));
        let bytes = texts.map(str::len).fold(bytes, usize::saturating_add);
        let body = body.clone();
        let tools = if has_members { Vec::new() } else { tools.clone() };
        let placeholders = self.exchange.placeholders.clone();
        let reading = threads::read(&self.exchange.tenant, bytes, move || {
            if !has_members {
                reserve_unreviewed(&body, &tools, &placeholders);
            }
            let members = read_members(&body, places, &held)?;
            RequestTexts::read(members, items, held, &placeholders)
        });
        reading.await.ok_or(Failure::NoMemory)
    }
}

impl RequestTexts {
    /// Reads the texts of members and items; `None` if there is no memory.
    fn read(
        members: Vec<RequestMember>,
        items: Vec<Item>,
        held: Charge,
        placeholders: &Placeholders,
    ) -> Option<Self> {
        let mut this = Self { members, items, texts: Vec::new(), is_changed: false, held };
        let mut counter = TextCounter::default();
        this.visit(&mut counter);
        if !this.held.grow(counter.memory()) {
            return None;
        }
        let mut reader = TextCollector::default();
        this.visit(&mut reader);
        this.is_changed = quote(&mut reader.0, placeholders);
        Some(Self { texts: reader.0, ..this })
    }

    fn visit(&mut self, visitor: &mut impl TextVisitor) {
        self.members.iter_mut().for_each(|member| member.visit(visitor));
        self.items.iter_mut().for_each(|item| visit_item(item, visitor));
    }
}

impl RequestMember {
    fn visit(&mut self, visitor: &mut impl TextVisitor) {
        let MemberPlace { name, role, is_known } = &self.place;
        if *is_known {
            visit_value(&mut self.value, name, role, visitor);
        } else {
            visit_all(&mut self.value, role, visitor);
        }
    }
}

/// Quotes what has the form of a placeholder in texts, or reserves its number. Returns whether a text has changed.
fn quote(texts: &mut [ReviewedText], placeholders: &Placeholders) -> bool {
    let mut is_changed = false;
    for written in texts.iter_mut().filter(|text| text.role != REASONING) {
        if let Some(quoted) = placeholders.quoted(&written.text) {
            written.text = quoted;
            is_changed = true;
        }
    }
    is_changed
}

/// Reserves the numbers of placeholders in what the model reads and no guard sees: settings with the caller's tools, and
/// the definitions of the gateway's.
fn reserve_unreviewed(body: &RawObject, tools: &[Arc<Tool>], placeholders: &Placeholders) {
    for (_, text) in body.iter().filter(|(name, _)| SETTINGS.contains(name)) {
        placeholders.reserve(text);
    }
    for tool in tools {
        placeholders.reserve(&tool.description);
        placeholders.reserve(tool.parameters().as_str());
    }
}

/// Replaces the texts of items. Returns whether one has changed. The seal of replaced reasoning is left out: it is the
/// provider's proof of another text.
fn rewrite_items(items: &mut [Item], writer: &mut TextWriter) -> bool {
    let mut is_changed = false;
    for item in items {
        visit_item(item, writer);
        if writer.take_changed() {
            is_changed = true;
            if let Item::Reasoning(reasoning) = item {
                reasoning.seal = None;
            }
        }
    }
    is_changed
}

/// Returns the members of a request that may have texts for the model: those of its API, then those that are not known,
/// which its provider may put before the model.
fn places_in(body: &RawObject, wire: Wire) -> Vec<MemberPlace> {
    let known = members_of(wire);
    let present = known.iter().filter(|(name, _)| body.get(name).is_some());
    let present =
        present.map(|&(name, role)| MemberPlace { name: name.to_owned(), role, is_known: true });
    let others = body
        .iter()
        .map(|(name, _)| name)
        .filter(|name| !SETTINGS.contains(name) && known.iter().all(|(own, _)| own != name));
    let others =
        others.map(|name| MemberPlace { name: name.to_owned(), role: USER, is_known: false });
    present.chain(others).collect()
}

/// Returns the members of an API that have the conversation, each with the role of its texts outside of messages.
fn members_of(wire: Wire) -> &'static [(&'static str, &'static str)] {
    match wire {
        Wire::Chat => &[("messages", USER), ("prediction", ASSISTANT)],
        Wire::Responses => &[("instructions", "system"), ("prompt", USER), ("input", USER)],
        Wire::Messages => &[("system", "system"), ("messages", USER)],
        // No caller has this API.
        Wire::Gemini => &[],
    }
}

/// Reads members; `None` if there is no memory for one of them.
fn read_members(
    body: &RawObject,
    places: Vec<MemberPlace>,
    held: &Charge,
) -> Option<Vec<RequestMember>> {
    let members = places.into_iter().map(|place| {
        let text = body.get(&place.name)?;
        let cost = json::check(text.as_bytes(), &TREE_CAPS).ok()?;
        // A member that is replaced is written again.
        let bytes = cost.tree_bytes.saturating_add(text.len());
        let value = held.grow(bytes).then(|| serde_json::from_str(text).ok())??;
        Some(RequestMember { place, value })
    });
    members.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use airlock_conversation::{Reasoning, Seal};
    use airlock_core::door::PlaceholderSpan;
    use airlock_json::object;

    fn texts(texts: [(&str, &str); 2]) -> [ReviewedText; 2] {
        texts.map(|(role, text)| ReviewedText { role: role.to_owned(), text: text.to_owned() })
    }

    #[test]
    fn replaced_reasoning_has_no_seal() {
        let mut items = ["a", "b"].map(|text| {
            Item::Reasoning(Reasoning {
                text: text.to_owned(),
                seal: Some(Seal::Signature("s".to_owned())),
                ..Reasoning::default()
            })
        });
        let texts = texts([(REASONING, "c"), (REASONING, "b")]);
        assert!(rewrite_items(&mut items, &mut TextWriter::new(texts.into())));
        let seals = items.iter().map(|item| match item {
            Item::Reasoning(reasoning) => reasoning.seal.is_some(),
            _ => unreachable!("it is reasoning"),
        });
        assert_eq!(seals.collect::<Vec<_>>(), [false, true]);
    }

    #[test]
    fn numbers_in_definitions_and_settings_and_texts_but_reasoning_are_not_given() {
        let placeholders = Placeholders::default();
        let body = json!({"tools": [{"name": "own", "description": "[EMAIL_1]"}], "messages": []});
        let schema = json!({"type": "object", "properties": {"to": {"default": "[EMAIL_3]"}}});
        let tools = [Arc::new(Tool::own("x", "to [EMAIL_2]", schema))];
        reserve_unreviewed(&RawObject::from(&object(body)), &tools, &placeholders);
        let texts = texts([("tool", "[EMAIL_4]"), (REASONING, "[EMAIL_5]")]);
        assert!(!quote(&mut texts.clone(), &placeholders));
        let span = PlaceholderSpan { start: 0, end: 4, kind: "email".to_owned() };
        assert_eq!(placeholders.replace("aaaa", &[span]).as_deref(), Ok("[EMAIL_5]"));
        let mut again = texts;
        again[0].text = "[EMAIL_5]".to_owned();
        assert!(quote(&mut again, &placeholders));
        assert_eq!(again.map(|text| text.text), ["[TEXT_6]", "[EMAIL_5]"]);
    }

    #[test]
    fn settings_have_no_texts_and_any_other_member_has() {
        let body = json!({
            "model": "m", "metadata": {"a": "b"}, "documents": [{"id": "d", "text": "e"}],
            "messages": [{"role": "user", "content": "c"}], "temperature": 1, "tools": [],
        });
        let body = RawObject::from(&object(body));
        let places = places_in(&body, Wire::Chat);
        let names: Vec<_> =
            places.iter().map(|place| (place.name.as_str(), place.is_known)).collect();
        assert_eq!(names, [("messages", true), ("documents", false), ("temperature", false)]);
        let held = airlock_core::memory::MemoryBudget::unlimited().charge();
        let mut reader = TextCollector::default();
        for mut member in read_members(&body, places, &held).expect("there is memory") {
            member.visit(&mut reader);
        }
        let texts: Vec<_> = reader.0.iter().map(|text| text.text.as_str()).collect();
        assert_eq!(texts, ["c", "d", "e"]);
    }
}
