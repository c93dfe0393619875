//! `update_note`.

use airlock_guest::{Error, tool};

use crate::note::{self, Note, Summary};
use crate::shelf::Shelf;

/// Changes a note. What is not given stays as it is.
///
/// `append` adds to the text without the need to read it first, which is the way to keep a log. To
/// rewrite the text, read the note, and give its `version` along with `text`: the change is then
/// refused if another caller has changed the note since.
#[tool(
    read_only = false,
    destructive,
    idempotent = false,
    open_world = false,
    title = "Change a note"
)]
pub fn update_note(
    /// The note's number, as `list_notes` and `search_notes` tell it.
    id: u32,
    /// A new title: one line of at most 200 characters.
    #[schemars(length(min = 1, max = 200))]
    title: Option<String>,
    /// A new text instead of the present one, of at most 50,000 characters.
    #[schemars(length(max = 50000))]
    text: Option<String>,
    /// Text to add at the end, on a line of its own. Not together with `text`.
    append: Option<String>,
    /// New tags instead of the present ones; an empty list takes them all away.
    #[schemars(length(max = 20))]
    tags: Option<Vec<String>>,
    /// The version that you read. If it is given, a note that was changed since is left as it is.
    version: Option<u64>,
) -> Result<Summary, Error> {
    update(&Shelf::open()?, id, version, NoteChange { title, text, append, tags })
}

/// The fields to change; `None` keeps the present value.
#[derive(Default)]
struct NoteChange {
    title: Option<String>,
    text: Option<String>,
    append: Option<String>,
    tags: Option<Vec<String>>,
}

fn update(
    shelf: &Shelf,
    id: u32,
    version: Option<u64>,
    change: NoteChange,
) -> Result<Summary, Error> {
    let NoteChange { title, text, append, tags } = change;
    if text.is_some() && append.is_some() {
        return Err(Error::invalid_input(
            "give `text` to replace the text or `append` to add to it, not both",
        ));
    }
    if title.is_none() && text.is_none() && append.is_none() && tags.is_none() {
        return Err(Error::invalid_input(
            "nothing to change: give `title`, `text`, `append` or `tags`",
        ));
    }
    let title = title.map(|title| note::title(&title)).transpose()?;
    let text = text.map(note::text).transpose()?;
    let tags = tags.map(|tags| note::tags(&tags)).transpose()?;
    let (version, note) = shelf.change(id, version, |note| {
        note.title = title.clone().unwrap_or_else(|| std::mem::take(&mut note.title));
        note.tags = tags.clone().unwrap_or_else(|| std::mem::take(&mut note.tags));
        note.text = text.clone().unwrap_or_else(|| std::mem::take(&mut note.text));
        append.as_deref().map_or(Ok(()), |more| add_to(note, more))
    })?;
    Ok(Summary::new(id, version, &note))
}

fn add_to(note: &mut Note, more: &str) -> Result<(), Error> {
    let mut text = std::mem::take(&mut note.text);
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(more);
    note.text = note::text(text).map_err(|_| {
        Error::too_large(format!(
            "the text would be longer than {} characters; begin another note",
            note::TEXT_MAX
        ))
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shelf() -> Shelf {
        let shelf = Shelf::detached();
        shelf
            .add(&mut Note {
                title: "a".into(),
                text: "one".into(),
                tags: vec!["x".into()],
                ..Note::default()
            })
            .unwrap();
        shelf
    }

    #[test]
    fn fields_that_are_not_given_stay_unchanged() {
        let shelf = shelf();
        let (before, _) = shelf.read(1).unwrap();
        let changed = update(
            &shelf,
            1,
            None,
            NoteChange { title: Some("b".into()), ..NoteChange::default() },
        )
        .unwrap();
        assert!(changed.version > before && changed.updated.is_some());
        let (version, note) = shelf.read(1).unwrap();
        assert_eq!(
            (version, note.title.as_str(), note.text.as_str()),
            (changed.version, "b", "one")
        );
        update(
            &shelf,
            1,
            None,
            NoteChange { tags: Some(vec![]), text: Some(String::new()), ..NoteChange::default() },
        )
        .unwrap();
        let (_, note) = shelf.read(1).unwrap();
        assert_eq!((note.title.as_str(), note.text.as_str(), note.tags.len()), ("b", "", 0));
    }

    #[test]
    fn appended_text_begins_on_a_new_line() {
        let shelf = shelf();
        for more in ["two", "three\n", "four"] {
            update(
                &shelf,
                1,
                None,
                NoteChange { append: Some(more.into()), ..NoteChange::default() },
            )
            .unwrap();
        }
        assert_eq!(shelf.read(1).unwrap().1.text, "one\ntwo\nthree\nfour");
        let too_much =
            NoteChange { append: Some("x".repeat(note::TEXT_MAX)), ..NoteChange::default() };
        let error = update(&shelf, 1, None, too_much).unwrap_err();
        insta::assert_snapshot!(error, @"the text would be longer than 50000 characters; begin another note");
        assert_eq!(
            shelf.read(1).unwrap().1.text,
            "one\ntwo\nthree\nfour",
            "a refusal changes nothing"
        );
    }

    #[test]
    fn a_note_that_changed_since_it_was_read_is_not_updated() {
        let shelf = shelf();
        let (version, _) = shelf.read(1).unwrap();
        let write = |text: &str| {
            update(
                &shelf,
                1,
                Some(version),
                NoteChange { text: Some(text.into()), ..NoteChange::default() },
            )
        };
        write("mine").unwrap();
        let error = write("yours").unwrap_err();
        assert_eq!(error.code(), Some("note_changed"));
        insta::assert_snapshot!(error, @"note 1 was changed since you read it: it is at version 3, not 2; read it again");
        assert_eq!(shelf.read(1).unwrap().1.text, "mine");
    }

    #[test]
    fn a_change_without_fields_or_with_text_and_append_is_refused() {
        let shelf = shelf();
        let error = update(&shelf, 1, None, NoteChange::default()).unwrap_err();
        insta::assert_snapshot!(error, @"nothing to change: give `title`, `text`, `append` or `tags`");
        let both = NoteChange {
            text: Some("a".into()),
            append: Some("b".into()),
            ..NoteChange::default()
        };
        insta::assert_snapshot!(update(&shelf, 1, None, both).unwrap_err(), @"give `text` to replace the text or `append` to add to it, not both");
    }
}
