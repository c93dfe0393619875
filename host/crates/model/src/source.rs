//! Models of the program that embeds the gateway: a provider without a service.
//!
//! ```text
//! request ─ read ─► Conversation ─ ModelSource ─► ModelReply ─ framed ─► deltas of the reply
//! ```
//!
//! The program need not write the beginning and the end of a reply: they are added where it leaves them
//! out.

use std::{
    fmt, mem,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use futures_util::{
    FutureExt as _, Stream, StreamExt as _,
    future::{self, BoxFuture},
    stream::{self, BoxStream},
};
use http::StatusCode;
use serde_json::json;
use uuid::Uuid;

use super::{
    ModelError, Prompt, Refusal, ReplyChunk, Response, Terms,
    backend::{Backend, ChunkSource, ModelFuture},
    listing, translation,
};
use airlock_conversation::{Begin, CallInput, Conversation, Delta, FinishReason, Item, ToolCall};
use airlock_core::{
    door::{at_call_depth, call_depth},
    memory::Charge,
};
use airlock_json::object;
use airlock_strings::{MAX_MESSAGE_BYTES, cut};

/// A model that the embedding program runs, or reaches in its own way.
///
/// ```
/// # mod airlock {
/// #     pub use airlock_conversation as conversation;
/// #     pub use airlock_model::{ModelFailure, ModelReply, ModelSource};
/// # }
/// use airlock::{ModelFailure, ModelReply, ModelSource, conversation::Conversation};
/// use futures_util::future::BoxFuture;
///
/// struct Parrot;
///
/// impl ModelSource for Parrot {
///     fn respond(
///         &self,
///         request: Conversation,
///     ) -> BoxFuture<'_, Result<ModelReply, ModelFailure>> {
///         Box::pin(async move { Ok(ModelReply::text(format!("{} items", request.items.len()))) })
///     }
/// }
/// ```
pub trait ModelSource: Send + Sync + 'static {
    /// Responds to a request. Its `tools` are those of the caller, and those of the gateway that the caller
    /// may see; `settings.stream` tells whether the caller reads the reply as it is made. The future is
    /// dropped at the deadline of the request, and when its caller leaves. Untrusted: the conversation is
    /// what callers and tools have written. A panic unwinds into the task of the program that waits for the
    /// chat; over HTTP it is an internal error.
    fn respond(&self, request: Conversation) -> BoxFuture<'_, Result<ModelReply, ModelFailure>>;

    /// Returns the names of its models, for lists. A request may use any name.
    fn models(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns whether it reads images in the results of tools.
    fn reads_images(&self) -> bool {
        false
    }
}

/// Reply of a [`ModelSource`].
pub struct ModelReply(ReplyPieces);

enum ReplyPieces {
    Whole(Vec<Delta>),
    Stream(BoxStream<'static, Result<Delta, ModelFailure>>),
}

/// Reason that a [`ModelSource`] has no reply. Callers receive its message.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct ModelFailure {
    message: String,
    status: StatusCode,
    code: Option<String>,
    retry_after: Option<Duration>,
}

impl ModelReply {
    /// Creates a reply of one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::whole(vec![Delta::Text { choice: 0, text: text.into() }])
    }

    /// Creates a reply that calls tools. Their identifiers should be random, of at least 16 letters and digits:
    /// with others, such as `call_1`, the gateway keeps no results of its tools for the next request if the
    /// reply also has calls of the caller's own tools.
    pub fn calls(calls: impl IntoIterator<Item = ToolCall>) -> Self {
        let pieces = (0..).zip(calls).flat_map(|(index, call)| {
            let ToolCall { id, name, input, extra, .. } = call;
            let is_custom = matches!(input, CallInput::Text(_));
            let (CallInput::Arguments(text) | CallInput::Text(text)) = input;
            [
                Delta::Call { choice: 0, index, id, name, is_custom, extra },
                Delta::Arguments { choice: 0, index, text },
            ]
        });
        Self::whole(pieces.collect())
    }

    /// Creates a reply that is complete. Its beginning and its end are added if they are not among the
    /// pieces.
    pub fn whole(pieces: Vec<Delta>) -> Self {
        Self(ReplyPieces::Whole(pieces))
    }

    /// Creates a reply in pieces that arrive over time. The end of the stream is the end of the reply;
    /// after a failure, nothing more is read. The stream is dropped when the caller leaves.
    pub fn stream(
        pieces: impl Stream<Item = Result<Delta, ModelFailure>> + Send + 'static,
    ) -> Self {
        Self(ReplyPieces::Stream(pieces.boxed()))
    }
}

