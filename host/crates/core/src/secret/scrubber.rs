//! Takes secrets out of texts.
//!
//! It catches accidents: a token in an error message, a URL in a log line. It is no wall against a
//! guest that was shown a secret and means to smuggle it out; only not showing it is. And it sees
//! one text at a time: whoever cuts texts scrubs them first, since of a secret that was cut it
//! finds nothing ([`Scrubber::cut`]).

use std::{borrow::Cow, cmp::Reverse, fmt};

use aho_corasick::{
    Anchored, Input,
    automaton::{Automaton as _, StateID},
    nfa::contiguous::NFA,
};

use super::{MIN_BYTES, Secret, escapes::Escapes, forms};
use crate::text::{self, cut};

/// From this length on, in bytes, a secret is looked for in all its forms. The forms of a shorter
/// one would be found where nobody put it: four characters of base64 stand in every picture.
pub const LONG_BYTES: usize = 8;

/// Why there is no scrubber.
#[derive(Debug, thiserror::Error)]
pub enum BadSecret {
    /// A value is too short to be told from other text.
    #[error("the secret {name} has fewer than {MIN_BYTES} bytes")]
    TooShort {
        /// The secret's name.
        name: String,
    },
    /// All values together are too much.
    #[error("the secrets are too many or too long")]
    TooMuch(#[source] aho_corasick::BuildError),
}

/// Finds secrets in texts, as they are and in the forms in which they usually leak, and puts
/// `[secret NAME]` in their place.
///
/// The forms are base64 (both alphabets, with and without padding, alone or amid other data),
/// hexadecimal in any case, percent-encoding, form-encoding and the escapes of JSON strings, also
/// of one another where that happens: base64 in a URL. Values of [`MIN_BYTES`] up to [`LONG_BYTES`]
/// are found only as they are.
///
/// Without secrets it does nothing at all, and where it finds none it copies nothing.
#[derive(Default)]
pub struct Scrubber(Option<Inner>);

struct Inner {
    /// What takes the place of each secret.
    markers: Vec<String>,
    /// Values as they are, and their base64.
    texts: Patterns,
    /// Values in hexadecimal, in any case.
    hex: Patterns,
    /// Values that are numbers, and whose they are.
    numbers: Vec<(String, usize)>,
    /// Whether a form's `+` could stand for a space of a secret.
    has_space: bool,
}

struct Patterns {
    nfa: NFA,
    start: StateID,
    owners: Vec<Owner>,
}

#[derive(Clone, Copy)]
struct Owner {
    /// The secret's place among the markers.
    secret: usize,
    /// Whether it is looked for behind escapes.
    is_long: bool,
}

/// A place where a secret is.
struct Hit {
    start: usize,
    end: usize,
    secret: usize,
}

impl Scrubber {
    /// Learns secrets by name. Of two with the same value, the first gives its name.
    pub fn new<'a>(
        secrets: impl IntoIterator<Item = (&'a str, &'a Secret)>,
    ) -> Result<Self, BadSecret> {
        let secrets: Vec<(&str, &str)> =
            secrets.into_iter().map(|(name, secret)| (name, secret.expose())).collect();
        if let Some((name, _)) = secrets.iter().find(|(_, value)| value.len() < MIN_BYTES) {
            return Err(BadSecret::TooShort { name: (*name).to_owned() });
        }
        if secrets.is_empty() {
            return Ok(Self(None));
        }
        let numbered = || secrets.iter().enumerate().map(|(secret, (_, value))| (secret, *value));
        let mut texts = Vec::new();
        let mut hex = Vec::new();
        for (secret, value) in numbered() {
            let is_long = value.len() >= LONG_BYTES;
            let owner = Owner { secret, is_long };
            texts.push((owner, value.to_owned()));
            if is_long {
                texts.extend(forms::base64(value.as_bytes()).into_iter().map(|form| (owner, form)));
                hex.push((owner, text::hex(value.as_bytes())));
            }
        }
        let is_number = |value: &str| value.parse::<serde_json::Number>().is_ok();
        Ok(Self(Some(Inner {
            markers: markers(&secrets),
            texts: Patterns::new(texts, false)?,
            hex: Patterns::new(hex, true)?,
            numbers: numbered()
                .filter(|(_, value)| is_number(value))
                .map(|(secret, value)| (value.to_owned(), secret))
                .collect(),
            has_space: secrets.iter().any(|(_, value)| value.contains(' ')),
        })))
    }

    /// Whether there is nothing to look for.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// A text without secrets: the same one where there are none.
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let Some(inner) = &self.0 else { return Cow::Borrowed(text) };
        let hits = inner.hits(text.as_bytes());
        if hits.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(inner.replace(text, hits)) }
    }

    /// A text without secrets, cut to at most `limit_bytes` and marked if it was longer.
    pub fn cut(&self, text: &str, limit_bytes: usize) -> String {
        cut(self.text(text).into_owned(), limit_bytes)
    }

    /// Takes secrets out of a text; answers whether there were any.
    pub fn string(&self, text: &mut String) -> bool {
        let Cow::Owned(scrubbed) = self.text(text) else { return false };
        *text = scrubbed;
        true
    }

    /// What stands for a secret that is somewhere in these bytes.
    pub(super) fn find(&self, bytes: &[u8]) -> Option<&str> {
        let inner = self.0.as_ref()?;
        inner.hits(bytes).first().map(|hit| inner.markers[hit.secret].as_str())
    }

    /// What stands for the secret that is this number, digit by digit.
    pub(super) fn number(&self, number: &serde_json::Number) -> Option<&str> {
        let inner = self.0.as_ref().filter(|inner| !inner.numbers.is_empty())?;
        let digits = number.to_string();
        let (_, secret) = inner.numbers.iter().find(|(value, _)| *value == digits)?;
        Some(&inner.markers[*secret])
    }
}

