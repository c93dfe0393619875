//! JSON objects of a provider, with their exact text for as long as nothing in them is changed.

use std::{borrow::Cow, sync::OnceLock};

use serde_json::{Map, Value};

use super::{
    outline::{ChoiceOutline, Outline, OutlineReader, UsageMember},
    work::counted,
};
use airlock_conversation::{Object, chat};
use airlock_core::{
    memory::Charge,
    model_calls::EXTENSION,
    model_control::{ServiceTier, TokenUsage},
    threads::INLINE_BYTES,
};
use airlock_json::{self as json, Caps, TokenSink, raw, weight::object_weight};
use airlock_strings::line_end;

/// Memory of a document, in bytes, up to which it is not charged: the base charge of its request
/// covers it. A stream has few documents in memory at a time.
pub(super) const FREE_BYTES: usize = 16 << 10;

/// Member with the tokens.
const USAGE: &str = "usage";
/// Member that names the tier of service.
pub(super) const SERVICE_TIER: &str = "service_tier";
/// Maximum length of a text in the [`head`] of a stream, in bytes. It is copied into every chunk.
const HEAD_BYTES: usize = 256;
/// Maximum length of such a text as JSON, in bytes: an escape takes six for one.
const MAX_HEAD_TEXT: usize = 6 * HEAD_BYTES + 2;

/// A JSON object and the text that it was read from. An object that is not changed is sent as that
/// text, so numbers and escapes stay as the provider wrote them. A changed one is written anew, and
/// its numbers keep the digits of a 64-bit integer or a double.
///
/// The tree of a short chat completion, or of a chunk of one, is built when it is first read: a text that is
/// passed on needs none.
#[derive(Debug)]
pub struct Document(Box<DocumentParts>);

/// The parts of a document. Boxed together, because a document is moved through the futures of all steps that pass it on.
#[derive(Debug)]
struct DocumentParts {
    /// The tree, unless it was not needed yet. It is there if the text is not.
    object: OnceLock<Object>,
    text: Option<String>,
    /// Outline of a chat completion or of a chunk of one, while nothing in it is changed. `None` if only the
    /// tree says what it has.
    outline: Option<Outline>,
    /// Memory of the tree, or an estimate, in bytes.
    tree_bytes: usize,
    held: Option<Charge>,
}

/// Reason that a text was not read.
#[derive(Debug)]
pub enum BadDocument {
    /// Its tree would take more memory than permitted.
    Dense(json::Error),
    /// The memory of the request has no room for it.
    NoMemory,
    /// It is not a JSON object.
    NoObject,
}

impl Document {
    /// Reads an object, without the member [`EXTENSION`]. If its text and tree take more than
    /// [`FREE_BYTES`], their memory is held until the document is dropped. Fails if the text is not
    /// an object, if its tree would exceed `caps`, or if the memory has no room for it.
    pub fn read(text: String, caps: &Caps, held: &Charge) -> Result<Self, BadDocument> {
        Self::checked(text, caps, held, &mut ())?.with_tree()
    }

    /// Reads a chunk of a chat completion as [`read`](Self::read) does, and builds its tree when it is first
    /// needed. The memory is held as if it were there.
    pub fn read_chunk(text: String, caps: &Caps, held: &Charge) -> Result<Self, BadDocument> {
        let mut outline = OutlineReader::default();
        Self::checked(text, caps, held, &mut outline)?.outlined(outline.into_chunk())
    }

    /// Reads a whole chat completion as [`read_chunk`](Self::read_chunk) reads a chunk.
    pub fn read_completion(text: String, caps: &Caps, held: &Charge) -> Result<Self, BadDocument> {
        let mut outline = OutlineReader::default();
        Self::checked(text, caps, held, &mut outline)?.outlined(outline.into_whole())
    }

