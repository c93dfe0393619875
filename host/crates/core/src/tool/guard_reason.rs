//! Texts of guards as people and models read them. Knows no errors.

use airlock_strings::{MAX_LINE_BYTES, cut, one_line, visible_line};

/// Returns the reason for which a guard asks for an approval, or has denied a call or a definition, on one line and cut.
pub fn shown_reason(reason: &str) -> String {
    shown(reason, MAX_LINE_BYTES)
}

/// Returns a text of a guard, on one line, without hidden characters, and cut. Guards see untrusted text, and may
/// repeat it.
pub(super) fn shown(text: &str, most: usize) -> String {
    cut(visible_line(&cut(one_line(text), most)), most)
}
