//! Placeholders: names that stand for parts of a conversation in the requests to a model.
//!
//! ```text
//! "mail ann@example.com" ──guard names the part──▶ "mail [EMAIL_1]" ──model──▶ "[EMAIL_1]" ──▶ "ann@example.com"
//! ```
//!
//! Guards name the parts, and this table numbers them, because a guard keeps nothing from one hook to the next. The table
//! belongs to one request and is dropped with it. Originals leave it only in the texts that have them back: it has no form
//! for logs or records.
//!
//! A result of a tool can have the text `[EMAIL_1]`, such as in a link that the model follows. It is no placeholder: the
//! author of the result must not get the original. Such a text is quoted: it gets a placeholder of its own.
//!
//! The table is bounded. Parts for which it has no room get placeholders without a number, such as `[EMAIL]`, for good: the
//! model does not get them, and no text has them back.

use std::{collections::HashMap, fmt, ops::Range, sync::Arc};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use parking_lot::Mutex;
use serde::Deserialize;

/// Shortest original, in bytes. A shorter one would be found by accident in other words.
const MIN_ORIGINAL_BYTES: usize = 4;
/// Longest original, in bytes. A model can repeat the five bytes of a short placeholder as often as it likes, and each of
/// them becomes the original again: a text grows fifty times at most.
const MAX_ORIGINAL_BYTES: usize = 256;
/// Longest kind, in bytes: a guard chooses it, and each placeholder of the request repeats it.
const MAX_KIND_BYTES: usize = 24;
/// Longest text between the brackets of a placeholder, in bytes: a kind, `_`, and the ten digits of a number.
const MAX_NAME_BYTES: usize = MAX_KIND_BYTES + 11;
/// Maximum number of placeholders of originals in one request, and of those of quoted texts. A guard may find one in each
/// word, and the table stays as long as the request.
const MAX_PLACEHOLDERS: usize = 4_096;
/// Limit on all originals of one request, in bytes. With their names and tables they take less than 2 MB, and the search for
/// them some 20 times their bytes while it is used.
const MAX_BYTES: usize = 256 << 10;
/// Maximum memory of a search that is kept, in bytes. It stays as long as its request, which is not charged for it. A larger
/// one is built again for each use.
const MAX_KEPT_SEARCH: usize = 1 << 20;
/// The largest number. 8,192 are given at most. The others are those that texts have, which are kept in a set of 128 KiB at
/// most and not given. Hostile texts need 10 MB in one request to use them up, some five million tokens: more than the
/// context of common models.
const MAX_NUMBER: u32 = (1 << 20) - 1;
/// Shortest original that is hidden within words too, in bytes: a model can write a letter beside a placeholder. A shorter
/// one, such as a name, is a part of ordinary words.
const MIN_WITHIN_WORDS: usize = 8;
/// Bytes of a placeholder, about.
const NAME_BYTES: usize = 16;
/// Kind of the placeholders of texts that have the form of one.
const QUOTED: &str = "text";

/// A part of a text in whose place a placeholder is sent to the model.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlaceholderSpan {
    /// Place of its first byte.
    pub start: usize,
    /// Place after its last byte.
    pub end: usize,
    /// The kind of the part, such as `email`: at most 24 small letters and `_`, with a letter first and last.
    pub kind: String,
}

/// Error: a part of a text cannot have a placeholder. It does not show the part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PlaceholderError {
    /// A part is not within its text, or begins before the end of the one before.
    #[error("a part to hide is not within its text, or begins before the end of the one before")]
    Range,
    /// A part is too short or too long.
    #[error("a part to hide has less than {min} or more than {max} bytes", min = MIN_ORIGINAL_BYTES, max = MAX_ORIGINAL_BYTES)]
    Length,
    /// A part has a character that is written otherwise in JSON, that ends or changes a text in code, or that a
    /// placeholder has.
    #[error(
        "a part to hide has a quote, a backslash, a bracket, `{{`, `}}`, `$` or a control character"
    )]
    Character,
    /// A kind has another form.
    #[error("the kind of a part to hide is not made of at most {max} letters a to z and `_`", max = MAX_KIND_BYTES)]
    Kind,
}

/// The placeholders of one request, with what they stand for.
#[derive(Default)]
pub struct Placeholders(Mutex<PlaceholderTable>);

