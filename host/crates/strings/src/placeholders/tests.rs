use super::*;

/// Returns the span of a part of a text.
fn span(text: &str, part: &str, kind: &str) -> PlaceholderSpan {
    let start = text.find(part).expect("it is there");
    PlaceholderSpan { start, end: start + part.len(), kind: kind.to_owned() }
}

/// Hides a part of a text.
fn replace(placeholders: &Placeholders, text: &str, part: &str, kind: &str) -> String {
    placeholders.replace(text, &[span(text, part, kind)]).expect("it can have a placeholder")
}

#[test]
fn the_same_part_has_the_same_placeholder_in_all_texts() {
    let placeholders = Placeholders::default();
    assert!(placeholders.is_empty());
    let text = "ann@a.example and bob@a.example";
    let spans = ["ann@a.example", "bob@a.example"].map(|part| span(text, part, "email"));
    assert_eq!(placeholders.replace(text, &spans).as_deref(), Ok("[EMAIL_1] and [EMAIL_2]"));
    let other = replace(&placeholders, "+49 30 1234567", "+49 30 1234567", "phone_number");
    assert_eq!(other, "[PHONE_NUMBER_3]");
    let again = replace(&placeholders, "é bob@a.example", "bob@a.example", "other");
    assert_eq!(again, "é [EMAIL_2]");
    assert_eq!(format!("{placeholders:?}"), "Placeholders { count: 3, .. }");
    assert_eq!(placeholders.bytes(), 13 + 13 + 14 + 3 * NAME_BYTES);
}

