//! Detection of duplicate keys in objects.

use std::{cell::RefCell, collections::HashSet, fmt};

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

/// A key that one object has twice. Parsers differ in which of the two values they keep, so a check
/// and the code that it protects may see different values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the key {key:?} occurs twice in one object")]
pub struct DuplicateKey {
    /// The key, with its escapes resolved and cut if it is long.
    pub key: String,
}

/// Fails if an object in `text` has a duplicate key, at any depth. Keys are compared with their
/// escapes resolved. Invalid JSON is checked only up to its first syntax error, so check the syntax
/// first. Memory: the keys of all open objects, at most the size of the text, and hash tables.
pub fn check_unique_keys(text: &str) -> Result<(), DuplicateKey> {
    let duplicate = RefCell::new(None);
    // All other errors are ignored here; the parser reports them.
    let _ = Unique(&duplicate).deserialize(&mut serde_json::Deserializer::from_str(text));
    match duplicate.into_inner() {
        Some(duplicate) => Err(duplicate),
        None => Ok(()),
    }
}

/// Visits a value and stores the first duplicate key in its field.
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
                let shown = &key[..key.floor_char_boundary(airlock_strings::MAX_NAME_BYTES)];
                *self.0.borrow_mut() = Some(DuplicateKey { key: shown.to_owned() });
                return Err(A::Error::custom("a duplicate key"));
            }
            seen.insert(key);
            entries.next_value_seed(self)?;
        }
        Ok(())
    }
}