    /// Returns a document whose text is JSON within `caps`, without its tree. Hands its tokens to `sink`.
    fn checked(
        text: String,
        caps: &Caps,
        held: &Charge,
        sink: &mut impl TokenSink,
    ) -> Result<Self, BadDocument> {
        let cost = match json::check_with(text.as_bytes(), caps, sink) {
            Ok(cost) => cost,
            Err(error) if error.is_cap() => return Err(BadDocument::Dense(error)),
            Err(_) => return Err(BadDocument::NoObject),
        };
        let mut this = Self(Box::new(DocumentParts {
            object: OnceLock::new(),
            text: Some(text),
            outline: None,
            tree_bytes: cost.tree_bytes,
            held: None,
        }));
        if this.bytes() > FREE_BYTES && !this.keep(held) {
            return Err(BadDocument::NoMemory);
        }
        Ok(this)
    }

    /// Builds the tree.
    fn with_tree(mut self) -> Result<Self, BadDocument> {
        let text = self.0.text.as_deref().unwrap_or_default();
        let object = serde_json::from_str::<Object>(text).map_err(|_| BadDocument::NoObject)?;
        self.0.object = OnceLock::from(object);
        self.remove_own();
        Ok(self)
    }

    /// Sets the outline. A document without one gets its tree, and so does a long one: it is read on a thread
    /// for such work, and its tree could be needed anywhere.
    fn outlined(mut self, outline: Option<Outline>) -> Result<Self, BadDocument> {
        let text = self.0.text.as_deref().unwrap_or_default();
        // A caller could read another one of two members of one name than the loop did.
        let is_ambiguous = outline.is_none() && json::check_unique_keys(text).is_err();
        if outline.is_none() || text.len() > INLINE_BYTES {
            self = self.with_tree()?;
        }
        if is_ambiguous {
            self.0.text = None;
        }
        self.0.outline = outline;
        Ok(self)
    }

    /// Holds the memory of the document, even below [`FREE_BYTES`], because it is kept for longer.
    /// Returns false if there is no room.
    pub fn keep(&mut self, held: &Charge) -> bool {
        if self.0.held.is_none() {
            let own = held.beside();
            if !own.grow(self.bytes()) {
                return false;
            }
            self.0.held = Some(own);
        }
        true
    }

    /// Removes [`EXTENSION`], which only the gateway may set, from the object and its `error`.
    fn remove_own(&mut self) {
        let error = self.object().get("error");
        if error.is_some_and(|error| error.get(EXTENSION).is_some()) {
            let error = self.object_mut().get_mut("error").and_then(Value::as_object_mut);
            error.and_then(|error| error.shift_remove(EXTENSION));
        }
        if self.object().contains_key(EXTENSION) {
            self.object_mut().shift_remove(EXTENSION);
        }
    }

    /// Returns the memory of the text and the tree, in bytes.
    pub fn bytes(&self) -> usize {
        let text = self.0.text.as_ref().map_or(0, String::len);
        self.0.tree_bytes.saturating_add(text)
    }

    /// Returns the bytes of the text; of a document that was changed, those of its tree.
    pub(super) fn text_bytes(&self) -> usize {
        self.0.text.as_ref().map_or(self.0.tree_bytes, String::len)
    }

    /// Returns the object.
    pub fn object(&self) -> &Object {
        self.0.object.get_or_init(|| tree_of(self.0.text.as_deref()))
    }

    /// Returns the object for a change. The original text is dropped, and the document is written
    /// from the object.
    pub fn object_mut(&mut self) -> &mut Object {
        self.object();
        self.0.outline = None;
        self.0.text = None;
        self.tree_mut()
    }

    fn tree_mut(&mut self) -> &mut Object {
        self.0.object.get_mut().expect("it was read")
    }

    /// Returns the object. The memory that the document holds is released.
    pub fn into_object(self) -> Object {
        self.into_parts().0
    }

    /// Returns the memory that the document holds.
    pub fn into_charge(self) -> Option<Charge> {
        self.0.held
    }

    /// Returns whether the document is long and cannot stay beside its tree without a second one: without its
    /// text the tree would be copied, and without an outline the text read again.
    pub(super) fn needs_second_tree(&self) -> bool {
        (self.0.text.is_none() || self.0.outline.is_none()) && self.bytes() > FREE_BYTES
    }

    /// Takes the tree. The text stays; without one, the tree is copied.
    pub(super) fn take_tree(&mut self) -> Object {
        match &self.0.text {
            Some(text) => self.0.object.take().unwrap_or_else(|| tree_of(Some(text))),
            None => self.object().clone(),
        }
    }

