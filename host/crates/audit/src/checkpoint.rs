//! Checkpoints: the size and the root of a log, signed (C2SP `tlog-checkpoint` in a `signed-note`).

use std::fmt;

use base64::{Engine as _, prelude::BASE64_STANDARD};

use crate::{
    key::{PublicKey, SigningKey, is_name},
    tree::{Hash, Tree},
};

/// Longest checkpoint that is read, in bytes. It is held in memory, and an unknown sender may have
/// written the file. [`MAX_SIGNATURES`] lines of 256 bytes each have room.
pub(crate) const MAX_BYTES: usize = 16 << 10;
/// Most signatures of a checkpoint that are read: that of the log, and one of each witness. Each
/// that has the name of the key is verified, and so are forged ones.
const MAX_SIGNATURES: usize = 64;
/// Beginning of a signature's line.
pub(crate) const DASH: &str = "\u{2014} ";

/// Error: a text is no signed checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadCheckpoint {
    /// It has no blank line between text and signatures, or does not end with a line end.
    #[error("is not a signed note: expected text, a blank line, and lines of signatures")]
    Note,
    /// The first lines are not those of a checkpoint.
    #[error("is not a checkpoint: expected the lines origin, size and root hash")]
    Text,
    /// It is not UTF-8.
    #[error("is not UTF-8 text")]
    Encoding,
    /// The file has a checkpoint of as many lines, or more, before it.
    #[error("does not have more lines than the one before it")]
    Order,
    /// A line of a signature is malformed.
    #[error("has a line that is not a signature")]
    Signature,
}

/// A checkpoint with its signatures, which need not be valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Name of the log.
    pub origin: String,
    /// Number of lines.
    pub size: u64,
    /// Root of the tree with these lines.
    pub root: Hash,
    /// The whole, as it is written.
    note: String,
    /// Length of the part that is signed.
    text_bytes: usize,
    signatures: Vec<NoteSignature>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct NoteSignature {
    name: String,
    key_id: [u8; 4],
    signature: Vec<u8>,
}

impl Checkpoint {
    /// Signs the present state of a tree.
    pub(crate) fn sign(origin: &str, tree: &Tree, key: &SigningKey) -> Self {
        let root = tree.root();
        let text = format!("{origin}\n{}\n{}\n", tree.size(), BASE64_STANDARD.encode(root));
        let signature = NoteSignature {
            name: origin.to_owned(),
            key_id: key.public(origin).id(),
            signature: key.sign(text.as_bytes()).to_vec(),
        };
        let encoded =
            BASE64_STANDARD.encode([&signature.key_id[..], &signature.signature].concat());
        Self {
            origin: origin.to_owned(),
            size: tree.size(),
            root,
            note: format!("{text}\n{DASH}{origin} {encoded}\n"),
            text_bytes: text.len(),
            signatures: vec![signature],
        }
    }

    /// Reads a signed checkpoint.
    pub(crate) fn parse(note: &str) -> Result<Self, BadCheckpoint> {
        let separator = note.rfind("\n\n").filter(|_| note.len() <= MAX_BYTES);
        let text_bytes = separator.ok_or(BadCheckpoint::Note)? + 1;
        let signatures = note[text_bytes + 1..].strip_suffix('\n').ok_or(BadCheckpoint::Note)?;
        let signatures: Vec<_> = signatures
            .split('\n')
            .map(NoteSignature::parse)
            .collect::<Option<_>>()
            .ok_or(BadCheckpoint::Signature)?;
        if signatures.len() > MAX_SIGNATURES {
            return Err(BadCheckpoint::Signature);
        }
        let (origin, size, root) = text(&note[..text_bytes]).ok_or(BadCheckpoint::Text)?;
        Ok(Self { origin, size, root, note: note.to_owned(), text_bytes, signatures })
    }

    /// Returns whether this key has signed it, as the log of the key's name. All signatures under its name and
    /// identifier must be valid.
    pub fn is_signed_by(&self, key: &PublicKey) -> bool {
        let own = self
            .signatures
            .iter()
            .filter(|signature| signature.name == key.name() && signature.key_id == key.id());
        let text = &self.note.as_bytes()[..self.text_bytes];
        let mut own = own.map(|signature| key.has_signed(text, &signature.signature)).peekable();
        self.origin == key.name() && own.peek().is_some() && own.all(|is_valid| is_valid)
    }
}

impl fmt::Display for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.note)
    }
}

