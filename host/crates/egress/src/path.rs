//! Request paths and patterns for them. A path is sent in its normal form (RFC 3986, section
//! 6.2.2), and the policy decides on the same form: both are compared segment by segment, decoded
//! once. A path that two parsers could read differently is refused before the comparison.
//!
//! A delimiter and its escape are different characters (RFC 3986, section 2.2): some servers read
//! `/a;b` as `/a` with a parameter, and `/a%3Bb` as a name. So they stay different in the
//! comparison.

use std::fmt;

use airlock_strings::{hex_digit, percent_decoded};

/// Maximum number of segments of a request's path. Together with [`MAX_PARTS`], this bounds the time to
/// compare a hostile path with a hostile pattern.
const MAX_SEGMENTS: usize = 128;
/// Maximum number of segments of a pattern. See [`MAX_SEGMENTS`].
const MAX_PARTS: usize = 32;
/// Characters that have no meaning as delimiters (RFC 3986, section 2.3), besides letters and
/// digits. They are never escaped in the normal form.
const UNRESERVED: &[u8] = b"-._~";
/// Delimiters that may be in a segment (RFC 3986, section 3.3), without the two of [`FOLDED`]. The
/// normal form keeps them as written: escaped or not.
const DELIMITERS: [u8; 11] = *b"!$&'()+;=:@";
/// Delimiters that have a meaning in the text of a rule, so that a pattern cannot tell them from
/// their escapes. The normal form of a path keeps them as written; a pattern matches both.
const FOLDED: [u8; 2] = *b"*,";
/// First of the characters that stand for escaped delimiters in a decoded segment. These are
/// control characters, which no path contains.
const FIRST_ESCAPED: u8 = 0x80;

/// Maximum number of segments of a path that a log line shows, so that a guest cannot fill the log.
const MAX_SHOWN_SEGMENTS: usize = 8;
/// Maximum bytes of a segment that a log line shows. A longer one is rather data than a name, and
/// may be a secret.
const MAX_SHOWN_BYTES: usize = 64;

/// Reason that a path is refused: in most cases, a server might read a different path than the
/// policy does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadPath {
    /// A `%` without two hexadecimal digits after it.
    #[error("a `%` that is not followed by two hexadecimal digits")]
    Escape,
    /// `%2f`, at which some servers split a path.
    #[error("an encoded slash")]
    Slash,
    /// `\` or `%5c`, which some servers read as a slash.
    #[error("a backslash")]
    Backslash,
    /// `%252f` and the like, which decode to other text the second time.
    #[error("text that is encoded twice")]
    Twice,
    /// Bytes that are not UTF-8, overlong forms of `/` and `.` among them.
    #[error("encoded bytes that are not UTF-8")]
    Encoding,
    /// `%00`, `%0d%0a` and the like.
    #[error("a control character")]
    Control,
    /// `.` or `..`, also as `..;x`, which some servers strip to `..` and resolve.
    #[error("a dot segment")]
    Dots,
    /// More segments than the limit.
    #[error("more than {MAX_SEGMENTS} segments")]
    Segments,
}

/// Returns the normal form of a path: unreserved characters are not escaped, all characters are
/// escaped that a path cannot hold, and escapes have capital digits. Delimiters stay as written. Dot
/// segments are not removed here: [`segments`] refuses them.
pub(super) fn normalized(path: &str) -> Result<String, BadPath> {
    let mut normal = String::with_capacity(path.len());
    for unit in units(path) {
        let (byte, is_escaped) = unit?;
        let is_delimiter = byte == b'/' || DELIMITERS.contains(&byte) || FOLDED.contains(&byte);
        if is_unreserved(byte) || is_delimiter && !is_escaped {
            normal.push(char::from(byte));
        } else {
            normal.push_str(&escape(byte));
        }
    }
    Ok(normal)
}

/// Splits a path into its segments and decodes each once. `/` is one empty segment.
pub(super) fn segments(path: &str) -> Result<Vec<String>, BadPath> {
    let path = path.strip_prefix('/').unwrap_or(path);
    if path.split('/').count() > MAX_SEGMENTS {
        return Err(BadPath::Segments);
    }
    path.split('/').map(segment).collect()
}

fn segment(raw: &str) -> Result<String, BadPath> {
    let text = plain(raw)?;
    let name = text.split(';').next().unwrap_or_default();
    if name == "." || name == ".." { Err(BadPath::Dots) } else { decode(raw) }
}

