//! Patterns of full names of tools.

/// Pattern of full names of tools: `*` stands for any text. Upper and lower case are the same, because a rule
/// that covers too much is safer than one that covers too little.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolPattern {
    /// The texts between the stars, in lower case.
    parts: Vec<String>,
}

/// Error: a pattern matches no tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is the full name of no tool: write `CLIENT-TOOL`, where `*` stands for any text, as in `files-*`"
)]
pub struct BadPattern(String);

impl ToolPattern {
    /// Parses a pattern.
    pub fn parse(text: &str) -> Result<Self, BadPattern> {
        let has_client = text.contains(['-', '*']);
        if !has_client || !text.chars().all(is_of_name) {
            return Err(BadPattern(text.to_owned()));
        }
        Ok(Self { parts: text.to_lowercase().split('*').map(str::to_owned).collect() })
    }

    /// Returns the client whose tools fit, in lower case; `None` if those of several may.
    pub fn client(&self) -> Option<&str> {
        let (client, _) = self.parts.first()?.split_once('-')?;
        Some(client)
    }

    /// Returns whether a full name fits.
    pub fn matches(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        let Some((first, rest)) = self.parts.split_first() else { return false };
        let Some(mut left) = name.strip_prefix(first.as_str()) else { return false };
        let Some((last, middle)) = rest.split_last() else { return left.is_empty() };
        for part in middle {
            let Some(at) = left.find(part.as_str()) else { return false };
            left = &left[at + part.len()..];
        }
        left.ends_with(last.as_str())
    }
}

/// Returns whether full names may have a character. In the place of others, such as `.`, they have `_` and a digest.
fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text_and_case_does_not_matter() {
        for (pattern, name, expected) in [
            ("files-read", "files-read", true),
            ("files-read", "files-read2", false),
            ("files-*", "files-read", true),
            ("files-*", "Files-Read", true),
            ("files-*", "file-read", false),
            ("*-send*", "mail-send_all", true),
            ("*-send", "mail-send_all", false),
            ("*", "a-b", true),
            ("a-*b*c", "a-xbyc", true),
            ("a-*b*c", "a-xcyb", false),
            ("a-b*b", "a-b", false),
        ] {
            let pattern = ToolPattern::parse(pattern).expect("a good pattern");
            assert_eq!(pattern.matches(name), expected, "{pattern:?} {name}");
        }
    }

    #[test]
    fn a_text_that_no_full_name_has_is_refused() {
        for text in ["", "files", "files read-*", "fi\u{e9}-*", "a-[b]", "a-b.c"] {
            assert!(ToolPattern::parse(text).is_err(), "{text}");
        }
    }
}
