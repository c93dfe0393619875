//! Redaction of secrets in texts.
//!
//! Redaction catches accidents: a token in an error message, a URL in a log line. It does not stop
//! a guest that knows a secret and wants to exfiltrate it; the only protection is not to give the
//! secret to the guest. Each text is searched separately. A text must be redacted before it is cut
//! or put on one line, because a part of a secret is not found, and neither is a secret whose line
//! ends were replaced ([`Scrubber::cut`], [`Scrubber::line`]).

use std::{borrow::Cow, cmp::Reverse, fmt};

use aho_corasick::{
    Anchored, Input,
    automaton::{Automaton as _, StateID},
    nfa::contiguous::NFA,
};

use super::{MIN_BYTES, Secret, escapes::Escapes, forms};
use airlock_strings::{self as text, cut, one_line};

/// The shortest secret, in bytes, that is searched for in all its forms. The forms of a shorter one
/// would match by accident: any four characters of base64 occur in every image.
pub const LONG_BYTES: usize = 8;

/// Reason why a scrubber cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum BadSecret {
    /// A value is shorter than [`MIN_BYTES`], so it would match in other text.
    #[error("the secret {name} has fewer than {MIN_BYTES} bytes")]
    TooShort {
        /// The secret's name.
        name: String,
    },
    /// All values together are too large for the search automaton.
    #[error("there are too many secrets, or they are too long")]
    TooMuch(#[source] aho_corasick::BuildError),
}

/// Finds secrets in texts, in plain and in the forms in which they usually leak, and replaces them
/// by `[secret NAME]`.
///
/// The forms are base64 (both alphabets, with and without padding, alone or inside other encoded
/// data), hexadecimal in any case, percent-encoding, form-encoding and the escapes of JSON strings.
/// Base64 with such escapes, as in a URL, is found too. A value of at least [`MIN_BYTES`] and less
/// than [`LONG_BYTES`] is found only in plain.
///
/// A scrubber without secrets does nothing. A text without secrets is not copied.
#[derive(Default)]
pub struct Scrubber(Option<SecretPatterns>);

struct SecretPatterns {
    /// Replacement text of each secret.
    markers: Vec<String>,
    /// Patterns of the plain values and their base64.
    texts: PatternSet,
    /// Patterns of the values in hexadecimal, in any case.
    hex: PatternSet,
    /// Values that are JSON numbers, with the index of the secret.
    numbers: Vec<(String, usize)>,
    /// True if a secret has a space, which form-encoding writes as `+`.
    has_space: bool,
}

struct PatternSet {
    nfa: NFA,
    start: StateID,
    owners: Vec<SecretOwner>,
}

#[derive(Clone, Copy)]
struct SecretOwner {
    /// Index of the secret's marker.
    secret: usize,
    /// True if the secret is also searched for in escaped text.
    is_long: bool,
}

/// A range of bytes that holds a secret.
struct SecretRange {
    start: usize,
    end: usize,
    secret: usize,
}

impl Scrubber {
    /// Builds a scrubber for secrets with names. If two have the same value, the marker has the
    /// name of the first. Fails if a value is too short, or if all together are too large.
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
        let mut texts = Vec::new();
        let mut hex = Vec::new();
        for (secret, &(_, value)) in secrets.iter().enumerate() {
            let is_long = value.len() >= LONG_BYTES;
            let owner = SecretOwner { secret, is_long };
            texts.push((owner, value.to_owned()));
            if is_long {
                texts.extend(forms::base64(value.as_bytes()).into_iter().map(|form| (owner, form)));
                hex.push((owner, text::hex(value.as_bytes())));
            }
        }
        Ok(Self(Some(SecretPatterns {
            markers: markers(&secrets),
            texts: PatternSet::new(texts, false)?,
            hex: PatternSet::new(hex, true)?,
            numbers: secrets
                .iter()
                .enumerate()
                .filter(|(_, (_, value))| value.parse::<serde_json::Number>().is_ok())
                .map(|(secret, (_, value))| ((*value).to_owned(), secret))
                .collect(),
            has_space: secrets.iter().any(|(_, value)| value.contains(' ')),
        })))
    }

    /// Returns whether the scrubber has no secrets.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Redacts secrets in a text. Borrows the text if it has none.
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let Some(inner) = &self.0 else { return Cow::Borrowed(text) };
        let hits = inner.hits(text.as_bytes());
        if hits.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(inner.replace(text, hits)) }
    }

    /// Redacts secrets in a text, then cuts it to at most `limit_bytes`. A cut text ends with `…`.
    pub fn cut(&self, text: &str, limit_bytes: usize) -> String {
        cut(self.text(text).into_owned(), limit_bytes)
    }

    /// Redacts secrets in a text, puts it on one line without control characters, then cuts it to
    /// at most `limit_bytes`. A cut line ends with `…`. Only the first four times
    /// `limit_bytes` of the redacted text are used.
    pub fn line(&self, text: &str, limit_bytes: usize) -> String {
        let redacted = self.text(text);
        let used = &redacted[..redacted.floor_char_boundary(limit_bytes.saturating_mul(4))];
        let mut line = one_line(used);
        if used.len() < redacted.len() {
            line.push('…');
        }
        cut(line, limit_bytes)
    }

    /// Redacts secrets in a text in place. Returns whether a secret was found.
    pub fn string(&self, text: &mut String) -> bool {
        let Cow::Owned(scrubbed) = self.text(text) else { return false };
        *text = scrubbed;
        true
    }

    /// Returns the marker of a secret in these bytes; `None` if they hold none.
    pub(super) fn find(&self, bytes: &[u8]) -> Option<&str> {
        let inner = self.0.as_ref()?;
        inner.hits(bytes).first().map(|hit| inner.markers[hit.secret].as_str())
    }

    /// Returns the marker of the secret that equals this number, digit by digit; `None` if there is
    /// none.
    pub(super) fn number(&self, number: &serde_json::Number) -> Option<&str> {
        let inner = self.0.as_ref().filter(|inner| !inner.numbers.is_empty())?;
        let digits = number.to_string();
        let (_, secret) = inner.numbers.iter().find(|(value, _)| *value == digits)?;
        Some(&inner.markers[*secret])
    }
}