/// Decodes a segment, or the part of one between two stars. Escaped delimiters become other
/// characters than the delimiters themselves.
fn decode(raw: &str) -> Result<String, BadPath> {
    plain(raw)?;
    let mut bytes = Vec::with_capacity(raw.len());
    for unit in units(raw) {
        let (byte, is_escaped) = unit?;
        let index = DELIMITERS.iter().position(|delimiter| is_escaped && *delimiter == byte);
        match index.and_then(|index| u8::try_from(index).ok()) {
            Some(index) => bytes.extend(char::from(FIRST_ESCAPED + index).to_string().bytes()),
            None => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).map_err(|_| BadPath::Encoding)
}

/// Decodes a segment once, delimiters included. Fails if it is ambiguous.
fn plain(raw: &str) -> Result<String, BadPath> {
    let bytes = percent_decoded(raw).ok_or(BadPath::Escape)?;
    let text = String::from_utf8(bytes).map_err(|_| BadPath::Encoding)?;
    if text.contains('/') {
        Err(BadPath::Slash)
    } else if text.contains('\\') {
        Err(BadPath::Backslash)
    } else if text.contains(char::is_control) {
        Err(BadPath::Control)
    } else if text
        .as_bytes()
        .windows(3)
        .any(|w| w[0] == b'%' && hex_digit(w[1]).is_some() && hex_digit(w[2]).is_some())
    {
        Err(BadPath::Twice)
    } else {
        Ok(text)
    }
}

/// Returns the bytes that a text stands for, each with true if it is escaped.
fn units(text: &str) -> impl Iterator<Item = Result<(u8, bool), BadPath>> {
    let mut rest = text.as_bytes();
    std::iter::from_fn(move || {
        let (first, others) = rest.split_first()?;
        rest = others;
        if *first != b'%' {
            return Some(Ok((*first, false)));
        }
        let digits = others.first_chunk::<2>();
        let byte = digits.and_then(|[high, low]| Some(hex_digit(*high)? << 4 | hex_digit(*low)?));
        rest = others.get(2..).unwrap_or_default();
        Some(byte.map(|byte| (byte, true)).ok_or(BadPath::Escape))
    })
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || UNRESERVED.contains(&byte)
}

fn escape(byte: u8) -> String {
    format!("%{byte:02X}")
}

/// Pattern for the paths of a rule.
///
/// `*` matches any text within a segment, also empty text. A segment that is only `*` does not
/// match an empty segment. `**` must be a whole segment and matches any number of segments: zero or
/// more before another segment, one or more at the end. So `/repos/**` matches everything below
/// `/repos`, but not `/repos` itself. All other characters match themselves, in exact case. A
/// delimiter such as `;` does not match its escape `%3B`, except `,` and `*`, which match both
/// forms. A literal `*` is written `%2A`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pattern(Vec<PatternSegment>);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum PatternSegment {
    /// `**`
    Many,
    /// One segment: the texts around its stars; a single text if there is no star.
    One(Vec<String>),
}

/// Reason that a text is not a pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadPattern {
    /// The text does not begin with `/`.
    #[error("expected a `/` at the beginning")]
    Relative,
    /// `a**` and the like, whose meaning differs between pattern languages.
    #[error("expected `**` to be a whole segment, found {0:?}")]
    Stars(String),
    /// `**/**`
    #[error("expected something between two `**`")]
    Repeated,
    /// A `?` or `#`, which begins a query or a fragment. Rules match paths only.
    #[error("expected only a path, found a `?` or `#`")]
    Query,
    /// More segments than the limit.
    #[error("expected at most {MAX_PARTS} segments, found {0}")]
    Parts(usize),
    /// The pattern contains a path that is refused in requests, so it could never match.
    #[error("{0} cannot occur in a request")]
    Path(#[from] BadPath),
}

impl Pattern {
    pub(super) fn parse(text: &str) -> Result<Self, BadPattern> {
        let path = text.strip_prefix('/').ok_or(BadPattern::Relative)?;
        if path.contains(['?', '#']) {
            return Err(BadPattern::Query);
        }
        let count = path.split('/').count();
        if count > MAX_PARTS {
            return Err(BadPattern::Parts(count));
        }
        let parts: Vec<PatternSegment> =
            path.split('/').map(PatternSegment::parse).collect::<Result<_, _>>()?;
        if parts.windows(2).any(|pair| pair == [PatternSegment::Many, PatternSegment::Many]) {
            return Err(BadPattern::Repeated);
        }
        Ok(Self(parts))
    }

    /// Returns the patterns for everything below a path, and for the path itself unless it ends
    /// with a slash.
    pub(super) fn below(path: &str) -> Result<Vec<Self>, BadPattern> {
        let literal = path.replace('*', "%2A");
        match literal.strip_suffix('/') {
            Some(directory) => Ok(vec![Self::parse(&format!("{directory}/**"))?]),
            None => Ok(vec![Self::parse(&literal)?, Self::parse(&format!("{literal}/**"))?]),
        }
    }

    /// Returns the narrowest pattern of bounded length for a request's path, to show it to the
    /// operator. Segments that are too long are shown as `*`; so are all of them if `is_secret`.
    /// Segments beyond the first eight are shown as `**`.
    pub(super) fn shown(path: &[String], is_secret: bool) -> Self {
        let parts =
            path.iter().take(MAX_SHOWN_SEGMENTS).map(|segment| shown_part(segment, is_secret));
        let rest = (path.len() > MAX_SHOWN_SEGMENTS).then_some(PatternSegment::Many);
        Self(parts.chain(rest).collect())
    }

