//! A store in memory that behaves like a store of the host, except for time, which stands still.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::rc::Rc;

use crate::bindings::MAX_PAGE_KEYS;
use crate::bindings::airlock::host::kv::{Entry, KeyPage, KvError};

/// Longest key, in bytes, as the host has it (`host.wit`): what passes in a test must pass in a gateway.
const MAX_KEY_BYTES: usize = 512;
/// Longest value, in bytes, as the host has it (`host.wit`).
const MAX_VALUE_BYTES: usize = 1 << 20;
/// Most bytes of the values of one reading: those that the host copies at once by default.
const MAX_READ_BYTES: usize = 8 << 20;
/// Bytes that an entry counts besides its key and its value.
const ENTRY_BYTES: usize = 64;

/// An open store.
#[derive(Debug)]
pub(crate) struct TestStore(Rc<RefCell<Contents>>);

/// The entries of a store.
#[derive(Debug)]
pub(super) struct Contents {
    entries: BTreeMap<String, Entry>,
    /// The newest version that was ever assigned.
    version: u64,
    quota: usize,
}

impl Default for Contents {
    fn default() -> Self {
        Self::with_quota(usize::MAX)
    }
}

impl Contents {
    pub(super) fn with_quota(bytes: usize) -> Self {
        Self { entries: BTreeMap::new(), version: 0, quota: bytes }
    }

    fn version(&self, key: &str) -> u64 {
        self.entries.get(key).map_or(0, |entry| entry.version)
    }

    /// Fails if the entry is not at the expected version; 0 stands for an absent entry.
    fn expect(&self, key: &str, if_version: Option<u64>) -> Result<(), KvError> {
        match if_version {
            Some(expected) if expected != self.version(key) => Err(KvError::Conflict),
            _ => Ok(()),
        }
    }

    /// Returns the bytes of all entries but one.
    fn bytes_without(&self, key: &str) -> usize {
        let others = self.entries.iter().filter(|(other, _)| *other != key);
        others.map(|(key, entry)| key.len() + entry.value.len() + ENTRY_BYTES).sum()
    }
}

impl TestStore {
    pub(super) fn new(contents: Rc<RefCell<Contents>>) -> Self {
        Self(contents)
    }

    pub(crate) fn get(&self, key: &str) -> Result<Option<Entry>, KvError> {
        check(key)?;
        Ok(self.0.borrow().entries.get(key).cloned())
    }

    pub(crate) fn get_many(&self, keys: &[String]) -> Result<Vec<Option<Entry>>, KvError> {
        if keys.len() > MAX_PAGE_KEYS as usize {
            return Err(KvError::TooLarge);
        }
        let found: Vec<_> = keys.iter().map(|key| self.get(key)).collect::<Result<_, _>>()?;
        let bytes: usize = found.iter().flatten().map(|entry| entry.value.len()).sum();
        if bytes > MAX_READ_BYTES { Err(KvError::TooLarge) } else { Ok(found) }
    }

    pub(crate) fn set(
        &self,
        key: &str,
        value: &[u8],
        if_version: Option<u64>,
        ttl_ms: Option<u64>,
    ) -> Result<u64, KvError> {
        check(key)?;
        if value.len() > MAX_VALUE_BYTES {
            return Err(KvError::TooLarge);
        }
        let mut contents = self.0.borrow_mut();
        contents.expect(key, if_version)?;
        let entry = key.len() + value.len() + ENTRY_BYTES;
        if entry > contents.quota {
            return Err(KvError::TooLarge);
        }
        if contents.bytes_without(key) + entry > contents.quota {
            return Err(KvError::QuotaExceeded);
        }
        contents.version += 1;
        let version = contents.version;
        if ttl_ms == Some(0) {
            contents.entries.remove(key);
        } else {
            contents.entries.insert(key.to_owned(), Entry { value: value.to_vec(), version });
        }
        Ok(version)
    }

    pub(crate) fn delete(&self, key: &str, if_version: Option<u64>) -> Result<bool, KvError> {
        check(key)?;
        let mut contents = self.0.borrow_mut();
        contents.expect(key, if_version)?;
        Ok(contents.entries.remove(key).is_some())
    }

