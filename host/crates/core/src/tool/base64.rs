//! Base64 of images, sounds and other binary content, as servers really send it.

use std::borrow::Cow;

use base64::{
    alphabet,
    engine::{
        DecodePaddingMode, Engine as _,
        general_purpose::{GeneralPurpose, GeneralPurposeConfig},
    },
};

/// Decodes as leniently as the most lenient client: padding is optional, and trailing bits are
/// ignored.
const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// Decodes base64 of either alphabet, in lines or not. Returns `None` if it has other characters.
pub fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let is_wrapped = text.contains(|c: char| c.is_ascii_whitespace());
    let joined = if is_wrapped {
        Cow::Owned(text.split_ascii_whitespace().collect())
    } else {
        Cow::Borrowed(text)
    };
    let engine = if joined.contains(['-', '_']) { URL_SAFE } else { STANDARD };
    engine.decode(joined.as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_alphabet_and_lines_do_not_matter() {
        for text in ["+/8=", "+/8", "-_8=", "-_8", "+/\r\n8=\n", "+/9"] {
            assert_eq!(decode_base64(text).as_deref(), Some(&[0xfb, 0xff][..]), "{text:?}");
        }
        for text in ["+/8*", "-/8=", "ä", "A"] {
            assert_eq!(decode_base64(text), None, "{text:?}");
        }
        assert_eq!(decode_base64("").as_deref(), Some(&[][..]));
    }
}
