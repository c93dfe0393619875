//! Reads chat completions of a provider: as deltas, or to be passed on as they came.

use std::collections::BTreeSet;

use super::{
    Document, ModelError, Terms,
    repair::{Calls, TooManyCalls},
    reply::ReplyChunk,
};
use airlock_conversation::{
    Delta, Object, ReplyError, Usage,
    chat::{self, ReplyReader},
};

/// Reader of one reply.
#[derive(Debug, Default)]
pub(super) struct ChatReader {
    calls: Calls,
    /// Identifiers of the calls of the reply.
    ids: BTreeSet<String>,
    max_calls: usize,
    /// `None` if chunks are passed on as they came. Boxed for the streams that have none.
    reader: Option<Box<ReplyReader>>,
    /// True if the caller did not ask for the usage of the stream.
    hides_usage: bool,
}

/// Reason why a chat completion was not read.
#[derive(Debug)]
pub(super) enum ChatError {
    TooManyCalls(TooManyCalls),
    Reply(ReplyError),
}

impl ChatReader {
    /// Creates the reader of a reply.
    pub(super) fn new(terms: &Terms<'_>) -> Self {
        let Terms { max_calls, passes_on, .. } = *terms;
        let reader = (!passes_on).then(Box::default);
        let ids = BTreeSet::new();
        Self { calls: Calls::default(), ids, max_calls, reader, hides_usage: false }
    }

    /// Hides the usage that a stream was asked for, as if it was not: no chunk has it, and none has a `usage`
    /// of null. Its tokens are a delta that no caller of chat completions receives.
    pub(super) fn without_usage(self) -> Self {
        Self { hides_usage: true, ..self }
    }

    /// Reads a chunk, and repairs its calls. Fails if it reports an error, or is beyond a bound.
    pub(super) fn chunk(&mut self, mut chunk: Document) -> Result<ReplyChunk, ChatError> {
        let repaired = self.calls.repair(&mut chunk, &mut self.ids, self.max_calls);
        repaired.map_err(ChatError::TooManyCalls)?;
        if self.hides_usage {
            if chunk.is_usage() {
                return Ok(hidden_usage(&chunk));
            }
            chunk.remove_null_usage();
        }
        match &mut self.reader {
            None => Ok(ReplyChunk::unread(chunk)),
            Some(reader) => {
                ReplyChunk::read_chat(chunk, |tree| reader.chunk(tree)).map_err(ChatError::Reply)
            }
        }
    }

    /// Ends a stream. Returns its last deltas; `None` if it was passed on.
    pub(super) fn finish(&mut self) -> Result<Option<ReplyChunk>, ChatError> {
        let Some(reader) = &mut self.reader else { return Ok(None) };
        reader.finish().map(|deltas| Some(deltas.into())).map_err(ChatError::Reply)
    }

    /// Returns the bytes of all that was kept beyond its chunk so far. It never decreases.
    pub(super) fn held_bytes(&self) -> usize {
        self.reader.as_deref().map_or(0, ReplyReader::held_bytes)
    }

    /// Reads a whole chat completion. One with calls is read in any case, because they are repaired. So is one
    /// in place of a stream, for which `passes_on` is false.
    pub(super) fn whole(
        answer: Document,
        passes_on: bool,
        max_calls: usize,
    ) -> Result<ReplyChunk, ChatError> {
        let is_passed_on = passes_on && !answer.has_calls();
        if is_passed_on || answer.indices().is_empty() {
            return Ok(ReplyChunk::unread(answer));
        }
        let found = answer.calls();
        if found > max_calls {
            return Err(ChatError::TooManyCalls(TooManyCalls { found }));
        }
        let mut reader = ReplyReader::default();
        ReplyChunk::read_chat(answer, |tree| reader.whole(tree)).map_err(ChatError::Reply)
    }
}

/// Returns the tokens of a chunk with the usage alone, and nothing else of it.
fn hidden_usage(chunk: &Document) -> ReplyChunk {
    let usage = chunk.usage().and_then(|usage| usage.as_object().cloned());
    let read = usage.map(chat::read_usage);
    // Members that have no field are for the caller alone.
    let read = read.map(|usage| Delta::Usage(Usage { extra: Object::new(), ..usage }));
    ReplyChunk::from(Vec::from_iter(read))
}

impl ChatError {
    /// Returns the failure of the request. `limit` is that on calls.
    pub(super) fn into_model_error(
        self,
        limit: usize,
        other: impl FnOnce(ReplyError) -> ModelError,
    ) -> ModelError {
        match self {
            Self::TooManyCalls(TooManyCalls { found }) => ModelError::TooManyCalls { found, limit },
            Self::Reply(error) => other(error),
        }
    }
}
