//! Patterns of full names of tools, as in the gateway's configuration.

/// Returns whether a text is a pattern: the full name of a tool, where `*` stands for any text.
pub fn is_pattern(text: &str) -> bool {
    text.contains(['-', '*'])
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '*'))
}

/// Returns whether a full name fits a pattern. Upper and lower case are the same.
pub fn matches(pattern: &str, name: &str) -> bool {
    let pattern = pattern.to_lowercase();
    let name = name.to_lowercase();
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut left) = name.strip_prefix(first) else { return false };
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    for part in middle.split('*') {
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    left.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text_and_case_does_not_matter() {
        for (pattern, name, expected) in [
            ("files-read", "files-read", true),
            ("files-read", "files-read2", false),
            ("files-*", "Files-Read", true),
            ("files-*", "file-read", false),
            ("*-SEND*", "mail-send_all", true),
            ("*-send", "mail-send_all", false),
            ("*", "a-b", true),
            ("**", "a-b", true),
            ("a-*b*c", "a-xbyc", true),
            ("a-*b*c", "a-xcyb", false),
            ("a-b*b", "a-b", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn a_text_that_no_full_name_has_is_no_pattern() {
        for text in ["", "files", "files read-*", "fi\u{e9}-*", "a-[b]"] {
            assert!(!is_pattern(text), "{text}");
        }
        assert!(is_pattern("files-*") && is_pattern("*"));
    }
}
