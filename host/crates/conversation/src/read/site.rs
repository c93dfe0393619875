//! Positions of items in the request of a caller.

use std::fmt;

use super::{Path, Untranslatable};
use crate::{Conversation, Item, ItemPlace, Wire};

/// Position of an item or of one of its parts, in the words of the API in which the request came. Displays
/// like a [`Path`]: `messages[3].content[1]`, `input[2]`.
#[derive(Debug, Clone, Copy)]
pub struct ItemSite {
    wire: Wire,
    place: ItemPlace,
    kind: SiteKind,
    part: Option<usize>,
}

/// Kind of an item, which decides where its API has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SiteKind {
    Message,
    Call,
    Result,
    /// Reasoning, or an item of one API: a block of its own in the Messages API.
    Other,
}

impl Conversation {
    /// Returns the positions of all items.
    pub fn sites(&self) -> Vec<ItemSite> {
        let added = std::iter::repeat(ItemPlace::Added);
        let places = self.places.iter().copied().chain(added);
        self.items
            .iter()
            .zip(places)
            .map(|(item, place)| ItemSite::new(self.wire, place, item))
            .collect()
    }
}

impl ItemSite {
    fn new(wire: Wire, place: ItemPlace, item: &Item) -> Self {
        let kind = match item {
            Item::Message(_) => SiteKind::Message,
            Item::ToolCall(_) => SiteKind::Call,
            Item::ToolResult(_) => SiteKind::Result,
            Item::Reasoning(_) | Item::Native(_) => SiteKind::Other,
        };
        Self { wire, place, kind, part: None }
    }

    /// Returns the position of the list of items.
    pub fn list(wire: Wire) -> Self {
        Self { wire, place: ItemPlace::Added, kind: SiteKind::Other, part: None }
    }

    /// Returns the position of a part of the item's content.
    #[must_use]
    pub fn part(self, index: usize) -> Self {
        Self { part: Some(index), ..self }
    }

    /// Returns the position as a path.
    pub fn path(&self) -> Path<'_> {
        Path::Item(self)
    }

    /// Returns the API in which the request came.
    pub fn wire(&self) -> Wire {
        self.wire
    }

    /// Returns the member with the identifier of a result's call.
    pub fn call_id(&self) -> &'static str {
        match self.wire {
            Wire::Chat | Wire::Gemini => "tool_call_id",
            Wire::Responses => "call_id",
            Wire::Messages => "tool_use_id",
        }
    }

    /// Returns the error of an item or a part that breaks a rule. `rule` is a sentence.
    pub fn invalid(&self, rule: &str) -> Untranslatable {
        self.locate(Untranslatable::invalid(&self.path(), rule))
    }

    /// Returns the error of an item or a part that has no counterpart. `advice` is a sentence.
    pub fn unsupported(&self, advice: &str) -> Untranslatable {
        self.locate(Untranslatable::unsupported_parameter(&self.path(), advice))
    }

    /// Returns the error of a member that has no counterpart. `advice` is a sentence.
    pub fn unsupported_member(&self, name: &str, advice: &str) -> Untranslatable {
        self.locate(Untranslatable::unsupported_parameter(&self.path().member(name), advice))
    }

    /// Returns the error of a member that breaks a rule. `rule` is a sentence.
    pub fn invalid_member(&self, name: &str, rule: &str) -> Untranslatable {
        self.locate(Untranslatable::invalid(&self.path().member(name), rule))
    }

    /// Returns an error at this position. That of a stored item names the stored response.
    pub fn locate(&self, error: Untranslatable) -> Untranslatable {
        match self.place {
            ItemPlace::Stored => error.in_previous_response(),
            _ => error,
        }
    }
}

impl fmt::Display for ItemSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = match self.wire {
            Wire::Chat | Wire::Messages => "messages",
            Wire::Responses => "input",
            Wire::Gemini => "contents",
        };
        let ItemPlace::Listed { index, offset } = self.place else {
            return match (self.place, self.wire, self.part) {
                (ItemPlace::Instructions, Wire::Responses, _) => f.write_str("instructions"),
                (ItemPlace::Instructions, _, None) => f.write_str("system"),
                (ItemPlace::Instructions, _, Some(part)) => write!(f, "system[{part}]"),
                _ => f.write_str(list),
            };
        };
        write!(f, "{list}[{index}]")?;
        let offset = offset as usize;
        match (self.wire, self.kind, self.part) {
            (Wire::Messages, SiteKind::Message, Some(part)) => {
                write!(f, ".content[{}]", offset.saturating_add(part))
            }
            (_, SiteKind::Message, None) => Ok(()),
            (Wire::Messages, _, None) => write!(f, ".content[{offset}]"),
            (Wire::Messages, _, Some(part)) => write!(f, ".content[{offset}].content[{part}]"),
            (Wire::Chat, SiteKind::Call, _) => write!(f, ".tool_calls[{offset}]"),
            (Wire::Responses, SiteKind::Result, Some(part)) => write!(f, ".output[{part}]"),
            (_, _, Some(part)) => write!(f, ".content[{part}]"),
            (_, _, None) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Message, Role, ToolCall, ToolResult};

    #[test]
    fn a_position_is_in_the_words_of_the_callers_api() {
        let message = Item::Message(Message::new(Role::User, Vec::new()));
        let call = Item::ToolCall(ToolCall::function("c", "f", "{}"));
        let result = Item::ToolResult(ToolResult::new("c", Vec::new()));
        let place = ItemPlace::within(3, 2);
        for (wire, item, part, expected) in [
            (Wire::Chat, &message, None, "messages[3]"),
            (Wire::Chat, &message, Some(1), "messages[3].content[1]"),
            (Wire::Chat, &call, None, "messages[3].tool_calls[2]"),
            (Wire::Chat, &result, Some(0), "messages[3].content[0]"),
            (Wire::Messages, &message, Some(1), "messages[3].content[3]"),
            (Wire::Messages, &call, None, "messages[3].content[2]"),
            (Wire::Messages, &result, Some(1), "messages[3].content[2].content[1]"),
            (Wire::Responses, &message, Some(1), "input[3].content[1]"),
            (Wire::Responses, &call, None, "input[3]"),
            (Wire::Responses, &result, Some(1), "input[3].output[1]"),
        ] {
            let site = ItemSite::new(wire, place, item);
            let site = part.map_or(site, |part| site.part(part));
            assert_eq!(site.to_string(), expected);
        }
        for (wire, place, expected) in [
            (Wire::Responses, ItemPlace::Instructions, "instructions"),
            (Wire::Messages, ItemPlace::Instructions, "system"),
            (Wire::Chat, ItemPlace::Added, "messages"),
        ] {
            assert_eq!(ItemSite::new(wire, place, &message).to_string(), expected);
        }
        let stored = ItemSite::new(Wire::Responses, ItemPlace::Stored, &message);
        assert_eq!(stored.invalid("It is not.").param, "previous_response_id");
    }
}
