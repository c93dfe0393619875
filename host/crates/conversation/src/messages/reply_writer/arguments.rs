//! Arguments of a call, as pieces of the input of a block.

use serde_json::json;

use crate::arguments::INVALID_JSON;

/// Follows the arguments of one call. Pieces of an object are passed on until it is complete; the rest
/// is dropped. Arguments that are no object are held, and become one at their end.
#[derive(Debug, Default)]
pub(super) struct ArgumentStream {
    state: ArgumentState,
    /// Text that was not passed on: arguments that are no object.
    held: String,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum ArgumentState {
    /// Nothing but white space has come.
    #[default]
    Empty,
    /// Inside an object, at this depth.
    Object { depth: u64, in_text: bool, is_escaped: bool },
    /// The object is complete.
    Complete,
    /// The arguments are no object.
    Foreign,
}

impl ArgumentStream {
    /// Returns whether the object is complete.
    pub(super) fn is_complete(&self) -> bool {
        self.state == ArgumentState::Complete
    }

    /// Bytes of the text that is held.
    pub(super) fn held_bytes(&self) -> usize {
        self.held.len()
    }

    /// Adds a piece. Returns the part of it that belongs to the object; it may be empty.
    pub(super) fn add(&mut self, mut text: String) -> String {
        if self.state == ArgumentState::Empty {
            let start = text.len() - text.trim_start().len();
            text.drain(..start);
            match text.as_bytes().first() {
                None => return text,
                Some(b'{') => {
                    self.state =
                        ArgumentState::Object { depth: 0, in_text: false, is_escaped: false };
                }
                Some(_) => self.state = ArgumentState::Foreign,
            }
        }
        match self.state {
            ArgumentState::Object { .. } => {
                let end = self.scan(text.as_bytes());
                text.truncate(end);
                text
            }
            ArgumentState::Foreign => {
                self.held.push_str(&text);
                String::new()
            }
            ArgumentState::Empty | ArgumentState::Complete => String::new(),
        }
    }

    /// Returns the last piece: an empty object without arguments, or an object with arguments that are
    /// none. An object that was cut stays incomplete, as Anthropic's API leaves it.
    pub(super) fn finish(self) -> String {
        match self.state {
            ArgumentState::Empty => "{}".to_owned(),
            ArgumentState::Foreign if self.held.trim_end() == "null" => "{}".to_owned(),
            ArgumentState::Foreign => json!({INVALID_JSON: self.held}).to_string(),
            ArgumentState::Object { .. } | ArgumentState::Complete => String::new(),
        }
    }

    /// Reads bytes inside the object, up to its end. Returns the number of bytes that were read.
    fn scan(&mut self, bytes: &[u8]) -> usize {
        for (index, byte) in bytes.iter().enumerate() {
            let ArgumentState::Object { depth, in_text, is_escaped } = &mut self.state else {
                return index;
            };
            if *is_escaped {
                *is_escaped = false;
                continue;
            }
            match byte {
                b'\\' if *in_text => *is_escaped = true,
                b'"' => *in_text = !*in_text,
                b'{' | b'[' if !*in_text => *depth += 1,
                b'}' | b']' if !*in_text => {
                    *depth -= 1;
                    if *depth == 0 {
                        self.state = ArgumentState::Complete;
                    }
                }
                _ => {}
            }
        }
        bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the pieces that are passed on, and whether the object was complete before the end.
    fn passed(pieces: &[&str]) -> (String, bool) {
        let mut stream = ArgumentStream::default();
        let mut text: String = pieces.iter().map(|piece| stream.add((*piece).to_owned())).collect();
        let is_complete = stream.is_complete();
        text.push_str(&stream.finish());
        (text, is_complete)
    }

    #[test]
    fn an_object_is_passed_on_up_to_its_end_and_anything_else_becomes_one() {
        for (pieces, expected, is_complete) in [
            (&[][..], "{}", false),
            (&["", " "], "{}", false),
            (&["{}"], "{}", true),
            (&[" {\"a\"", ":[1,{}]} ", "x"], r#"{"a":[1,{}]}"#, true),
            (&[r#"{"a":"}\"#, r#""}"}"#, "}"], r#"{"a":"}\"}"}"#, true),
            (&[r#"{"a":"b"#], r#"{"a":"b"#, false),
            (&["nul", "l"], "{}", false),
            (&["[1]"], r#"{"INVALID_JSON":"[1]"}"#, false),
            (&["I call", " it"], r#"{"INVALID_JSON":"I call it"}"#, false),
        ] {
            let (text, complete) = passed(pieces);
            assert_eq!((text.as_str(), complete), (expected, is_complete), "{pieces:?}");
        }
    }
}
