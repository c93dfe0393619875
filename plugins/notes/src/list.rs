//! `list_notes`.

use airlock_guest::{Error, tool};
use schemars::JsonSchema;
use serde::Serialize;

use crate::note::{self, Summary};
use crate::shelf::{FoundNotes, Shelf};

/// Some of the notes.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Listed {
    /// The notes without their texts, the newest first.
    pub notes: Vec<Summary>,
    /// Pass this as `before` to go on with older notes; absent when there are no more to look at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_before: Option<u32>,
}

/// Lists notes without their texts, the newest first.
///
/// With a tag, only the notes that have it. One call looks at some hundred notes, so there may be
/// fewer than `limit` though more match: as long as `next_before` is there, older notes have not
/// been looked at.
#[tool(read_only, idempotent, destructive = false, open_world = false, title = "List notes")]
pub fn list_notes(
    /// A tag that they must have; small and capital letters are the same.
    tag: Option<String>,
    /// List only notes older than the one with this number: `next_before` of the answer before.
    before: Option<u32>,
    /// List at most this many.
    #[arg(default = 20, range = 1..=100)]
    limit: usize,
) -> Result<Listed, Error> {
    list(&Shelf::open()?, tag.as_deref(), before, limit)
}

fn list(
    shelf: &Shelf,
    tag: Option<&str>,
    before: Option<u32>,
    limit: usize,
) -> Result<Listed, Error> {
    let tag = tag.map(|tag| note::tag("tag", tag)).transpose()?;
    let FoundNotes { notes, next_before } = shelf.look(before, limit, |id, version, note| {
        let is_wanted = tag.as_ref().is_none_or(|tag| note.tags.contains(tag));
        is_wanted.then(|| Summary::new(id, version, &note))
    })?;
    Ok(Listed { notes, next_before })
}

#[cfg(test)]
mod tests {
    use airlock_guest::{serde_json::json, testing::Host};

    use super::*;
    use crate::note::Note;

    fn shelf() -> Shelf {
        let shelf = Shelf::detached();
        for (title, tag) in [("a", "x"), ("b", "y"), ("c", "x"), ("d", "y")] {
            shelf
                .add(&mut Note { title: title.into(), tags: vec![tag.into()], ..Note::default() })
                .unwrap();
        }
        shelf
    }

    fn titles(listed: &Listed) -> Vec<&str> {
        listed.notes.iter().map(|note| note.title.as_str()).collect()
    }

    #[test]
    fn notes_are_listed_from_the_newest_page_by_page() {
        let shelf = shelf();
        let first = list(&shelf, None, None, 3).unwrap();
        assert_eq!((titles(&first), first.next_before), (vec!["d", "c", "b"], Some(2)));
        let last = list(&shelf, None, first.next_before, 3).unwrap();
        assert_eq!((titles(&last), last.next_before), (vec!["a"], None));
    }

    #[test]
    fn only_notes_with_the_tag_are_listed() {
        assert_eq!(titles(&list(&shelf(), Some(" X "), None, 100).unwrap()), ["c", "a"]);
        assert_eq!(titles(&list(&shelf(), Some("z"), None, 1).unwrap()), [""; 0]);
    }

    #[test]
    fn the_limit_must_be_in_its_range() {
        let host = Host::new().kv("notes");
        for limit in [0, 101] {
            let error = host.call::<list_notes>(json!({ "limit": limit })).unwrap_err();
            assert_eq!(
                error.message(),
                format!("argument `limit` must be an integer from 1 to 100, not {limit}")
            );
        }
        assert!(host.call::<list_notes>(json!({ "limit": 100 })).is_ok());
    }
}