impl NoteSignature {
    fn parse(line: &str) -> Option<Self> {
        let (name, encoded) = line.strip_prefix(DASH)?.split_once(' ')?;
        let bytes = BASE64_STANDARD.decode(encoded).ok()?;
        let (key_id, signature) = bytes.split_first_chunk()?;
        let is_valid = is_name(name) && !signature.is_empty();
        is_valid.then(|| Self {
            name: name.to_owned(),
            key_id: *key_id,
            signature: signature.to_vec(),
        })
    }
}

/// Reads the lines origin, size and root. Lines after them are extensions of other logs. A note has no control
/// characters, which a terminal would obey.
fn text(text: &str) -> Option<(String, u64, Hash)> {
    let mut lines = text.strip_suffix('\n')?.split('\n');
    let origin = lines.next().filter(|origin| is_name(origin))?;
    let digits = lines.next()?;
    let size: u64 = digits.parse().ok()?;
    let root = BASE64_STANDARD.decode(lines.next()?).ok()?.try_into().ok()?;
    let is_valid = size.to_string() == digits
        && lines.all(|line| !line.is_empty() && !line.chars().any(char::is_control));
    is_valid.then(|| (origin.to_owned(), size, root))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::leaf_hash;

    fn signed() -> (Checkpoint, PublicKey) {
        let (key, _) = SigningKey::generate().expect("random bytes");
        let mut tree = Tree::default();
        tree.push(leaf_hash(b"a"));
        (Checkpoint::sign("gateway/one", &tree, &key), key.public("gateway/one"))
    }

    #[test]
    fn a_checkpoint_is_read_as_it_was_signed() {
        let (checkpoint, key) = signed();
        let read = Checkpoint::parse(&checkpoint.to_string()).expect("a checkpoint");
        assert_eq!(read, checkpoint);
        assert!(read.is_signed_by(&key));
        let (_, other) = signed();
        assert!(!read.is_signed_by(&other));
    }

    #[test]
    fn no_byte_of_a_checkpoint_can_be_changed() {
        let (checkpoint, key) = signed();
        let note = checkpoint.to_string();
        for position in 0..note.len() {
            let mut bytes = note.clone().into_bytes();
            bytes[position] ^= 1;
            let Ok(changed) = String::from_utf8(bytes) else { continue };
            let is_valid =
                Checkpoint::parse(&changed).is_ok_and(|changed| changed.is_signed_by(&key));
            assert!(!is_valid, "byte {position}");
        }
    }

    #[test]
    fn a_signature_of_a_witness_is_kept_and_one_of_the_key_that_is_not_valid_counts() {
        let (checkpoint, key) = signed();
        let witnessed = format!("{checkpoint}{DASH}witness.example AAAAAAAA\n");
        let read = Checkpoint::parse(&witnessed).expect("a checkpoint");
        assert!(read.is_signed_by(&key));
        let encoded = BASE64_STANDARD.encode([&key.id()[..], &[0; 64]].concat());
        let forged = format!("{checkpoint}{DASH}{} {encoded}\n", key.name());
        assert!(!Checkpoint::parse(&forged).expect("a checkpoint").is_signed_by(&key));
    }

    #[test]
    fn other_text_is_refused() {
        let root = BASE64_STANDARD.encode([0; 32]);
        for (text, expected) in [
            (String::new(), BadCheckpoint::Note),
            (format!("a\n1\n{root}\n"), BadCheckpoint::Note),
            (format!("a\n1\n{root}\n\n{DASH}a AAAAAAAA"), BadCheckpoint::Note),
            (format!("a\n1\n{root}\n\na AAAAAAAA\n"), BadCheckpoint::Signature),
            (format!("a\n1\n{root}\n\n{DASH}a AAAA\n"), BadCheckpoint::Signature),
            (format!("a\n01\n{root}\n\n{DASH}a AAAAAAAA\n"), BadCheckpoint::Text),
            (format!("a\n-1\n{root}\n\n{DASH}a AAAAAAAA\n"), BadCheckpoint::Text),
            (format!("a b\n1\n{root}\n\n{DASH}a AAAAAAAA\n"), BadCheckpoint::Text),
            (format!("\n1\n{root}\n\n{DASH}a AAAAAAAA\n"), BadCheckpoint::Text),
            (format!("a\n1\nAAAA\n\n{DASH}a AAAAAAAA\n"), BadCheckpoint::Text),
            (format!("a\n1\n{root}\n\u{1b}[2J\n\n{DASH}a AAAAAAAA\n"), BadCheckpoint::Text),
        ] {
            assert_eq!(Checkpoint::parse(&text), Err(expected), "{text}");
        }
        let many = format!("a\n1\n{root}\n\n{}", format!("{DASH}a AAAAAAAA\n").repeat(65));
        assert_eq!(Checkpoint::parse(&many), Err(BadCheckpoint::Signature));
    }
}