/// Returns the replacement text of each secret. A marker must not hold a secret itself, which it
/// would if a password is equal to its name.
fn markers(secrets: &[(&str, &str)]) -> Vec<String> {
    secrets.iter().map(|(name, _)| marker(name, secrets)).collect()
}

fn marker(name: &str, secrets: &[(&str, &str)]) -> String {
    // `***` has fewer bytes than any secret, so it cannot hold one.
    [format!("[secret {name}]"), "[secret]".to_owned()]
        .into_iter()
        .find(|marker| !secrets.iter().any(|(_, value)| marker.contains(value)))
        .unwrap_or_else(|| "***".to_owned())
}

impl SecretPatterns {
    /// Finds all secrets, in no particular order. Allocates nothing if no pattern occurs.
    fn hits(&self, bytes: &[u8]) -> Vec<SecretRange> {
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

    /// Replaces the hits by markers. Hits that touch or overlap form one run: it has one marker for
    /// each secret, and none for a hit inside another hit.
    fn replace(&self, text: &str, mut hits: Vec<SecretRange>) -> String {
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

impl PatternSet {
    fn new(patterns: Vec<(SecretOwner, String)>, in_any_case: bool) -> Result<Self, BadSecret> {
        let (owners, patterns): (Vec<_>, Vec<_>) = patterns.into_iter().unzip();
        let nfa = NFA::builder()
            .ascii_case_insensitive(in_any_case)
            .build(patterns)
            .map_err(BadSecret::TooMuch)?;
        let start = nfa.start_state(Anchored::No).expect("this automaton searches unanchored");
        Ok(Self { nfa, start, owners })
    }

    /// Finds the patterns in the bytes, overlapping ones included.
    fn find(&self, bytes: &[u8], hits: &mut Vec<SecretRange>) {
        let found = self
            .nfa
            .try_find_overlapping_iter(Input::new(bytes))
            .expect("this automaton searches for overlaps");
        for hit in found {
            push(
                hits,
                SecretRange {
                    start: hit.start(),
                    end: hit.end(),
                    secret: self.owners[hit.pattern()].secret,
                },
            );
        }
    }

    /// Returns whether the decoded bytes hold any pattern.
    fn occur_behind(&self, escapes: Escapes, bytes: &[u8]) -> bool {
        let mut state = self.start;
        escapes.read(bytes).any(|piece| {
            piece.meaning().iter().any(|byte| {
                state = self.nfa.next_state(Anchored::No, state, *byte);
                self.nfa.is_match(state)
            })
        })
    }

    /// Finds the patterns of long secrets in the decoded bytes. A hit has the range of the escaped
    /// bytes.
    fn find_behind(&self, escapes: Escapes, bytes: &[u8], hits: &mut Vec<SecretRange>) {
        // A ring of the offsets at which the last decoded bytes begin in the text. It is as long as
        // the longest pattern.
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
                        push(hits, SecretRange { start, end: piece.end, secret: owner.secret });
                    }
                }
            }
        }
    }
}

/// Adds a hit, or extends the last one if it is of the same secret and the two touch. Otherwise a
/// value that repeats itself would add a hit at every byte.
fn push(hits: &mut Vec<SecretRange>, hit: SecretRange) {
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
