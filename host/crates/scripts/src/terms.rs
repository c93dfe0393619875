//! Splits names and descriptions into the terms by which tools are found.

use std::collections::BTreeMap;

use airlock_core::tool::Tool;

/// Maximum number of terms that are read of one text. Each takes 16 bytes as long as its tool is
/// published; the first sentences of a description say what the tool is for.
pub(super) const MAX_TERMS: usize = 60;
/// Maximum bytes of the text that is read for them, and so of one term. A text can consist of blanks.
const MAX_READ: usize = 4 << 10;

/// Maximum number of times that a term counts in one field, however often it is there: repeating a
/// word must not buy a better rank.
const MAX_COUNT: u8 = 4;

/// Fields of a tool in which terms are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TermPlace {
    /// Name of the tool at its source.
    Name = 0,
    /// Name of its server.
    Server = 1,
    /// The first [`MAX_TERMS`] terms of its description.
    Description = 2,
}

/// Number of fields.
pub(super) const PLACES: usize = 3;

/// Terms of one tool, with how often each is in each field.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct SearchTerms {
    /// Sorted by the digest of the term.
    counts: Box<[(u64, [u8; PLACES])]>,
    /// Number of terms of each field.
    lengths: [u8; PLACES],
}

impl SearchTerms {
    /// Reads the terms of a tool.
    pub(super) fn from_tool(tool: &Tool) -> Self {
        let server = tool.client.as_ref().map_or("", |client| client.as_str());
        Self::new([&tool.original, server, &tool.description])
    }

    /// Reads the terms of a name, a server and a description.
    pub(super) fn new(texts: [&str; PLACES]) -> Self {
        let mut counts: BTreeMap<u64, [u8; PLACES]> = BTreeMap::new();
        let mut lengths = [0; PLACES];
        for (place, text) in texts.into_iter().enumerate() {
            for term in terms(text) {
                let count = &mut counts.entry(digest(&term)).or_default()[place];
                *count = (*count + 1).min(MAX_COUNT);
                // Never more than `MAX_TERMS`.
                lengths[place] += 1;
            }
        }
        Self { counts: counts.into_iter().collect(), lengths }
    }

    /// Returns how often a term is in each field; `None` if it is in none.
    pub(super) fn count(&self, digest: u64) -> Option<[u8; PLACES]> {
        let at = self.counts.binary_search_by_key(&digest, |(term, _)| *term).ok()?;
        Some(self.counts[at].1)
    }

    /// Returns the number of terms of each field.
    pub(super) fn lengths(&self) -> [u8; PLACES] {
        self.lengths
    }

    /// Returns the bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.counts)
    }
}

/// Returns the terms of a text in their order, at most [`MAX_TERMS`]: words in lower case, without
/// common endings. `createIssue` and `create_issue` have the same.
pub(super) fn terms(text: &str) -> Vec<String> {
    let read = &text[..text.floor_char_boundary(MAX_READ)];
    let mut out = Vec::new();
    let mut word = String::new();
    let mut before = ' ';
    for (at, c) in read.char_indices() {
        let after = read[at + c.len_utf8()..].chars().next().unwrap_or(' ');
        // `getURL`, `URLOf`, and a letter of a script without blanks between words.
        let begins = (c.is_uppercase() && !before.is_uppercase())
            || (c.is_uppercase() && before.is_uppercase() && after.is_lowercase())
            || is_ideograph(c)
            || is_ideograph(before);
        if !c.is_alphanumeric() || begins {
            take(&mut word, &mut out);
        }
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        }
        if out.len() >= MAX_TERMS {
            break;
        }
        before = c;
    }
    take(&mut word, &mut out);
    out.truncate(MAX_TERMS);
    out
}

/// Returns a digest of a term, the same on every run (FNV-1a). Two terms with the same digest are
/// found for each other, which changes nothing but the order of results.
pub(super) fn digest(term: &str) -> u64 {
    term.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn take(word: &mut String, out: &mut Vec<String>) {
    if !word.is_empty() {
        out.push(stem(word).to_owned());
        word.clear();
    }
}

/// Removes common English endings: `issues`, `created` and `creating` become `issu` and `creat`, as do
/// `issue` and `create`. Other languages stay as they are.
fn stem(word: &str) -> &str {
    if !word.is_ascii() || word.len() < 4 {
        return word;
    }
    let stem = word
        .strip_suffix("ies")
        .or_else(|| word.strip_suffix("ing"))
        .or_else(|| word.strip_suffix("ed"))
        .or_else(|| word.strip_suffix("es"))
        .or_else(|| word.strip_suffix('s').filter(|stem| !stem.ends_with('s')))
        .filter(|stem| stem.len() >= 3)
        .unwrap_or(word);
    // `query` and `queries`, `file` and `files`.
    stem.strip_suffix(['e', 'y']).filter(|stem| stem.len() >= 3).unwrap_or(stem)
}

fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_every_spelling_have_the_same_terms() {
        for name in [
            "createPullRequest",
            "create_pull_request",
            "create-pull-request",
            "Create pull requests!",
        ] {
            assert_eq!(terms(name).join(" "), "creat pull request", "{name}");
        }
        assert_eq!(terms("getURLOf HTTP2Server").join(" "), "get url of http2 server");
        assert_eq!(terms("查询 issue").join(" "), "查 询 issu");
        assert_eq!(terms("ÄNDERT Straße"), ["ändert", "straße"]);
        assert!(terms(" -_. ").is_empty());
    }

    #[test]
    fn forms_of_a_word_have_one_stem() {
        for forms in [
            &["issue", "issues"][..],
            &["create", "creates", "created", "creating"],
            &["query", "queries"],
            &["file", "files"],
            &["search", "searches", "searching"],
            &["class", "classes"],
        ] {
            let stems: Vec<_> = forms.iter().map(|form| stem(form)).collect();
            assert!(stems.windows(2).all(|two| two[0] == two[1]), "{stems:?}");
        }
        for kept in ["is", "bus", "red", "king", "news1"] {
            assert_eq!(stem(kept), kept);
        }
    }

    #[test]
    fn the_number_and_the_length_of_terms_are_bounded() {
        assert_eq!(terms(&"a ".repeat(MAX_TERMS)).len(), MAX_TERMS);
        assert_eq!(terms(&"a ".repeat(MAX_TERMS + 1)).len(), MAX_TERMS);
        assert_eq!(terms(&"aB".repeat(MAX_TERMS)).len(), MAX_TERMS);
        assert_eq!(terms(&"x".repeat(MAX_READ + 1))[0].len(), MAX_READ);
        let late = format!("{}word", " ".repeat(MAX_READ));
        assert!(terms(&late).is_empty());
        let all = SearchTerms::new([&"a ".repeat(300), &"b ".repeat(300), &"a ".repeat(300)]);
        assert_eq!(all.lengths(), [60; PLACES]);
        assert_eq!(all.count(digest("a")), Some([MAX_COUNT, 0, MAX_COUNT]));
        assert_eq!(all.count(digest("c")), None);
    }
}
