//! Events of a streamed message → chunks of a chat completion.

use airlock_conversation::{chat::ChunkWriter, messages::ReplyReader};

use crate::{Object, translation::ResponseError};

/// Translation of one stream.
#[derive(Debug)]
pub(super) struct MessageTranslation {
    reader: ReplyReader,
    writer: ChunkWriter,
}

impl MessageTranslation {
    /// Creates the translation of a stream that began at `created`, in seconds since 1970.
    /// `includes_usage` is the one of the request's `stream_options`: it adds a last chunk without
    /// choices.
    pub(super) fn new(created: u64, includes_usage: bool) -> Self {
        let writer = ChunkWriter::new(created, includes_usage);
        Self { reader: ReplyReader::default(), writer }
    }

    /// Returns whether the message is complete. A stream that ends earlier was cut.
    pub(super) fn has_ended(&self) -> bool {
        self.reader.has_ended()
    }

    /// Returns the chunks for the data of one event. Fails if it reports an error, or cannot follow
    /// the events before it.
    pub(super) fn event(&mut self, data: &Object) -> Result<Vec<Object>, ResponseError> {
        let mut chunks = Vec::new();
        for delta in self.reader.event(data)? {
            self.writer.delta(delta, &mut chunks);
        }
        Ok(chunks)
    }
}

#[cfg(test)]
mod tests;