    /// Returns the number of calls in all choices of a whole response, without copying them.
    pub(super) fn calls(&self) -> usize {
        if !self.has_calls() {
            return 0;
        }
        let calls = choices(self.object());
        let calls = calls.filter_map(|choice| choice.get("message")?.get("tool_calls")?.as_array());
        calls.map(Vec::len).sum()
    }

    /// Returns whether this is a chunk with a `usage` other than null and without a choice.
    pub(super) fn is_usage(&self) -> bool {
        if let Some(Outline { choices, usage, .. }) = &self.0.outline {
            return choices.is_empty() && matches!(usage, UsageMember::Present(_));
        }
        let has_usage = self.object().get(USAGE).is_some_and(|usage| !usage.is_null());
        has_usage && choices(self.object()).next().is_none()
    }

    /// Removes a `usage` of null, and nothing else of the text.
    pub(super) fn remove_null_usage(&mut self) {
        if let (Some(outline), Some(text)) = (&mut self.0.outline, &mut self.0.text) {
            if outline.usage == UsageMember::Null {
                raw::remove_member(text, USAGE);
                outline.usage = UsageMember::Absent;
                if let Some(object) = self.0.object.get_mut() {
                    object.shift_remove(USAGE);
                }
            }
        } else if self.object().get(USAGE).is_some_and(Value::is_null) {
            self.object_mut().shift_remove(USAGE);
        }
    }

    /// Returns the outlines of the choices; `None` if only the tree has them.
    pub(super) fn outlines(&self) -> Option<&[ChoiceOutline]> {
        self.0.outline.as_ref().map(|outline| outline.choices.as_slice())
    }

    /// Returns whether a choice has calls, or another value in their place.
    pub(super) fn has_calls(&self) -> bool {
        match &self.0.outline {
            Some(outline) => outline.has_calls(),
            None => choices(self.object()).any(has_calls),
        }
    }

    /// Returns whether a choice has a `finish_reason`.
    pub(super) fn has_end(&self) -> bool {
        match &self.0.outline {
            Some(outline) => outline.has_end(),
            None => choices(self.object()).any(|choice| finish_reason(choice).is_some()),
        }
    }

    /// Returns the indices of the choices.
    pub(super) fn indices(&self) -> Vec<u64> {
        if let Some(outline) = &self.0.outline {
            return outline.choices.iter().map(|choice| choice.index).collect();
        }
        let choices = choices(self.object()).enumerate();
        choices.map(|(position, choice)| index_of(choice, position)).collect()
    }

    /// Returns the `usage`; `None` if there is none.
    pub fn usage(&self) -> Option<Cow<'_, Value>> {
        match (self.0.object.get(), &self.0.text) {
            (None, Some(text)) => {
                serde_json::from_str(raw::member(text, USAGE)?).ok().map(Cow::Owned)
            }
            _ => self.object().get(USAGE).map(Cow::Borrowed),
        }
    }

    /// Returns the tokens of the `usage`; `None` if it tells none.
    pub(super) fn tokens(&self) -> Option<TokenUsage> {
        match &self.0.outline {
            Some(Outline { usage: UsageMember::Present(tokens), .. }) => *tokens,
            Some(_) => None,
            None => {
                let usage = self.object().get(USAGE)?.as_object().cloned()?;
                counted(&chat::read_usage(usage))
            }
        }
    }

    /// Returns the tier of service; `None` if it names none that prices know.
    pub(super) fn tier(&self) -> Option<ServiceTier> {
        match &self.0.outline {
            Some(outline) => outline.tier,
            None => ServiceTier::parse(self.object().get(SERVICE_TIER)?.as_str()?),
        }
    }

    /// Returns the name of the model; `None` if there is none, or a long one.
    pub(super) fn model(&self) -> Option<String> {
        let model = match (self.0.object.get(), &self.0.text) {
            (None, Some(text)) => raw::member(text, "model").and_then(raw::string)?,
            _ => Cow::Borrowed(self.object().get("model")?.as_str()?),
        };
        let is_name = (1..=HEAD_BYTES).contains(&model.len());
        is_name.then(|| model.into_owned())
    }

    /// Returns the members that all chunks of a stream share.
    pub fn head(&self) -> Object {
        match (self.0.object.get(), &self.0.text) {
            (None, Some(text)) => head_of_text(text),
            _ => head(self.object()),
        }
    }

    /// Returns the object, with the memory that the document holds.
    pub(super) fn into_parts(self) -> (Object, Option<Charge>) {
        let DocumentParts { object, text, held, .. } = *self.0;
        (object.into_inner().unwrap_or_else(|| tree_of(text.as_deref())), held)
    }

    /// Returns the text: the one that was read, or the JSON of the object if it was changed.
    pub fn to_text(&self) -> String {
        self.0.text.clone().unwrap_or_else(|| to_text(self.object()))
    }

    /// Returns the text like [`Self::to_text`], without a copy.
    pub fn into_text(self) -> String {
        let DocumentParts { text, object, .. } = *self.0;
        text.unwrap_or_else(|| object.get().map(to_text).unwrap_or_default())
    }

    /// Returns the text on one line, as a server-sent event needs it. If the text that was read has
    /// several lines, the object is written anew.
    pub fn into_line(self) -> String {
        let DocumentParts { text, object, .. } = *self.0;
        match text {
            Some(text) if line_end(text.as_bytes()).is_none() => text,
            text => to_text(&object.into_inner().unwrap_or_else(|| tree_of(text.as_deref()))),
        }
    }

    /// Returns whether the document has its original text.
    pub fn is_exact(&self) -> bool {
        self.0.text.is_some()
    }
}