/// What takes the place of each secret. It must not hold one itself, as it would for a password
/// that is its own name.
fn markers(secrets: &[(&str, &str)]) -> Vec<String> {
    let is_safe = |marker: &String| !secrets.iter().any(|(_, value)| marker.contains(value));
    let marker = |name: &str| {
        // The last has fewer bytes than any secret.
        [format!("[secret {name}]"), "[secret]".to_owned()]
            .into_iter()
            .find(is_safe)
            .unwrap_or_else(|| "***".to_owned())
    };
    secrets.iter().map(|(name, _)| marker(name)).collect()
}

impl Inner {
    /// Where secrets are, in no order. Nothing found is nothing allocated.
    fn hits(&self, bytes: &[u8]) -> Vec<Hit> {
        let mut hits = Vec::new();
        self.texts.find(bytes, &mut hits);
        self.hex.find(bytes, &mut hits);
        for escapes in Escapes::ALL {
            let may_occur = escapes != Escapes::Form || self.has_space;
            if may_occur && escapes.occur_in(bytes) && self.texts.occur_behind(escapes, bytes) {
                self.texts.find_behind(escapes, bytes, &mut hits);
            }
        }
        hits
    }

    /// Puts markers where the hits are. Where several touch, each secret is named once; one inside
    /// another is not named.
    fn replace(&self, text: &str, mut hits: Vec<Hit>) -> String {
        hits.sort_unstable_by_key(|hit| (hit.start, Reverse(hit.end), hit.secret));
        let mut scrubbed = String::with_capacity(text.len());
        let mut named = Vec::new();
        let mut end = 0;
        for hit in hits {
            let start = text.floor_char_boundary(hit.start);
            if start > end {
                scrubbed.push_str(&text[end..start]);
                named.clear();
            }
            let until = text.ceil_char_boundary(hit.end);
            if until > end {
                end = until;
                if !named.contains(&hit.secret) {
                    named.push(hit.secret);
                    scrubbed.push_str(&self.markers[hit.secret]);
                }
            }
        }
        scrubbed.push_str(&text[end..]);
        scrubbed
    }
}

impl Patterns {
    fn new(patterns: Vec<(Owner, String)>, in_any_case: bool) -> Result<Self, BadSecret> {
        let (owners, patterns): (Vec<_>, Vec<_>) = patterns.into_iter().unzip();
        let nfa = NFA::builder()
            .ascii_case_insensitive(in_any_case)
            .build(patterns)
            .map_err(BadSecret::TooMuch)?;
        let start = nfa.start_state(Anchored::No).expect("this automaton searches unanchored");
        Ok(Self { nfa, start, owners })
    }

    /// Finds the patterns as they are, those that overlap included.
    fn find(&self, bytes: &[u8], hits: &mut Vec<Hit>) {
        let found = self
            .nfa
            .try_find_overlapping_iter(Input::new(bytes))
            .expect("this automaton searches for overlaps");
        for hit in found {
            push(
                hits,
                Hit {
                    start: hit.start(),
                    end: hit.end(),
                    secret: self.owners[hit.pattern()].secret,
                },
            );
        }
    }

    /// Whether any pattern is in what the bytes mean.
    fn occur_behind(&self, escapes: Escapes, bytes: &[u8]) -> bool {
        let mut state = self.start;
        escapes.read(bytes).any(|piece| {
            piece.meaning().iter().any(|byte| {
                state = self.nfa.next_state(Anchored::No, state, *byte);
                self.nfa.is_match(state)
            })
        })
    }

    /// Finds the patterns in what the bytes mean, and where that is written.
    fn find_behind(&self, escapes: Escapes, bytes: &[u8], hits: &mut Vec<Hit>) {
        // Where each of the last bytes that were meant begins: as many as the longest pattern has.
        let longest = self.nfa.max_pattern_len();
        let mut starts = vec![0; longest];
        let mut state = self.start;
        let mut read = 0;
        for piece in escapes.read(bytes) {
            for byte in piece.meaning() {
                starts[read % longest] = piece.start;
                read += 1;
                state = self.nfa.next_state(Anchored::No, state, *byte);
                let matches = if self.nfa.is_match(state) { self.nfa.match_len(state) } else { 0 };
                for pattern in (0..matches).map(|index| self.nfa.match_pattern(state, index)) {
                    let owner = self.owners[pattern];
                    if owner.is_long {
                        let start = starts[(read - self.nfa.pattern_len(pattern)) % longest];
                        push(hits, Hit { start, end: piece.end, secret: owner.secret });
                    }
                }
            }
        }
    }
}

/// Adds a hit, or lengthens the last: a value that repeats itself would be found at every byte.
fn push(hits: &mut Vec<Hit>, hit: Hit) {
    match hits.last_mut() {
        Some(last) if last.secret == hit.secret && (last.start..=last.end).contains(&hit.start) => {
            last.end = last.end.max(hit.end);
        }
        _ => hits.push(hit),
    }
}

impl fmt::Debug for Scrubber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secrets = self.0.as_ref().map_or(0, |inner| inner.markers.len());
        f.debug_struct("Scrubber").field("secrets", &secrets).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
