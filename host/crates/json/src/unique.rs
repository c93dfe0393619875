//! Detection of duplicate keys in objects.

use std::{borrow::Cow, cell::RefCell, collections::HashSet, fmt};

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use super::{Caps, Error, check_with, raw, scan::TokenSink};

/// Keys of an object that are compared one by one. Most objects have no more, and need no hash table.
const FEW: usize = 8;

/// A key that one object has twice. Parsers differ in which of the two values they keep, so a check
/// and the code that it protects may see different values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the key {key:?} occurs twice in one object")]
pub struct DuplicateKey {
    /// The key, with its escapes resolved and cut if it is long.
    pub key: String,
}

impl DuplicateKey {
    fn new(key: &str) -> Self {
        let shown = &key[..key.floor_char_boundary(airlock_strings::MAX_NAME_BYTES)];
        Self { key: shown.to_owned() }
    }
}

/// Checks a JSON text against `caps` like [`check`](crate::check), and looks for a duplicate key like
/// [`check_unique_keys`] in the same pass. Returns the first one; `None` if the keys of each object differ. Fails if the
/// check fails, whatever the keys are. Memory: as [`check_unique_keys`].
pub fn check_keys(text: &str, caps: &Caps) -> Result<Option<DuplicateKey>, Error> {
    let mut keys = OpenKeys { text, few: Vec::new(), open: Vec::new(), duplicate: None };
    check_with(text.as_bytes(), caps, &mut keys)?;
    Ok(keys.duplicate)
}

/// Keys of the arrays and objects that are open while a text is checked.
struct OpenKeys<'t> {
    text: &'t str,
    /// The first keys of each open object, those of the innermost one last.
    few: Vec<Cow<'t, str>>,
    /// The open arrays and objects, the innermost one last.
    open: Vec<OpenObject<'t>>,
    duplicate: Option<DuplicateKey>,
}

/// An open object, or an array, which has no keys.
struct OpenObject<'t> {
    /// Position of its first key in [`OpenKeys::few`].
    first: usize,
    /// All of its keys but the first few.
    more: HashSet<Cow<'t, str>>,
}

impl<'t> OpenKeys<'t> {
    /// Returns a key that the scanner has read, as a part of the text if it has no escapes.
    fn read(&self, key: &[u8], has_escapes: bool) -> Cow<'t, str> {
        let text: &'t str = self.text;
        let start = key.as_ptr() as usize - text.as_ptr() as usize;
        let end = start + key.len();
        if has_escapes {
            // With its quotes, which are ASCII.
            raw::string(&text[start - 1..=end]).unwrap_or_default()
        } else {
            Cow::Borrowed(&text[start..end])
        }
    }
}

impl TokenSink for OpenKeys<'_> {
    fn key(&mut self, key: &[u8], has_escapes: bool) {
        if self.duplicate.is_some() {
            return;
        }
        let key = self.read(key, has_escapes);
        let object = self.open.last_mut().expect("a key is in an object");
        let few = &self.few[object.first..];
        if few.contains(&key) || object.more.contains(&key) {
            self.duplicate = Some(DuplicateKey::new(&key));
        } else if few.len() < FEW {
            self.few.push(key);
        } else {
            object.more.insert(key);
        }
    }

    fn open(&mut self, _is_object: bool, _at: usize) {
        self.open.push(OpenObject { first: self.few.len(), more: HashSet::new() });
    }

    fn close(&mut self, _end: usize) {
        let closed = self.open.pop().expect("a scanner closes what it has opened");
        self.few.truncate(closed.first);
    }
}

/// Fails if an object in `text` has a duplicate key, at any depth. Keys are compared with their
/// escapes resolved. Invalid JSON is checked only up to its first syntax error, so check the syntax
/// first. Memory: those keys of all open objects that have escapes, at most the size of the text, and hash
/// tables of objects with more than eight keys.
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
        let mut seen = SeenKeys::default();
        while let Some(key) = entries.next_key_seed(ObjectKey)? {
            if seen.has(&key) {
                *self.0.borrow_mut() = Some(DuplicateKey::new(&key));
                return Err(A::Error::custom("a duplicate key"));
            }
            seen.add(key);
            entries.next_value_seed(self)?;
        }
        Ok(())
    }
}

/// Keys of an object so far.
#[derive(Default)]
struct SeenKeys<'de> {
    few: [Option<Cow<'de, str>>; FEW],
    count: usize,
    /// All but the first few.
    more: HashSet<Cow<'de, str>>,
}

impl<'de> SeenKeys<'de> {
    fn has(&self, key: &str) -> bool {
        let mut few = self.few.iter().map_while(Option::as_deref);
        few.any(|known| known == key) || self.more.contains(key)
    }

    fn add(&mut self, key: Cow<'de, str>) {
        match self.few.get_mut(self.count) {
            Some(free) => *free = Some(key),
            None => {
                self.more.insert(key);
            }
        }
        self.count += 1;
    }
}

/// Reads a key. One without escapes is a part of the text.
struct ObjectKey;

impl<'de> DeserializeSeed<'de> for ObjectKey {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for ObjectKey {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(key))
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(key.to_owned()))
    }
}
