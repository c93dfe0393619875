//! `add_note`.

use airlock_guest::{Error, tool};

use crate::note::{self, Note, Summary};
use crate::shelf::Shelf;

/// Keeps a note, so that it can be found again in later conversations.
///
/// Give it a title that says what it is about, and tags if there will be many of its kind. Look
/// first whether there is a note on the subject already, with `search_notes`: adding to that one is
/// better than having two. Everyone who may call these tools can read the notes, so passwords and
/// the like do not belong in them.
#[tool(
    read_only = false,
    destructive = false,
    idempotent = false,
    open_world = false,
    title = "Add a note"
)]
pub fn add_note(
    /// Subject of the note: one line of at most 200 characters.
    #[schemars(length(min = 1, max = 200))]
    title: String,
    /// The note itself, of at most 50,000 characters; Markdown if you like. Empty where the title
    /// says it all.
    #[serde(default)]
    #[schemars(length(max = 50000))]
    text: String,
    /// Words to find it by, at most 20 of up to 50 characters; small and capital letters are the
    /// same.
    #[serde(default)]
    #[schemars(length(max = 20))]
    tags: Vec<String>,
) -> Result<Summary, Error> {
    add(&Shelf::open()?, &title, text, &tags)
}

fn add(shelf: &Shelf, title: &str, text: String, tags: &[String]) -> Result<Summary, Error> {
    let mut note = Note {
        title: note::title(title)?,
        text: note::text(text)?,
        tags: note::tags(tags)?,
        created: None,
        updated: None,
    };
    let (id, version) = shelf.add(&mut note)?;
    Ok(Summary::new(id, version, &note))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_stored_as_it_was_given() {
        let shelf = Shelf::detached();
        let added = add(&shelf, " Milk ", "two litres\n".into(), &["Shopping".into()]).unwrap();
        insta::assert_debug_snapshot!(added, @r#"
        Summary {
            id: 1,
            title: "Milk",
            tags: [
                "shopping",
            ],
            length: 11,
            version: 2,
            created: Some(
                "2026-11-21T09:13:48Z",
            ),
            updated: None,
        }
        "#);
        let (version, note) = shelf.read(1).unwrap();
        assert_eq!((version, note.text.as_str()), (2, "two litres\n"));
    }

    #[test]
    fn a_note_that_is_refused_takes_no_number() {
        let shelf = Shelf::detached();
        assert!(add(&shelf, " ", String::new(), &[]).is_err());
        assert_eq!(add(&shelf, "a", String::new(), &[]).unwrap().id, 1);
    }
}
