//! A whole reply, collected from its deltas.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    Begin, CallInput, Delta, FinishReason, Item, Message, NativeItem, Object, Part, Reasoning,
    Role, ToolCall, Usage, Wire, chat, item::Content,
};

/// A whole reply.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reply {
    /// Its beginning.
    pub begin: Begin,
    /// Its choices by their number.
    pub choices: BTreeMap<u64, Choice>,
    /// Its tokens; `None` if the provider did not count.
    pub usage: Option<Usage>,
}

/// One choice of a reply.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Choice {
    /// Its items in the order in which they began.
    pub items: Vec<Item>,
    /// Sources of its text.
    pub citations: Vec<(Wire, Object)>,
    /// Pieces of members that are not known, in their order.
    pub members: Vec<(Wire, String, Value)>,
    /// Members of the choice itself that are not known.
    pub extra: Object,
    /// Reason of its end; `None` if it did not end.
    pub finish: Option<FinishReason>,
    /// Place of each call among `items`.
    calls: BTreeMap<u64, usize>,
}

impl Reply {
    /// Adds a piece.
    pub fn add(&mut self, delta: Delta) {
        match delta {
            Delta::Begin(begin) => {
                let early = std::mem::replace(&mut self.begin, begin).extra;
                for (name, value) in early {
                    self.begin.extra.entry(name).or_insert(value);
                }
            }
            Delta::Usage(usage) => self.usage = Some(usage),
            Delta::Text { choice, text } => self.choice(choice).add_text(text, Content::Text),
            Delta::Refusal { choice, text } => self.choice(choice).add_text(text, Content::Refusal),
            Delta::Reasoning { choice, text } => self.choice(choice).add_reasoning(&text),
            Delta::ReasoningPart { choice, .. } => self.choice(choice).begin_part(),
            Delta::ReasoningEnd { choice, reasoning } => {
                self.choice(choice).end_reasoning(reasoning);
            }
            Delta::Citation { choice, wire, citation } => {
                self.choice(choice).citations.push((wire, citation));
            }
            Delta::Call { choice, index, id, name, is_custom, extra } => {
                let input = if is_custom { CallInput::Text } else { CallInput::Arguments };
                let input = input(String::new());
                let call = ToolCall { id, name, input, cache_control: None, extra };
                self.choice(choice).add_call(index, call);
            }
            Delta::Arguments { choice, index, text } => {
                self.choice(choice).add_arguments(index, &text);
            }
            Delta::Member { choice, wire: Wire::Chat, name, value: Value::Array(details) }
                if name == chat::DETAILS =>
            {
                self.choice(choice).add_details(details);
            }
            Delta::Member { choice, wire, name, value } => {
                self.choice(choice).members.push((wire, name, value));
            }
            Delta::ChunkMember { choice, name, value } => {
                let extra = match choice {
                    Some(choice) => &mut self.choice(choice).extra,
                    None => &mut self.begin.extra,
                };
                extra.insert(name, value);
            }
            // Its pieces were added. Other APIs have no items of other types.
            Delta::ItemEnd { .. } => {}
            Delta::ServiceTier(tier) => {
                self.begin.extra.insert("service_tier".to_owned(), tier.into());
            }
            Delta::End { choice, reason } => self.choice(choice).finish = Some(reason),
        }
    }

    /// Returns whether [`add`](Self::add) appends a piece to the text before it, so that it begins no item and no
    /// part of one.
    pub fn continues(&self, delta: &Delta) -> bool {
        let choice = delta.choice().and_then(|number| self.choices.get(&number));
        let Some(last) = choice.and_then(|choice| choice.items.last()) else { return false };
        match (delta, last) {
            (Delta::Text { .. }, Item::Message(message)) => {
                matches!(message.parts.last(), Some(Part { content: Content::Text(_), .. }))
            }
            (Delta::Refusal { .. }, Item::Message(message)) => {
                matches!(message.parts.last(), Some(Part { content: Content::Refusal(_), .. }))
            }
            (Delta::Reasoning { .. }, Item::Reasoning(open)) => open.seal.is_none(),
            (Delta::Arguments { .. }, _) => true,
            _ => false,
        }
    }

    fn choice(&mut self, number: u64) -> &mut Choice {
        self.choices.entry(number).or_default()
    }
}

impl Extend<Delta> for Reply {
    fn extend<T: IntoIterator<Item = Delta>>(&mut self, deltas: T) {
        deltas.into_iter().for_each(|delta| self.add(delta));
    }
}

impl Choice {
    fn add_text(&mut self, text: String, kind: fn(String) -> Content) {
        if let Some(Item::Message(message)) = self.items.last_mut() {
            match (message.parts.last_mut().map(|part| &mut part.content), kind(String::new())) {
                (Some(Content::Text(sum)), Content::Text(_))
                | (Some(Content::Refusal(sum)), Content::Refusal(_)) => sum.push_str(&text),
                _ => message.parts.push(Part::new(kind(text))),
            }
            return;
        }
        let message = Message::new(Role::Assistant, vec![Part::new(kind(text))]);
        self.items.push(Item::Message(message));
    }

    fn add_reasoning(&mut self, text: &str) {
        match self.items.last_mut() {
            Some(Item::Reasoning(reasoning)) if reasoning.seal.is_none() => {
                reasoning.text.push_str(text);
            }
            _ => {
                let reasoning = Reasoning { text: text.to_owned(), ..Reasoning::default() };
                self.items.push(Item::Reasoning(reasoning));
            }
        }
    }

    /// Separates the next piece of the open block of reasoning from the part before it.
    fn begin_part(&mut self) {
        if let Some(Item::Reasoning(open)) = self.items.last_mut()
            && open.seal.is_none()
            && !open.text.is_empty()
        {
            open.text.push_str("\n\n");
        }
    }

