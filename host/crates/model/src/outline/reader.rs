//! Reads an outline from the tokens of a text.
//!
//! The reader is at a place, which is an open array or object whose values it knows, and counts the open arrays and
//! objects below it that it does not read:
//!
//! ```text
//! Text ─ Completion ┬ Choices ─ Choice ─ Message ─ Calls
//!                   └ Usage ┬ InputDetails
//!                           └ OutputDetails
//! ```
//!
//! If a known member is repeated, or its value is not of the type that the API defines, the tree is needed.

use std::borrow::Cow;

use super::{ChoiceOutline, Outline, UsageMember, usage::TokenCounts};
use crate::work::counted;
use airlock_conversation::MAX_CHOICES;
use airlock_core::{model_calls::EXTENSION, model_control::ServiceTier};
use airlock_json::TokenSink;

/// Reads the outline of a chat completion, or of a chunk of one, from the tokens of its text.
pub(crate) struct OutlineReader {
    place: OutlinePlace,
    /// Number of the open arrays and objects below `place`, which are not read.
    unread: usize,
    /// The last key of `place`, if that is an object.
    member: OutlineMember,
    /// Bits of the members that were found in the open places.
    found: u16,
    /// True if only the tree says what the text has.
    needs_tree: bool,
    /// True if a choice has a `message`.
    has_message: bool,
    choices: Option<Vec<ChoiceOutline>>,
    /// The choice that is being read.
    choice: ChoiceOutline,
    usage: UsageMember,
    tier: Option<ServiceTier>,
    /// Tokens of the usage that is being read.
    counts: TokenCounts,
}

/// An array or object whose values are read.
#[derive(Clone, Copy)]
enum OutlinePlace {
    /// The text, before and after its value.
    Text,
    Completion,
    Choices,
    Choice,
    /// A `delta` or a `message`.
    Message,
    Calls,
    Usage,
    InputDetails,
    OutputDetails,
}

/// A member that is read. The first ones, to `ToolCalls`, may occur once; of the others, the last one counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum OutlineMember {
    Choices,
    Error,
    Object,
    Usage,
    /// The member that only the gateway may set.
    Own,
    Index,
    FinishReason,
    Delta,
    Message,
    ToolCalls,
    ServiceTier,
    InputTokens,
    OutputTokens,
    InputDetails,
    OutputDetails,
    /// Anthropic's name of the tokens from the cache.
    CacheReads,
    /// `DeepSeek`'s name of them.
    CacheHits,
    /// Of details: the tokens from the cache.
    Cached,
    /// Of details: the tokens of reasoning.
    Reasoning,
    Other,
}

/// Bits of the members of a choice.
const CHOICE_MEMBERS: u16 = OutlineMember::Index.bit()
    | OutlineMember::FinishReason.bit()
    | OutlineMember::Delta.bit()
    | OutlineMember::Message.bit();

impl Default for OutlineReader {
    fn default() -> Self {
        Self {
            place: OutlinePlace::Text,
            unread: 0,
            member: OutlineMember::Other,
            found: 0,
            needs_tree: false,
            has_message: false,
            choices: None,
            choice: ChoiceOutline::default(),
            usage: UsageMember::Absent,
            tier: None,
            counts: TokenCounts::default(),
        }
    }
}

impl OutlineReader {
    /// Returns the outline of a chunk. Returns `None` if its tree is needed: it has an error, a member that only the
    /// gateway may set or a `message`, repeats a member, or is not of the API.
    pub(crate) fn into_chunk(self) -> Option<Outline> {
        if self.has_message { None } else { self.into_outline() }
    }

    /// Returns the outline of a whole reply. Returns `None` if its tree is needed: as for a chunk, but for the
    /// `message`, or because it has no choices.
    pub(crate) fn into_whole(self) -> Option<Outline> {
        if self.choices.is_none() { None } else { self.into_outline() }
    }

    fn into_outline(self) -> Option<Outline> {
        let Self { needs_tree, choices, usage, tier, .. } = self;
        (!needs_tree).then(|| Outline { choices: choices.unwrap_or_default(), usage, tier })
    }

