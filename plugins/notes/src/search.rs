//! `search_notes`.

use airlock_guest::{Error, tool};
use schemars::JsonSchema;
use serde::Serialize;

use crate::note::{Note, Summary};
use crate::shelf::{FoundNotes, Shelf};

/// Largest number of characters in a query: 20 words of 25. They are looked for in 4 MiB of notes.
const QUERY_MAX: usize = 500;
/// Largest number of words in a query. Each is looked for in every note.
const WORDS_MAX: usize = 20;
/// Characters of an excerpt before the word that was found.
const SHOWN_BEFORE: usize = 60;
/// Characters of an excerpt from that word on.
const SHOWN_AFTER: usize = 140;

/// Results of a search.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Hits {
    /// Notes that hold every word, the newest first.
    pub hits: Vec<NoteHit>,
    /// Pass this as `before` to search older notes; absent when all have been searched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_before: Option<u32>,
}

/// A note that was found.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NoteHit {
    /// The note without its text.
    #[serde(flatten)]
    pub note: Summary,
    /// Part of its text around one of the words; the beginning of the text if it has none of them.
    pub excerpt: String,
}

/// Finds the notes that hold every one of some words, in title, text or tags, the newest first.
///
/// Small and capital letters are the same, and parts of words are found too: `plan` finds
/// "Planning". Use few words, and those that the note is sure to have. One call searches some
/// hundred notes: as long as `next_before` is there, older notes have not been searched.
#[tool(read_only, idempotent, destructive = false, open_world = false, title = "Search notes")]
pub fn search_notes(
    /// At most 20 words, parted by blanks.
    #[schemars(length(min = 1, max = 500))]
    query: String,
    /// Search only notes older than the one with this number: `next_before` of the answer before.
    before: Option<u32>,
    /// Report at most this many.
    #[arg(default = 10, range = 1..=50)]
    limit: usize,
) -> Result<Hits, Error> {
    search(&Shelf::open()?, &query, before, limit)
}

fn search(shelf: &Shelf, query: &str, before: Option<u32>, limit: usize) -> Result<Hits, Error> {
    let words = words(query)?;
    let FoundNotes { notes: hits, next_before } =
        shelf.look(before, limit, |id, version, note| {
            holds(&note, &words).then(|| NoteHit {
                note: Summary::new(id, version, &note),
                excerpt: excerpt(&note.text, &words),
            })
        })?;
    Ok(Hits { hits, next_before })
}

/// Returns the words of a query in lower case.
fn words(query: &str) -> Result<Vec<String>, Error> {
    let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
    if query.chars().count() <= QUERY_MAX && (1..=WORDS_MAX).contains(&words.len()) {
        return Ok(words);
    }
    Err(Error::invalid_input(format!(
        "argument `query` must have 1 to {WORDS_MAX} words in at most {QUERY_MAX} characters; list_notes shows all notes"
    )))
}

fn holds(note: &Note, words: &[String]) -> bool {
    let text = [note.title.as_str(), &note.text, &note.tags.join("\n")].join("\n").to_lowercase();
    words.iter().all(|word| text.contains(word))
}

/// Returns the text around the first occurrence of a word, on one line.
fn excerpt(text: &str, words: &[String]) -> String {
    let mut places = text.char_indices();
    let start = places
        .find(|(at, c)| words.iter().any(|word| may_begin(word, *c) && begins(&text[*at..], word)));
    let start = start.map_or(0, |(at, _)| at);
    let from =
        text[..start].char_indices().rev().take(SHOWN_BEFORE).last().map_or(start, |(at, _)| at);
    let to = text[start..].char_indices().nth(SHOWN_AFTER).map_or(text.len(), |(at, _)| start + at);
    let shown = text[from..to].split_whitespace().collect::<Vec<_>>().join(" ");
    let before = if from > 0 { "…" } else { "" };
    let after = if to < text.len() { "…" } else { "" };
    format!("{before}{shown}{after}")
}