    /// Returns the narrower of two patterns if they are equal or one visibly contains the other.
    pub(super) fn narrower<'a>(&'a self, other: &'a Self) -> Option<&'a Self> {
        if self == other || other.contains(self) {
            Some(self)
        } else {
            self.contains(other).then_some(other)
        }
    }

    /// Returns whether this is a pattern such as `/v1/**` and `other` begins with the segments in
    /// front of the `**`, so that every path that matches `other` matches this pattern.
    fn contains(&self, other: &Self) -> bool {
        let Some((PatternSegment::Many, directory)) = self.0.split_last() else { return false };
        other.0.len() > directory.len() && other.0.starts_with(directory)
    }

    /// Returns whether it matches a path. The time is at worst proportional to the product of both
    /// lengths.
    pub(super) fn matches(&self, path: &[String]) -> bool {
        let mut part = 0;
        let mut at = 0;
        // Position to resume from if the parts after the last `**` do not match: one segment later.
        // Earlier `**` are not retried, because their parts were matched as far to the left as
        // possible.
        let mut resume = None;
        while at < path.len() {
            match self.0.get(part) {
                Some(PatternSegment::Many) => {
                    part += 1;
                    resume = Some((part, at));
                }
                Some(PatternSegment::One(texts)) if fits(texts, &path[at]) => {
                    part += 1;
                    at += 1;
                }
                _ => {
                    let Some((after, from)) = resume else { return false };
                    part = after;
                    at = from + 1;
                    resume = Some((after, at));
                }
            }
        }
        part == self.0.len()
    }
}

/// Returns the pattern of one segment: `*` for one that is secret or too long to be shown.
fn shown_part(segment: &str, is_secret: bool) -> PatternSegment {
    let is_hidden = (is_secret || segment.len() > MAX_SHOWN_BYTES) && !segment.is_empty();
    if is_hidden {
        PatternSegment::One(vec![String::new(), String::new()])
    } else {
        PatternSegment::One(vec![segment.to_owned()])
    }
}

impl PatternSegment {
    fn parse(text: &str) -> Result<Self, BadPattern> {
        if text == "**" {
            return Ok(Self::Many);
        }
        if text.contains("**") {
            return Err(BadPattern::Stars(text.to_owned()));
        }
        segment(&text.replace('*', "x"))?;
        Ok(Self::One(text.split('*').map(decode).collect::<Result<_, _>>()?))
    }
}

/// Returns whether a segment consists of the texts in their order, with any text between them.
fn fits(texts: &[String], segment: &str) -> bool {
    let (Some((first, rest)), Some(last)) = (texts.split_first(), texts.last()) else {
        return false;
    };
    if rest.is_empty() {
        return segment == first;
    }
    let Some(mut middle) =
        segment.strip_prefix(first.as_str()).and_then(|rest| rest.strip_suffix(last.as_str()))
    else {
        return false;
    };
    for text in &rest[..rest.len() - 1] {
        let Some((_, after)) = middle.split_once(text.as_str()) else { return false };
        middle = after;
    }
    !segment.is_empty()
}

impl fmt::Display for Pattern {
    /// Prints the canonical form: the normal form of a path, with `,` and `*` escaped. A list of
    /// patterns can therefore be split at commas and printed to a terminal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|part| match part {
            PatternSegment::Many => f.write_str("/**"),
            PatternSegment::One(texts) => {
                f.write_str("/")?;
                texts.iter().enumerate().try_for_each(|(at, text)| {
                    f.write_str(if at == 0 { "" } else { "*" })?;
                    f.write_str(&encode(text))
                })
            }
        })
    }
}

/// Encodes decoded text, the reverse of [`decode`]. `,` and `*` are always escaped.
fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for character in text.chars() {
        let index = u32::from(character).checked_sub(FIRST_ESCAPED.into());
        let escaped = index.and_then(|index| DELIMITERS.get(usize::try_from(index).ok()?));
        match (escaped, u8::try_from(character)) {
            (Some(delimiter), _) => encoded.push_str(&escape(*delimiter)),
            (None, Ok(byte)) if is_unreserved(byte) || DELIMITERS.contains(&byte) => {
                encoded.push(character);
            }
            _ => character
                .encode_utf8(&mut [0; 4])
                .bytes()
                .for_each(|byte| encoded.push_str(&escape(byte))),
        }
    }
    encoded
}

/// Returns decoded segments as the path that they were read from, with `,` and `*` escaped.
#[cfg(test)]
pub(super) fn written(segments: &[String]) -> String {
    let segments: Vec<_> = segments.iter().map(|segment| encode(segment)).collect();
    format!("/{}", segments.join("/"))
}

#[cfg(test)]
mod tests;