    /// Begins to read an array or object.
    fn enter(&mut self, place: OutlinePlace) {
        match place {
            OutlinePlace::Choices => self.choices = Some(Vec::new()),
            OutlinePlace::Choice => {
                let position = self.choices.as_ref().map_or(0, Vec::len);
                self.needs_tree |= position >= MAX_CHOICES;
                self.choice = ChoiceOutline { index: position as u64, ..ChoiceOutline::default() };
                self.found &= !CHOICE_MEMBERS;
            }
            OutlinePlace::Message => {
                self.has_message |= self.member == OutlineMember::Message;
                self.found &= !OutlineMember::ToolCalls.bit();
            }
            OutlinePlace::Usage => self.counts = TokenCounts::default(),
            OutlinePlace::InputDetails => self.counts.cached_input = None,
            OutlinePlace::OutputDetails => self.counts.reasoning_output = None,
            OutlinePlace::Text | OutlinePlace::Completion | OutlinePlace::Calls => {}
        }
        self.place = place;
    }

    /// Reads a value that is no place: the text of a scalar, or nothing for an array or object.
    fn value(&mut self, text: &[u8], has_escapes: bool) {
        match self.place {
            OutlinePlace::Text | OutlinePlace::Choices => self.needs_tree = true,
            OutlinePlace::Calls => self.choice.has_calls = true,
            OutlinePlace::Completion | OutlinePlace::Choice | OutlinePlace::Message => {
                self.member_of_reply(text, has_escapes);
            }
            OutlinePlace::Usage | OutlinePlace::InputDetails | OutlinePlace::OutputDetails => {
                self.member_of_usage(text);
            }
        }
    }

    fn member_of_reply(&mut self, text: &[u8], has_escapes: bool) {
        let is_null = text == b"null";
        match self.member {
            OutlineMember::Choices
            | OutlineMember::Error
            | OutlineMember::Delta
            | OutlineMember::Message
            | OutlineMember::ToolCalls => self.needs_tree |= !is_null,
            OutlineMember::Own => self.needs_tree = true,
            OutlineMember::Object => {
                let kind = content(text).map(|kind| resolved(kind, has_escapes));
                self.needs_tree |= kind.is_none_or(|kind| *kind == *b"error");
            }
            OutlineMember::Usage if is_null => self.usage = UsageMember::Null,
            OutlineMember::Usage => self.usage = UsageMember::Present(None),
            OutlineMember::Index => match count(text) {
                Some(index) => self.choice.index = index,
                None => self.needs_tree |= !is_null,
            },
            OutlineMember::FinishReason => {
                let reason = content(text);
                self.needs_tree |= reason.is_none() && !is_null;
                self.choice.has_ended = reason.is_some_and(|reason| !reason.is_empty());
            }
            OutlineMember::ServiceTier => {
                self.tier = content(text).and_then(|text| tier(&resolved(text, has_escapes)));
            }
            _ => {}
        }
    }

    fn member_of_usage(&mut self, text: &[u8]) {
        let counts = &mut self.counts;
        match self.member {
            OutlineMember::InputTokens => counts.input = count(text),
            OutlineMember::OutputTokens => counts.output = count(text),
            OutlineMember::CacheReads => counts.native_reads = count(text),
            OutlineMember::CacheHits => counts.cache_hits = count(text),
            OutlineMember::Cached => counts.cached_input = count(text),
            OutlineMember::Reasoning => counts.reasoning_output = count(text),
            OutlineMember::InputDetails => counts.cached_input = None,
            OutlineMember::OutputDetails => counts.reasoning_output = None,
            _ => {}
        }
    }
}

impl TokenSink for OutlineReader {
    fn key(&mut self, key: &[u8], has_escapes: bool) {
        if self.unread > 0 {
            return;
        }
        self.member = self.place.member(&resolved(key, has_escapes));
        if self.member <= OutlineMember::ToolCalls {
            let bit = self.member.bit();
            self.needs_tree |= self.found & bit != 0;
            self.found |= bit;
        }
    }

    fn scalar(&mut self, text: &[u8], has_escapes: bool, _at: usize) {
        if self.unread == 0 {
            self.value(text, has_escapes);
        }
    }

    fn open(&mut self, is_object: bool, _at: usize) {
        if self.unread == 0 {
            if let Some(place) = self.place.below(self.member, is_object) {
                return self.enter(place);
            }
            self.value(b"", false);
        }
        self.unread += 1;
    }

    fn close(&mut self, _end: usize) {
        if self.unread > 0 {
            self.unread -= 1;
            return;
        }
        match self.place {
            // Of a reply with too many, no more are kept.
            OutlinePlace::Choice if !self.needs_tree => {
                self.choices.get_or_insert_default().push(self.choice);
            }
            OutlinePlace::Usage => {
                self.usage = UsageMember::Present(counted(&self.counts.into()));
            }
            _ => {}
        }
        self.place = self.place.above();
    }
}

