//! Deltas → events of a streamed message, and a whole message.

use crate::{Delta, Object, Reply};

/// Writes a reply as the events of a streamed message.
#[derive(Debug)]
pub struct EventWriter {}

impl EventWriter {
    /// Creates the writer of a message. `model` is used until the reply names one.
    pub fn new(_model: &str) -> Self {
        unimplemented!()
    }

    /// Writes a delta. Appends the events that it becomes to `out`, each with its `type`.
    pub fn delta(&mut self, _delta: Delta, _out: &mut Vec<Object>) {
        unimplemented!()
    }

    /// Ends the message.
    pub fn finish(&mut self, _out: &mut Vec<Object>) {
        unimplemented!()
    }
}

/// Writes a whole reply as a message.
pub fn write_reply(_reply: Reply) -> Object {
    unimplemented!()
}