    /// Adds details of chat completions to the open block of reasoning, which has no form for them.
    fn add_details(&mut self, details: Vec<Value>) {
        self.add_reasoning("");
        if let Some(Item::Reasoning(open)) = self.items.last_mut()
            && let Value::Array(list) =
                open.extra.entry(chat::DETAILS).or_insert_with(|| Value::Array(Vec::new()))
        {
            chat::join_details(list, details);
        }
    }

    /// Replaces the open block of reasoning by the complete one. A block without text before it stands
    /// alone, and so do details.
    fn end_reasoning(&mut self, reasoning: Reasoning) {
        match self.items.last_mut() {
            Some(Item::Reasoning(open)) if open.seal.is_none() && open.text == reasoning.text => {
                let extra = std::mem::replace(open, reasoning).extra;
                if !extra.is_empty() {
                    let details = Reasoning { extra, ..Reasoning::default() };
                    self.items.insert(self.items.len() - 1, Item::Reasoning(details));
                }
            }
            _ => self.items.push(Item::Reasoning(reasoning)),
        }
    }

    fn add_call(&mut self, index: u64, call: ToolCall) {
        self.calls.insert(index, self.items.len());
        self.items.push(Item::ToolCall(call));
    }

    fn add_arguments(&mut self, index: u64, text: &str) {
        let item = self.calls.get(&index).and_then(|place| self.items.get_mut(*place));
        if let Some(Item::ToolCall(call)) = item {
            let (CallInput::Arguments(sum) | CallInput::Text(sum)) = &mut call.input;
            sum.push_str(text);
        }
    }
}

impl NativeItem {
    /// Creates an item from the object of an API. Its `type` is copied.
    pub fn new(wire: Wire, object: Object) -> Self {
        let kind = object.get("type").and_then(Value::as_str).unwrap_or_default();
        Self { wire, kind: kind.to_owned(), object }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Delta {
        Delta::Text { choice: 0, text: text.to_owned() }
    }

    #[test]
    fn pieces_become_items_in_the_order_in_which_they_began() {
        let mut reply = Reply::default();
        let sealed = Reasoning {
            text: "why".to_owned(),
            seal: Some(crate::Seal::Signature("s".to_owned())),
            ..Reasoning::default()
        };
        reply.extend([
            Delta::Reasoning { choice: 0, text: "wh".to_owned() },
            Delta::Reasoning { choice: 0, text: "y".to_owned() },
            Delta::ReasoningEnd { choice: 0, reasoning: sealed.clone() },
            text("a"),
            text("b"),
            Delta::Call {
                choice: 0,
                index: 0,
                id: "c".to_owned(),
                name: "f".to_owned(),
                is_custom: false,
                extra: Object::new(),
            },
            Delta::Arguments { choice: 0, index: 0, text: "{".to_owned() },
            Delta::Arguments { choice: 0, index: 7, text: "lost".to_owned() },
            Delta::Arguments { choice: 0, index: 0, text: "}".to_owned() },
            Delta::End { choice: 0, reason: FinishReason::ToolCalls },
        ]);
        let choice = &reply.choices[&0];
        let message = Message::new(Role::Assistant, vec![Part::text("ab")]);
        assert_eq!(
            choice.items,
            [
                Item::Reasoning(sealed),
                Item::Message(message),
                Item::ToolCall(ToolCall::function("c", "f", "{}")),
            ]
        );
        assert_eq!(choice.finish, Some(FinishReason::ToolCalls));
    }

    #[test]
    fn a_piece_continues_the_text_before_it_unless_it_begins_an_item_or_a_part() {
        let mut reply = Reply::default();
        for (delta, continues) in [
            (thought(), false),
            (thought(), true),
            (text("a"), false),
            (text("a"), true),
            (refusal(), false),
            (refusal(), true),
            (text("a"), false),
            (Delta::Text { choice: 1, text: "a".to_owned() }, false),
            (text("a"), true),
            (thought(), false),
        ] {
            let before = parts_of(&reply);
            assert_eq!(reply.continues(&delta), continues, "{delta:?} after {reply:?}");
            reply.add(delta);
            assert_eq!(parts_of(&reply) == before, continues);
        }
    }

    fn thought() -> Delta {
        Delta::Reasoning { choice: 0, text: "a".to_owned() }
    }

    fn refusal() -> Delta {
        Delta::Refusal { choice: 0, text: "a".to_owned() }
    }

    /// Returns the number of items, and of parts of messages.
    fn parts_of(reply: &Reply) -> usize {
        let items = reply.choices.values().flat_map(|choice| &choice.items);
        let counts = items.map(|item| match item {
            Item::Message(message) => 1 + message.parts.len(),
            _ => 1,
        });
        counts.sum()
    }

    #[test]
    fn details_of_chat_completions_stay_before_the_block_that_follows_them() {
        let summary = serde_json::json!({"type": "reasoning.summary", "summary": "a", "index": 0});
        let value = Value::Array(vec![summary]);
        let name = chat::DETAILS.to_owned();
        let sealed = Reasoning {
            seal: Some(crate::Seal::Encrypted("e".to_owned())),
            ..Reasoning::default()
        };
        let mut reply = Reply::default();
        reply.extend([
            Delta::Member { choice: 0, wire: Wire::Chat, name: name.clone(), value: value.clone() },
            Delta::ReasoningEnd { choice: 0, reasoning: sealed.clone() },
        ]);
        let extra = Object::from_iter([(name, value)]);
        let details = Reasoning { extra, ..Reasoning::default() };
        assert_eq!(reply.choices[&0].items, [Item::Reasoning(details), Item::Reasoning(sealed)]);
    }
}