impl OutlinePlace {
    /// Returns the member of the place with this name.
    fn member(self, name: &[u8]) -> OutlineMember {
        match (self, name) {
            (Self::Completion, b"choices") => OutlineMember::Choices,
            (Self::Completion, b"error") => OutlineMember::Error,
            (Self::Completion, b"object") => OutlineMember::Object,
            (Self::Completion, b"usage") => OutlineMember::Usage,
            (Self::Completion, b"service_tier") => OutlineMember::ServiceTier,
            (Self::Completion, name) if name == EXTENSION.as_bytes() => OutlineMember::Own,
            (Self::Choice, b"index") => OutlineMember::Index,
            (Self::Choice, b"finish_reason") => OutlineMember::FinishReason,
            (Self::Choice, b"delta") => OutlineMember::Delta,
            (Self::Choice, b"message") => OutlineMember::Message,
            (Self::Message, b"tool_calls") => OutlineMember::ToolCalls,
            (Self::Usage, b"prompt_tokens") => OutlineMember::InputTokens,
            (Self::Usage, b"completion_tokens") => OutlineMember::OutputTokens,
            (Self::Usage, b"prompt_tokens_details") => OutlineMember::InputDetails,
            (Self::Usage, b"completion_tokens_details") => OutlineMember::OutputDetails,
            (Self::Usage, b"cache_read_input_tokens") => OutlineMember::CacheReads,
            (Self::Usage, b"prompt_cache_hit_tokens") => OutlineMember::CacheHits,
            (Self::InputDetails, b"cached_tokens") => OutlineMember::Cached,
            (Self::OutputDetails, b"reasoning_tokens") => OutlineMember::Reasoning,
            _ => OutlineMember::Other,
        }
    }

    /// Returns the place that an array or object in this one is, as the value of `member` if this one is an object;
    /// `None` if it is not read.
    fn below(self, member: OutlineMember, is_object: bool) -> Option<Self> {
        match (self, member, is_object) {
            (Self::Text, _, true) => Some(Self::Completion),
            (Self::Completion, OutlineMember::Choices, false) => Some(Self::Choices),
            (Self::Completion, OutlineMember::Usage, true) => Some(Self::Usage),
            (Self::Choices, _, true) => Some(Self::Choice),
            (Self::Choice, OutlineMember::Delta | OutlineMember::Message, true) => {
                Some(Self::Message)
            }
            (Self::Message, OutlineMember::ToolCalls, false) => Some(Self::Calls),
            (Self::Usage, OutlineMember::InputDetails, true) => Some(Self::InputDetails),
            (Self::Usage, OutlineMember::OutputDetails, true) => Some(Self::OutputDetails),
            _ => None,
        }
    }

    /// Returns the place in which this one is.
    fn above(self) -> Self {
        match self {
            Self::Text | Self::Completion => Self::Text,
            Self::Choices | Self::Usage => Self::Completion,
            Self::Choice => Self::Choices,
            Self::Message => Self::Choice,
            Self::Calls => Self::Message,
            Self::InputDetails | Self::OutputDetails => Self::Usage,
        }
    }
}

impl OutlineMember {
    /// Returns the bit of a member that may occur once.
    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// Returns the part of a string between its quotes, with its escapes; `None` if the text is of another value.
fn content(text: &[u8]) -> Option<&[u8]> {
    text.strip_prefix(b"\"")?.strip_suffix(b"\"")
}

/// Returns the part of a string between its quotes with its escapes resolved.
fn resolved(content: &[u8], has_escapes: bool) -> Cow<'_, [u8]> {
    if !has_escapes {
        return Cow::Borrowed(content);
    }
    let quoted = [b"\"".as_slice(), content, b"\""].concat();
    let text = serde_json::from_slice::<String>(&quoted).unwrap_or_default();
    Cow::Owned(text.into_bytes())
}

/// Returns the tier of service with this name.
fn tier(name: &[u8]) -> Option<ServiceTier> {
    ServiceTier::parse(std::str::from_utf8(name).ok()?)
}

/// Returns a number of tokens, or an index; `None` if the text is of another value. A number that is negative,
/// fractional or beyond 64 bits is none.
fn count(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
