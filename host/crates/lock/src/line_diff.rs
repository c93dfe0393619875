//! Differences of an accepted text and the present one, line by line. Both may be a stranger's, who may have made them to
//! be compared: the time and the length of a diff grow with the texts and no faster.

use std::time::{Duration, Instant};

use similar::{ChangeTag, TextDiff};

/// Maximum time to find the shortest diffs of one comparison; after it, the diffs may be longer than necessary.
const PATIENCE: Duration = Duration::from_millis(500);
/// Equal lines that are shown before and after a difference.
pub const CONTEXT_LINES: usize = 2;
/// Maximum lines of each text that are compared, from the first difference on. Its author chooses
/// how many there are, and after the [deadline](diff_deadline) all of them are in the diff.
pub const MAX_COMPARED_LINES: usize = 4_000;
/// Maximum lines of one diff. A person reads them; of further ones, the number is shown.
pub const MAX_DIFF_LINES: usize = 400;

/// Returns the time by which the shortest diffs of a comparison that begins now are found.
pub fn diff_deadline() -> Instant {
    Instant::now() + PATIENCE
}

/// Shows the lines that differ with those around them, each with its mark: `-`, `+` or a space. After the deadline, the
/// texts are shown one after the other. The caller bounds the lines of both.
pub fn diff_lines(was: &[&str], is: &[&str], deadline: Instant, mut show: impl FnMut(char, &str)) {
    let diff = TextDiff::configure().deadline(deadline).diff_slices(was, is);
    for op in diff.grouped_ops(CONTEXT_LINES).iter().flatten() {
        for change in diff.iter_changes(op) {
            let mark = match change.tag() {
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
                ChangeTag::Equal => ' ',
            };
            show(mark, change.value());
        }
    }
}
