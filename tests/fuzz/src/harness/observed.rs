//! The calls and texts of a stream, collected from its repaired chunks in the simplest way, to
//! compare the response that is read with them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Object, indexed};

/// Everything observed so far.
pub(super) struct Observed {
    choices: BTreeMap<u64, Choice>,
    /// Ids of all calls, those of earlier rounds included.
    ids: BTreeSet<String>,
}

#[derive(Default)]
struct Choice {
    calls: Vec<Call>,
    /// Pieces of its text; `None` after a piece that is no text.
    content: Option<Vec<String>>,
    has_content: bool,
    /// True if a part of it came as a whole message, which is not repaired.
    has_message: bool,
}

struct Call {
    id: String,
    /// Its arguments; `None` if they are in a form that only the reader knows.
    arguments: Option<String>,
}

impl Observed {
    pub(super) fn new(ids: &BTreeSet<String>) -> Self {
        Self { choices: BTreeMap::new(), ids: ids.clone() }
    }

    pub(super) fn choices(&self) -> usize {
        self.choices.len()
    }

    pub(super) fn calls(&self) -> usize {
        self.choices.values().map(|choice| choice.calls.len()).sum()
    }

    /// Adds a repaired chunk. Checks that calls are counted without gaps, and that ids are unique,
    /// not empty, and the same in all deltas of a call.
    pub(super) fn add(&mut self, chunk: &Object) {
        for (index, sent) in indexed(chunk) {
            let choice = self.choices.entry(index).or_default();
            choice.has_message |= sent.get("message").is_some_and(Value::is_object);
            let Some(delta) = sent.get("delta").and_then(Value::as_object) else { continue };
            choice.add_content(delta.get("content"));
            let calls = delta.get("tool_calls").and_then(Value::as_array);
            for call in calls.into_iter().flatten().filter_map(Value::as_object) {
                choice.add_call(call, &mut self.ids);
            }
        }
    }

    /// Compares the response with what was observed.
    pub(super) fn compare(&self, answer: &Object) {
        let answers = answer["choices"].as_array().expect("a response has choices");
        let found: Vec<_> = answers.iter().map(|choice| choice["index"].as_u64()).collect();
        let expected: Vec<_> = self.choices.keys().copied().map(Some).collect();
        assert_eq!(found, expected, "the choices of the response");
        for (choice, answer) in self.choices.values().zip(answers) {
            if !choice.has_message {
                choice.compare(&answer["message"]);
            }
        }
    }
}

impl Choice {
    fn add_content(&mut self, content: Option<&Value>) {
        match content {
            None | Some(Value::Null) => {}
            Some(Value::String(piece)) if !self.has_content || self.content.is_some() => {
                self.has_content = true;
                self.content.get_or_insert_default().push(piece.clone());
            }
            Some(_) => (self.has_content, self.content) = (true, None),
        }
    }

    fn add_call(&mut self, sent: &Object, ids: &mut BTreeSet<String>) {
        let place = sent["index"].as_u64().and_then(|at| usize::try_from(at).ok());
        let place = place.expect("every call has an index");
        let id = sent.get("id").filter(|id| !id.is_null() && *id != "");
        if place == self.calls.len() {
            let id = id.and_then(Value::as_str).expect("a call begins with an id");
            assert!(ids.insert(id.to_owned()), "the id {id} is not unique");
            self.calls.push(Call { id: id.to_owned(), arguments: Some(String::new()) });
        }
        let call = self.calls.get_mut(place).expect("calls are counted without gaps");
        assert!(id.is_none_or(|id| *id == call.id), "{id:?} is not the id {} of the call", call.id);
        if sent.get("custom").is_some() || sent.get("type").is_some_and(|kind| kind == "custom") {
            call.arguments = None;
        }
        let arguments = match sent.get("function") {
            None | Some(Value::Null) => return,
            Some(Value::Object(function)) => function.get("arguments").unwrap_or(&Value::Null),
            Some(_) => return call.arguments = None,
        };
        match (arguments, &mut call.arguments) {
            (Value::String(piece), Some(sum)) => sum.push_str(piece),
            (Value::String(_) | Value::Null, _) => {}
            (other, _) => panic!("the arguments {other} are not text"),
        }
    }

    fn compare(&self, message: &Value) {
        if let Some(content) = &self.content {
            let found = message["content"].as_str().unwrap_or_default();
            assert_eq!(found, content.concat(), "the text of the message");
        }
        let no_calls = Vec::new();
        let calls = match &message["tool_calls"] {
            Value::Array(calls) => calls,
            other => {
                assert!(self.calls.is_empty(), "the calls are replaced by {other}");
                &no_calls
            }
        };
        let found = calls.iter().map(|call| call["id"].as_str());
        let expected = self.calls.iter().map(|call| Some(call.id.as_str()));
        assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "the calls");
        for (merged, call) in calls.iter().zip(&self.calls) {
            let found = merged["function"]["arguments"].as_str().unwrap_or_default();
            assert!(
                call.arguments.as_ref().is_none_or(|arguments| arguments == found),
                "the arguments {found}"
            );
        }
    }
}
