//! Names of clients and tools. Only their constructors create them, so every name is valid on the
//! wire.

use std::{
    borrow::{Borrow, Cow},
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use airlock_strings as text;
use serde::Serialize;
use sha2::{Digest, Sha256};

/// The longest function name of OpenAI's API, in characters (`^[a-zA-Z0-9_-]{1,64}$`).
pub const MAX_WIRE_NAME: usize = 64;
/// Client name of an embedding program's own tools. A configured client cannot have this name.
pub const INTERNAL_CLIENT: &str = "internal";
/// The name that Bifrost gives to an embedding program's own tools, in headers and lists.
const INTERNAL_CLIENT_OF_BIFROST: &str = "bifrostInternal";
/// Names of the gateway's own tools, in lower case. No tool of a client has one of them, in any case:
/// a model would take it for the gateway's.
pub const OWN_TOOLS: [&str; 7] = [
    "executetoolcode",
    "gettooldocs",
    "listtoolfiles",
    "readcontent",
    "readresource",
    "readtoolfile",
    "searchtools",
];
/// Name of the gateway's own tool that reads a resource of a client. Guards and sinks decide about a call of it as about
/// one of the tool of this name of that client.
pub const READ_RESOURCE: &str = "readResource";
/// The longest client name, in characters: half of [`MAX_WIRE_NAME`], so that the tool's own name
/// has as much room after the prefix.
const MAX_CLIENT_NAME: usize = 32;
/// Digests that are tried for one name.
const ATTEMPTS: u8 = 16;

/// Name of a configured source of tools: `[A-Za-z_][A-Za-z0-9_]*`, at most 32 characters. It has no
/// `-`, so the first `-` of `<client>-<tool>` is the separator, and tools of two clients can never
/// have the same full name.
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

/// Returns the name of a client or the full name of a tool, with the gateway's own name of an embedding
/// program's tools for Bifrost's.
pub fn with_internal_client(name: &str) -> Cow<'_, str> {
    match name.strip_prefix(INTERNAL_CLIENT_OF_BIFROST) {
        Some(rest) if rest.is_empty() || rest.starts_with('-') => {
            format!("{INTERNAL_CLIENT}{rest}").into()
        }
        _ => name.into(),
    }
}

impl ClientName {
    /// Name of the client that has an embedding program's own tools.
    pub fn internal() -> Self {
        Self(INTERNAL_CLIENT.into())
    }

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

/// Maps with names as keys are searched with text.
impl Borrow<str> for ClientName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// Name of a tool on the wire: `<prefix>-<tool>`, or a bare name. It matches
/// `^[a-zA-Z0-9_-]{1,64}$` for every name that a source uses.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct ToolName(Arc<str>);

impl ToolName {
    /// Maps the name of a tool at its source to a name on the wire with a prefix.
    ///
    /// A name that is valid there is kept. In any other name, invalid characters become `_`, the
    /// name is cut, and `_` with the first eight hexadecimal digits of its SHA-256 is appended, so
    /// that `查询`, `a/b` and `a.b` get different names. [`distinct_names`] gives longer digests to
    /// names that are the same even so.
    pub fn new(prefix: &ClientName, original: &str) -> Self {
        Self::unchanged(prefix, original).unwrap_or_else(|| Self::digested(prefix, original, 0))
    }

    /// Returns `<prefix>-<original>`; `None` if it is not valid on the wire.
    fn unchanged(prefix: &ClientName, original: &str) -> Option<Self> {
        let fits = prefix.0.len() + 1 + original.len() <= MAX_WIRE_NAME;
        (fits && Self::is_valid(original)).then(|| Self(format!("{prefix}-{original}").into()))
    }

    /// Returns the name with a digest of the original name. The first attempt has the digest of the
    /// name alone; each further one a longer digest of another kind.
    fn digested(prefix: &ClientName, original: &str, attempt: u8) -> Self {
        let digest = match attempt {
            0 => Sha256::digest(original.as_bytes()),
            // No name has the character NUL.
            _ => Sha256::digest(format!("{attempt}\0{original}").as_bytes()),
        };
        let digest = text::hex(if attempt == 0 { &digest[..4] } else { &digest[..8] });
        let room = MAX_WIRE_NAME - prefix.0.len() - digest.len() - 2;
        let kept: String =
            original.chars().map(|c| if is_of_name(c) { c } else { '_' }).take(room).collect();
        Self(format!("{prefix}-{kept}_{digest}").into())
    }

    /// Returns the name without a prefix; `None` if it is not valid on the wire.
    pub fn bare(original: &str) -> Option<Self> {
        Self::is_valid(original).then(|| Self(original.into()))
    }

    /// Returns whether a name matches `^[a-zA-Z0-9_-]{1,64}$`, as the plugin contract requires of
    /// the tools of plugins.
    pub fn is_valid(name: &str) -> bool {
        (1..=MAX_WIRE_NAME).contains(&name.len()) && name.chars().all(is_of_name)
    }

    /// Creates a name by which one caller knows a tool. It is not checked.
    pub fn alias(name: &str) -> Self {
        Self(name.into())
    }

