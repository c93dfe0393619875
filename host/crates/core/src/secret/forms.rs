//! Base64 forms of a secret. Base64 spreads the bits of one byte over two characters, so it cannot
//! be decoded one character at a time, as the module `escapes` does.

use std::collections::BTreeSet;

use base64::engine::{
    Engine as _,
    general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};

/// Returns the base64 forms of a value at every offset in the encoded data, in both alphabets and
/// without padding.
///
/// Three bytes become four characters, so there are three different offsets. The first and the last
/// character may also hold bits of the bytes beside the value. Such characters are left out.
pub(super) fn base64(value: &[u8]) -> BTreeSet<String> {
    let mut forms = BTreeSet::new();
    for (before, first) in [(0, 0), (1, 2), (2, 3)] {
        let bytes = [&[0; 2][..before], value].concat();
        let last = bytes.len() * 8 / 6;
        for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
            forms.insert(engine.encode(&bytes)[first..last].to_owned());
        }
    }
    forms
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_value_has_forms_in_both_alphabets_if_they_differ() {
        let forms = base64(&[0xfb, 0xff, 0xfe]);
        assert!(forms.contains("+//+") && forms.contains("-__-"));
        assert_eq!(base64(b"abcdefgh").len(), 3, "and once where they do not");
    }

    proptest! {
        #[test]
        fn a_value_is_found_inside_any_encoded_data(
            before in prop::collection::vec(any::<u8>(), 0..7),
            value in prop::collection::vec(any::<u8>(), 8..40),
            after in prop::collection::vec(any::<u8>(), 0..7),
        ) {
            let whole = [before, value.clone(), after].concat();
            for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
                let text = engine.encode(&whole);
                prop_assert!(base64(&value).iter().any(|form| text.contains(form)), "{text}");
            }
        }
    }
}
