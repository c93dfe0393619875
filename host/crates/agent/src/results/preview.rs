//! Beginning and end of a large result, and how to read the rest.

use std::time::Duration;

use super::{kept::ResultHandle, reader::NAME};

/// Maximum length of the beginning that is shown, in bytes.
const HEAD_BYTES: usize = 2 << 10;
/// Maximum length of the end that is shown, in bytes.
const TAIL_BYTES: usize = 1 << 10;

/// Preview of a large result.
pub(super) struct Preview {
    /// Beginning and end of the result, with the number of bytes between them.
    pub(super) text: String,
    /// Length of the beginning, in bytes: the offset at which to go on.
    head: usize,
}

impl Preview {
    /// Returns the preview of a text. It is shorter than half of `limit`.
    pub(super) fn new(text: &str, limit: usize) -> Self {
        let head = text.floor_char_boundary(HEAD_BYTES.min(limit / 4));
        let tail =
            text.ceil_char_boundary(text.len() - TAIL_BYTES.min(limit / 8).min(text.len() - head));
        let left_out = tail - head;
        let preview = format!("{}\n[… {left_out} bytes …]\n{}", &text[..head], &text[tail..]);
        Self { text: preview, head }
    }

    /// Returns the gateway's remark about a result of `bytes`. Without a handle the rest is lost.
    pub(super) fn remark(
        &self,
        bytes: usize,
        handle: Option<&ResultHandle>,
        expire_after: Duration,
    ) -> String {
        let shown = format!(
            "This is a preview: the result has {bytes} bytes of text, too many for the conversation."
        );
        match handle {
            Some(handle) => format!(
                "{shown} The whole is kept for {}. To read more, call {NAME} with {{\"handle\": \"{handle}\", \"offset\": {}}}.",
                humantime::format_duration(expire_after),
                self.head
            ),
            None => format!("{shown} The rest is left out; ask for less."),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preview_has_beginning_end_and_the_offset_to_go_on_at() {
        let text = format!("{}{}{}", "a".repeat(5_000), "é".repeat(20_000), "z".repeat(5_000));
        let preview = Preview::new(&text, 32 << 10);
        assert_eq!(preview.head, HEAD_BYTES);
        let expected = format!(
            "{}\n[… {} bytes …]\n{}",
            "a".repeat(HEAD_BYTES),
            text.len() - HEAD_BYTES - TAIL_BYTES,
            "z".repeat(TAIL_BYTES)
        );
        assert_eq!(preview.text, expected);
        let remark = preview.remark(text.len(), None, Duration::from_mins(15));
        assert_eq!(
            remark,
            "This is a preview: the result has 50000 bytes of text, too many for the conversation. The rest is left out; ask for less."
        );
    }

    #[test]
    fn a_preview_is_cut_between_characters_and_shorter_than_half_of_the_limit() {
        for length in [1_366, 1_367, 5_000] {
            let text = "€".repeat(length);
            let preview = Preview::new(&text, 4 << 10);
            assert!(preview.text.starts_with('€') && preview.text.ends_with('€'));
            assert!(preview.text.len() < 2 << 10, "{}", preview.text.len());
            assert_eq!(preview.head % 3, 0);
        }
    }
}