    /// Creates the name of one of the gateway's own tools. It has no `-`, so no tool with a prefix
    /// can have the same name; [`OWN_TOOLS`] keeps bare names away.
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

/// Assigns each tool of one source its name on the wire. The names depend on the set of the original
/// names and not on their order, and no two are the same.
///
/// A name that is valid is kept, even if another one's digest was made to equal it. Names whose
/// digests collide all get longer ones. A source that takes all of these too, for which it needs 16
/// names per tool, loses that tool: it has no name in the result.
pub fn distinct_names<'o>(
    prefix: &ClientName,
    originals: impl IntoIterator<Item = &'o str>,
) -> BTreeMap<&'o str, ToolName> {
    let mut names = BTreeMap::new();
    let mut waiting = BTreeSet::new();
    for original in originals {
        match ToolName::unchanged(prefix, original) {
            Some(name) => drop(names.insert(original, name)),
            None => drop(waiting.insert(original)),
        }
    }
    let mut taken: BTreeSet<ToolName> = names.values().cloned().collect();
    for attempt in 0..ATTEMPTS {
        let mut wanted: BTreeMap<ToolName, Vec<&'o str>> = BTreeMap::new();
        for original in &waiting {
            wanted.entry(ToolName::digested(prefix, original, attempt)).or_default().push(original);
        }
        for (name, originals) in wanted {
            if let [original] = originals[..]
                && taken.insert(name.clone())
            {
                waiting.remove(original);
                names.insert(original, name);
            }
        }
    }
    names
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

/// Parses a good name.
#[cfg(test)]
pub(crate) fn client(name: &str) -> ClientName {
    ClientName::parse(name).expect("a good name")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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

    #[test]
    fn a_name_made_to_equal_anothers_digest_takes_no_tool_away() {
        let fs = client("fs");
        let plain = digest_part(&fs, 0);
        let names = distinct_names(&fs, ["a/b", &plain]);
        assert_eq!(names[plain.as_str()].as_str(), format!("fs-{plain}"));
        assert_eq!(names["a/b"].as_str(), format!("fs-{}", digest_part(&fs, 1)));
        // Without the other tool, the name is the one of a plugin's manifest or a grant.
        assert_eq!(distinct_names(&fs, ["a/b"])["a/b"], ToolName::new(&fs, "a/b"));
        let all: Vec<_> = (0..ATTEMPTS).map(|attempt| digest_part(&fs, attempt)).collect();
        let taken = distinct_names(&fs, all.iter().map(String::as_str).chain(["a/b"]));
        assert_eq!((taken.len(), taken.get("a/b")), (ATTEMPTS.into(), None));
        let left = distinct_names(&fs, all[1..].iter().map(String::as_str).chain(["a/b"]));
        assert_eq!(left["a/b"].as_str(), format!("fs-{plain}"));
    }

    fn digest_part(fs: &ClientName, attempt: u8) -> String {
        ToolName::digested(fs, "a/b", attempt).as_str()[3..].to_owned()
    }

    #[test]
    fn similar_names_stay_distinct() {
        let fs = client("fs");
        let long = "x".repeat(65);
        let longer = "x".repeat(66);
        let originals = [
            "a-b", "a_b", "GetUser", "getuser", "查询", "写", "", " ", "a b", "a/b", &long, &longer,
        ];
        let names = distinct_names(&fs, originals);
        assert_eq!(names.values().collect::<BTreeSet<_>>().len(), originals.len());
        assert_eq!(names["GetUser"].as_str(), "fs-GetUser");
        assert_eq!(names[""].as_str(), "fs-_e3b0c442");
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
        fn hostile_names_get_distinct_valid_names_whatever_their_order(
            client_name in "[a-z_][a-z0-9_]{0,31}",
            names in prop::collection::btree_set("|[aAbB_.\\-/ 1$]{1,4}|[gG]et[uU]ser|\\PC{1,8}|[aä]{20,128}|[\\u{200b}\\u{202e}a]{1,4}|[查询写]{1,3}", 1..40),
            seed in any::<u64>(),
        ) {
            let prefix = client(&client_name);
            // A server that knows the rule names further tools like the digests of the others.
            let mut names: Vec<String> = names.into_iter().collect();
            for attempt in 0..3 {
                let crafted: Vec<_> = names
                    .iter()
                    .filter(|name| name.len() as u64 % 3 == seed % 3)
                    .map(|name| ToolName::digested(&prefix, name, attempt).as_str()[client_name.len() + 1..].to_owned())
                    .collect();
                names.extend(crafted);
            }
            names.sort();
            names.dedup();
            let assigned = distinct_names(&prefix, names.iter().map(String::as_str));
            prop_assert_eq!(assigned.len(), names.len(), "every tool has a name");
            let distinct: BTreeSet<_> = assigned.values().collect();
            prop_assert_eq!(distinct.len(), names.len(), "no two have the same");
            for name in distinct {
                prop_assert!(ToolName::is_valid(name.as_str()) && name.as_str().starts_with(&format!("{client_name}-")), "{}", name);
            }
            let turn = usize::try_from(seed % names.len() as u64).expect("it is small");
            let mut turned = names.clone();
            turned.rotate_left(turn);
            prop_assert_eq!(assigned, distinct_names(&prefix, turned.iter().rev().map(String::as_str)));
        }
    }
}
