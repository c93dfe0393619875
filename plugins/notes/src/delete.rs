//! `delete_note`.

use airlock_guest::{Error, tool};
use schemars::JsonSchema;
use serde::Serialize;

use crate::shelf::Shelf;

/// A note that is no more.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Deleted {
    /// The number that it had.
    pub id: u32,
    /// The title that it had.
    pub title: String,
}

/// Deletes a note permanently.
#[tool(read_only = false, destructive, idempotent, open_world = false, title = "Delete a note")]
pub fn delete_note(
    /// The note's number, as `list_notes` and `search_notes` tell it.
    id: u32,
    /// The version that you read. If it is given, a note that was changed since stays.
    version: Option<u64>,
) -> Result<Deleted, Error> {
    delete(&Shelf::open()?, id, version)
}

fn delete(shelf: &Shelf, id: u32, version: Option<u64>) -> Result<Deleted, Error> {
    let note = shelf.delete(id, version)?;
    Ok(Deleted { id, title: note.title })
}

#[cfg(test)]
mod tests {
    use airlock_guest::ErrorKind;

    use super::*;
    use crate::note::Note;

    #[test]
    fn a_deleted_note_is_gone_and_the_others_stay() {
        let shelf = Shelf::detached();
        for title in ["a", "b"] {
            shelf.add(&mut Note { title: title.into(), ..Note::default() }).unwrap();
        }
        assert_eq!(delete(&shelf, 1, None).unwrap(), Deleted { id: 1, title: "a".into() });
        assert_eq!(delete(&shelf, 1, None).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(shelf.read(2).unwrap().1.title, "b");
    }

    #[test]
    fn a_note_that_changed_since_it_was_read_is_not_deleted() {
        let shelf = Shelf::detached();
        let (id, version) = shelf.add(&mut Note { title: "a".into(), ..Note::default() }).unwrap();
        shelf.change(id, None, |_| Ok(())).unwrap();
        assert_eq!(delete(&shelf, id, Some(version)).unwrap_err().code(), Some("note_changed"));
        assert!(shelf.read(id).is_ok());
    }
}