/// Returns whether a word in lower case could begin with this letter. The check is cheap and rules
/// out most positions.
fn may_begin(word: &str, letter: char) -> bool {
    letter.to_lowercase().next() == word.chars().next()
}

/// Returns whether a text begins with a word in lower case, ignoring the case of the text.
fn begins(text: &str, word: &str) -> bool {
    let mut text = text.chars().flat_map(char::to_lowercase);
    word.chars().all(|c| text.next() == Some(c))
}

#[cfg(test)]
mod tests {
    use airlock_guest::{serde_json::json, testing::Host};

    use super::*;

    fn shelf() -> Shelf {
        let shelf = Shelf::detached();
        for (title, text, tag) in [
            ("Trip to Norway", "Boat from Bergen, then the train.", "travel"),
            ("Planning", "Ask Öystein about the boat.", "work"),
            ("Empty", "", "travel"),
        ] {
            let mut note = Note {
                title: title.into(),
                text: text.into(),
                tags: vec![tag.into()],
                ..Note::default()
            };
            shelf.add(&mut note).unwrap();
        }
        shelf
    }

    fn found(query: &str) -> Vec<(u32, String)> {
        let hits = search(&shelf(), query, None, 10).unwrap().hits;
        hits.into_iter().map(|hit| (hit.note.id, hit.excerpt)).collect()
    }

    #[test]
    fn every_word_must_be_somewhere_in_the_note() {
        assert_eq!(found("BOAT").len(), 2);
        assert_eq!(found("boat travel"), [(1, "Boat from Bergen, then the train.".into())]);
        assert_eq!(found("öySTEIN plan"), [(2, "Ask Öystein about the boat.".into())]);
        assert_eq!(found("travel").iter().map(|(id, _)| *id).collect::<Vec<_>>(), [3, 1]);
        assert_eq!(found("boat plane"), []);
    }

    #[test]
    fn a_search_continues_where_the_last_one_ended() {
        let first = search(&shelf(), "boat", None, 1).unwrap();
        assert_eq!((first.hits[0].note.id, first.next_before), (2, Some(2)));
        let second = search(&shelf(), "boat", first.next_before, 1).unwrap();
        assert_eq!((second.hits[0].note.id, second.next_before), (1, None));
    }

    #[test]
    fn an_excerpt_is_one_line_around_the_word_with_marks_where_it_is_cut() {
        let words = ["needle".to_owned()];
        assert_eq!(excerpt("a\n\nneedle\tb", &words), "a needle b");
        let long = format!("{}Needle{}", "ä ".repeat(100), "ö".repeat(200));
        let shown = excerpt(&long, &words);
        assert!(
            shown.starts_with("…ä ä") && shown.ends_with("öö…") && shown.contains("ä Needleö"),
            "{shown}"
        );
        assert_eq!(shown.chars().count(), 2 + SHOWN_BEFORE + SHOWN_AFTER);
        assert_eq!(excerpt("", &words), "");
        // Its lower case has two characters, and more bytes than itself.
        assert_eq!(excerpt("İİİ Needle", &words), "İİİ Needle");
    }

    #[test]
    fn a_query_without_words_or_too_long_is_refused() {
        for query in
            [String::new(), " \n".into(), "x".repeat(QUERY_MAX + 1), "x ".repeat(WORDS_MAX + 1)]
        {
            insta::allow_duplicates! {
                insta::assert_snapshot!(search(&shelf(), &query, None, 10).unwrap_err(), @"argument `query` must have 1 to 20 words in at most 500 characters; list_notes shows all notes");
            }
        }
        for query in ["x".repeat(QUERY_MAX), "x ".repeat(WORDS_MAX)] {
            assert!(search(&shelf(), &query, None, 10).is_ok());
        }
        let host = Host::new().kv("notes");
        for limit in [0, 51] {
            let refused = host.call::<search_notes>(json!({ "query": "x", "limit": limit }));
            assert_eq!(
                refused.unwrap_err().message(),
                format!("argument `limit` must be an integer from 1 to 50, not {limit}")
            );
        }
    }
}
