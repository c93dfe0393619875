//! Finds a key that an object has twice.

use std::{cell::RefCell, collections::HashSet, fmt};

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

/// A key is cut here in the error, in bytes.
const MAX_SHOWN_BYTES: usize = 128;

/// A key that one object has twice. Readers differ in which of the two values they take, so a check
/// and what it guards may see different ones.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the key {key:?} is there twice in one object, expected every key once")]
pub struct DuplicateKey {
    /// The key with its escapes resolved, cut if it is long.
    pub key: String,
}

/// Fails if an object in `text` has a key twice, at any depth; keys are compared with their escapes
/// resolved. What is no JSON passes up to its first error, so check that first. Holds the keys of
/// the objects that are open, which is at most the text once and a hash table.
pub fn check_unique_keys(text: &str) -> Result<(), DuplicateKey> {
    let duplicate = RefCell::new(None);
    // Every other error is the parser's to report.
    let _ = Unique(&duplicate).deserialize(&mut serde_json::Deserializer::from_str(text));
    duplicate.into_inner().map_or(Ok(()), Err)
}

/// Walks a value, and leaves the first duplicate here.
#[derive(Clone, Copy)]
struct Unique<'a>(&'a RefCell<Option<DuplicateKey>>);

impl<'de> DeserializeSeed<'de> for Unique<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Unique<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        while elements.next_element_seed(self)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let mut seen = HashSet::new();
        while let Some(key) = entries.next_key::<String>()? {
            if seen.contains(&key) {
                let shown = &key[..key.floor_char_boundary(MAX_SHOWN_BYTES)];
                *self.0.borrow_mut() = Some(DuplicateKey { key: shown.to_owned() });
                return Err(A::Error::custom("a duplicate key"));
            }
            seen.insert(key);
            entries.next_value_seed(self)?;
        }
        Ok(())
    }
}
