//! Names of the file, such as those of providers, roles and stores.

use super::resolved::Problems;
use airlock_core::door::MAX_KEY_NAME_BYTES;

/// Maximum length of the name of a publisher, which `airlock.lock` repeats, of a gateway in its log, which each
/// checkpoint repeats, and of a guard, in bytes.
pub(super) const MAX_NAME_BYTES: usize = 64;

/// Returns whether a name has 1 to `max_bytes` bytes: ASCII letters, digits and `others`.
pub(super) fn is_plain(name: &str, max_bytes: usize, others: &str) -> bool {
    (1..=max_bytes).contains(&name.len())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || others.contains(c))
}

/// Refuses a name of a key, or of what keys name, that has more than [`MAX_KEY_NAME_BYTES`]. Returns
/// whether it is accepted.
pub(super) fn check_length(problems: &mut Problems, member: &str, name: &str) -> bool {
    let is_short = name.len() <= MAX_KEY_NAME_BYTES;
    if !is_short {
        problems.refuse(
            member,
            format_args!("has {} bytes; expected at most {MAX_KEY_NAME_BYTES}", name.len()),
        );
    }
    is_short
}
