//! `read_note`.

use airlock_guest::{Content, Error, Structured, tool};
use schemars::JsonSchema;
use serde::Serialize;

use crate::note::Summary;
use crate::shelf::Shelf;

/// A whole note.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Whole {
    /// All but its text.
    #[serde(flatten)]
    pub note: Summary,
    /// Its text.
    pub text: String,
}

/// Reads a note whole.
///
/// The answer's `version` is for `update_note` and `delete_note`, which with it leave a note alone
/// that was changed since.
#[tool(read_only, idempotent, destructive = false, open_world = false, title = "Read a note")]
pub fn read_note(
    /// The note's number, as `list_notes` and `search_notes` tell it.
    id: u32,
) -> Result<Structured<Whole>, Error> {
    read(&Shelf::open()?, id)
}

fn read(shelf: &Shelf, id: u32) -> Result<Structured<Whole>, Error> {
    let (version, note) = shelf.read(id)?;
    let summary = Summary::new(id, version, &note);
    let text = Content::text(format!("{}\n\n{}", head(&summary), note.text));
    Ok(Structured::new(Whole { note: summary, text: note.text }).with(text))
}

/// Returns the title, and a line with the other fields.
fn head(note: &Summary) -> String {
    let mut known = vec![format!("note {}", note.id), format!("version {}", note.version)];
    known.extend(note.created.as_ref().map(|created| format!("written {created}")));
    known.extend(note.updated.as_ref().map(|updated| format!("changed {updated}")));
    known.extend((!note.tags.is_empty()).then(|| format!("tags: {}", note.tags.join(", "))));
    format!("# {}\n[{}]", note.title, known.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::note::Note;

    #[test]
    fn a_note_is_returned_as_data_and_as_text() {
        let shelf = Shelf::detached();
        let mut note = Note {
            title: "Milk".into(),
            text: "two\nlitres".into(),
            tags: vec!["a".into(), "b".into()],
            ..Note::default()
        };
        shelf.add(&mut note).unwrap();
        let answer = read(&shelf, 1).unwrap();
        assert_eq!((answer.value.note.version, answer.value.text.as_str()), (2, "two\nlitres"));
        let [part] = &answer.content[..] else { panic!("one part") };
        let text = part.as_text().unwrap();
        insta::assert_snapshot!(text, @"
        # Milk
        [note 1; version 2; written 2026-11-21T09:13:48Z; tags: a, b]

        two
        litres
        ");
    }
}