impl From<Object> for Document {
    fn from(object: Object) -> Self {
        let tree_bytes = object_weight(&object);
        let object = OnceLock::from(object);
        Self(Box::new(DocumentParts { object, text: None, outline: None, tree_bytes, held: None }))
    }
}

/// Returns the tree of a text that was checked.
fn tree_of(text: Option<&str>) -> Object {
    let text = text.expect("a document has its text or its tree");
    serde_json::from_str(text).expect("it was checked, and its outline is that of an object")
}

fn to_text(object: &Object) -> String {
    serde_json::to_string(object).expect("an object can be written")
}

/// Returns the members that all chunks of a stream share.
pub fn head(chunk: &Object) -> Object {
    let head = chunk.iter().filter(|(name, value)| {
        let length = value.as_str().map_or(0, str::len);
        is_of_head(name) && (value.is_string() || value.is_number()) && length <= HEAD_BYTES
    });
    head.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Returns the [`head`] of a chunk from its text.
fn head_of_text(text: &str) -> Object {
    let members = raw::members(text).into_iter().flatten();
    let short = members.filter(|(name, value)| is_of_head(name) && value.len() <= MAX_HEAD_TEXT);
    let parsed = short
        .filter_map(|(name, value)| Some((name.into_owned(), serde_json::from_str(value).ok()?)));
    head(&parsed.collect())
}

fn is_of_head(name: &str) -> bool {
    matches!(name, "id" | "object" | "created" | "model")
}

/// Iterates over the choices of a response or of a chunk.
pub fn choices(object: &Object) -> impl Iterator<Item = &Object> {
    object
        .get("choices")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_object)
}

fn has_calls(choice: &Object) -> bool {
    let messages = ["delta", "message"].into_iter().filter_map(|name| choice.get(name));
    let mut calls = messages.filter_map(|message| message.get("tool_calls"));
    calls.any(|calls| !calls.is_null() && calls.as_array().is_none_or(|calls| !calls.is_empty()))
}

/// Iterates over the choices, for changes.
pub(crate) fn choices_mut(object: &mut Object) -> impl Iterator<Item = &mut Object> {
    let choices = object.get_mut("choices").and_then(Value::as_array_mut);
    choices.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Returns the `index` of a choice; its position if it has none.
pub fn index_of(choice: &Map<String, Value>, position: usize) -> u64 {
    choice.get("index").and_then(Value::as_u64).unwrap_or(position as u64)
}

/// Returns the `finish_reason` of a choice; `None` if it has not ended. Some servers send an empty
/// one until then.
pub fn finish_reason(choice: &Map<String, Value>) -> Option<&str> {
    choice.get("finish_reason").and_then(Value::as_str).filter(|reason| !reason.is_empty())
}

#[cfg(test)]
mod tests;
