//! Notes: their fields, and the limits on them.

use airlock_guest::Error;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Largest number of characters in a title: a line. A list has up to 100 titles.
pub(crate) const TITLE_MAX: usize = 200;
/// Largest number of characters in a text. Even if it is twice in a result, its bytes stay below
/// the limit on a result.
pub(crate) const TEXT_MAX: usize = 50_000;
/// Largest number of tags of a note. A list has those of up to 100 notes: with [`TAG_MAX`], 100,000 characters.
pub(crate) const TAGS_MAX: usize = 20;
/// Largest number of characters in a tag: a few words.
pub(crate) const TAG_MAX: usize = 50;

/// A note as it is stored. Its number is its key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Note {
    pub(crate) title: String,
    pub(crate) text: String,
    pub(crate) tags: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) created: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) updated: Option<String>,
}

/// A note without its text.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Summary {
    /// The note's number, for the other tools.
    pub id: u32,
    /// Its title.
    pub title: String,
    /// Its tags, sorted.
    pub tags: Vec<String>,
    /// Characters of its text.
    pub length: usize,
    /// Grows with each change of the note.
    pub version: u64,
    /// Time at which it was written, in UTC; absent if the plugin has no clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// Time of its last change, in UTC; absent if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated: Option<String>,
}

impl Summary {
    pub(crate) fn new(id: u32, version: u64, note: &Note) -> Self {
        Self {
            id,
            title: note.title.clone(),
            tags: note.tags.clone(),
            length: note.text.chars().count(),
            version,
            created: note.created.clone(),
            updated: note.updated.clone(),
        }
    }
}

/// Validates a title and trims it.
pub(crate) fn title(title: &str) -> Result<String, Error> {
    let title = title.trim();
    if title.is_empty() || title.chars().any(char::is_control) {
        return Err(Error::invalid_input("argument `title` must be one line, and not empty"));
    }
    at_most("title", title, TITLE_MAX)?;
    Ok(title.to_owned())
}

/// Validates the length of a text.
pub(crate) fn text(text: String) -> Result<String, Error> {
    at_most("text", &text, TEXT_MAX)?;
    Ok(text)
}

/// Validates tags. Returns them in lower case, sorted, without duplicates.
pub(crate) fn tags(tags: &[String]) -> Result<Vec<String>, Error> {
    let mut tags = tags.iter().map(|one| tag("tags", one)).collect::<Result<Vec<_>, _>>()?;
    tags.sort_unstable();
    tags.dedup();
    if tags.len() > TAGS_MAX {
        return Err(Error::invalid_input(format!(
            "argument `tags` may have at most {TAGS_MAX} tags, not {}",
            tags.len()
        )));
    }
    Ok(tags)
}

/// Validates a tag. Returns it in lower case and trimmed.
pub(crate) fn tag(argument: &str, tag: &str) -> Result<String, Error> {
    let tag = tag.trim().to_lowercase();
    if tag.is_empty() || tag.chars().any(char::is_control) {
        return Err(Error::invalid_input(format!(
            "argument `{argument}`: a tag is one line, and not empty"
        )));
    }
    at_most(argument, &tag, TAG_MAX)?;
    Ok(tag)
}

fn at_most(argument: &str, text: &str, max: usize) -> Result<(), Error> {
    let length = text.chars().count();
    if length <= max {
        return Ok(());
    }
    Err(Error::invalid_input(format!(
        "argument `{argument}` may have at most {max} characters, not {length}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_texts_and_tags_have_limits() {
        assert_eq!(
            title(&format!(" {} ", "é".repeat(TITLE_MAX))).unwrap().chars().count(),
            TITLE_MAX
        );
        assert!(text("é".repeat(TEXT_MAX)).is_ok());
        assert!(tag("tag", &"é".repeat(TAG_MAX)).is_ok());
        insta::assert_snapshot!(title(&"x".repeat(TITLE_MAX + 1)).unwrap_err(), @"argument `title` may have at most 200 characters, not 201");
        insta::assert_snapshot!(text("x".repeat(TEXT_MAX + 1)).unwrap_err(), @"argument `text` may have at most 50000 characters, not 50001");
        insta::assert_snapshot!(tag("tag", &"x".repeat(TAG_MAX + 1)).unwrap_err(), @"argument `tag` may have at most 50 characters, not 51");
        for bad in ["", " \t", "two\nlines"] {
            assert!(title(bad).is_err() && tag("tag", bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn tags_are_sorted_without_duplicates() {
        let given = [" Work", "IDEA", "work", "été"].map(str::to_owned);
        assert_eq!(tags(&given).unwrap(), ["idea", "work", "été"]);
        let many: Vec<String> = (0..=TAGS_MAX).map(|number| format!("t{number}")).collect();
        assert_eq!(tags(&many[..TAGS_MAX]).unwrap().len(), TAGS_MAX);
        insta::assert_snapshot!(tags(&many).unwrap_err(), @"argument `tags` may have at most 20 tags, not 21");
    }
}
