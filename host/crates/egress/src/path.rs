//! Paths of requests, and patterns for them. Both are compared decoded once, segment by segment,
//! and whatever two readers could take for different paths is refused before it is compared.

use std::fmt;

use airlock_core::text::{hex_digit, percent_decoded};

/// Segments of one request's path. Together with [`MAX_PARTS`] this bounds the time that a hostile
/// path and a hostile pattern can take to be compared.
const MAX_SEGMENTS: usize = 128;
/// Segments of one pattern.
const MAX_PARTS: usize = 32;

/// Why a path cannot be decided on: mostly because a server might read another one than the policy
/// does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadPath {
    /// An escape that is none.
    #[error("a `%` that is not followed by two hexadecimal digits")]
    Escape,
    /// `%2f`, which some servers split at.
    #[error("an encoded slash")]
    Slash,
    /// `\` or `%5c`, which some servers take for a slash.
    #[error("a backslash")]
    Backslash,
    /// `%252f` and the like: decoded twice it is something else.
    #[error("text that is encoded twice")]
    Twice,
    /// Bytes that are no text, overlong forms of `/` and `.` among them.
    #[error("encoded bytes that are not UTF-8")]
    Encoding,
    /// `%00`, `%0d%0a` and the like.
    #[error("a control character")]
    Control,
    /// `.` or `..`, also as `..;x`, which some servers strip to `..` and resolve.
    #[error("a dot segment")]
    Dots,
    /// More than anybody needs.
    #[error("more than {MAX_SEGMENTS} segments")]
    Segments,
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
    let text = decode(raw)?;
    let name = text.split(';').next().unwrap_or_default();
    if name == "." || name == ".." { Err(BadPath::Dots) } else { Ok(text) }
}

fn decode(raw: &str) -> Result<String, BadPath> {
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

/// Which paths a rule is about.
///
/// `*` stands for any text within a segment, also none; a segment that is only `*` is not matched
/// by an empty one. `**` is a segment of its own and stands for any number of segments: also none
/// between others, at least one at the end, so `/repos/**` is everything below `/repos` and not
/// `/repos` itself. Everything else stands for itself, in exact case; a literal `*` is written
/// `%2A`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pattern(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    /// `**`
    Many,
    /// One segment: the texts around its stars, so without a star there is one.
    One(Vec<String>),
}

/// Why a text is no pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadPattern {
    /// It does not begin with `/`.
    #[error("expected a `/` at the beginning")]
    Relative,
    /// `a**` and the like, whose meaning nobody agrees on.
    #[error("expected `**` to be a whole segment, found {0:?}")]
    Stars(String),
    /// `**/**`
    #[error("expected something between two `**`")]
    Repeated,
    /// What begins a query or a fragment; rules are about paths alone.
    #[error("expected a path alone, found a `?` or `#`")]
    Query,
    /// More than anybody needs.
    #[error("expected at most {MAX_PARTS} segments, found {0}")]
    Parts(usize),
    /// No request could match it.
    #[error("expected what a request may hold, found {0}")]
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
        let parts: Vec<Part> = path.split('/').map(Part::parse).collect::<Result<_, _>>()?;
        if parts.windows(2).any(|pair| pair == [Part::Many, Part::Many]) {
            return Err(BadPattern::Repeated);
        }
        Ok(Self(parts))
    }

    /// Everything below a path, and the path itself where it does not end with a slash.
    pub(super) fn below(path: &str) -> Result<Vec<Self>, BadPattern> {
        let literal = path.replace('*', "%2A");
        match literal.strip_suffix('/') {
            Some(directory) => Ok(vec![Self::parse(&format!("{directory}/**"))?]),
            None => Ok(vec![Self::parse(&literal)?, Self::parse(&format!("{literal}/**"))?]),
        }
    }

    /// Whether it stands for a path. Takes time in proportion to the product of both lengths at
    /// worst.
    pub(super) fn matches(&self, path: &[String]) -> bool {
        let (mut part, mut at) = (0, 0);
        // Where to go on when what follows the last `**` does not fit: one segment later. Earlier
        // ones need no second look, because they were matched as far to the left as they can be.
        let mut resume = None;
        while at < path.len() {
            match self.0.get(part) {
                Some(Part::Many) => {
                    part += 1;
                    resume = Some((part, at));
                }
                Some(Part::One(texts)) if fits(texts, &path[at]) => {
                    part += 1;
                    at += 1;
                }
                _ => {
                    let Some((after, from)) = resume else { return false };
                    (part, at) = (after, from + 1);
                    resume = Some((after, at));
                }
            }
        }
        part == self.0.len()
    }
}