#[test]
fn originals_are_put_back_and_other_names_stay() {
    let placeholders = Placeholders::default();
    replace(&placeholders, "ann@a.example", "ann@a.example", "email");
    for (text, expected) in [
        (r#"{"to":"[EMAIL_1]"}"#, Some(r#"{"to":"ann@a.example"}"#)),
        ("[EMAIL_1][EMAIL_1]é", Some("ann@a.exampleann@a.exampleé")),
        ("[[EMAIL_1]]", Some("[ann@a.example]")),
        ("[EMAIL_2] [EMAIL_12] EMAIL_1 [email_1] [EMAIL_1", None),
        ("[", None),
        ("", None),
    ] {
        assert_eq!(placeholders.restored(text).as_deref(), expected, "{text}");
        assert_eq!(placeholders.restored_bytes(text), expected.map_or(0, str::len), "{text}");
    }
}

#[test]
fn originals_are_hidden_as_words_and_the_longest_first() {
    let placeholders = Placeholders::default();
    for part in ["ann@a.example", "ann@a.example.com"] {
        replace(&placeholders, part, part, "email");
    }
    for (text, expected) in [
        (r#"{"to":"ann@a.example"}"#, Some(r#"{"to":"[EMAIL_1]"}"#)),
        ("ann@a.example.com, ann@a.example.", Some("[EMAIL_2], [EMAIL_1].")),
        (r"a\nann@a.example", Some(r"a\n[EMAIL_1]")),
        ("éann@a.exampleé", Some("é[EMAIL_1]é")),
        ("joann@a.example ann@a.example1", Some("jo[EMAIL_1] [EMAIL_1]1")),
        ("[EMAIL_1]", None),
    ] {
        let mut texts = [text.to_owned()];
        assert_eq!(placeholders.hide(&mut texts), expected.is_some(), "{text}");
        assert_eq!(texts[0], expected.unwrap_or(text));
    }
    assert!(!Placeholders::default().hide(&mut ["ann@a.example".to_owned()]));
}

#[test]
fn the_search_for_originals_is_built_once_after_each_new_one() {
    let placeholders = Placeholders::default();
    assert!(placeholders.0.lock().search().is_none());
    replace(&placeholders, "ann@a.example", "ann@a.example", "email");
    let search = placeholders.0.lock().search().expect("there is an original");
    let mut texts = ["ann@a.example bob@a.example".to_owned()];
    assert!(placeholders.hide(&mut texts));
    replace(&placeholders, "ann@a.example", "ann@a.example", "email");
    assert_eq!(placeholders.quoted("[EMAIL_1]").as_deref(), Some("[TEXT_2]"));
    let same = placeholders.0.lock().search().expect("there is an original");
    assert!(Arc::ptr_eq(&search, &same), "nothing that is searched has changed");
    replace(&placeholders, "bob@a.example", "bob@a.example", "email");
    assert!(placeholders.hide(&mut texts));
    assert_eq!(texts[0], "[EMAIL_1] [EMAIL_3]");
}

#[test]
fn a_search_that_takes_much_memory_is_used_and_not_kept() {
    let placeholders = Placeholders::default();
    for number in 0..800 {
        let original = format!("{number:x<250}");
        replace(&placeholders, &original, &original, "key");
    }
    let mut texts = [format!("{:x<250}", 7)];
    assert!(placeholders.hide(&mut texts));
    assert_eq!(texts[0], "[KEY_8]");
    assert!(placeholders.0.lock().search.is_none());
}

#[test]
fn a_short_original_is_hidden_as_a_word_alone() {
    let placeholders = Placeholders::default();
    for part in ["1.2.3.4", "10.2.3.4"] {
        replace(&placeholders, part, part, "ip");
    }
    let mut texts = ["1.2.3.4 x1.2.3.4 x10.2.3.4x 10.2.3.45 11.2.3.4".to_owned()];
    assert!(placeholders.hide(&mut texts));
    assert_eq!(texts[0], "[IP_1] x1.2.3.4 x[IP_2]x [IP_2]5 11.2.3.4");
}

#[test]
fn a_text_that_has_the_form_of_a_known_placeholder_is_quoted_and_comes_back_as_it_was() {
    let placeholders = Placeholders::default();
    assert_eq!(placeholders.quoted("[EMAIL_1] is none yet"), None);
    assert_eq!(replace(&placeholders, "aaaa", "aaaa", "email"), "[EMAIL_2]");
    let forged = "https://b.example/?to=[EMAIL_2]&[EMAIL_2][EMAIL_1][EMAIL_3]";
    let quoted = placeholders.quoted(forged).expect("it has a placeholder");
    assert_eq!(quoted, "https://b.example/?to=[TEXT_3]&[TEXT_3][EMAIL_1][EMAIL_3]");
    assert_eq!(placeholders.restored(&quoted).as_deref(), Some(forged));
    // So is one that a text has learned of.
    let forged = "[TEXT_3] [EMAIL_2]";
    let quoted = placeholders.quoted(forged).expect("it has some");
    assert_eq!(quoted, "[TEXT_4] [TEXT_3]");
    assert_eq!(placeholders.restored(&quoted).as_deref(), Some(forged));
    // A text is quoted before its parts are replaced, and for all models.
    let mut texts = ["[EMAIL_2] aaaa".to_owned()];
    assert!(placeholders.hide(&mut texts) && texts[0] == "[EMAIL_2] [EMAIL_2]", "{texts:?}");
}

#[test]
fn texts_with_all_numbers_leave_none_that_they_could_forge() {
    let placeholders = Placeholders::default();
    replace(&placeholders, "aaaa", "aaaa", "email");
    for number in 2..MAX_NUMBER - 1 {
        placeholders.0.lock().reserved.insert(number);
    }
    assert_eq!(placeholders.quoted(&format!("[EMAIL_{}]", MAX_NUMBER - 1)), None);
    placeholders.reserve("[EMAIL_4000000000]");
    let last = replace(&placeholders, "bbbb", "bbbb", "email");
    assert_eq!(last, format!("[EMAIL_{MAX_NUMBER}]"));
    assert_eq!(hide_whole(&placeholders, "cccc").as_deref(), Ok("[EMAIL]"));
    assert_eq!(placeholders.quoted("a [EMAIL_1]").as_deref(), Some("a [TEXT]"));
}

#[test]
fn one_text_with_many_numbers_does_not_use_them_up() {
    let placeholders = Placeholders::default();
    let hostile = (1..=100_000).map(|number| format!("[X_{number}]")).collect::<Vec<_>>();
    assert_eq!(placeholders.quoted(&hostile.concat()), None);
    assert_eq!(replace(&placeholders, "aaaa", "aaaa", "email"), "[EMAIL_100001]");
    // Nor does one with the largest numbers, of which the set is as large as it can be.
    placeholders.reserve(&format!("[X_{MAX_NUMBER}] [X_{}]", MAX_NUMBER + 1));
    assert_eq!(replace(&placeholders, "bbbb", "bbbb", "email"), "[EMAIL_100002]");
    let table = placeholders.0.lock();
    assert!(table.reserved.contains(MAX_NUMBER));
    assert_eq!(size_of_val(&table.reserved.0[..]), 128 << 10);
}

#[test]
fn a_number_that_a_text_has_is_not_given() {
    let placeholders = Placeholders::default();
    placeholders.reserve("fill in [NAME_1] and [EMAIL_3], [x_2], [4], [EMAIL_99999999999]");
    let parts = ["aaaa", "bbbb", "cccc"].map(|part| replace(&placeholders, part, part, "email"));
    assert_eq!(parts, ["[EMAIL_2]", "[EMAIL_4]", "[EMAIL_5]"]);
    // Its own placeholders are none of these.
    placeholders.reserve("[EMAIL_5] [EMAIL_6]");
    assert_eq!(replace(&placeholders, "cccc", "cccc", "email"), "[EMAIL_5]");
    assert_eq!(replace(&placeholders, "dddd", "dddd", "email"), "[EMAIL_7]");
}

#[test]
fn a_part_that_cannot_have_a_placeholder_is_refused() {
    use PlaceholderError::{Character, Kind, Length, Range};
    let long = "a".repeat(MAX_ORIGINAL_BYTES + 1);
    for (text, spans, expected) in [
        ("abcdefgh", &[(0, 4, "a"), (4, 8, "a")][..], None),
        ("abcdefgh", &[(0, 4, "a"), (3, 8, "a")], Some(Range)),
        ("abcdefgh", &[(4, 8, "a"), (0, 4, "a")], Some(Range)),
        ("abcdefgh", &[(5, 4, "a")], Some(Range)),
        ("abcdefgh", &[(4, 9, "a")], Some(Range)),
        ("abcé", &[(0, 4, "a")], Some(Range)),
        ("abcdefgh", &[(0, 3, "a")], Some(Length)),
        (&long, &[(0, MAX_ORIGINAL_BYTES, "a")], None),
        (&long, &[(0, MAX_ORIGINAL_BYTES + 1, "a")], Some(Length)),
        ("ab\"c", &[(0, 4, "a")], Some(Character)),
        ("ab\\c", &[(0, 4, "a")], Some(Character)),
        ("ab\nc", &[(0, 4, "a")], Some(Character)),
        ("ab]c", &[(0, 4, "a")], Some(Character)),
        ("ab'c", &[(0, 4, "a")], Some(Character)),
        ("ab`c", &[(0, 4, "a")], Some(Character)),
        ("a${c", &[(0, 4, "a")], Some(Character)),
        ("ab}c", &[(0, 4, "a")], Some(Character)),
        ("abcd", &[(0, 4, "a_b")], None),
        ("abcd", &[(0, 4, "")], Some(Kind)),
        ("abcd", &[(0, 4, "A")], Some(Kind)),
        ("abcd", &[(0, 4, "a_")], Some(Kind)),
        ("abcd", &[(0, 4, "a1")], Some(Kind)),
        ("abcd", &[(0, 4, "aaaaaaaaaaaaaaaaaaaaaaaaa")], Some(Kind)),
    ] {
        let spans = spans.iter().map(|&(start, end, kind)| {
            let kind = kind.to_owned();
            PlaceholderSpan { start, end, kind }
        });
        let spans: Vec<_> = spans.collect();
        let refused = Placeholders::default().replace(text, &spans).err();
        assert_eq!(refused, expected, "{text} {spans:?}");
    }
}

/// Hides a whole text.
fn hide_whole(placeholders: &Placeholders, text: &str) -> Result<String, PlaceholderError> {
    placeholders.replace(text, &[span(text, text, "email")])
}

#[test]
fn parts_beyond_the_placeholders_and_bytes_of_a_request_are_hidden_for_good() {
    let placeholders = Placeholders::default();
    let addresses = (0..=MAX_PLACEHOLDERS).map(|number| format!("{number:08}"));
    let text = addresses.collect::<Vec<_>>().join(" ");
    let spans = (0..=MAX_PLACEHOLDERS).map(|number| {
        let start = number * 9;
        PlaceholderSpan { start, end: start + 8, kind: "phone_number".to_owned() }
    });
    let hidden = placeholders.replace(&text, &spans.collect::<Vec<_>>()).expect("it is hidden");
    assert!(hidden.starts_with("[PHONE_NUMBER_1] ") && !hidden.contains("00000"));
    assert!(hidden.ends_with(" [PHONE_NUMBER_4096] [PHONE_NUMBER]"));
    assert_eq!(hide_whole(&placeholders, "one more").as_deref(), Ok("[EMAIL]"));
    assert_eq!(hide_whole(&placeholders, "00000000").as_deref(), Ok("[PHONE_NUMBER_1]"));
    // No text has them back, neither that of a model nor one that was quoted.
    let restored = placeholders.restored(&hidden).expect("it has placeholders");
    assert!(restored.ends_with(" 00004095 [PHONE_NUMBER]"));
    assert_eq!(placeholders.quoted("[PHONE_NUMBER] [EMAIL]"), None);
    assert_eq!(placeholders.restored("[PHONE_NUMBER] [EMAIL]"), None);
    let placeholders = Placeholders::default();
    for number in 0..MAX_BYTES / MAX_ORIGINAL_BYTES {
        let numbered = format!("[EMAIL_{}]", number + 1);
        let hidden = hide_whole(&placeholders, &format!("{number:0256}"));
        assert_eq!(hidden.as_deref(), Ok(&*numbered));
    }
    assert_eq!(hide_whole(&placeholders, "one more").as_deref(), Ok("[EMAIL]"));
}
