//! Machine code of single functions, kept from one compilation to the next.
//!
//! Most of a component in Python or JavaScript is its interpreter, whose functions stay the same when
//! the program in it changes. The compiler looks each function up by a digest of its code and of every
//! setting of the compiler, so that only changed functions are compiled.
//!
//! All of them are in one file of the cache, with its rights and its keyed digest: what is loaded from it
//! becomes code that runs.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    ops::Range,
};

use parking_lot::{Mutex, MutexGuard};
use wasmtime::CacheStore;

/// Bytes of the file. A Python interpreter takes 40 MB, and one for JavaScript 25 MB. All of it is
/// read when a sandbox that reuses functions starts.
const MAX_BYTES: usize = 192 << 20;
/// Length of a key: a SHA-256 digest.
const KEY_BYTES: usize = 32;

/// Functions that were compiled before, and those of this process.
#[derive(Default)]
pub struct FunctionCache {
    /// Content of the file.
    file: Vec<u8>,
    /// Place of each function in the file.
    places: HashMap<FunctionKey, Range<usize>>,
    /// Changes since the file was read.
    news: Mutex<News>,
}

type FunctionKey = [u8; KEY_BYTES];

#[derive(Default)]
struct News {
    /// Functions that were compiled, because the file does not have them or not in a usable form.
    compiled: HashMap<FunctionKey, Vec<u8>>,
    /// Functions of the file that were used.
    used: HashSet<FunctionKey>,
}

impl FunctionCache {
    /// Reads the content of a file that [`Self::to_bytes`] made. Ignores an entry that is cut off.
    pub(crate) fn from_bytes(file: Vec<u8>) -> Self {
        let mut places = HashMap::new();
        let mut end = 0;
        while let Some((key, length)) = header(&file[end..]) {
            let start = end + KEY_BYTES + size_of::<u32>();
            if file.len() - start < length {
                break;
            }
            end = start + length;
            places.insert(key, start..end);
        }
        Self { file, places, news: Mutex::default() }
    }

    /// Returns the content of the file with the functions that were compiled since, if there are any.
    /// Those of this process come first; the rest is dropped beyond the size limit of the file.
    pub(crate) fn to_bytes(&self) -> Option<Vec<u8>> {
        let news = self.news();
        if news.compiled.is_empty() {
            return None;
        }
        // A function of the file that the compiler could not use was compiled again.
        let current = self.places.iter().filter(|(key, _)| !news.compiled.contains_key(*key));
        let mut old: Vec<_> = current.collect();
        old.sort_by_key(|(key, place)| (!news.used.contains(*key), place.start));
        let old = old.into_iter().map(|(key, place)| (key, &self.file[place.clone()]));
        let compiled = news.compiled.iter().map(|(key, code)| (key, &code[..]));
        let mut bytes = Vec::new();
        for (key, code) in compiled.chain(old) {
            let Ok(length) = u32::try_from(code.len()) else { continue };
            if bytes.len() + KEY_BYTES + size_of::<u32>() + code.len() > MAX_BYTES {
                break;
            }
            bytes.extend_from_slice(key);
            bytes.extend_from_slice(&length.to_le_bytes());
            bytes.extend_from_slice(code);
        }
        Some(bytes)
    }

    fn news(&self) -> MutexGuard<'_, News> {
        self.news.lock()
    }
}

/// Reads the key and the length before the code of a function.
fn header(bytes: &[u8]) -> Option<(FunctionKey, usize)> {
    let (key, rest) = bytes.split_first_chunk::<KEY_BYTES>()?;
    let length = u32::from_le_bytes(*rest.first_chunk()?);
    Some((*key, usize::try_from(length).ok()?))
}

impl CacheStore for FunctionCache {
    fn get(&self, key: &[u8]) -> Option<Cow<'_, [u8]>> {
        let key = FunctionKey::try_from(key).ok()?;
        let mut news = self.news();
        if let Some(code) = news.compiled.get(&key) {
            return Some(Cow::Owned(code.clone()));
        }
        let place = self.places.get(&key)?;
        news.used.insert(key);
        Some(Cow::Borrowed(&self.file[place.clone()]))
    }

    fn insert(&self, key: &[u8], value: Vec<u8>) -> bool {
        let Ok(key) = FunctionKey::try_from(key) else { return false };
        self.news().compiled.insert(key, value);
        true
    }
}

impl std::fmt::Debug for FunctionCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FunctionCache")
            .field("functions", &self.places.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u8) -> FunctionKey {
        [number; KEY_BYTES]
    }

    #[test]
    fn functions_are_found_again_and_those_used_last_come_first() {
        let first = FunctionCache::default();
        assert_eq!(first.to_bytes(), None, "nothing was compiled");
        assert!(first.insert(&key(1), b"one".to_vec()));
        assert!(first.insert(&key(2), b"two".to_vec()));
        assert!(!first.insert(b"short", b"three".to_vec()));
        assert_eq!(first.get(&key(1)).as_deref(), Some(&b"one"[..]));

        let second = FunctionCache::from_bytes(first.to_bytes().expect("two functions"));
        assert_eq!(second.get(&key(2)).as_deref(), Some(&b"two"[..]));
        assert_eq!(second.get(&key(3)), None);
        assert_eq!(second.to_bytes(), None, "nothing is new");
        assert!(second.insert(&key(3), b"three".to_vec()));
        let bytes = second.to_bytes().expect("three functions");
        let keys = (0..3).scan(0, |at, _| {
            let (key, length) = header(&bytes[*at..])?;
            *at += KEY_BYTES + 4 + length;
            Some(key[0])
        });
        assert_eq!(keys.collect::<Vec<_>>(), [3, 2, 1]);
    }

    #[test]
    fn a_function_that_is_compiled_again_replaces_the_one_in_the_file() {
        let cache = FunctionCache::default();
        cache.insert(&key(1), b"one".to_vec());
        let cache = FunctionCache::from_bytes(cache.to_bytes().expect("a function"));
        cache.insert(&key(1), b"other".to_vec());
        assert_eq!(cache.get(&key(1)).as_deref(), Some(&b"other"[..]));
        let bytes = cache.to_bytes().expect("a function");
        assert_eq!(bytes.len(), KEY_BYTES + size_of::<u32>() + b"other".len());
        let cache = FunctionCache::from_bytes(bytes);
        assert_eq!(cache.get(&key(1)).as_deref(), Some(&b"other"[..]));
    }

    #[test]
    fn an_entry_that_is_cut_off_is_ignored() {
        let cache = FunctionCache::default();
        cache.insert(&key(1), b"one".to_vec());
        let mut bytes = cache.to_bytes().expect("a function");
        bytes.pop();
        assert_eq!(FunctionCache::from_bytes(bytes).get(&key(1)), None);
        assert_eq!(FunctionCache::from_bytes(vec![0; 7]).places.len(), 0);
    }

    #[test]
    fn the_oldest_functions_are_dropped_beyond_the_size_limit() {
        let cache = FunctionCache::default();
        cache.insert(&key(1), vec![0; MAX_BYTES / 2]);
        let cache = FunctionCache::from_bytes(cache.to_bytes().expect("a function"));
        cache.insert(&key(2), vec![0; MAX_BYTES / 2]);
        let cache = FunctionCache::from_bytes(cache.to_bytes().expect("a function"));
        assert!(cache.places.contains_key(&key(2)));
        assert!(!cache.places.contains_key(&key(1)));
    }
}
