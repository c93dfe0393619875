//! Flows in a rehearsal: the tools of whose answers an argument has values.
//!
//! Texts of described answers have a mark with the number of their answer (`-a2-`), which is found in longer texts too.
//! Other values, such as numbers, are found where an argument has an equal one. A value that a script computes from an
//! answer is not found.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Maximum number of values of answers that are known; of further ones, only marks are found. Servers choose how many
/// their schemas describe; with [`MAX_VALUE`], the texts of all take at most 2.6 MB.
const MAX_KNOWN: usize = 10_000;
/// Maximum bytes of a value that is compared whole. Longer ones are constants of a schema: texts that are made up are
/// shorter.
const MAX_VALUE: usize = 256;

/// Returns the mark of the answer with this number, from 0.
pub(super) fn mark(answer: usize) -> String {
    format!("-a{answer}-")
}

/// The answers of a rehearsal so far.
#[derive(Debug, Default)]
pub(super) struct RehearsedAnswers {
    /// Tools of the answers.
    tools: Vec<String>,
    /// Answers that have a value, by its JSON text.
    known: BTreeMap<String, BTreeSet<usize>>,
}

impl RehearsedAnswers {
    /// Returns the number of the next answer, from 0.
    pub(super) fn next(&self) -> usize {
        self.tools.len()
    }

    /// Adds the next answer.
    pub(super) fn add(&mut self, tool: &str, answer: &Value) {
        let number = self.tools.len();
        self.tools.push(tool.to_owned());
        self.learn(number, answer);
    }

    fn learn(&mut self, number: usize, value: &Value) {
        match value {
            Value::Array(elements) => {
                for element in elements {
                    self.learn(number, element);
                }
            }
            Value::Object(members) => {
                for value in members.values() {
                    self.learn(number, value);
                }
            }
            // Nothing is equal to these by its origin.
            Value::Null | Value::Bool(_) => {}
            Value::Number(_) | Value::String(_) => {
                let text = value.to_string();
                if text.len() <= MAX_VALUE && self.known.len() < MAX_KNOWN {
                    self.known.entry(text).or_default().insert(number);
                }
            }
        }
    }

    /// Returns the tools of the answers of which a value has parts.
    pub(super) fn origins(&self, value: &Value) -> BTreeSet<String> {
        let mut numbers = BTreeSet::new();
        self.find(value, &mut numbers);
        numbers.into_iter().filter_map(|number| self.tools.get(number).cloned()).collect()
    }

    fn find(&self, value: &Value, numbers: &mut BTreeSet<usize>) {
        match value {
            Value::Array(elements) => {
                for element in elements {
                    self.find(element, numbers);
                }
            }
            Value::Object(members) => {
                for value in members.values() {
                    self.find(value, numbers);
                }
            }
            Value::Null | Value::Bool(_) => {}
            Value::Number(_) => numbers.extend(self.equal(value)),
            Value::String(text) => {
                numbers.extend(marked(text));
                numbers.extend(self.equal(value));
            }
        }
    }

    fn equal(&self, value: &Value) -> impl Iterator<Item = usize> {
        self.known.get(&value.to_string()).into_iter().flatten().copied()
    }
}

/// Returns the numbers of the answers whose marks a text has.
fn marked(text: &str) -> impl Iterator<Item = usize> {
    text.match_indices("-a").filter_map(|(at, start)| {
        let (number, _) = text[at + start.len()..].split_once('-')?;
        number.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn marks_are_found_in_longer_texts_and_other_values_where_they_are_equal() {
        let mut answers = RehearsedAnswers::default();
        answers.add("web-read", &json!({"title": "text-a0-7", "number": 4002}));
        assert_eq!(answers.next(), 1);
        answers.add("crm-find", &json!([{"name": "text-a1-7", "open": true}]));
        for (value, tools) in [
            (json!("Re: text-a0-7!"), vec!["web-read"]),
            (json!({"to": ["text-a1-7"], "n": 4002}), vec!["crm-find", "web-read"]),
            (json!(["4002", 400, true, null, "text-a10-7", "-a", "-a1", "-ax-"]), vec![]),
            (json!(4002), vec!["web-read"]),
        ] {
            let found = answers.origins(&value);
            assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), tools, "{value}");
        }
    }

    #[test]
    fn the_values_of_answers_are_bounded() {
        let mut answers = RehearsedAnswers::default();
        answers.add("a-b", &(0..MAX_KNOWN + 5).collect::<Value>());
        answers.add("a-c", &json!("x".repeat(MAX_VALUE)));
        assert_eq!(answers.known.len(), MAX_KNOWN);
    }
}