#[derive(Default)]
struct PlaceholderTable {
    /// Originals by their placeholders.
    originals: HashMap<Arc<str>, Arc<str>>,
    /// Placeholders by their originals.
    names: HashMap<Arc<str>, Arc<str>>,
    /// Placeholders of texts that have the form of one, by these.
    quoted: HashMap<Arc<str>, Arc<str>>,
    /// Bytes of all originals.
    bytes: usize,
    /// The last number that was given.
    last: u32,
    /// Numbers that are not given, because a text has them.
    reserved: NumberSet,
    /// Search for all originals; `None` until a text is searched, after an original was added, and if it takes more than
    /// [`MAX_KEPT_SEARCH`].
    search: Option<Arc<OriginalSearch>>,
}

impl Placeholders {
    /// Returns whether the request has no placeholders.
    pub fn is_empty(&self) -> bool {
        self.0.lock().names.is_empty()
    }

    /// Returns the bytes of all originals with their placeholders, about. A search for them may be built for each use of
    /// [`Self::hide`], which takes 40 ms or more for the largest table.
    pub fn bytes(&self) -> usize {
        let table = self.0.lock();
        table.bytes + table.names.len() * NAME_BYTES
    }

    /// Reserves the numbers in a text that the model reads and no guard sees, such as a definition of a tool, where it has
    /// the form of placeholders: no original takes the place of such a text.
    pub fn reserve(&self, text: &str) {
        let mut table = self.0.lock();
        for place in NamePlaces::new(text) {
            table.reserve(&text[place]);
        }
    }

    /// Returns a text of the request before parts of it are replaced, with placeholders in the places of what has the form
    /// of a known one; `None` if it has nothing of this form. Numbers that are not given yet are reserved.
    pub fn quoted(&self, text: &str) -> Option<String> {
        let mut table = self.0.lock();
        let mut quoted = String::new();
        let mut copied = 0;
        for place in NamePlaces::new(text) {
            let name = &text[place.clone()];
            if table.originals.contains_key(name) {
                quoted.push_str(&text[copied..place.start]);
                quoted.push_str(&table.quote(name));
                copied = place.end;
            } else {
                table.reserve(name);
            }
        }
        (copied > 0).then(|| quoted + &text[copied..])
    }

    /// Returns a text with placeholders in the places of its parts, which are in their order. The same part has the same
    /// placeholder in all texts of the request. If the request has too many originals, or no number is left, the placeholder
    /// of a further part has no number: it is not restored, and [`Self::hide`] does not find the part. Fails if a part cannot
    /// have a placeholder.
    pub fn replace(
        &self,
        text: &str,
        spans: &[PlaceholderSpan],
    ) -> Result<String, PlaceholderError> {
        let mut table = self.0.lock();
        let mut replaced = String::with_capacity(text.len());
        let mut copied = 0;
        for PlaceholderSpan { start, end, kind } in spans {
            let before = text.get(copied..*start).ok_or(PlaceholderError::Range)?;
            let original = text.get(*start..*end).ok_or(PlaceholderError::Range)?;
            check_original(original)?;
            check_kind(kind)?;
            replaced.push_str(before);
            replaced.push_str(&table.name_of(original, kind));
            copied = *end;
        }
        replaced.push_str(&text[copied..]);
        Ok(replaced)
    }

    /// Puts placeholders in the places of all originals that texts have: of short ones where they are words. Returns
    /// whether a text has changed. The model has seen none of the originals, so a text that quotes one must not show it.
    pub fn hide<'t>(&self, texts: impl IntoIterator<Item = &'t mut String>) -> bool {
        // The table is locked only while the search is built.
        let Some(search) = self.0.lock().search() else { return false };
        let mut is_changed = false;
        for text in texts {
            if let Some(hidden) = search.hidden(text) {
                *text = hidden;
                is_changed = true;
            }
        }
        is_changed
    }

    /// Returns a text with originals in the places of their placeholders; `None` if it has none.
    pub fn restored(&self, text: &str) -> Option<String> {
        let table = self.0.lock();
        let mut restored = String::new();
        let mut copied = 0;
        for place in NamePlaces::new(text) {
            if let Some(original) = table.originals.get(&text[place.clone()]) {
                restored.push_str(&text[copied..place.start]);
                restored.push_str(original);
                copied = place.end;
            }
        }
        (copied > 0).then(|| restored + &text[copied..])
    }

    /// Returns the length of the text that [`Self::restored`] would return, in bytes; 0 if it would return none.
    pub fn restored_bytes(&self, text: &str) -> usize {
        let table = self.0.lock();
        let mut bytes = text.len();
        let mut has_any = false;
        for place in NamePlaces::new(text) {
            if let Some(original) = table.originals.get(&text[place.clone()]) {
                bytes = bytes - place.len() + original.len();
                has_any = true;
            }
        }
        if has_any { bytes } else { 0 }
    }
}