    pub(crate) fn keys(
        &self,
        prefix: &str,
        cursor: Option<&str>,
        limit: u32,
    ) -> Result<KeyPage, KvError> {
        if prefix.len() > MAX_KEY_BYTES || cursor.is_some_and(|cursor| cursor.len() > MAX_KEY_BYTES)
        {
            return Err(KvError::TooLarge);
        }
        let contents = self.0.borrow();
        let after = cursor.map_or(Bound::Unbounded, Bound::Excluded);
        let found = contents.entries.range::<str, _>((after, Bound::Unbounded)).map(|(key, _)| key);
        let mut found = found.filter(|key| key.starts_with(prefix));
        let limit = limit.clamp(1, MAX_PAGE_KEYS) as usize;
        let keys: Vec<String> = found.by_ref().take(limit).cloned().collect();
        let next = found.next().and_then(|_| keys.last().cloned());
        Ok(KeyPage { keys, next })
    }
}

fn check(key: &str) -> Result<(), KvError> {
    if (1..=MAX_KEY_BYTES).contains(&key.len()) { Ok(()) } else { Err(KvError::TooLarge) }
}

#[cfg(test)]
mod tests {
    use super::{MAX_KEY_BYTES, MAX_VALUE_BYTES};
    use crate::kv::{KvError, Page, Store, Write};
    use crate::testing::Host;

    fn store() -> Store {
        Host::new().kv("s").store("s")
    }

    #[test]
    fn versions_grow_and_are_never_repeated() {
        let store = store();
        let first = store.write("k", &Write::new("1").if_absent()).unwrap();
        let second = store.write("k", &Write::new("2").if_version(first)).unwrap();
        assert!(second > first);
        assert_eq!(store.write("k", &Write::new("3").if_version(first)), Err(KvError::Conflict));
        assert_eq!((store.delete("k"), store.delete("k")), (Ok(true), Ok(false)));
        assert!(store.set("k", "4").unwrap() > second);
    }

    #[test]
    fn keys_and_values_have_the_limits_of_the_host() {
        let store = store();
        let longest = "x".repeat(MAX_KEY_BYTES);
        let too_long = "x".repeat(MAX_KEY_BYTES + 1);
        store.set(&longest, vec![0; MAX_VALUE_BYTES]).unwrap();
        assert_eq!(store.set("k", vec![0; MAX_VALUE_BYTES + 1]), Err(KvError::TooLarge));
        for key in ["", &too_long] {
            assert_eq!(store.get(key), Err(KvError::TooLarge));
            assert_eq!(store.set(key, ""), Err(KvError::TooLarge));
            assert_eq!(store.delete(key), Err(KvError::TooLarge));
        }
        assert_eq!(store.get_many(&["k"; 1_000]).map(|found| found.len()), Ok(1_000));
        assert_eq!(store.get_many(&["k"; 1_001]), Err(KvError::TooLarge));
        store.set("large", vec![0; 1 << 20]).unwrap();
        assert_eq!(store.get_many(&["large"; 8]).map(|found| found.len()), Ok(8));
        assert_eq!(store.get_many(&["large"; 9]), Err(KvError::TooLarge));
    }

    #[test]
    fn an_entry_beyond_the_quota_is_refused_and_a_smaller_one_is_not() {
        let store = Host::new().kv_with_quota("s", 70).store("s");
        assert_eq!(store.set("k", "123456"), Err(KvError::TooLarge));
        store.set("k", "12345").unwrap();
        store.set("k", "54321").unwrap();
        assert_eq!(store.set("l", ""), Err(KvError::QuotaExceeded));
    }

    #[test]
    fn a_page_continues_after_any_key() {
        let store = store();
        for key in ["a", "a/1", "a/2", "a/3", "b"] {
            store.set(key, "").unwrap();
        }
        let page = store.page("a/", None, 2).unwrap();
        assert_eq!(page, Page { keys: vec!["a/1".into(), "a/2".into()], next: Some("a/2".into()) });
        let page = store.page("a/", page.next.as_deref(), 0).unwrap();
        assert_eq!(page, Page { keys: vec!["a/3".into()], next: None });
        assert_eq!(store.page("a/", Some("a/15"), 9).unwrap().keys, ["a/2", "a/3"]);
    }
}