impl fmt::Debug for ModelReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            ReplyPieces::Whole(pieces) => f.debug_tuple("ModelReply").field(pieces).finish(),
            ReplyPieces::Stream(_) => f.debug_struct("ModelReply").finish_non_exhaustive(),
        }
    }
}

impl ModelFailure {
    /// Creates a failure of the model itself, for which a fallback may be asked.
    pub fn new(message: impl Into<String>) -> Self {
        let message = cut(message.into(), MAX_MESSAGE_BYTES);
        Self { message, status: StatusCode::BAD_GATEWAY, code: None, retry_after: None }
    }

    /// Sets the status of HTTP that callers receive: of 400 to 599, other numbers stand for 502. A fallback
    /// is asked after 429 and from 500.
    #[must_use]
    pub fn with_status(self, status: u16) -> Self {
        let status = StatusCode::from_u16(status).ok();
        let status = status.filter(|status| status.is_client_error() || status.is_server_error());
        Self { status: status.unwrap_or(StatusCode::BAD_GATEWAY), ..self }
    }

    /// Sets the code for programs.
    #[must_use]
    pub fn with_code(self, code: &str) -> Self {
        Self { code: Some(cut(code.to_owned(), MAX_MESSAGE_BYTES)), ..self }
    }

    /// Sets the time to wait before a retry.
    #[must_use]
    pub fn with_retry_after(self, wait: Duration) -> Self {
        Self { retry_after: Some(wait), ..self }
    }

    fn into_error_of(self, provider: &str) -> ModelError {
        let Self { message, status, code, retry_after } = self;
        let is_of_model = status.is_server_error();
        let kind = if is_of_model { "server_error" } else { "invalid_request_error" };
        let error = object(json!({"message": message, "type": kind, "param": null, "code": code}));
        let refusal = Box::new(Refusal { status, error, retry_after });
        ModelError::Refused { provider: provider.to_owned(), refusal }
    }
}

/// The provider that a [`ModelSource`] is.
pub(super) struct OwnModel {
    pub(super) provider: String,
    source: Arc<dyn ModelSource>,
}

impl OwnModel {
    pub(super) fn new(provider: String, source: Arc<dyn ModelSource>) -> Self {
        Self { provider, source }
    }

    /// Reads a request. Its memory is held until the charge is dropped.
    async fn read(
        &self,
        prompt: &Prompt,
        terms: Terms<'_>,
    ) -> Result<(Conversation, Charge), ModelError> {
        let Terms { is_streamed, held, .. } = terms;
        let model = prompt.model().unwrap_or_default();
        let read = translation::with_rounds(prompt, held, move |mut conversation| {
            conversation.model = model;
            conversation.settings.stream = is_streamed;
            Ok(conversation)
        });
        let conversation = read.await.map_err(|error| error.into_error_of(&self.provider))?;
        let own = held.beside();
        let bytes = conversation.items.iter().map(Item::bytes).fold(0, usize::saturating_add);
        if own.grow(bytes) { Ok((conversation, own)) } else { Err(self.no_memory()) }
    }

    /// Returns a reply as one chunk.
    async fn whole(&self, pieces: ReplyPieces, held: &Charge) -> Result<ReplyChunk, ModelError> {
        let mut frame = ReplyFrame::default();
        let mut deltas = Vec::new();
        let own = held.beside();
        let mut pieces = match pieces {
            ReplyPieces::Whole(pieces) => stream::iter(pieces.into_iter().map(Ok)).boxed(),
            ReplyPieces::Stream(pieces) => pieces,
        };
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|failure| failure.into_error_of(&self.provider))?;
            if !own.grow(piece.bytes()) {
                return Err(self.no_memory());
            }
            frame.add(piece, &mut deltas);
        }
        frame.end(&mut deltas);
        let mut chunk = ReplyChunk::from(deltas);
        drop(own);
        if chunk.keep(held) { Ok(chunk) } else { Err(self.no_memory()) }
    }

    fn no_memory(&self) -> ModelError {
        ModelError::NoMemory { provider: self.provider.clone() }
    }
}