/// Shows the number of placeholders alone.
impl fmt::Debug for Placeholders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.0.lock().names.len();
        f.debug_struct("Placeholders").field("count", &count).finish_non_exhaustive()
    }
}

impl PlaceholderTable {
    /// Returns the placeholder of an original, which gets one if it has none: one without a number if there are too many.
    fn name_of(&mut self, original: &str, kind: &str) -> Arc<str> {
        if let Some(name) = self.names.get(original) {
            return name.clone();
        }
        if self.names.len() >= MAX_PLACEHOLDERS || self.bytes + original.len() > MAX_BYTES {
            return unnumbered(kind);
        }
        let Some(name) = self.next_name(kind) else { return unnumbered(kind) };
        self.bytes += original.len();
        let original: Arc<str> = original.into();
        self.originals.insert(name.clone(), original.clone());
        self.names.insert(original, name.clone());
        self.search = None;
        name
    }

    /// Returns the search for all originals, which is built once after the last one was added unless it takes more than
    /// [`MAX_KEPT_SEARCH`]; `None` if there are none.
    fn search(&mut self) -> Option<Arc<OriginalSearch>> {
        if self.names.is_empty() || self.search.is_some() {
            return self.search.clone();
        }
        let built = Arc::new(OriginalSearch::new(&self.names));
        if built.words.memory_usage() <= MAX_KEPT_SEARCH {
            self.search = Some(built.clone());
        }
        Some(built)
    }

    /// Returns the placeholder of a text that has the form of a known one.
    fn quote(&mut self, text: &str) -> Arc<str> {
        if let Some(name) = self.quoted.get(text) {
            return name.clone();
        }
        if self.quoted.len() >= MAX_PLACEHOLDERS {
            return unnumbered(QUOTED);
        }
        let Some(name) = self.next_name(QUOTED) else { return unnumbered(QUOTED) };
        let text: Arc<str> = text.into();
        self.originals.insert(name.clone(), text.clone());
        self.quoted.insert(text, name.clone());
        name
    }

    /// Reserves the number of what has the form of a placeholder and is not one.
    fn reserve(&mut self, name: &str) {
        if !self.originals.contains_key(name)
            && let Some(number) = number_of(name)
            && number <= MAX_NUMBER
        {
            self.reserved.insert(number);
        }
    }

    /// Returns the next placeholder of a kind; `None` if no number is left.
    fn next_name(&mut self, kind: &str) -> Option<Arc<str>> {
        let mut free = self.last + 1..=MAX_NUMBER;
        let number = free.find(|number| !self.reserved.contains(*number));
        // If none is left, they are not searched again for each further text.
        self.last = number.unwrap_or(MAX_NUMBER);
        Some(format!("[{}_{}]", kind.to_ascii_uppercase(), number?).into())
    }
}

/// Returns the placeholder of a part for which no other one is left. A kind has no digit, so it is none in the table.
fn unnumbered(kind: &str) -> Arc<str> {
    format!("[{}]", kind.to_ascii_uppercase()).into()
}

/// Numbers of placeholders: a bit for each up to the largest one, and for as many further ones at most.
#[derive(Default)]
struct NumberSet(Vec<u64>);

impl NumberSet {
    /// Adds a number of at most [`MAX_NUMBER`].
    fn insert(&mut self, number: u32) {
        let (word, bit) = Self::place(number);
        if word >= self.0.len() {
            self.0.resize((word + 1).next_power_of_two(), 0);
        }
        self.0[word] |= bit;
    }

