//! Tests that every form of a secret is found at every offset, and that other text is not changed.

use base64::engine::{
    Engine as _,
    general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD},
};
use proptest::prelude::*;
use url::form_urlencoded::byte_serialize;

use super::*;

const VALUE: &str = "p/ss w+rd\"~é";

fn scrubber(secrets: &[(&str, &str)]) -> Scrubber {
    let secrets: Vec<_> =
        secrets.iter().map(|(name, value)| (*name, Secret::new(*value))).collect();
    Scrubber::new(secrets.iter().map(|(name, secret)| (*name, secret))).expect("good secrets")
}

fn scrub(text: &str) -> String {
    scrubber(&[("KEY", VALUE)]).text(text).into_owned()
}

/// Percent-encodes every byte except letters, digits and the characters in `kept`.
fn percent(bytes: &[u8], kept: &str, is_upper: bool) -> String {
    bytes
        .iter()
        .map(|byte| match char::from(*byte) {
            c if c.is_ascii_alphanumeric() || (byte.is_ascii() && kept.contains(c)) => {
                c.to_string()
            }
            _ if is_upper => format!("%{byte:02X}"),
            _ => format!("%{byte:02x}"),
        })
        .collect()
}

fn json(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Escapes every character except ASCII letters and digits as `\uXXXX`.
fn json_ascii(text: &str) -> String {
    text.encode_utf16()
        .map(|unit| match u8::try_from(unit).ok().filter(u8::is_ascii_alphanumeric) {
            Some(byte) => char::from(byte).to_string(),
            None => format!("\\u{unit:04x}"),
        })
        .collect()
}

/// Returns a text in every form, with the name of the form.
fn forms(text: &str) -> Vec<(&'static str, String)> {
    let bytes = text.as_bytes();
    let hex = airlock_strings::hex(bytes);
    vec![
        ("as it is", text.to_owned()),
        ("base64", STANDARD.encode(bytes)),
        ("base64 without padding", STANDARD_NO_PAD.encode(bytes)),
        ("url-safe base64", URL_SAFE.encode(bytes)),
        ("url-safe base64 without padding", URL_SAFE_NO_PAD.encode(bytes)),
        ("hexadecimal", hex.clone()),
        ("hexadecimal in capitals", hex.to_uppercase()),
        (
            "hexadecimal in both",
            hex.char_indices()
                .map(|(at, c)| if at % 3 == 0 { c.to_ascii_uppercase() } else { c })
                .collect(),
        ),
        ("percent-encoding", percent(bytes, "-._~", true)),
        ("percent-encoding as JavaScript does it", percent(bytes, "-_.!~*'()", true)),
        ("percent-encoding that keeps slashes", percent(bytes, "-._~/", false)),
        ("percent-encoding of a whole URL", percent(bytes, "-._~:/?#[]@!$&'()*+,;=", true)),
        (
            "percent-encoding of everything",
            bytes.iter().fold(String::new(), |all, byte| format!("{all}%{byte:02x}")),
        ),
        ("form-encoding", byte_serialize(bytes).collect()),
        ("JSON", json(text)),
        ("JSON with slashes escaped", json(text).replace('/', "\\/")),
        ("JSON in ASCII", json_ascii(text)),
    ]
}

#[test]
fn every_form_of_a_secret_is_found() {
    for (form, text) in forms(VALUE) {
        let scrubbed = scrub(&format!("before: {text} :after"));
        assert!(
            scrubbed.starts_with("before: [secret KEY]") && scrubbed.ends_with(" :after"),
            "{form}: {scrubbed}"
        );
        // In base64, characters that may hold bits of a neighbour and the padding are kept.
        let left = scrubbed.len() - "before: [secret KEY] :after".len();
        assert!(left == 0 || (form.contains("base64") && left <= 3), "{form}: {scrubbed}");
    }
}

#[test]
fn a_secret_is_found_inside_larger_encoded_data() {
    for padding in 0..4 {
        for (form, text) in forms(&format!("{}{VALUE}&more=1", "user:".repeat(padding))) {
            assert!(scrub(&text).contains("[secret KEY]"), "{form} behind {padding}: {text}");
        }
    }
}

#[test]
fn base64_with_escapes_is_found() {
    let basic = STANDARD.encode(format!("user:{VALUE}"));
    for text in [percent(basic.as_bytes(), "", true), json_ascii(&basic), format!("Basic {basic}")]
    {
        assert!(scrub(&text).contains("[secret KEY]"), "{text}");
    }
}

#[test]
fn only_hexadecimal_is_found_in_any_case() {
    let scrubber = scrubber(&[("KEY", "AbCdEfGhIj")]);
    for text in ["abcdefghij", "ABCDEFGHIJ", &STANDARD.encode("AbCdEfGhIj").to_lowercase()] {
        assert_eq!(scrubber.text(text), text);
    }
    assert_eq!(scrubber.text("0x4162436445664768496A"), "0x[secret KEY]");
    assert_eq!(scrubber.text("0x4162436445664768496a"), "0x[secret KEY]");
}

#[test]
fn a_short_secret_is_found_only_in_plain() {
    let scrubber = scrubber(&[("PIN", "ab/1"), ("LONGER", "1234567"), ("LONG", "12345678")]);
    assert_eq!(scrubber.text("ab/1 xab/1x 1234567"), "[secret PIN] x[secret PIN]x [secret LONGER]");
    for value in ["ab/1", "1234567"] {
        for (form, text) in forms(value).iter().filter(|(_, text)| !text.contains(value)) {
            assert_eq!(scrubber.text(text), *text, "{form}");
        }
    }
    for (form, text) in forms("12345678") {
        assert!(scrubber.text(&text).contains("[secret LONG]"), "{form}");
    }
}

#[test]
fn a_value_under_four_bytes_is_refused_with_the_name_of_the_secret() {
    let short = Secret::new("abc");
    let refused =
        Scrubber::new([("GOOD", &Secret::new("abcd")), ("BAD", &short)]).expect_err("refused");
    assert_eq!(refused.to_string(), "the secret BAD has fewer than 4 bytes");
}

#[test]
fn overlapping_secrets_are_redacted_completely() {
    let scrubber = scrubber(&[
        ("A", "abcdefgh12"),
        ("B", "h12345678xy"),
        ("C", "cdefgh"),
        ("D", "abcdefgh12345678"),
    ]);
    assert_eq!(scrubber.text("<abcdefgh12>"), "<[secret A]>", "the longest names what it covers");
    assert_eq!(scrubber.text("<abcdefgh12345678xy>"), "<[secret D][secret B]>");
    assert_eq!(scrubber.text("<abcdefgh1><h12345678xy>"), "<ab[secret C]1><[secret B]>");
    assert_eq!(scrubber.text("abcdefgh12abcdefgh12"), "[secret A]", "once, where they touch");
}

#[test]
fn a_value_with_two_names_is_redacted_with_the_first_one() {
    assert_eq!(scrubber(&[("B", VALUE), ("A", VALUE)]).text(VALUE), "[secret B]");
}

#[test]
fn a_value_that_repeats_itself_is_redacted_with_one_marker() {
    let scrubber = scrubber(&[("A", "abababab"), ("B", "babababa"), ("C", "aaaa")]);
    let text = format!("{}|{}", "ab".repeat(50_000), "a".repeat(100_000));
    assert_eq!(scrubber.text(&text), "[secret A][secret B]|[secret C]");
    let escaped = "\\u0061b".repeat(50_000);
    assert_eq!(scrubber.text(&escaped), "[secret A][secret B]");
}

#[test]
fn a_marker_never_holds_a_secret() {
    assert_eq!(scrubber(&[("hunter22", "hunter22")]).text("hunter22"), "[secret]");
    assert_eq!(
        scrubber(&[("A", "secret"), ("B", "swordfish")]).text("secret, swordfish"),
        "***, ***"
    );
}

#[test]
fn a_text_without_secrets_is_not_copied() {
    let with = scrubber(&[("KEY", VALUE)]);
    let without = scrubber(&[]);
    assert!(without.is_empty() && !with.is_empty());
    for text in ["", "plain", "100% a+b \\n \\u00e9 %2F", "p/ss w+rd\"~", "é"] {
        assert!(matches!(with.text(text), Cow::Borrowed(same) if same == text));
    }
    assert!(matches!(without.text(VALUE), Cow::Borrowed(VALUE)));
    assert!(!Scrubber::default().string(&mut VALUE.to_owned()));
}

#[test]
fn a_text_is_redacted_before_it_is_cut() {
    let scrubber = scrubber(&[("KEY", "0123456789abcdef")]);
    let text = "token 0123456789abcdef is wrong";
    for limit in 0..=text.len() + 10 {
        let cut = scrubber.cut(text, limit);
        assert!(cut.len() <= limit.max("…".len()), "{cut}");
        assert!(!cut.contains("012"), "{cut}");
    }
    assert_eq!(scrubber.cut(text, 100), "token [secret KEY] is wrong");
}

#[test]
fn a_line_is_redacted_before_it_is_joined_and_cut() {
    let scrubber = scrubber(&[("PEM", "-----BEGIN\nabcd\n"), ("KEY", "0123456789abcdef")]);
    assert_eq!(scrubber.line("a\x1b[1m\n -----BEGIN\nabcd\nb", 100), "a\u{fffd}[1m [secret PEM]b");
    assert_eq!(scrubber.line("a\n0123456789abcdef", 9), "a [sec…");
    // Replaced by a longer character, the control characters count towards the limit.
    assert_eq!(scrubber.line(&"\0".repeat(100), 9), "\u{fffd}\u{fffd}…");
}

#[test]
fn debug_output_holds_no_secret() {
    assert_eq!(format!("{:?}", scrubber(&[("KEY", VALUE)])), "Scrubber { secrets: 1, .. }");
}

proptest! {
    #[test]
    fn no_scrubbed_text_holds_the_value_in_any_form(
        // Without `%` and `\`, which could form an escape with the text after them.
        before in "[ -~é😀\n&&[^%\\\\]]{0,12}",
        value in "[a-cA-C0-2+/=%&?_. \"\\\\\n~é😀-]{8,24}",
        after in "[ -~é😀\n]{0,12}",
    ) {
        prop_assume!(value.len() >= LONG_BYTES);
        let scrubber = scrubber(&[("KEY", &value), ("OTHER", "another one")]);
        let cores = super::forms::base64(value.as_bytes());
        let whole = format!("{before}{value}{after}");
        let texts = forms(&whole).into_iter().chain(forms(&value).into_iter().map(|(form, text)| (form, format!("{before}{text}{after}"))));
        for (form, text) in texts {
            let scrubbed = scrubber.text(&text);
            prop_assert!(scrubbed.contains("[secret KEY]"), "{form}: {text} became {scrubbed}");
            for (left, hidden) in forms(&value).into_iter().filter(|(form, _)| !form.contains("base64")) {
                prop_assert!(!scrubbed.contains(&hidden), "{left} is left in {scrubbed}");
            }
            for core in &cores {
                prop_assert!(!scrubbed.contains(core), "base64 is left in {scrubbed}");
            }
        }
    }

    #[test]
    fn any_text_is_redacted_without_a_panic(text in any::<String>(), values in prop::collection::vec(".{4,10}", 1..4)) {
        let secrets: Vec<_> = values.iter().filter(|value| value.len() >= MIN_BYTES).map(|value| ("KEY", value.as_str())).collect();
        let scrubber = scrubber(&secrets);
        let _ = scrubber.text(&text);
        let mixed = values.join(&text);
        for value in &values {
            prop_assert!(!scrubber.text(&mixed).contains(value.as_str()) || "[secret KEY]".contains(value.as_str()));
        }
    }
}
