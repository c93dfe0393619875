//! A store in memory that behaves like a store of the host, except for quotas and for time, which
//! stands still.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use super::{Entry, KvError, MAX_PAGE_KEYS, Page, Write};

const MAX_KEY_BYTES: usize = 512;
const MAX_VALUE_BYTES: usize = 1 << 20;

#[derive(Debug, Default)]
pub(super) struct Detached(RefCell<Contents>);

#[derive(Debug, Default)]
struct Contents {
    entries: BTreeMap<String, Entry>,
    /// The newest version that was ever assigned.
    version: u64,
}

impl Detached {
    pub(super) fn get(&self, key: &str) -> Result<Option<Entry>, KvError> {
        check(key)?;
        Ok(self.0.borrow().entries.get(key).cloned())
    }

    pub(super) fn set(&self, key: &str, write: &Write) -> Result<u64, KvError> {
        check(key)?;
        if write.value.len() > MAX_VALUE_BYTES {
            return Err(KvError::TooLarge);
        }
        let mut contents = self.0.borrow_mut();
        let version = contents.entries.get(key).map_or(0, |entry| entry.version);
        if write.if_version.is_some_and(|expected| expected != version) {
            return Err(KvError::Conflict);
        }
        contents.version += 1;
        let version = contents.version;
        if write.expires_after == Some(Duration::ZERO) {
            contents.entries.remove(key);
        } else {
            contents.entries.insert(key.to_owned(), Entry { value: write.value.clone(), version });
        }
        Ok(version)
    }

    pub(super) fn delete(&self, key: &str, if_version: Option<u64>) -> Result<bool, KvError> {
        check(key)?;
        let entries = &mut self.0.borrow_mut().entries;
        let version = entries.get(key).map_or(0, |entry| entry.version);
        if if_version.is_some_and(|expected| expected != version) {
            return Err(KvError::Conflict);
        }
        Ok(entries.remove(key).is_some())
    }

    pub(super) fn page(
        &self,
        prefix: &str,
        cursor: Option<&str>,
        limit: u32,
    ) -> Result<Page, KvError> {
        if prefix.len() > MAX_KEY_BYTES || cursor.is_some_and(|cursor| cursor.len() > MAX_KEY_BYTES)
        {
            return Err(KvError::TooLarge);
        }
        let contents = self.0.borrow();
        let after = cursor.map_or(Bound::Unbounded, Bound::Excluded);
        let found = contents.entries.range::<str, _>((after, Bound::Unbounded)).map(|(key, _)| key);
        let mut found = found.filter(|key| key.starts_with(prefix));
        let keys: Vec<String> =
            found.by_ref().take(limit.clamp(1, MAX_PAGE_KEYS) as usize).cloned().collect();
        let next = found.next().and_then(|_| keys.last().cloned());
        Ok(Page { keys, next })
    }
}

fn check(key: &str) -> Result<(), KvError> {
    if (1..=MAX_KEY_BYTES).contains(&key.len()) { Ok(()) } else { Err(KvError::TooLarge) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv::Store;

    #[test]
    fn versions_grow_and_are_never_repeated() {
        let store = Store::detached();
        let first = store.write("k", &Write::new("1").if_absent()).unwrap();
        let second = store.write("k", &Write::new("2").if_version(first)).unwrap();
        assert!(second > first);
        assert_eq!(store.write("k", &Write::new("3").if_version(first)), Err(KvError::Conflict));
        assert_eq!((store.delete("k"), store.delete("k")), (Ok(true), Ok(false)));
        assert!(store.set("k", "4").unwrap() > second);
    }

    #[test]
    fn keys_and_values_have_the_limits_of_the_host() {
        let store = Store::detached();
        let (longest, too_long) = ("x".repeat(MAX_KEY_BYTES), "x".repeat(MAX_KEY_BYTES + 1));
        store.set(&longest, vec![0; MAX_VALUE_BYTES]).unwrap();
        assert_eq!(store.set("k", vec![0; MAX_VALUE_BYTES + 1]), Err(KvError::TooLarge));
        for key in ["", &too_long] {
            assert_eq!(store.get(key), Err(KvError::TooLarge));
            assert_eq!(store.set(key, ""), Err(KvError::TooLarge));
            assert_eq!(store.delete(key), Err(KvError::TooLarge));
        }
    }

    #[test]
    fn a_page_continues_after_any_key() {
        let store = Store::detached();
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
