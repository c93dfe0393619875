//! The first line of a file: what the rest of it follows.

use airlock_strings::from_hex;

use crate::{
    event::{EventLine, LOG_CONTINUED, LOG_CREATED, text},
    key::PublicKey,
    tree::{Hash, Tree},
};

/// The state of a log before the first line of a file.
#[derive(Debug, Clone)]
pub(crate) struct LogStart {
    /// The lines in earlier files.
    pub(crate) tree: Tree,
    /// The key that signs at this point; its name is that of the log.
    pub(crate) key: PublicKey,
}

impl LogStart {
    /// Reads the first line of a file. The error says what it does, as the end of a sentence.
    pub(crate) fn read(line: &EventLine<'_>) -> Result<Self, &'static str> {
        let members = line.members().ok_or("is not a JSON object")?;
        let tree = match text(&members, "kind") {
            Some(LOG_CREATED) if line.number == 0 => Tree::default(),
            Some(LOG_CONTINUED) => {
                let hashes = text(&members, "tree").and_then(hashes);
                let tree = hashes.and_then(|hashes| Tree::from_subtrees(line.number, hashes));
                tree.ok_or("has no tree of the lines before it")?
            }
            _ => return Err("is the first of a file and does not say what it follows"),
        };
        let key = text(&members, "public_key").and_then(|key| key.parse::<PublicKey>().ok());
        let key = key.ok_or("has no public key")?;
        if text(&members, "log") == Some(key.name()) {
            Ok(Self { tree, key })
        } else {
            Err("has a key of another log")
        }
    }
}

/// Reads hashes in hexadecimal, without anything between them.
fn hashes(text: &str) -> Option<Vec<Hash>> {
    let (digits, rest) = text.as_bytes().as_chunks::<64>();
    if !rest.is_empty() {
        return None;
    }
    digits.iter().map(|digits| from_hex(digits)).collect()
}
