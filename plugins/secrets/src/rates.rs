//! Rates of secrets that are missed and of other texts that are taken for secrets, over corpora that are generated, the
//! same in every run. `README.md` has the rates that are asserted here.

mod other;
mod samples;

use crate::find::{self, Kind};

/// Samples of each kind, and of each class of other texts.
const SAMPLES: usize = 1_000;

/// Surroundings of a secret.
const CONTEXTS: [&str; 12] = [
    "{}",
    "the token is {} for now",
    "see {}.",
    "(`{}`)",
    "export TOKEN={}",
    "Authorization: Bearer {}",
    "https://example.com/?t={}&x=1",
    "https://example.com/%3Ft%3D{}%26x",
    "{\"key\":\"{}\",\"n\":1}",
    "a line\n{}\nanother",
    "a line\\n{}\\nanother",
    "<td>{}</td>",
];

/// Pseudo-random numbers: `SplitMix64`.
struct Random(u64);

impl Random {
    fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below a bound.
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.number() % bound as u64).expect("it is below a usize")
    }

    /// Returns a text of characters of an alphabet.
    fn text(&mut self, alphabet: &str, length: usize) -> String {
        let alphabet = alphabet.as_bytes();
        (0..length).map(|_| char::from(alphabet[self.below(alphabet.len())])).collect()
    }

    fn one<'c>(&mut self, choices: &[&'c str]) -> &'c str {
        choices[self.below(choices.len())]
    }
}

const DIGITS: &str = "0123456789";
const HEX: &str = "0123456789abcdef";
const BASE32: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const ALPHANUMERIC: &str = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const BASE64: &str = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz+/";
const BASE64URL: &str = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";

/// Returns whether a secret of this kind is found in a text, and nothing of it is left.
fn is_found(kind: Kind, text: &str, secret: &str) -> bool {
    let start = text.find(secret).expect("it is there");
    let found = find::secrets(text, "", &Kind::ALL);
    found.iter().any(|found| found.kind == kind && found.end >= start + secret.len())
}

#[test]
fn no_secret_is_missed_in_any_of_the_contexts() {
    for kind in Kind::ALL {
        let mut random = Random(1);
        let mut missed = 0;
        for _ in 0..SAMPLES {
            let secret = samples::secret(kind, &mut random);
            for context in CONTEXTS {
                let text = context.replacen("{}", &secret, 1);
                missed += usize::from(!is_found(kind, &text, &secret));
            }
        }
        println!("{:24} missed {missed} of {}", kind.name(), SAMPLES * CONTEXTS.len());
        assert_eq!(missed, 0, "{}", kind.name());
    }
}

#[test]
fn a_secret_that_is_encoded_or_in_parts_is_missed() {
    for (change, name) in samples::CHANGES {
        let mut random = Random(2);
        let mut missed = 0;
        for _ in 0..SAMPLES {
            let text = change(&samples::secret(Kind::GithubToken, &mut random));
            missed += usize::from(find::secrets(&text, "", &Kind::ALL).is_empty());
        }
        println!("{name:24} missed {missed} of {SAMPLES}");
        assert_eq!(missed, SAMPLES, "{name}");
    }
}

#[test]
fn other_texts_are_taken_for_secrets_at_most_as_often_as_the_page_says() {
    for (name, class, most) in other::CLASSES {
        let mut random = Random(3);
        let mut taken = 0;
        for _ in 0..SAMPLES {
            let text = class(&mut random);
            taken += usize::from(!find::secrets(&text, "", &Kind::ALL).is_empty());
        }
        println!("{name:24} taken {taken} of {SAMPLES}");
        assert!(taken <= most, "{name}: {taken}");
    }
}
