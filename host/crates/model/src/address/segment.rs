//! The name of a model as one segment of a path.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use airlock_conversation::read::{Path, Untranslatable};

/// Characters that are encoded: all that a URI reserves, among them `/`, so that a name cannot reach
/// another address of the host.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    // Of versions at Vertex AI. RFC 3986 permits it in a segment.
    .remove(b'@');
/// Maximum bytes of a name. AWS permits 2,048 for the ARN of a model.
const MAX_BYTES: usize = 2_048;

/// Returns the segment of a name. Fails if it is empty, too long, or stands for a directory.
pub(super) fn segment(model: &str) -> Result<String, Untranslatable> {
    if !(1..=MAX_BYTES).contains(&model.len()) || matches!(model, "." | "..") {
        let rule = format!("it must be the name of a model, with 1 to {MAX_BYTES} bytes.");
        return Err(Untranslatable::invalid(&Path::Root.member("model"), &rule));
    }
    Ok(utf8_percent_encode(model, ENCODED).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_one_segment() {
        for (model, expected) in [
            ("gpt-4.1_a~b", "gpt-4.1_a~b"),
            ("anthropic.claude-v2:1", "anthropic.claude-v2%3A1"),
            ("../admin?x=1#y", "..%2Fadmin%3Fx%3D1%23y"),
            ("%2e%2e", "%252e%252e"),
            ("...", "..."),
            ("claude-sonnet-4@20250514", "claude-sonnet-4@20250514"),
            ("a b\r\n", "a%20b%0D%0A"),
            ("ü", "%C3%BC"),
        ] {
            assert_eq!(segment(model).as_deref(), Ok(expected));
        }
        let long = "x".repeat(MAX_BYTES);
        assert_eq!(segment(&long).as_deref(), Ok(long.as_str()));
        for model in ["", ".", "..", &format!("{long}x")] {
            assert_eq!(segment(model).expect_err(model).param, "model");
        }
    }
}
