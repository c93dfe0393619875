//! The keys of a log in the course of time. A change is an event that both keys have signed.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Map, Value};

use crate::{
    event::{KEY_ROTATED, line, now_ms, text},
    key::{PublicKey, SigningKey},
};

/// The keys that sign a log, or a part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyHistory {
    first: PublicKey,
    /// The numbers of the lines with changes, and the new keys.
    changes: Vec<(u64, PublicKey)>,
}

impl KeyHistory {
    pub(crate) fn new(first: PublicKey) -> Self {
        Self { first, changes: Vec::new() }
    }

    /// Returns the key that signs now.
    pub(crate) fn current(&self) -> &PublicKey {
        self.changes.last().map_or(&self.first, |(_, key)| key)
    }

    /// Returns the key that signs the checkpoint with this number of lines: the new one if the line with
    /// the change is one of them.
    pub(crate) fn of_size(&self, size: u64) -> &PublicKey {
        let before = self.changes.partition_point(|(number, _)| *number < size);
        self.changes[..before].last().map_or(&self.first, |(_, key)| key)
    }

    /// Returns all keys, oldest first.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &PublicKey> {
        std::iter::once(&self.first).chain(self.changes.iter().map(|(_, key)| key))
    }

    /// Takes the change in line `number`. Returns false, and changes nothing, unless the present key and the
    /// new one have signed it.
    pub(crate) fn rotate(&mut self, members: &Map<String, Value>, number: u64) -> bool {
        let new = new_key(members, number, self.current());
        let is_valid = new.is_some();
        self.changes.extend(new.map(|key| (number, key)));
        is_valid
    }
}

/// Returns what both keys sign. It names the line, so that it is valid at this place alone.
fn statement(number: u64, old: &PublicKey, new: &PublicKey) -> String {
    format!("airlock audit key rotation\n{}\n{number}\n{old}\n{new}\n", old.name())
}

/// Writes the event of a change, which becomes line `number`.
pub(crate) fn event(origin: &str, number: u64, old: &SigningKey, new: &SigningKey) -> String {
    let old_public = old.public(origin);
    let new_public = new.public(origin);
    let statement = statement(number, &old_public, &new_public);
    let members = [
        ("new_key", new_public.to_string().into()),
        ("new_signature", BASE64_STANDARD.encode(new.sign(statement.as_bytes())).into()),
        ("old_key", old_public.to_string().into()),
        ("old_signature", BASE64_STANDARD.encode(old.sign(statement.as_bytes())).into()),
        ("time_ms", Value::from(now_ms())),
    ];
    line(KEY_ROTATED, members)
}

fn new_key(members: &Map<String, Value>, number: u64, old: &PublicKey) -> Option<PublicKey> {
    let new: PublicKey = text(members, "new_key")?.parse().ok()?;
    let statement = statement(number, old, &new);
    let is_valid = text(members, "old_key")? == old.to_string()
        && new.name() == old.name()
        && old.has_signed(statement.as_bytes(), &signature(members, "old_signature")?)
        && new.has_signed(statement.as_bytes(), &signature(members, "new_signature")?);
    is_valid.then_some(new)
}

fn signature(members: &Map<String, Value>, name: &str) -> Option<Vec<u8>> {
    BASE64_STANDARD.decode(text(members, name)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_valid_at_its_place_and_with_both_signatures() {
        let (old, _) = SigningKey::generate().expect("random bytes");
        let (new, _) = SigningKey::generate().expect("random bytes");
        let event = event("a/b", 7, &old, &new);
        let members: Map<_, _> = serde_json::from_str(&event).expect("an object");
        let mut history = KeyHistory::new(old.public("a/b"));
        assert!(!history.rotate(&members, 8), "another place");
        for name in ["old_signature", "new_signature", "old_key", "new_key"] {
            let other = if name.ends_with("key") { "x" } else { "AAAA" };
            let mut changed = members.clone();
            changed.insert(name.to_owned(), other.into());
            assert!(!history.rotate(&changed, 7), "{name}");
            changed.remove(name);
            assert!(!history.rotate(&changed, 7), "{name}");
        }
        assert!(history.rotate(&members, 7));
        assert_eq!(history.current(), &new.public("a/b"));
        assert_eq!(history.of_size(7), &old.public("a/b"));
        assert_eq!(history.of_size(8), &new.public("a/b"));
        assert!(!history.rotate(&members, 7), "the key signs already");
    }
}
