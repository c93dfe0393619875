//! Names of clients and tools. Only their constructors create them, so every name is valid on the
//! wire.

use std::{fmt, sync::Arc};

use crate::text;
use serde::Serialize;
use sha2::{Digest, Sha256};

/// The longest function name of OpenAI's API, in characters (`^[a-zA-Z0-9_-]{1,64}$`).
const MAX_WIRE_NAME: usize = 64;
/// Client name of an embedding program's own tools. A configured client cannot have this name.
pub const INTERNAL_CLIENT: &str = "internal";
/// The longest client name, in characters. It leaves room for the tool's own name after the prefix.
const MAX_CLIENT_NAME: usize = 32;

/// Name of a configured source of tools: `[A-Za-z_][A-Za-z0-9_]*`, at most 32 characters. It has no
/// `-`, so the first `-` of `<client>-<tool>` is the separator, and tools of two clients can never
/// have the same name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct ClientName(Arc<str>);

/// Reason why a text is not a valid [`ClientName`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{found:?} is not a valid client name: use a letter or `_`, then letters, digits or `_`, at most {MAX_CLIENT_NAME} characters"
)]
pub struct BadClientName {
    found: String,
}

impl ClientName {
    /// Parses a client's name.
    pub fn parse(text: &str) -> Result<Self, BadClientName> {
        let mut characters = text.chars();
        let starts_well = characters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
        let goes_on_well = characters.all(|c| c.is_ascii_alphanumeric() || c == '_');
        if starts_well && goes_on_well && text.len() <= MAX_CLIENT_NAME {
            Ok(Self(text.into()))
        } else {
            Err(BadClientName { found: text.to_owned() })
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Name of a tool on the wire: `<client>-<tool>`, or the bare name of one of the gateway's own
/// tools. It matches `^[a-zA-Z0-9_-]{1,64}$` for every name that a source uses.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct ToolName(Arc<str>);

impl ToolName {
    /// Maps the name of a tool at its source to its name on the wire.
    ///
    /// A name that is valid there is kept. In any other name, invalid characters become `_`, the
    /// name is cut, and `_` with the first eight hexadecimal digits of its SHA-256 is appended, so
    /// that `查询`, `a/b` and `a.b` get different names.
    pub fn new(client: &ClientName, original: &str) -> Self {
        let room = MAX_WIRE_NAME - client.0.len() - 1;
        if original.len() <= room && Self::is_valid(original) {
            return Self(format!("{client}-{original}").into());
        }
        let digest = Sha256::digest(original.as_bytes());
        let kept: String =
            original.chars().map(|c| if is_of_name(c) { c } else { '_' }).take(room - 9).collect();
        Self(format!("{client}-{kept}_{}", text::hex(&digest[..4])).into())
    }

    /// Returns whether a name matches `^[a-zA-Z0-9_-]{1,64}$`, as the plugin contract requires of
    /// the tools of plugins.
    pub fn is_valid(name: &str) -> bool {
        (1..=MAX_WIRE_NAME).contains(&name.len()) && name.chars().all(is_of_name)
    }

    /// Creates a name by which one caller knows a tool.
    pub(super) fn alias(name: &str) -> Self {
        Self(name.into())
    }

    /// Creates the name of one of the gateway's own tools. It has no `-`, so no client's tool can
    /// have the same name.
    pub fn own(name: &'static str) -> Self {
        debug_assert!(!name.contains('-'));
        Self(name.into())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for ToolName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

macro_rules! show_as_text {
    ($($name:ident)*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    )*};
}
show_as_text!(ClientName ToolName);

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn client(name: &str) -> ClientName {
        ClientName::parse(name).expect("a good name")
    }

    #[test]
    fn a_client_name_has_no_dash_no_blank_and_no_leading_digit() {
        for good in ["fs", "_x", "Files_2", &"a".repeat(32)] {
            assert!(ClientName::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "a-b", "a b", "2fs", "ä", "a.b", &"a".repeat(33)] {
            assert!(ClientName::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_name_that_fits_is_kept_and_any_other_gets_a_digest() {
        assert_eq!(ToolName::new(&client("fs"), "read_file").as_str(), "fs-read_file");
        assert_eq!(
            ToolName::new(&client("c7"), "resolve-library-id").as_str(),
            "c7-resolve-library-id"
        );
        let slash = ToolName::new(&client("fs"), "a/b");
        assert!(slash.as_str().starts_with("fs-a_b_"), "{slash}");
        assert_ne!(slash, ToolName::new(&client("fs"), "a.b"));
    }

    proptest! {
        #[test]
        fn every_tool_name_is_valid_on_the_wire(client_name in "[a-z_][a-z0-9_]{0,31}", original in ".{0,200}") {
            let name = ToolName::new(&client(&client_name), &original);
            prop_assert!((1..=64).contains(&name.as_str().len()));
            prop_assert!(name.as_str().chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'));
            prop_assert_eq!(name.as_str().split_once('-').map(|(c, _)| c), Some(client_name.as_str()));
        }

        #[test]
        fn different_tools_get_different_names(a in ".{0,80}", b in ".{0,80}") {
            prop_assume!(a != b);
            prop_assert_ne!(ToolName::new(&client("x"), &a), ToolName::new(&client("x"), &b));
        }
    }
}
