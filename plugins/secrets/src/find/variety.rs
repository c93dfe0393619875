//! Different bytes of a text.

/// Returns whether a text has so many different bytes. One that stands for a secret in an example repeats one byte.
pub(super) fn has_variety(text: &[u8], least: usize) -> bool {
    let mut seen = [false; 256];
    for byte in text {
        seen[usize::from(*byte)] = true;
    }
    seen.iter().filter(|is_there| **is_there).count() >= least
}
