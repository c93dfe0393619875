//! Storage of notes: one entry per note, and one for the last number that was assigned.

use airlock_guest::{
    Error, ErrorKind,
    kv::{self, KvError, Store, Write},
};

use crate::note::Note;
use crate::time;

/// Name of the store that `plugin.toml` requests.
const STORE: &str = "notes";
/// Key of the entry with the last number that was assigned.
const LAST_ID: &str = "last-id";
/// Prefix of the keys of notes.
const PREFIX: &str = "note/";
/// Attempts of a deletion, if other calls change the note in between.
const TRIES: u32 = 16;
/// Largest number of notes that one call reads, of its thousand host calls.
const LOOKED_AT: usize = 400;
/// Bytes of notes after which a call stops reading, which limits its work.
const LOOKED_AT_BYTES: usize = 4 << 20;

/// The store of all notes.
pub(crate) struct Shelf {
    store: Store,
    now: fn() -> Option<String>,
}

/// A page of notes, from the newest to the oldest.
#[derive(Debug)]
pub(crate) struct FoundNotes<T> {
    pub(crate) notes: Vec<T>,
    /// Value of `before` for the next page; `None` if all notes were read.
    pub(crate) next_before: Option<u32>,
}

impl Shelf {
    pub(crate) fn open() -> Result<Self, Error> {
        Ok(Self { store: kv::open(STORE)?, now: time::now })
    }

    /// Creates an empty shelf for tests, with a fixed time.
    #[cfg(test)]
    pub(crate) fn detached() -> Self {
        let store = airlock_guest::testing::Host::new().kv(STORE).store(STORE);
        Self { store, now: || Some("2026-11-21T09:13:48Z".to_owned()) }
    }

    /// Stores a note. Returns its number and version.
    pub(crate) fn add(&self, note: &mut Note) -> Result<(u32, u64), Error> {
        let mut id = 0;
        self.store.update(LAST_ID, |entry| -> Result<Write, Error> {
            let last: u32 = entry.map_or(Ok(0), |entry| entry.json())?;
            id = last
                .checked_add(1)
                .ok_or_else(|| Error::too_large("there are no numbers left for notes"))?;
            Write::json(&id)
        })?;
        note.created = (self.now)();
        let version = self.store.write(&key(id), &Write::json(note)?.if_absent())?;
        Ok((id, version))
    }

    /// Reads a note, with its version.
    pub(crate) fn read(&self, id: u32) -> Result<(u64, Note), Error> {
        let entry = self.store.get(&key(id))?.ok_or_else(|| missing(id))?;
        Ok((entry.version, entry.json()?))
    }

    /// Changes a note. Fails if `version` is given and the note is at another. Returns the new
    /// version and the changed note.
    pub(crate) fn change(
        &self,
        id: u32,
        version: Option<u64>,
        mut change: impl FnMut(&mut Note) -> Result<(), Error>,
    ) -> Result<(u64, Note), Error> {
        let mut changed = Note::default();
        let version = self.store.update(&key(id), |entry| {
            let entry = entry.ok_or_else(|| missing(id))?;
            check(id, version, entry.version)?;
            changed = entry.json()?;
            change(&mut changed)?;
            changed.updated = (self.now)();
            Write::json(&changed)
        })?;
        Ok((version, changed))
    }

    /// Deletes a note. Fails if `version` is given and the note is at another. Returns the deleted
    /// note.
    pub(crate) fn delete(&self, id: u32, version: Option<u64>) -> Result<Note, Error> {
        for _ in 0..TRIES {
            let (found, note) = self.read(id)?;
            check(id, version, found)?;
            match self.store.delete_if(&key(id), found) {
                // Changed between the read and the deletion; it is read again.
                Err(KvError::Conflict) => {}
                deleted => return Ok(deleted.map(|_| note)?),
            }
        }
        Err(KvError::Conflict.into())
    }

