//! Names of the file, such as those of providers, roles and stores.

/// Returns whether a name has 1 to `max_bytes` bytes: ASCII letters, digits and `others`.
pub(super) fn is_plain(name: &str, max_bytes: usize, others: &str) -> bool {
    (1..=max_bytes).contains(&name.len())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || others.contains(c))
}
