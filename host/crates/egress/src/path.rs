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
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        Pattern::parse(pattern).unwrap().matches(&segments(path).unwrap())
    }

    #[test]
    fn patterns_match_as_documented() {
        for (pattern, inside, outside) in [
            ("/", "/", "// /a"),
            ("/**", "/ /a /a/b // /a/", ""),
            ("/user", "/user /us%65r", "/ /users /user/ /User /user/x"),
            ("/repos/**", "/repos/ /repos/a /repos/a/b/c", "/repos /repository /x/repos/a"),
            ("/repos/*", "/repos/a /repos/a%20b /repos/...", "/repos /repos/ /repos/a/b /repos/a/"),
            (
                "/repos/*/issues",
                "/repos/a/issues",
                "/repos//issues /repos/a/b/issues /repos/issues",
            ),
            ("/a/**/z", "/a/z /a/b/z /a/b/c/z /a/z/z /a//z", "/a /a/z/ /az /a/b/zz /b/a/z"),
            ("/**/raw/*", "/raw/x /a/raw/x /a/raw/raw/x", "/raw /raw/ /a/raw/x/y"),
            ("/a/**/b/**/c", "/a/b/c /a/x/b/y/z/c /a/b/b/c/c", "/a/c /a/c/b /a/b/c/d"),
            ("/v*/x", "/v1/x /v/x /v1.2/x", "/v1/v/x /w1/x"),
            ("/*.json", "/a.json /.json", "/a.jsonl /a/b.json"),
            ("/a*b*c", "/abc /aXbYc /abbc /abcbc", "/ab /acb /abcd"),
            ("/aa*aa", "/aaaa /aaXaa", "/aaa /aa"),
            ("/%2A", "/* /%2a", "/x"),
            ("/caf%C3%A9/a%2Cb", "/café/a,b /caf%c3%a9/a%2cb", "/cafe/a,b"),
            ("/a;b/c@d:e", "/a;b/c@d:e /%61;b/c@d:e", "/a%3Bb/c@d:e /a;b/c%40d:e /a;b/c@d%3ae"),
            ("/a%3bb", "/a%3Bb", "/a;b"),
            ("/v/*:run", "/v/x:run /v/x%3A:run", "/v/x%3Arun"),
            ("/*=", "/a= /==", "/a%3D /%3D"),
        ] {
            for path in inside.split(' ').filter(|path| !path.is_empty()) {
                assert!(matches(pattern, path), "{pattern} {path}");
            }
            for path in outside.split(' ').filter(|path| !path.is_empty()) {
                assert!(!matches(pattern, path), "{pattern} {path}");
            }
        }
    }

    #[test]
    fn ambiguous_paths_are_refused() {
        for (path, why) in [
            ("/a%2fb", BadPath::Slash),
            ("/a%2Fb", BadPath::Slash),
            ("/a%5cb", BadPath::Backslash),
            ("/a\\b", BadPath::Backslash),
            ("/%252e%252e/x", BadPath::Twice),
            ("/a%252fb", BadPath::Twice),
            ("/a%25%32%66b", BadPath::Twice),
            ("/%c0%ae%c0%ae/x", BadPath::Encoding),
            ("/a%c0%afb", BadPath::Encoding),
            ("/a%00", BadPath::Control),
            ("/a%0d%0aHost:x", BadPath::Control),
            ("/a%7f", BadPath::Control),
            ("/100%", BadPath::Escape),
            ("/100%zz", BadPath::Escape),
            ("/100%2", BadPath::Escape),
            ("/a/../b", BadPath::Dots),
            ("/a/%2e%2E", BadPath::Dots),
            ("/a/./b", BadPath::Dots),
            ("/a/..;/b", BadPath::Dots),
            ("/a/..%3bx=y/b", BadPath::Dots),
        ] {
            assert_eq!(segments(path), Err(why), "{path}");
        }
        for path in ["/a%25b", "/100%25", "/a..b/...", "/a;b=..", "/%E2%82%AC", "/a%20b", "/a+b"] {
            assert!(segments(path).is_ok(), "{path}");
        }
    }

    #[test]
    fn an_invalid_pattern_is_refused_with_a_reason() {
        insta::assert_snapshot!(why("repos"), @"expected a `/` at the beginning");
        insta::assert_snapshot!(why(""), @"expected a `/` at the beginning");
        insta::assert_snapshot!(why("/a**"), @r#"expected `**` to be a whole segment, found "a**""#);
        insta::assert_snapshot!(why("/***"), @r#"expected `**` to be a whole segment, found "***""#);
        insta::assert_snapshot!(why("/a/**/**"), @"expected something between two `**`");
        insta::assert_snapshot!(why("/a?b=c"), @"expected only a path, found a `?` or `#`");
        insta::assert_snapshot!(why("/a%2fb"), @"an encoded slash cannot occur in a request");
        insta::assert_snapshot!(why("/a/../b"), @"a dot segment cannot occur in a request");
    }

    fn why(text: &str) -> String {
        Pattern::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn the_number_of_segments_is_limited_in_paths_and_patterns() {
        assert!(segments(&"/".repeat(MAX_SEGMENTS)).is_ok());
        assert_eq!(segments(&"/".repeat(MAX_SEGMENTS + 1)), Err(BadPath::Segments));
        assert!(Pattern::parse(&"/*".repeat(MAX_PARTS)).is_ok());
        assert_eq!(
            Pattern::parse(&"/*".repeat(MAX_PARTS + 1)),
            Err(BadPattern::Parts(MAX_PARTS + 1))
        );
    }

    #[test]
    fn a_hostile_pattern_and_path_take_no_noticeable_time() {
        let pattern = Pattern::parse(&format!("/{}x", "**/a*a*a*a*a/".repeat(15))).unwrap();
        assert!(
            !pattern.matches(
                &segments(&"/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa".repeat(MAX_SEGMENTS))
                    .unwrap()
            )
        );
    }

    #[test]
    fn the_normal_form_escapes_what_a_path_cannot_hold_and_nothing_that_needs_no_escape() {
        for (path, normal) in [
            ("/", "/"),
            ("/%65cho", "/echo"),
            ("/%7euser/%41%2D%5f", "/~user/A-_"),
            ("/a%3bb;c/%2a*%2c,/%40@%3a:", "/a%3Bb;c/%2A*%2C,/%40@%3A:"),
            ("/a%20b/[x]|^\"", "/a%20b/%5Bx%5D%7C%5E%22"),
            ("/caf\u{e9}/%c3%a9", "/caf%C3%A9/%C3%A9"),
            ("//a//", "//a//"),
        ] {
            assert_eq!(normalized(path).as_deref(), Ok(normal), "{path}");
            assert_eq!(normalized(normal).as_deref(), Ok(normal), "{path}");
        }
        for path in ["/%", "/a%4", "/%zz"] {
            assert_eq!(normalized(path), Err(BadPath::Escape), "{path}");
        }
    }

    proptest! {
        #[test]
        fn normalizing_is_idempotent_and_keeps_the_decided_segments(path in "/([a-c./;,*:|é\"%]|%[0-9a-fA-F]{2}){0,16}") {
            if let Ok(normal) = normalized(&path) {
                prop_assert_eq!(normalized(&normal), Ok(normal.clone()));
                prop_assert_eq!(segments(&normal), segments(&path));
            }
        }

        #[test]
        fn a_printed_pattern_parses_to_the_same_pattern(texts in prop::collection::vec("([a-z*,/ é?;.~\"]|%[2-7][0-9A-Fa-f]){0,6}", 1..5)) {
            if let Ok(pattern) = Pattern::parse(&format!("/{}", texts.join("/"))) {
                let printed = pattern.to_string();
                prop_assert!(printed.is_ascii() && !printed.contains([' ', ',']));
                prop_assert_eq!(Pattern::parse(&printed), Ok(pattern));
            }
        }

        #[test]
        fn a_pattern_without_wildcards_matches_only_its_own_path(one in "(/([a-z*.é;]|%3[Bb]){0,3}){1,4}", other in "(/([a-z*.é;]|%3[Bb]){0,3}){1,4}") {
            let pattern = Pattern::parse(&one.replace('*', "%2A"));
            if let (Ok(one), Ok(other)) = (segments(&one), segments(&other)) {
                let pattern = pattern.unwrap();
                prop_assert!(pattern.matches(&one));
                prop_assert_eq!(pattern.matches(&other), one == other);
            }
        }
    }
}