    /// Reads the notes older than `before`, the newest first, until `keep` has returned `limit`
    /// values.
    pub(crate) fn look<T>(
        &self,
        before: Option<u32>,
        limit: usize,
        mut keep: impl FnMut(u32, u64, Note) -> Option<T>,
    ) -> Result<FoundNotes<T>, Error> {
        // One key more than are read shows whether there are more notes.
        let page = self.store.page(
            PREFIX,
            before.map(key).as_deref(),
            u32::try_from(LOOKED_AT + 1).unwrap_or(u32::MAX),
        )?;
        let mut notes = Vec::new();
        let mut bytes = 0;
        let mut last = None;
        for (looked_at, key) in page.keys.iter().enumerate() {
            if notes.len() == limit || looked_at == LOOKED_AT || bytes > LOOKED_AT_BYTES {
                return Ok(FoundNotes { notes, next_before: last });
            }
            last = id(key);
            // The note may have been deleted in the meantime.
            if let (Some(id), Some(entry)) = (last, self.store.get(key)?) {
                bytes += entry.value.len();
                notes.extend(keep(id, entry.version, entry.json()?));
            }
        }
        Ok(FoundNotes { notes, next_before: page.next.as_deref().and_then(id) })
    }
}

/// Returns the key of a note. Later numbers have smaller keys, so that a store lists the newest
/// note first.
fn key(id: u32) -> String {
    format!("{PREFIX}{:010}", u32::MAX - id)
}

fn id(key: &str) -> Option<u32> {
    key.strip_prefix(PREFIX)?.parse().ok().map(|number: u32| u32::MAX - number)
}

fn missing(id: u32) -> Error {
    Error::not_found(format!("there is no note {id}; list_notes says which there are"))
        .with_code("no_such_note")
}

fn check(id: u32, expected: Option<u64>, found: u64) -> Result<(), Error> {
    match expected {
        Some(expected) if expected != found => Err(Error::new(
            ErrorKind::Conflict,
            format!("note {id} was changed since you read it: it is at version {found}, not {expected}; read it again"),
        )
        .with_code("note_changed")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(title: &str) -> Note {
        Note { title: title.into(), ..Note::default() }
    }

    #[test]
    fn numbers_count_up_and_are_never_reused() {
        let shelf = Shelf::detached();
        assert_eq!(shelf.add(&mut note("a")).unwrap().0, 1);
        assert_eq!(shelf.add(&mut note("a")).unwrap().0, 2);
        shelf.delete(2, None).unwrap();
        assert_eq!(shelf.add(&mut note("a")).unwrap().0, 3);
    }

    #[test]
    fn the_newest_note_comes_first_and_pages_are_complete() {
        let shelf = Shelf::detached();
        for number in 1..=25 {
            shelf.add(&mut note(&number.to_string())).unwrap();
        }
        shelf.delete(20, None).unwrap();
        let mut before = None;
        let mut seen = Vec::new();
        loop {
            let found = shelf.look(before, 10, |id, _, note| Some((id, note.title))).unwrap();
            assert!(found.notes.len() <= 10);
            seen.extend(found.notes);
            before = found.next_before;
            if before.is_none() {
                break;
            }
        }
        let expected: Vec<_> =
            (1..=25).rev().filter(|id| *id != 20).map(|id| (id, id.to_string())).collect();
        assert_eq!(seen, expected);
    }

    #[test]
    fn one_call_reads_a_limited_number_of_notes_and_bytes() {
        let shelf = Shelf::detached();
        for _ in 0..=LOOKED_AT {
            shelf.add(&mut note("a")).unwrap();
        }
        let found = shelf.look(None, 10, |_, _, _| None::<()>).unwrap();
        assert_eq!(found.next_before, Some(2), "all but the first note were looked at");
        assert_eq!(shelf.look(Some(2), 10, |id, _, _| Some(id)).unwrap().notes, [1]);

        let large = Note { text: "x".repeat(1_000_000), ..Note::default() };
        for _ in 0..6 {
            shelf.add(&mut large.clone()).unwrap();
        }
        assert_eq!(shelf.look(None, 10, |id, _, _| Some(id)).unwrap().notes.len(), 5);
    }

    #[test]
    fn an_unknown_note_is_not_found() {
        let shelf = Shelf::detached();
        for error in [
            shelf.read(7).unwrap_err(),
            shelf.change(7, None, |_| Ok(())).unwrap_err(),
            shelf.delete(7, None).unwrap_err(),
        ] {
            assert_eq!(error.message(), "there is no note 7; list_notes says which there are");
        }
    }
}
