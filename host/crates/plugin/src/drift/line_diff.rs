//! Differences of two texts, line by line. Both texts are the author's, who may have made them to be compared: the
//! time and the length of a diff grow with the texts and no faster.

use std::time::Instant;

use airlock_lock::{CONTEXT_LINES, MAX_COMPARED_LINES, MAX_DIFF_LINES, diff_lines};

/// Returns the lines that differ with those around them, marked with `-`, `+` or a space. The last line has the number
/// of further ones, if there are any.
pub(super) fn line_diff(was: &str, is: &str, deadline: Instant) -> Vec<String> {
    let was: Vec<&str> = was.split_inclusive('\n').collect();
    let is: Vec<&str> = is.split_inclusive('\n').collect();
    let begin = shared(was.iter(), is.iter()).saturating_sub(CONTEXT_LINES);
    let was = &was[begin..];
    let is = &is[begin..];
    let end = shared(was.iter().rev(), is.iter().rev()).saturating_sub(CONTEXT_LINES);
    let was = &was[..was.len() - end];
    let is = &is[..is.len() - end];
    let old = &was[..was.len().min(MAX_COMPARED_LINES)];
    let new = &is[..is.len().min(MAX_COMPARED_LINES)];
    let mut lines = Vec::new();
    diff_lines(old, new, deadline, |mark, line| {
        lines.push(format!("{mark}{}", line.trim_end_matches('\n')));
    });
    let uncompared = was.len() - old.len() + is.len() - new.len();
    let hidden = lines.len().saturating_sub(MAX_DIFF_LINES) + uncompared;
    lines.truncate(MAX_DIFF_LINES);
    if hidden > 0 {
        lines.push(format!("… {hidden} more lines"));
    }
    lines
}

/// Returns the number of lines that both have in common before the first difference.
fn shared<T: PartialEq>(was: impl Iterator<Item = T>, is: impl Iterator<Item = T>) -> usize {
    was.zip(is).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_lock::diff_deadline;

    fn diff(was: &str, is: &str) -> Vec<String> {
        line_diff(was, is, diff_deadline())
    }

    #[test]
    fn lines_that_differ_are_shown_with_two_around_them() {
        let was = "a\nb\nc\nd\ne\nf\ng\nh";
        let is = "a\nb\nc\nd\nE\nf\ng\nh";
        assert_eq!(diff(was, is), [" c", " d", "-e", "+E", " f", " g"]);
        assert_eq!(diff(was, &format!("{was}\n")), [" f", " g", "-h", "+h"]);
        assert_eq!(diff("", "a"), ["+a"]);
        assert!(diff(was, was).is_empty());
    }

    #[test]
    fn texts_that_share_no_line_are_compared_in_bounded_time_and_shown_in_part() {
        let was = numbered(0..100_000);
        let is = numbered(100_000..200_000);
        let lines = diff(&was, &is);
        assert_eq!(lines.len(), MAX_DIFF_LINES + 1);
        assert_eq!(lines.last().map(String::as_str), Some("… 199600 more lines"));
        // The deadline is over: the texts are shown one after the other.
        let lines = line_diff("a\nb\nc", "x\nb\ny", Instant::now());
        assert!(lines.contains(&"-a".to_owned()) && lines.contains(&"+y".to_owned()), "{lines:?}");
    }

    #[test]
    fn a_difference_after_many_equal_lines_is_found() {
        let same = numbered(0..100_000);
        let lines = diff(&format!("{same}old\n{same}"), &format!("{same}new\n{same}"));
        assert_eq!(lines, [" 99998", " 99999", "-old", "+new", " 0", " 1"]);
    }

    fn numbered(numbers: std::ops::Range<usize>) -> String {
        numbers.map(|number| format!("{number}\n")).collect::<Vec<_>>().concat()
    }
}
