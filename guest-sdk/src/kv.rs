//! Stores of keys and values that outlive a call. A plugin requests them in its `plugin.toml` and
//! the operator grants them. They belong to the plugin; no other plugin can read them.
//!
//! ```toml
//! [request.kv.visits]
//! max_bytes = "64KiB"
//! reason = "counts visits"
//! ```
//!
//! Calls run concurrently, so a value may change between its read and its write. [`Store::update`]
//! handles that:
//!
//! ```
//! use airlock_guest::{Error, kv::{Store, Write}};
//!
//! fn count_visit(store: &Store, page: &str) -> Result<u64, Error> {
//!     let mut visits = 0;
//!     store.update(page, |entry| {
//!         visits = 1 + entry.map(|entry| entry.json::<u64>()).transpose()?.unwrap_or(0);
//!         Write::json(&visits)
//!     })?;
//!     Ok(visits)
//! }
//!
//! // In a plugin: `kv::open("visits")?`.
//! let store = airlock_guest::testing::Host::new().kv("visits").store("visits");
//! count_visit(&store, "/").unwrap();
//! assert_eq!(count_visit(&store, "/").unwrap(), 2);
//! ```
//!
//! A key has 1 to 512 bytes, a value at most 1 MiB. An entry counts towards the store's quota with
//! both and 64 bytes more. Every function here is a host call. A tool call has 1,000 of them unless
//! it was granted more; [`Keys`] makes one for each thousand keys. In native builds, the stores are
//! those of a [`testing::Host`](crate::testing::Host).

use std::fmt;
use std::time::Duration;

use serde::{Serialize, de::DeserializeOwned};

use crate::bindings::MAX_PAGE_KEYS;
use crate::host::kv as host;
use crate::{Error, ErrorKind, wire};

/// Number of attempts that [`Store::update`] makes before it fails.
const TRIES: u32 = 16;

/// Opens the store that the plugin requests by this name.
pub fn open(name: &str) -> Result<Store, KvError> {
    host::open(name).map(Store).map_err(error_from_host)
}

/// An open store.
#[derive(Debug)]
pub struct Store(host::Store);

/// A value and its version at the time of the read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// The value.
    pub value: Vec<u8>,
    /// Grows with every change of the entry. It is never 0, and never used again after a deletion.
    pub version: u64,
}

/// One page of a store's keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page {
    /// Sorted by their bytes. A page before the last may have fewer than asked for, even none, if
    /// entries have expired.
    pub keys: Vec<String>,
    /// Cursor of the next page; `None` on the last.
    pub next: Option<String>,
}

impl Store {
    /// Reads an entry; `None` if it is absent or has expired.
    pub fn get(&self, key: &str) -> Result<Option<Entry>, KvError> {
        Ok(self.0.get(key).map_err(error_from_host)?.map(Entry::from_host))
    }

    /// Reads the entries of at most 1,000 keys, in the order of the keys, as of one moment.
    pub fn get_many(&self, keys: &[impl AsRef<str>]) -> Result<Vec<Option<Entry>>, KvError> {
        let keys: Vec<String> = keys.iter().map(|key| key.as_ref().to_owned()).collect();
        let entries = self.0.get_many(&keys).map_err(error_from_host)?;
        Ok(entries.into_iter().map(|entry| entry.map(Entry::from_host)).collect())
    }

    /// Writes a value unconditionally. Returns its version.
    pub fn set(&self, key: &str, value: impl Into<Vec<u8>>) -> Result<u64, KvError> {
        self.write(key, &Write::new(value))
    }

    /// Writes a value under the conditions of `write`. Returns its version; on an error nothing
    /// changes.
    pub fn write(&self, key: &str, write: &Write) -> Result<u64, KvError> {
        let ttl_ms = write.expires_after.map(wire::milliseconds);
        self.0.set(key, &write.value, write.if_version, ttl_ms).map_err(error_from_host)
    }

