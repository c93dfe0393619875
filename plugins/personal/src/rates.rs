//! Rates of personal data that are missed and of other texts that are taken for some, over corpora that are generated, the
//! same in every run. `README.md` has the rates that are asserted here.

mod other;
mod samples;

use crate::find::{self, PersonalKind};

/// Samples of each kind, and of each class of other texts.
const SAMPLES: usize = 1_000;

/// Surroundings of personal data.
const CONTEXTS: [&str; 12] = [
    "{}",
    "it is {} for now",
    "see {}.",
    "(`{}`)",
    "export OWN={}",
    "X-Own: {}",
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

    /// Returns a text of digits.
    fn digits(&mut self, length: usize) -> String {
        self.text("0123456789", length)
    }

    fn one<'c>(&mut self, choices: &[&'c str]) -> &'c str {
        choices[self.below(choices.len())]
    }
}

/// Returns whether nothing of the data is left in a text, whatever the kind: a number can be valid for two.
fn is_found(text: &str, data: &str) -> bool {
    let start = text.find(data).expect("they are there");
    let found = find::personal(text, &PersonalKind::ALL);
    found.iter().any(|found| found.start <= start && found.end >= start + data.len())
}

#[test]
fn no_data_are_missed_in_any_of_the_contexts() {
    for kind in PersonalKind::ALL {
        let mut random = Random(1);
        let mut missed = 0;
        for _ in 0..SAMPLES {
            let data = samples::data(kind, &mut random);
            for context in CONTEXTS {
                let text = context.replacen("{}", &data, 1);
                missed += usize::from(!is_found(&text, &data));
            }
        }
        println!("{:24} missed {missed} of {}", kind.name(), SAMPLES * CONTEXTS.len());
        assert_eq!(missed, 0, "{}", kind.name());
    }
}

#[test]
fn data_in_another_form_are_missed() {
    for (name, data) in samples::OTHER_FORMS {
        let mut random = Random(2);
        let mut missed = 0;
        for _ in 0..SAMPLES {
            missed +=
                usize::from(find::personal(&data(&mut random), &PersonalKind::ALL).is_empty());
        }
        println!("{name:36} missed {missed} of {SAMPLES}");
        assert_eq!(missed, SAMPLES, "{name}");
    }
}

#[test]
fn other_texts_are_taken_for_data_at_most_as_often_as_the_page_says() {
    for (name, class, most) in other::CLASSES {
        let mut random = Random(3);
        let mut taken = 0;
        for _ in 0..SAMPLES {
            let text = class(&mut random);
            taken += usize::from(!find::personal(&text, &PersonalKind::ALL).is_empty());
        }
        println!("{name:36} taken {taken} of {SAMPLES}");
        assert!(taken <= most, "{name}: {taken}");
    }
}
