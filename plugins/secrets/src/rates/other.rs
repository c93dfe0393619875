//! Texts that are no secrets, and look like some.

use super::{ALPHANUMERIC, BASE64, BASE64URL, DIGITS, HEX, Random, samples};
use crate::find::Kind;

/// Makes one text.
type Class = fn(&mut Random) -> String;

/// The classes, and how many of 1,000 texts of each are taken for secrets at most.
pub(super) const CLASSES: [(&str, Class, usize); 24] = [
    ("UUIDs", uuid, 0),
    ("SHA-1", |random| random.text(HEX, 40), 0),
    ("SHA-256", |random| random.text(HEX, 64), 0),
    ("trace IDs", |random| random.text(HEX, 16), 0),
    ("base 64", |random| format!("sha512-{}==", random.text(BASE64, 86)), 0),
    ("base 64 for URLs", |random| random.text(BASE64URL, 64), 0),
    ("random words", |random| random.text(ALPHANUMERIC, 36), 0),
    ("random 16 digits", |random| nonzero(random, 16), 30),
    ("random 12 digits", |random| nonzero(random, 12), 0),
    ("random 14 digits", |random| nonzero(random, 14), 5),
    ("random 15 digits", |random| nonzero(random, 15), 5),
    ("random 18 digits", |random| nonzero(random, 18), 0),
    ("times in milliseconds", |random| format!("17{}", random.text(DIGITS, 11)), 0),
    ("times in microseconds", |random| format!("17{}", random.text(DIGITS, 14)), 0),
    ("numbers with a fraction", |random| format!("0.{}", random.text(DIGITS, 16)), 0),
    ("telephone numbers", telephone, 0),
    ("barcodes", |random| format!("978{}", random.text(DIGITS, 10)), 0),
    (
        "cards with a wrong digit",
        |random| wrong_digit(&samples::secret(Kind::CardNumber, random)),
        0,
    ),
    ("IBANs with a wrong digit", |random| wrong_digit(&samples::secret(Kind::Iban, random)), 0),
    ("npm tokens with a wrong character", wrong_token, 0),
    (
        "public keys",
        |random| samples::secret(Kind::PrivateKey, random).replace("PRIVATE", "PUBLIC"),
        0,
    ),
    ("placeholders", placeholder, 0),
    ("code", code, 0),
    ("prose", prose, 0),
];

fn nonzero(random: &mut Random, length: usize) -> String {
    random.text("123456789", 1) + &random.text(DIGITS, length - 1)
}

fn uuid(random: &mut Random) -> String {
    [8, 4, 4, 4, 12].map(|length| random.text(HEX, length)).join("-")
}

fn telephone(random: &mut Random) -> String {
    let area = random.text(DIGITS, 3);
    format!("+49 {area} {} {}", random.text(DIGITS, 4), random.text(DIGITS, 4))
}

/// Returns a text with another last digit.
fn wrong_digit(text: &str) -> String {
    let (body, last) = text.split_at(text.len() - 1);
    let last: u8 = last.parse().expect("a digit");
    format!("{body}{}", (last + 1) % 10)
}

fn wrong_token(random: &mut Random) -> String {
    let token = samples::secret(Kind::NpmToken, random);
    let wrong = if token.as_bytes()[10] == b'a' { "b" } else { "a" };
    format!("{}{wrong}{}", &token[..10], &token[11..])
}

fn placeholder(random: &mut Random) -> String {
    let texts = [
        "AKIAIOSFODNN7EXAMPLE",
        "aws_secret_access_key=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "github_pat_XXXXXXXXXXXXXXXXXXXXXX_XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX",
        "npm_000000000000000000000000000000000000",
        "xoxb-your-token",
        "xoxb-000000000000-0000000000000-xxxxxxxxxxxxxxxxxxxxxxxx",
        "hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX",
        "sk_live_...",
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
        "eyJhbGciOi...",
        "<header>.<payload>.<signature>",
        "1234 5678 9012 3456",
        "XXXX-XXXX-XXXX-1234",
        "DE00 0000 0000 0000 0000 00",
    ];
    random.one(&texts).to_owned()
}

fn code(random: &mut Random) -> String {
    let lines = [
        "let eyJob = registry.get(\"eyJob.queue.Name\")?;",
        "import { npm_config } from './npm_lifecycle_event.js';",
        "fn sk_live_mode(rk_live_key: &str) -> bool {",
        "$ github_pat_create --scope repo # needs a token",
        "const GH = process.env.GITHUB_TOKEN || 'ghp_';",
        "aws configure set aws_secret_access_key \"$SECRET\"",
        "SELECT iban, card_number FROM accounts WHERE id = 4711;",
    ];
    format!("{} // {}", random.one(&lines), random.text(HEX, 7))
}

fn prose(random: &mut Random) -> String {
    let words = [
        "the",
        "invoice",
        "of",
        "DE",
        "branch",
        "was",
        "paid",
        "on",
        "2024-11-29",
        "with",
        "card",
        "4111",
        "and",
        "key",
        "secret",
        "token",
        "AKIA",
        "BEGIN",
        "npm",
        "for",
        "order",
        "10023",
        "GB",
        "in",
        "NO",
        "time",
    ];
    let words: Vec<_> = (0..40).map(|_| random.one(&words)).collect();
    words.join(" ")
}