    /// Replaces the current entry, if any, by the result of `change`. Returns the version. If
    /// another call wrote in between, `change` runs again on the new entry; after 16 attempts the
    /// update fails with [`KvError::Conflict`].
    pub fn update<E: From<KvError>>(
        &self,
        key: &str,
        mut change: impl FnMut(Option<Entry>) -> Result<Write, E>,
    ) -> Result<u64, E> {
        for _ in 0..TRIES {
            let entry = self.get(key)?;
            let version = entry.as_ref().map_or(0, |entry| entry.version);
            match self.write(key, &Write { if_version: Some(version), ..change(entry)? }) {
                Err(KvError::Conflict) => {}
                written => return Ok(written?),
            }
        }
        Err(KvError::Conflict.into())
    }

    /// Deletes an entry. Returns whether there was one.
    pub fn delete(&self, key: &str) -> Result<bool, KvError> {
        self.remove(key, None)
    }

    /// Deletes an entry at this version. Returns whether there was one: with version 0 it fails if
    /// there is. Fails with [`KvError::Conflict`] if the entry is at another version, or absent.
    pub fn delete_if(&self, key: &str, version: u64) -> Result<bool, KvError> {
        self.remove(key, Some(version))
    }

    fn remove(&self, key: &str, if_version: Option<u64>) -> Result<bool, KvError> {
        self.0.delete(key, if_version).map_err(error_from_host)
    }

    /// Lists keys that begin with `prefix`, in the order of their bytes.
    ///
    /// ```
    /// # use airlock_guest::{kv::KvError, testing::Host};
    /// let store = Host::new().kv("files").store("files");
    /// for key in ["b/1", "a/2", "a/1"] {
    ///     store.set(key, "")?;
    /// }
    /// let keys: Vec<String> = store.keys("a/").collect::<Result<_, _>>()?;
    /// assert_eq!(keys, ["a/1", "a/2"]);
    /// # Ok::<(), KvError>(())
    /// ```
    pub fn keys<'s>(&'s self, prefix: &'s str) -> Keys<'s> {
        Keys { store: self, prefix, page: Vec::new().into_iter(), cursor: None, is_at_end: false }
    }

    /// Lists at most `limit` (1 to 1,000) of the keys that begin with `prefix`, from the start or
    /// from the cursor of an earlier page. Any key may be a cursor, even one that does not exist:
    /// the keys after it are listed.
    pub fn page(&self, prefix: &str, cursor: Option<&str>, limit: u32) -> Result<Page, KvError> {
        let page = self.0.keys(prefix, cursor, limit).map_err(error_from_host)?;
        Ok(Page { keys: page.keys, next: page.next })
    }
}

impl Entry {
    fn from_host(entry: host::Entry) -> Self {
        Self { value: entry.value, version: entry.version }
    }

    /// Parses the value as JSON.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_slice(&self.value).map_err(|error| {
            Error::internal(format!("a stored value is not the JSON that was expected: {error}"))
        })
    }
}

/// A value to write, and the condition for the write.
///
/// ```
/// # use airlock_guest::{kv::{KvError, Write}, testing::Host};
/// use std::time::Duration;
///
/// let store = Host::new().kv("locks").store("locks");
/// let first = store.write("lock", &Write::new("mine").if_absent().expires_after(Duration::from_secs(30)))?;
/// assert_eq!(store.write("lock", &Write::new("yours").if_absent()), Err(KvError::Conflict));
/// store.write("lock", &Write::new("still mine").if_version(first))?;
/// # Ok::<(), KvError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "nothing is written before it is handed to a store"]
pub struct Write {
    value: Vec<u8>,
    if_version: Option<u64>,
    expires_after: Option<Duration>,
}

impl Write {
    /// Creates an unconditional write of a value, which stays until it is changed or deleted.
    pub fn new(value: impl Into<Vec<u8>>) -> Self {
        Self { value: value.into(), if_version: None, expires_after: None }
    }

