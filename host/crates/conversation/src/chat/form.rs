//! The form of a chat completion request: where it came from, and for which provider it is.

use serde_json::Value;

use super::members::CACHE_CONTROL;
use crate::{
    NativeItem, Object, Wire,
    read::{ItemSite, Path, Result, Untranslatable, excerpt},
    thought_signature,
};

/// Members that the provider accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChatDialect {
    /// OpenAI's, and those that other servers of chat completions have. Members of Anthropic's are written
    /// only if the caller itself sent them in a request of OpenAI's APIs.
    OpenAi,
    /// Those that the gateway translates for Anthropic's models too: `thinking`, `thinking_blocks`,
    /// `cache_control`, `is_error`, and blocks of Anthropic's as content parts.
    WithAnthropicMembers,
}

/// Form of one request: where it came from, and for which provider it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChatForm {
    wire: Wire,
    dialect: ChatDialect,
    /// Position of what is written, for errors.
    pub(super) site: ItemSite,
}

impl ChatForm {
    pub(super) fn new(wire: Wire, dialect: ChatDialect) -> Self {
        Self { wire, dialect, site: ItemSite::list(wire) }
    }

    /// Returns the form of what is at a position.
    pub(super) fn at(self, site: ItemSite) -> Self {
        Self { site, ..self }
    }

    /// Returns whether the request came as a chat completion request.
    pub(super) fn is_own(self) -> bool {
        self.wire == Wire::Chat
    }

    /// Returns whether the request came in an API of OpenAI's, whose members both have.
    pub(super) fn is_openai(self) -> bool {
        matches!(self.wire, Wire::Chat | Wire::Responses)
    }

    /// Returns whether the provider knows the hints of the caller's API. Those of the Messages API have the
    /// whole member `thinking`, of which the settings have the budget.
    pub(super) fn has_hints(self) -> bool {
        self.is_openai() || self.wire == Wire::Messages && self.has_anthropic_blocks()
    }

    /// Returns whether content can have blocks of Anthropic's as parts.
    pub(super) fn has_anthropic_blocks(self) -> bool {
        self.dialect == ChatDialect::WithAnthropicMembers
    }

    /// Returns whether Anthropic's members are written.
    pub(super) fn has_anthropic_members(self) -> bool {
        self.is_openai() || self.has_anthropic_blocks()
    }

    /// Returns whether a refusal is a member of a message, and not a part of its content.
    pub(super) fn has_refusal_member(self) -> bool {
        self.wire != Wire::Responses
    }

    /// Returns whether Anthropic's blocks are written in a message without calls.
    pub(super) fn has_blocks_without_calls(self) -> bool {
        self.has_anthropic_members() && self.wire != Wire::Responses
    }

    /// Returns whether the text of a sealed block is written beside the block. Anthropic's models read
    /// the block alone.
    pub(super) fn repeats_sealed_text(self) -> bool {
        !self.has_anthropic_blocks()
    }

    /// Returns whether tool messages can have `is_error`.
    pub(super) fn has_error_flag(self) -> bool {
        matches!(self.wire, Wire::Chat | Wire::Messages) && self.has_anthropic_members()
    }

    /// Returns whether the request is one of the Messages API for another service than Anthropic's. That API
    /// joins the messages of a role, and its callers send many blocks where other services expect one text.
    pub(super) fn merges(self) -> bool {
        self.wire == Wire::Messages && !self.has_anthropic_blocks()
    }

    /// Returns the text between the texts of a message, if they become one.
    pub(super) fn separator(self, separator: &str) -> Option<&str> {
        self.merges().then_some(separator)
    }

    /// Returns the unknown members of an item that the provider receives. Those of the Messages API, such
    /// as the sources of a text, mean nothing to other services.
    pub(super) fn extra(self, extra: Object) -> Object {
        if self.merges() { Object::new() } else { extra }
    }

    /// Returns the unknown members of a call that the provider receives, as [`Self::extra`]. The signature
    /// that Gemini requires is one in any API.
    pub(super) fn call_extra(self, extra: Object) -> Object {
        if self.merges() { thought_signature::only(extra) } else { extra }
    }

    /// Adds a mark of Anthropic's cache.
    pub(super) fn mark(self, marked: &mut Object, cache_control: Option<Value>) {
        if self.has_anthropic_members() {
            marked.extend(cache_control.map(|mark| (CACHE_CONTROL.to_owned(), mark)));
        }
    }

    /// Returns a part of one API as it came. Fails if the provider does not know it.
    pub(super) fn native(self, part: NativeItem) -> Result<Object> {
        match part.wire {
            Wire::Chat => Ok(part.object),
            Wire::Messages if self.has_anthropic_blocks() => Ok(part.object),
            // Others have a counterpart.
            Wire::Messages if part.kind == "document" => Err(self.refused(
                "Only providers of kind 'anthropic' take a document with citations, with a context, or with \
                 blocks as its source.",
            )),
            _ => Err(self.unknown(part.kind)),
        }
    }

    /// Returns the error of an item or a part of another API.
    pub(super) fn unknown(self, kind: String) -> Untranslatable {
        let advice = "It has no counterpart in chat completions.";
        let error = Untranslatable::unsupported_value(&self.site.path(), &kind.into(), advice);
        self.site.locate(error)
    }

    /// Returns the error of content that has no form in chat. `advice` is a sentence.
    pub(super) fn refused(self, advice: &str) -> Untranslatable {
        self.site.unsupported(advice)
    }

    /// Fails if a request of the Messages API has an unknown member that another service than Anthropic's
    /// would receive: chat completions can have a member of the same name, such as one that lets the
    /// provider run tools.
    pub(super) fn check_extra(self, extra: &Object) -> Result<()> {
        match extra.keys().next() {
            Some(name) if self.merges() => Err(Untranslatable::unsupported_parameter(
                &Path::Member(&Path::Root, &excerpt(name)),
                "It has no counterpart in chat completions.",
            )),
            _ => Ok(()),
        }
    }
}
