//! Names of new plugins.

use std::{fmt, str::FromStr};

use airlock_core::tool::INTERNAL_CLIENT;

/// Maximum length of a client's name, because the plugin's name becomes one.
const MAX: usize = 32;

/// Words that no Rust crate may have as its name, of all editions.
const RUST: [&str; 52] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate",
    "do", "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl",
    "in", "let", "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref",
    "return", "self", "static", "struct", "super", "test", "trait", "true", "try", "type",
    "typeof", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

/// Name of a plugin: `[a-z][a-z0-9-]*`, at most 32 characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginName(String);

/// Reason that a text is not the name of a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadPluginName {
    /// The text has other characters, or too many of them.
    #[error(
        "use a letter, then letters, digits and `-`, all lower case and at most {MAX} characters"
    )]
    Form,
    /// The name is that of the gateway's own client.
    #[error("it is reserved for the gateway's own tools; choose another name")]
    Reserved,
}

impl PluginName {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name of the client that the plugin becomes; names of clients have no `-`.
    pub fn client(&self) -> String {
        self.0.replace('-', "_")
    }

    /// Returns whether cargo would refuse the name.
    pub(crate) fn is_word_of_rust(&self) -> bool {
        RUST.contains(&self.as_str())
    }
}

impl FromStr for PluginName {
    type Err = BadPluginName;

    fn from_str(text: &str) -> Result<Self, BadPluginName> {
        let begins_well = text.starts_with(|c: char| c.is_ascii_lowercase());
        let is_fit = text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        if !begins_well || !is_fit || text.len() > MAX {
            return Err(BadPluginName::Form);
        }
        if text == INTERNAL_CLIENT {
            return Err(BadPluginName::Reserved);
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for PluginName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_becomes_a_client_a_package_and_a_directory() {
        for good in ["a", "weather", "my-weather-2", &"a".repeat(MAX)] {
            let name: PluginName = good.parse().expect(good);
            assert!(airlock_core::tool::ClientName::parse(&name.client()).is_ok(), "{good}");
        }
        for bad in [
            "",
            "-a",
            "2a",
            "A",
            "a_b",
            "a b",
            "../a",
            "a/b",
            "ä",
            "internal",
            &"a".repeat(MAX + 1),
        ] {
            assert!(bad.parse::<PluginName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn reserved_words_of_rust_are_recognised() {
        assert!(
            ["match", "yield", "self"]
                .iter()
                .all(|word| PluginName((*word).to_owned()).is_word_of_rust())
        );
        assert!(!PluginName("weather".to_owned()).is_word_of_rust());
    }
}
