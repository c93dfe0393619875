//! Arguments as a person reads them before a decision: bounded, and nothing hidden without a note; or whole.

use airlock_json::raw;
use airlock_strings::visible_line;

/// Maximum number of characters of one argument.
const SHOWN_CHARACTERS: usize = 2_000;
/// Maximum number of arguments.
const SHOWN_MEMBERS: usize = 20;

/// Returns the arguments of a call for a person: a line for each member, without the blanks between
/// them. Of a long value, the start and the end are shown, with the number of characters between
/// them. No character of the arguments can begin a line.
pub fn argument_lines(arguments: &str) -> Vec<String> {
    let members: Vec<_> = raw::members(arguments).into_iter().flatten().collect();
    let mut lines: Vec<String> = members
        .iter()
        .take(SHOWN_MEMBERS)
        .map(|(name, value)| format!("{}: {}", shortened(name), shortened(value)))
        .collect();
    if members.len() > SHOWN_MEMBERS {
        lines.push(format!("[{} more arguments are not shown]", members.len() - SHOWN_MEMBERS));
    }
    lines
}

/// Returns the arguments of a call as [`argument_lines`], and nothing is left out: for a place with room for
/// all of them. A text that is not an object is one line.
pub fn whole_argument_lines(arguments: &str) -> Vec<String> {
    match raw::members(arguments) {
        Some(members) => members
            .map(|(name, value)| format!("{}: {}", visible_line(&name), visible_line(value)))
            .collect(),
        None => vec![visible_line(arguments)],
    }
}

/// Returns the beginning and the end of a text, and the number of characters between them.
pub(super) fn shortened(text: &str) -> String {
    let count = text.chars().count();
    if count <= SHOWN_CHARACTERS {
        return visible_line(text);
    }
    let half = SHOWN_CHARACTERS / 2;
    let start: String = text.chars().take(half).collect();
    let end: String = text.chars().skip(count - half).collect();
    let hidden = count - 2 * half;
    format!("{} [{hidden} characters are not shown] {}", visible_line(&start), visible_line(&end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_whole_up_to_the_limit_and_has_both_ends_beyond() {
        assert_eq!(
            lines_of_value(SHOWN_CHARACTERS),
            [format!("a: {}", "7".repeat(SHOWN_CHARACTERS))]
        );
        let half = "7".repeat(SHOWN_CHARACTERS / 2);
        let beyond = format!("a: {half} [1 characters are not shown] {half}");
        assert_eq!(lines_of_value(SHOWN_CHARACTERS + 1), [beyond]);
    }

    fn lines_of_value(length: usize) -> Vec<String> {
        argument_lines(&format!(r#"{{"a":{}}}"#, "7".repeat(length)))
    }

    #[test]
    fn omitted_members_are_counted() {
        assert_eq!(lines_of_members(0), [""; 0]);
        assert_eq!(
            (lines_of_members(SHOWN_MEMBERS).len(), lines_of_members(SHOWN_MEMBERS)[19].as_str()),
            (20, "k19: 19")
        );
        assert_eq!(lines_of_members(SHOWN_MEMBERS + 1)[20], "[1 more arguments are not shown]");
    }

    fn lines_of_members(count: usize) -> Vec<String> {
        let members: Vec<_> = (0..count).map(|n| format!(r#""k{n}":{n}"#)).collect();
        argument_lines(&format!("{{{}}}", members.join(",")))
    }

    #[test]
    fn whole_arguments_are_shown_without_a_limit() {
        let long = "7".repeat(60_000);
        let members: Vec<_> = (0..SHOWN_MEMBERS + 5).map(|n| format!(r#""k{n}":{n}"#)).collect();
        let lines = whole_argument_lines(&format!(r#"{{"a":{long},{}}}"#, members.join(",")));
        assert_eq!((lines.len(), lines[0].clone()), (SHOWN_MEMBERS + 6, format!("a: {long}")));
        assert_eq!(lines[SHOWN_MEMBERS + 5], format!("k{0}: {0}", SHOWN_MEMBERS + 4));
        assert_eq!(whole_argument_lines("[\n1]"), ["[⟨U+000A⟩1]"]);
    }

    #[test]
    fn no_name_and_no_value_begins_a_line() {
        let lines = argument_lines("{\"a\\n- other\":\n[1,\n2],\"\\u202eb\":\"c\\nd\"}");
        let text = lines.join("\n");
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(lines[0].starts_with("a⟨U+000A⟩- other: [1,⟨U+000A⟩2]"), "{text}");
        assert_eq!(lines[1], r#"⟨U+202E⟩b: "c\nd""#);
    }
}