impl Backend for OwnModel {
    fn respond<'a: 't, 't>(
        &'a self,
        prompt: &'t Prompt,
        terms: Terms<'t>,
    ) -> ModelFuture<'t, Response<'a>> {
        Box::pin(async move {
            let (conversation, read) = self.read(prompt, terms).await?;
            if let Some(work) = terms.work {
                work.begin();
            }
            // Requests that the model sends to the gateway, which may ask it again, take their depth from it.
            let depth = call_depth().saturating_add(1);
            let asking = async move { self.source.respond(conversation).await };
            let replied = at_call_depth(depth, asking).await;
            drop(read);
            let ModelReply(pieces) =
                replied.map_err(|failure| failure.into_error_of(&self.provider))?;
            match pieces {
                ReplyPieces::Stream(pieces) if terms.is_streamed => {
                    let held = terms.held.beside();
                    let frame = ReplyFrame::default();
                    let chunks =
                        OwnChunks { model: self, depth, pieces, frame, held, has_ended: false };
                    Ok(Response::streamed(chunks))
                }
                pieces => {
                    let whole = at_call_depth(depth, self.whole(pieces, terms.held));
                    whole.await.map(Response::Whole)
                }
            }
        })
    }

    fn list(&self) -> BoxFuture<'_, Arc<str>> {
        let models = self.source.models().into_iter().map(|model| {
            let owner = &self.provider;
            object(json!({"id": model, "object": "model", "created": 0, "owned_by": owner}))
        });
        future::ready(listing::to_text(&self.provider, models.collect()).into()).boxed()
    }

    fn reads_images(&self) -> bool {
        self.source.reads_images()
    }
}

airlock_strings::debug_fields!(OwnModel { provider });

/// A streamed reply.
struct OwnChunks<'a> {
    model: &'a OwnModel,
    /// Depth of the call that the pieces are a part of.
    depth: u32,
    pieces: BoxStream<'static, Result<Delta, ModelFailure>>,
    frame: ReplyFrame,
    held: Charge,
    has_ended: bool,
}

impl ChunkSource for OwnChunks<'_> {
    async fn next(&mut self) -> Result<Option<ReplyChunk>, ModelError> {
        if self.has_ended {
            return Ok(None);
        }
        let mut deltas = Vec::new();
        match at_call_depth(self.depth, self.pieces.next()).await {
            Some(Ok(piece)) => self.frame.add(piece, &mut deltas),
            Some(Err(failure)) => {
                self.has_ended = true;
                return Err(failure.into_error_of(&self.model.provider));
            }
            None => {
                self.has_ended = true;
                self.frame.end(&mut deltas);
            }
        }
        if deltas.is_empty() {
            return Ok(None);
        }
        let mut chunk = ReplyChunk::from(deltas);
        if chunk.keep_growth(0, &self.held) { Ok(Some(chunk)) } else { Err(self.model.no_memory()) }
    }
}

/// The beginning and the end of a reply, as far as they were seen.
#[derive(Debug, Default)]
struct ReplyFrame {
    has_begun: bool,
    has_calls: bool,
    has_end: bool,
}

impl ReplyFrame {
    /// Adds a piece, with a beginning before the first one unless it is that itself.
    fn add(&mut self, piece: Delta, deltas: &mut Vec<Delta>) {
        match &piece {
            Delta::Begin(_) => self.has_begun = true,
            Delta::Call { .. } => self.has_calls = true,
            Delta::End { .. } => self.has_end = true,
            _ => {}
        }
        self.begin(deltas);
        deltas.push(piece);
    }

    /// Adds an end, unless there was one.
    fn end(&mut self, deltas: &mut Vec<Delta>) {
        self.begin(deltas);
        if !mem::replace(&mut self.has_end, true) {
            let reason = if self.has_calls { FinishReason::ToolCalls } else { FinishReason::Stop };
            deltas.push(Delta::End { choice: 0, reason });
        }
    }

    fn begin(&mut self, deltas: &mut Vec<Delta>) {
        if !mem::replace(&mut self.has_begun, true) {
            let id = format!("own-{}", Uuid::new_v4().simple());
            let created = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let created = created.as_secs();
            deltas.push(Delta::Begin(Begin { id, created, ..Begin::default() }));
        }
    }
}

#[cfg(test)]
mod tests;
