//! Rates of marks that are missed and of other texts that are changed, over corpora that are generated, the same in every
//! run. `README.md` has the rates that are asserted here.

mod other;
mod samples;

use crate::{
    mark::MarkKind,
    settings::{MarkDecision, MarkSettings},
    text::TextCleaner,
};

/// Samples of each kind, and of each class of other texts.
const SAMPLES: usize = 1_000;

/// Ordinary texts in which a mark stands.
const CONTEXTS: [&str; 12] = [
    "{}",
    "The weather is fine. {} See you tomorrow.",
    "# Notes\n\n- one\n- two {}\n",
    "<p>Hello</p>\n{}\n<p>Bye</p>",
    "{\"text\": \"{}\", \"n\": 1}",
    "| a | {} |\n| b | c |",
    "let x = 1; // {}\nlet y = 2;",
    "مرحبا {} عالم",
    "日本語 {} テキスト",
    "> {}\n> quoted",
    "word{}word",
    "line\r\n{}\r\nline",
];

/// Pseudo-random numbers: `SplitMix64`.
struct SampleNumbers(u64);

impl SampleNumbers {
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

    fn one<'c>(&mut self, choices: &[&'c str]) -> &'c str {
        choices[self.below(choices.len())]
    }

    /// Returns words of a list, with a separator.
    fn words(&mut self, words: &[&str], count: usize, separator: &str) -> String {
        let words: Vec<_> = (0..count).map(|_| self.one(words)).collect();
        words.join(separator)
    }

    /// Returns letters and digits.
    fn letters(&mut self, length: usize) -> String {
        let alphabet = b"abcdefghijklmnopqrstuvwxyz0123456789";
        (0..length).map(|_| char::from(alphabet[self.below(alphabet.len())])).collect()
    }
}

/// Returns a text without the marks of all kinds.
fn cleaned(text: &str) -> Option<String> {
    let settings = MarkSettings { orders: MarkDecision::Mark, ..MarkSettings::default() };
    TextCleaner::new(&settings, Vec::new()).clean(text)
}

#[test]
fn no_mark_is_missed_in_any_of_the_contexts() {
    for kind in MarkKind::ALL {
        let mut numbers = SampleNumbers(1);
        let mut missed = 0;
        for _ in 0..SAMPLES {
            let sample = samples::sample(kind, &mut numbers);
            for context in CONTEXTS {
                let text = context.replacen("{}", &sample.text, 1);
                let found = cleaned(&text).unwrap_or(text);
                missed += usize::from(found.contains(&sample.payload));
            }
        }
        println!("{:24} missed {missed} of {}", kind.name(), SAMPLES * CONTEXTS.len());
        assert_eq!(missed, 0, "{}", kind.name());
    }
}

#[test]
fn a_mark_in_another_form_is_missed() {
    for (name, change) in samples::CHANGES {
        let mut numbers = SampleNumbers(2);
        let mut missed = 0;
        for _ in 0..SAMPLES {
            let words = samples::order(&mut numbers);
            missed += usize::from(cleaned(&change(&words)).is_none());
        }
        println!("{name:36} missed {missed} of {SAMPLES}");
        assert_eq!(missed, SAMPLES, "{name}");
    }
}

#[test]
fn other_texts_are_changed_as_often_as_the_page_says() {
    for (name, class, expected) in other::CLASSES {
        let mut numbers = SampleNumbers(3);
        let mut changed = 0;
        for _ in 0..SAMPLES {
            let text = class(&mut numbers);
            changed += usize::from(cleaned(&text).is_some());
        }
        println!("{name:36} changed {changed} of {SAMPLES}");
        assert_eq!(changed, expected, "{name}");
    }
}