    /// Creates a write of a value as JSON.
    pub fn json(value: &impl Serialize) -> Result<Self, Error> {
        let value = serde_json::to_vec(value);
        value
            .map(Self::new)
            .map_err(|error| Error::internal(format!("a value to be stored is not JSON: {error}")))
    }

    /// Writes only if there is no entry. The write fails with [`KvError::Conflict`] otherwise.
    pub fn if_absent(self) -> Self {
        self.if_version(0)
    }

    /// Writes only if the entry is at this version. The write fails with [`KvError::Conflict`]
    /// otherwise.
    pub fn if_version(mut self, version: u64) -> Self {
        self.if_version = Some(version);
        self
    }

    /// Makes the entry expire after this time, sent in whole milliseconds.
    pub fn expires_after(mut self, time: Duration) -> Self {
        self.expires_after = Some(time);
        self
    }
}

/// Iterator over the keys of a store, fetched a thousand at a time. It ends after the first error.
#[derive(Debug)]
pub struct Keys<'s> {
    store: &'s Store,
    prefix: &'s str,
    page: std::vec::IntoIter<String>,
    /// Cursor of the next page; `None` before the first.
    cursor: Option<String>,
    /// True if there are no more pages.
    is_at_end: bool,
}

impl Iterator for Keys<'_> {
    type Item = Result<String, KvError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(key) = self.page.next() {
                return Some(Ok(key));
            }
            if self.is_at_end {
                return None;
            }
            match self.store.page(self.prefix, self.cursor.as_deref(), MAX_PAGE_KEYS) {
                Ok(page) => {
                    self.page = page.keys.into_iter();
                    self.is_at_end = page.next.is_none();
                    self.cursor = page.next;
                }
                Err(error) => {
                    self.is_at_end = true;
                    return Some(Err(error));
                }
            }
        }
    }
}

/// Error of a store. With `?` it becomes an [`Error`] of a tool, with a code such as
/// `kv_quota_exceeded`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum KvError {
    /// The plugin does not request a store of this name.
    NoSuchStore,
    /// The operator did not grant the store, or the tool does not declare the effect `read_kv`, or
    /// `write_kv` to write.
    Denied,
    /// The store would exceed the granted quota.
    QuotaExceeded,
    /// A key has 1 to 512 bytes, a value at most 1 MiB, and an entry is not larger than the quota.
    /// [`Store::get_many`] reads at most 1,000 keys and, by default, 8 MiB.
    TooLarge,
    /// The entry is not at the expected version.
    Conflict,
    /// The store cannot be used now; the text is a message for people.
    Unavailable(String),
    /// Any other reason; the text is a message for people.
    Other(String),
}

impl fmt::Display for KvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSuchStore => "this plugin does not ask for a store of this name",
            Self::Denied => {
                "this tool may not do that with the store: the operator has not granted it, or \
                 plugin.toml does not declare `read_kv`, or `write_kv` to write, for the tool"
            }
            Self::QuotaExceeded => "the store is full; delete something first",
            Self::TooLarge => {
                "a key has 1 to 512 bytes, a value at most 1 MiB, and an entry is not larger than \
                 the store's quota; one read has at most 1,000 keys, and values of limited size"
            }
            Self::Conflict => "the entry was changed meanwhile; read it again",
            Self::Unavailable(text) | Self::Other(text) => text,
        })
    }
}

impl std::error::Error for KvError {}

impl From<KvError> for Error {
    fn from(error: KvError) -> Self {
        let (kind, code) = match error {
            KvError::NoSuchStore => (ErrorKind::Internal, "kv_no_such_store"),
            KvError::Denied => (ErrorKind::Denied, "kv_denied"),
            KvError::QuotaExceeded => (ErrorKind::TooLarge, "kv_quota_exceeded"),
            KvError::TooLarge => (ErrorKind::TooLarge, "kv_too_large"),
            KvError::Conflict => (ErrorKind::Conflict, "kv_conflict"),
            KvError::Unavailable(_) => (ErrorKind::Unavailable, "kv_unavailable"),
            KvError::Other(_) => (ErrorKind::Other, "kv_other"),
        };
        Self::new(kind, error.to_string()).with_code(code)
    }
}