impl Part {
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

/// Whether a segment is the texts in their order with anything between them.
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
    /// Canonical: ASCII, with everything escaped that is neither unreserved nor harmless, so that a
    /// list of patterns can be split at commas and a terminal shows what it is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|part| match part {
            Part::Many => f.write_str("/**"),
            Part::One(texts) => {
                f.write_str("/")?;
                texts.iter().enumerate().try_for_each(|(at, text)| {
                    f.write_str(if at == 0 { "" } else { "*" })?;
                    text.bytes().try_for_each(|byte| encode(f, byte))
                })
            }
        })
    }
}

fn encode(f: &mut fmt::Formatter<'_>, byte: u8) -> fmt::Result {
    if byte.is_ascii_alphanumeric() || b"-._~!$&'()+:;=@".contains(&byte) {
        write!(f, "{}", char::from(byte))
    } else {
        write!(f, "%{byte:02X}")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        Pattern::parse(pattern).unwrap().matches(&segments(path).unwrap())
    }

    #[test]
    fn patterns_match_what_their_documentation_says() {
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
    fn paths_that_two_readers_could_understand_differently_are_refused() {
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
    fn what_is_no_pattern_is_told_why() {
        let why = |text: &str| Pattern::parse(text).unwrap_err().to_string();
        insta::assert_snapshot!(why("repos"), @"expected a `/` at the beginning");
        insta::assert_snapshot!(why(""), @"expected a `/` at the beginning");
        insta::assert_snapshot!(why("/a**"), @r#"expected `**` to be a whole segment, found "a**""#);
        insta::assert_snapshot!(why("/***"), @r#"expected `**` to be a whole segment, found "***""#);
        insta::assert_snapshot!(why("/a/**/**"), @"expected something between two `**`");
        insta::assert_snapshot!(why("/a?b=c"), @"expected a path alone, found a `?` or `#`");
        insta::assert_snapshot!(why("/a%2fb"), @"expected what a request may hold, found an encoded slash");
        insta::assert_snapshot!(why("/a/../b"), @"expected what a request may hold, found a dot segment");
    }

    #[test]
    fn the_segments_of_paths_and_patterns_are_counted() {
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

    proptest! {
        #[test]
        fn a_pattern_survives_being_printed(texts in prop::collection::vec("[a-z*%,/ é?;.~\"]{0,6}", 1..5)) {
            if let Ok(pattern) = Pattern::parse(&format!("/{}", texts.join("/"))) {
                let printed = pattern.to_string();
                prop_assert!(printed.is_ascii() && !printed.contains([' ', ',']));
                prop_assert_eq!(Pattern::parse(&printed), Ok(pattern));
            }
        }

        #[test]
        fn the_pattern_of_one_path_matches_that_path_alone(one in "(/[a-z*.é]{0,3}){1,4}", other in "(/[a-z*.é]{0,3}){1,4}") {
            let pattern = Pattern::parse(&one.replace('*', "%2A"));
            if let (Ok(one), Ok(other)) = (segments(&one), segments(&other)) {
                let pattern = pattern.unwrap();
                prop_assert!(pattern.matches(&one));
                prop_assert_eq!(pattern.matches(&other), one == other);
            }
        }
    }
}