    fn contains(&self, number: u32) -> bool {
        let (word, bit) = Self::place(number);
        self.0.get(word).is_some_and(|bits| bits & bit != 0)
    }

    /// Returns the place of the word with the bit of a number, and this bit.
    fn place(number: u32) -> (usize, u64) {
        ((number / u64::BITS) as usize, 1 << (number % u64::BITS))
    }
}

/// Fails if a part of a text cannot have a placeholder. One that is written in JSON as it is in a text can be put back
/// into the arguments of a call without changing their form, and one without the quotes of code into a text in a script.
fn check_original(original: &str) -> Result<(), PlaceholderError> {
    if !(MIN_ORIGINAL_BYTES..=MAX_ORIGINAL_BYTES).contains(&original.len()) {
        return Err(PlaceholderError::Length);
    }
    if original.contains(is_special) {
        return Err(PlaceholderError::Character);
    }
    Ok(())
}

fn is_special(character: char) -> bool {
    character.is_control()
        || matches!(character, '"' | '\'' | '`' | '\\' | '[' | ']' | '{' | '}' | '$')
}

fn check_kind(kind: &str) -> Result<(), PlaceholderError> {
    let is_kind = (1..=MAX_KIND_BYTES).contains(&kind.len())
        && !kind.starts_with('_')
        && !kind.ends_with('_')
        && kind.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    if is_kind { Ok(()) } else { Err(PlaceholderError::Kind) }
}

/// Returns the number of what has the form of a placeholder; `None` if it has none.
fn number_of(name: &str) -> Option<u32> {
    let (_, number) = name.strip_suffix(']')?.rsplit_once('_')?;
    number.parse().ok()
}

/// Search for the originals of one request in texts.
struct OriginalSearch {
    /// The originals: of two at the same place, the longer one is found.
    words: AhoCorasick,
    /// The placeholder of each original, in the order of the patterns.
    names: Vec<Arc<str>>,
}

impl OriginalSearch {
    /// Builds the search for the originals in a table of their placeholders.
    fn new(names: &HashMap<Arc<str>, Arc<str>>) -> Self {
        // The search stays as long as the request: that of few originals would be a table of 1 KiB for each of their bytes.
        let built = AhoCorasick::builder()
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .match_kind(MatchKind::LeftmostLongest)
            .build(names.keys().map(|original| original.as_bytes()));
        let words = built.expect("all originals together are small");
        Self { words, names: names.values().cloned().collect() }
    }

    /// Returns a text with placeholders in the places of originals that it has, of short ones as words; `None` if it has
    /// none.
    fn hidden(&self, text: &str) -> Option<String> {
        let mut hidden = String::new();
        let mut copied = 0;
        for word in self.words.find_iter(text) {
            if word.len() >= MIN_WITHIN_WORDS || is_word(text.as_bytes(), word.range()) {
                hidden.push_str(&text[copied..word.start()]);
                hidden.push_str(&self.names[word.pattern().as_usize()]);
                copied = word.end();
            }
        }
        (copied > 0).then(|| hidden + &text[copied..])
    }
}

/// Returns whether no letter or digit is directly before or after a place. That of an escape, as in `\n` of JSON in a
/// text, is none.
fn is_word(text: &[u8], place: Range<usize>) -> bool {
    let is_begun = match &text[..place.start] {
        [] | [.., b'\\', b'b' | b'f' | b'n' | b'r' | b't'] => false,
        [.., before] => before.is_ascii_alphanumeric(),
    };
    !is_begun && text.get(place.end).is_none_or(|after| !after.is_ascii_alphanumeric())
}

/// Iterates over the places in a text that have the form of a placeholder, with their brackets.
struct NamePlaces<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> NamePlaces<'t> {
    fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }
}

impl Iterator for NamePlaces<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        loop {
            let start = self.at + self.text[self.at..].find('[')?;
            self.at = start + 1;
            let rest = &self.text.as_bytes()[self.at..];
            let name = rest.iter().take(MAX_NAME_BYTES).take_while(|byte| is_in_name(**byte));
            let end = self.at + name.count();
            if end > self.at && self.text.as_bytes().get(end) == Some(&b']') {
                self.at = end + 1;
                return Some(start..self.at);
            }
        }
    }
}

fn is_in_name(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_'
}

#[cfg(test)]
mod tests;
