//! Secrets of each kind, as their issuers make them.

use airlock_digits::{
    COUNTRIES,
    checksum::{luhn, mod97},
};

use super::{ALPHANUMERIC, BASE32, BASE64, BASE64URL, DIGITS, HEX, Random};
use crate::find::{Kind, checksum::signed};

/// A change of a secret, and its name.
type NamedChange = (fn(&str) -> String, &'static str);

/// Changes of a secret after which no format has it.
pub(super) const CHANGES: [NamedChange; 4] = [
    (|secret| base64(secret.as_bytes(), BASE64_STANDARD), "in base 64"),
    (|secret| secret.chars().rev().collect(), "reversed"),
    (|secret| format!("{} {}", &secret[..20], &secret[20..]), "in two parts"),
    (|secret| secret[..secret.len() - 1].to_owned(), "without its last character"),
];

const BASE64_STANDARD: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const BASE64_URL: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Returns a secret of a kind. That of a key of AWS has its name before it.
pub(super) fn secret(kind: Kind, random: &mut Random) -> String {
    match kind {
        Kind::AwsAccessKeyId => random.one(&["AKIA", "ASIA"]).to_owned() + &random.text(BASE32, 16),
        Kind::AwsSecretAccessKey => {
            let name = random.one(&[
                "AWS_SECRET_ACCESS_KEY=",
                "aws_secret_access_key = ",
                "SecretAccessKey: ",
            ]);
            name.to_owned() + &random.text(BASE64, 40)
        }
        Kind::GithubToken => github(random),
        Kind::NpmToken => format!("npm_{}", signed(&random.text(ALPHANUMERIC, 30))),
        Kind::SlackToken => slack(random),
        Kind::SlackWebhook => {
            let workspace = random.text(BASE32, 9);
            let bot = random.text(BASE32, 10);
            let body = random.text(ALPHANUMERIC, 24);
            format!("hooks.slack.com/services/T{workspace}/B{bot}/{body}")
        }
        Kind::StripeKey => {
            let length = 24 + random.below(80);
            random.one(&["sk_live_", "rk_live_"]).to_owned() + &random.text(ALPHANUMERIC, length)
        }
        Kind::PrivateKey => private_key(random),
        Kind::Jwt => jwt(random),
        Kind::CardNumber => card(random),
        Kind::Iban => iban(random),
    }
}

fn github(random: &mut Random) -> String {
    if random.below(4) == 0 {
        let id = random.text(ALPHANUMERIC, 22);
        return format!("github_pat_{id}_{}", random.text(ALPHANUMERIC, 59));
    }
    let prefix = random.one(&["ghp_", "gho_", "ghu_", "ghs_", "ghr_"]);
    prefix.to_owned() + &signed(&random.text(ALPHANUMERIC, 30))
}

fn slack(random: &mut Random) -> String {
    let one = random.text(DIGITS, 12);
    let other = random.text(DIGITS, 13);
    match random.below(3) {
        0 => format!("xoxb-{one}-{other}-{}", random.text(ALPHANUMERIC, 24)),
        1 => format!("xoxp-{one}-{other}-{one}-{}", random.text(HEX, 32)),
        _ => format!("xapp-1-A{}-{other}-{}", random.text(BASE32, 10), random.text(HEX, 64)),
    }
}

fn private_key(random: &mut Random) -> String {
    let label = random.one(&["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "]);
    let lines = 3 + random.below(24);
    let body: Vec<_> = (0..lines).map(|_| random.text(BASE64, 64)).collect();
    let body = body.join("\n");
    format!("-----BEGIN {label}PRIVATE KEY-----\n{body}\n-----END {label}PRIVATE KEY-----")
}

fn jwt(random: &mut Random) -> String {
    let algorithm = random.one(&["HS256", "RS256", "ES384", "EdDSA"]);
    let header = format!(r#"{{"alg":"{algorithm}","typ":"JWT"}}"#);
    let subject = random.text(ALPHANUMERIC, 12);
    let issued = 1_700_000_000 + random.below(100_000_000);
    let payload = format!(r#"{{"sub":"{subject}","iat":{issued}}}"#);
    let header = base64(header.as_bytes(), BASE64_URL);
    let payload = base64(payload.as_bytes(), BASE64_URL);
    format!("{header}.{payload}.{}", random.text(BASE64URL, 43))
}

/// Encodes bytes in base 64 without padding.
fn base64(bytes: &[u8], alphabet: &str) -> String {
    let alphabet = alphabet.as_bytes();
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0_usize, |bits, byte| (bits << 8) | usize::from(*byte));
        let bits = bits << (8 * (3 - group.len()));
        for digit in 0..=group.len() {
            text.push(char::from(alphabet[(bits >> (18 - 6 * digit)) & 63]));
        }
    }
    text
}

/// Returns the number of a card with its check digit, in one of the forms in which it is printed.
fn card(random: &mut Random) -> String {
    let (head, groups): (&str, &[usize]) = match random.below(8) {
        0 => ("37", &[4, 6, 5]),
        1 => ("36", &[4, 6, 4]),
        2 => ("6011", &[4, 4, 4, 4]),
        3 => ("3530", &[4, 4, 4, 4]),
        4 => ("62", &[4, 4, 4, 4]),
        5 => ("53", &[4, 4, 4, 4]),
        _ => ("4", &[4, 4, 4, 4]),
    };
    let length: usize = groups.iter().sum();
    let body = head.to_owned() + &random.text(DIGITS, length - head.len() - 1);
    let digits: Vec<_> = body.bytes().chain([b'0']).map(|digit| digit - b'0').collect();
    let number = format!("{body}{}", (10 - luhn(&digits) % 10) % 10);
    let separator = random.one(&["", " ", "-"]);
    let mut parts = Vec::new();
    let mut rest = number.as_str();
    for group in groups {
        let (part, after) = rest.split_at(*group);
        parts.push(part);
        rest = after;
    }
    parts.join(separator)
}

/// Returns an IBAN with its check digits, in one of the forms in which it is printed.
fn iban(random: &mut Random) -> String {
    let countries: Vec<_> = COUNTRIES.split_ascii_whitespace().collect();
    let (country, length) = random.one(&countries).split_at(2);
    let length: usize = length.parse().expect("a number");
    let account = random.text(DIGITS, length - 4);
    let check = 98 - mod97(format!("{country}00{account}").as_bytes());
    let iban = format!("{country}{check:02}{account}");
    if random.below(2) == 0 {
        return iban;
    }
    let groups: Vec<_> = iban.as_bytes().chunks(4).map(String::from_utf8_lossy).collect();
    groups.join(" ")
}