fn error_from_host(error: host::KvError) -> KvError {
    match error {
        host::KvError::NoSuchStore => KvError::NoSuchStore,
        host::KvError::Denied => KvError::Denied,
        host::KvError::QuotaExceeded => KvError::QuotaExceeded,
        host::KvError::TooLarge => KvError::TooLarge,
        host::KvError::Conflict => KvError::Conflict,
        host::KvError::Unavailable(text) => KvError::Unavailable(text),
        host::KvError::Other(text) => KvError::Other(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Host;

    fn store() -> Store {
        Host::new().kv("s").store("s")
    }

    #[test]
    fn an_update_is_repeated_if_another_call_wrote_in_between() {
        let store = store();
        let mut asked = 0;
        let update = store.update("k", |entry| -> Result<Write, KvError> {
            asked += 1;
            if asked < 3 {
                store.set("k", format!("other {asked}"))?;
            }
            let found =
                entry.map(|entry| String::from_utf8(entry.value).unwrap()).unwrap_or_default();
            Ok(Write::new(format!("{found} and mine")))
        });
        assert_eq!(store.get("k").unwrap().unwrap().version, update.unwrap());
        assert_eq!(
            (asked, store.get("k").unwrap().unwrap().value),
            (3, b"other 2 and mine".to_vec())
        );
    }

    #[test]
    fn an_update_fails_after_all_attempts_and_an_error_writes_nothing() {
        let store = store();
        let hopeless = store.update("k", |_| {
            store.set("k", "other")?;
            Ok(Write::new("mine"))
        });
        assert_eq!(hopeless, Err(KvError::Conflict));
        let failed = store.update("k", |_| Err(Error::invalid_input("no")));
        assert_eq!(failed.unwrap_err().message(), "no");
        assert_eq!(store.get("k").unwrap().unwrap().value, b"other");
    }

    #[test]
    fn an_entry_is_deleted_only_at_the_expected_version() {
        let store = store();
        let version = store.set("k", "mine").unwrap();
        store.set("k", "other").unwrap();
        assert_eq!(store.delete_if("k", version), Err(KvError::Conflict));
        let version = store.get("k").unwrap().unwrap().version;
        assert_eq!(store.delete_if("k", version), Ok(true));
        assert_eq!(store.get("k"), Ok(None));
        assert_eq!(store.delete_if("k", version), Err(KvError::Conflict));
    }

    #[test]
    fn keys_are_read_from_as_many_pages_as_needed() {
        let store = store();
        for number in 0..2_500 {
            store.set(&format!("n/{number:04}"), "").unwrap();
        }
        store.set("o", "").unwrap();
        let keys: Vec<String> = store.keys("n/").collect::<Result<_, _>>().unwrap();
        assert_eq!(
            (keys.len(), keys[0].as_str(), keys[2_499].as_str()),
            (2_500, "n/0000", "n/2499")
        );
        let too_long = "x".repeat(513);
        let mut keys = store.keys(&too_long);
        assert_eq!((keys.next(), keys.next()), (Some(Err(KvError::TooLarge)), None));
    }

    #[test]
    fn a_value_that_is_no_json_is_an_error_of_the_tool() {
        let entry = Entry { value: b"{".to_vec(), version: 1 };
        insta::assert_snapshot!(entry.json::<u64>().unwrap_err(), @"a stored value is not the JSON that was expected: invalid type: map, expected u64 at line 1 column 0");
        assert_eq!(Write::json(&[1, 2]).unwrap(), Write::new("[1,2]"));
    }
}
