//! The interfaces of providers: what routing needs of any provider, and what the client of a service
//! needs of its API.

use std::{borrow::Cow, fmt, sync::Arc};

use futures_util::{
    StreamExt as _,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use http::Uri;
use tokio::time::Instant;

use super::{
    ModelError, Prompt, ReplyChunk,
    address::{Addresses, Operation},
    http::{EncodedRequest, HttpClient, ServiceResponse, SignIn},
    metrics::ObservedReply,
    observer::ExchangeObserver,
    prompt::{STREAM_OPTIONS, TargetApi},
    trace::AttemptSpan,
    translation,
    work::ProviderWork,
};
use airlock_conversation::{Object, Wire};
use airlock_core::memory::Charge;
use airlock_json::raw;

/// Maximum bytes of the name of a model that becomes a part of an address. Callers choose the names.
pub(super) const MAX_MODEL_BYTES: usize = 256;

/// Maximum bytes of the name of a model of which it is remembered what it accepts: the longest ARN of a model of AWS.
/// Callers choose the names. With [`MAX_KNOWN_MODELS`], it bounds the names that a list of a service has to 512 KiB; a
/// request for a longer one may be sent twice.
pub(super) const MAX_KNOWN_MODEL_BYTES: usize = 2 << 10;

/// Maximum number of models of a service of which it is remembered what they accept. Callers choose the names, so they
/// could be any number; a request for one beyond them may be sent twice.
pub(super) const MAX_KNOWN_MODELS: usize = 256;

/// Conditions of one request to a provider.
#[derive(Clone, Copy)]
pub struct Terms<'h> {
    /// True if the response is to be streamed.
    pub is_streamed: bool,
    /// True if chat completions are passed on as they came: they are not read unless they have to be
    /// changed.
    pub passes_on: bool,
    /// Maximum number of calls of one response.
    pub max_calls: usize,
    /// Deadline of the request. No attempt is begun after it.
    pub deadline: Instant,
    /// Account for the memory of the request and the response.
    pub held: &'h Charge,
    /// Receives what is exchanged; `None` if nothing does.
    pub observer: Option<&'h Arc<dyn ExchangeObserver>>,
    /// Receives whether a provider has begun the request. With it, a stream is asked for its usage too,
    /// which stays hidden from a caller who did not ask. `None` if nothing counts the request.
    pub work: Option<&'h ProviderWork>,
}

impl Terms<'_> {
    /// Returns whether a whole chat completion is passed on as it came. One in place of a stream is read.
    pub(super) fn passes_on_whole(&self) -> bool {
        self.passes_on && !self.is_streamed
    }
}

/// A pending step of an exchange with a provider.
pub(super) type ModelFuture<'t, T> = BoxFuture<'t, Result<T, ModelError>>;

/// A request to a service.
#[derive(Clone, Copy)]
pub(super) struct Exchange<'t> {
    pub(super) client: &'t HttpClient,
    pub(super) prompt: &'t Prompt,
    /// The host's own name of the model, as JSON text; `None` if it is the one in `prompt`.
    pub(super) model: Option<&'t str>,
    pub(super) terms: Terms<'t>,
}

impl<'t> Exchange<'t> {
    /// Returns the text of the request as a chat completion request, with other `stream_options` if they are
    /// given. Fails if it has no form as one.
    pub(super) async fn chat_text(
        &self,
        api: TargetApi,
        options: Option<String>,
    ) -> Result<Vec<u8>, ModelError> {
        let Self { client, prompt, terms, .. } = self;
        let is_chat = prompt.wire == Wire::Chat;
        let mut set = Vec::new();
        if terms.is_streamed {
            set.push(("stream", Cow::Borrowed("true")));
            let usage = Cow::Borrowed(r#"{"include_usage":true}"#);
            let options = options.map(Cow::Owned).or((!is_chat).then_some(usage));
            set.extend(options.map(|options| (STREAM_OPTIONS, options)));
        }
        // The route sets that of the body.
        let model = self.model.or_else(|| prompt.body.get("model").filter(|_| !is_chat));
        set.extend(model.map(|model| ("model", model.to_owned().into())));
        let text = translation::chat_text(prompt, api, set, terms.held).await;
        text.map_err(|error| error.into_model_error(client))
    }

    /// Returns the `stream_options` that ask for the usage of a stream, if something counts it and the caller
    /// did not ask.
    pub(super) fn usage_options(&self) -> Option<String> {
        let Terms { is_streamed, work, .. } = self.terms;
        work.filter(|_| is_streamed).and_then(|_| self.prompt.options_with_usage())
    }

    /// Returns the host's name of the model.
    pub(super) fn model(&self) -> Cow<'t, str> {
        let model = self.model.or_else(|| self.prompt.body.get("model"));
        model.and_then(raw::string).unwrap_or_default()
    }

    /// Returns the URI of an operation for the model of the request.
    pub(super) fn uri(
        &self,
        addresses: &dyn Addresses,
        operation: Operation,
    ) -> Result<Uri, ModelError> {
        let uri = addresses.uri(operation, &self.model(), self.terms.is_streamed);
        uri.map_err(|error| self.client.refused(translation::to_refusal(error)))
    }
}

/// Source of a provider's responses.
pub(super) trait Backend: fmt::Debug + Send + Sync {
    /// Sends a request and returns the response: whole, or as a stream if one is asked for. A
    /// provider that does not stream returns it whole. Dropping the future or the stream closes the
    /// connection.
    fn respond<'a: 't, 't>(
        &'a self,
        prompt: &'t Prompt,
        terms: Terms<'t>,
    ) -> ModelFuture<'t, Response<'a>>;

    /// Returns the name of a model for limits and prices. A model may be asked for by the host's name of its
    /// deployment, and is the same then.
    fn name_of<'m>(&'m self, model: &'m str) -> &'m str {
        model
    }

    /// Returns the models as JSON texts separated by commas; nothing if they cannot be listed.
    fn list(&self) -> BoxFuture<'_, Arc<str>>;

    /// Returns whether requests of the Responses API are sent in that API.
    fn has_responses(&self) -> bool {
        false
    }

    /// Returns whether requests are sent in Anthropic's Messages API.
    fn has_messages(&self) -> bool {
        false
    }

    /// Returns whether images in the results of tools are sent.
    fn reads_images(&self) -> bool {
        false
    }
}

/// API of a service: its requests and responses.
pub(super) trait ServiceApi: fmt::Debug + Send + Sync {
    /// Returns a request as it is sent. Its memory is held until it is dropped. Fails if the
    /// request has a part without a counterpart in this API.
    fn encode<'a>(&'a self, exchange: Exchange<'a>) -> ModelFuture<'a, EncodedRequest>;

    /// Reads the response to a request. Fails if it is an error, or is none of this API. Of a
    /// stream, only the head is read.
    fn decode<'a: 't, 't>(
        &'t self,
        client: &'a HttpClient,
        response: ServiceResponse,
        outgoing: &'t EncodedRequest,
        terms: Terms<'t>,
    ) -> ModelFuture<'t, Response<'a>>;

    /// Returns the models of the service, in OpenAI's form.
    fn list<'a>(
        &'a self,
        client: &'a HttpClient,
        sign_in: Option<&'a dyn SignIn>,
        held: &'a Charge,
    ) -> ModelFuture<'a, Vec<Object>>;

    /// Returns whether this is the Responses API.
    fn is_responses(&self) -> bool {
        false
    }

    /// Returns whether this is Anthropic's Messages API.
    fn is_messages(&self) -> bool {
        false
    }

    /// Returns whether a request may have failed because of an option that [`encode_plain`] leaves
    /// out.
    ///
    /// [`encode_plain`]: Self::encode_plain
    fn is_about_option(&self, _prompt: &Prompt, _error: &ModelError) -> bool {
        false
    }

    /// As [`encode`](Self::encode), without options that some models refuse.
    fn encode_plain<'a>(&'a self, exchange: Exchange<'a>) -> ModelFuture<'a, EncodedRequest> {
        self.encode(exchange)
    }

    /// Notes that a plain request has succeeded.
    fn note_plain(&self, _prompt: &Prompt) {}

    /// Notes that a request with the option has succeeded.
    fn note_option(&self, _prompt: &Prompt) {}
}

/// Response of a provider that has begun.
pub enum Response<'a> {
    /// The whole response.
    Whole(ReplyChunk),
    /// A stream of chunks.
    Chunks(Chunks<'a>),
}

/// Stream of a response. Dropping it closes the connection to the provider.
pub struct Chunks<'a> {
    /// A chunk that was received and not returned yet. Boxed: it is moved with the stream, which has its room to the end.
    first: Option<Box<ReplyChunk>>,
    rest: BoxStream<'a, Result<ReplyChunk, ModelError>>,
    /// Measures the response; `None` before it is routed.
    observed: Option<Box<ObservedReply>>,
    /// Span of the attempt; `None` if it is not recorded.
    span: Option<Box<AttemptSpan>>,
}

/// Source of chunks.
pub(super) trait ChunkSource: Send {
    /// Returns the next chunk; `None` after the last one. Fails if the provider reports an error,
    /// breaks its protocol, or ends the stream before the response is complete.
    fn next(&mut self) -> impl Future<Output = Result<Option<ReplyChunk>, ModelError>> + Send;
}

impl<'a> Response<'a> {
    /// Creates a streamed response.
    pub(super) fn streamed(source: impl ChunkSource + 'a) -> Self {
        // Boxed: it is moved into the future of each chunk and back, which also would keep room for it twice.
        let rest = stream::try_unfold(Box::new(source), |mut source| async move {
            Ok(source.next().await?.map(|chunk| (chunk, source)))
        });
        Self::Chunks(Chunks { first: None, rest: rest.boxed(), observed: None, span: None })
    }

    /// Follows an attempt with its span, to the end of the response.
    pub(super) fn traced(
        attempted: Result<Self, ModelError>,
        mut span: AttemptSpan,
    ) -> Result<Self, ModelError> {
        if !span.span().is_recorded() {
            return attempted;
        }
        match attempted {
            Ok(Self::Chunks(mut chunks)) => {
                if chunks.first.is_some() {
                    span.begin_stream();
                }
                chunks.span = Some(Box::new(span));
                Ok(Self::Chunks(chunks))
            }
            Ok(Self::Whole(whole)) => {
                span.receive_whole(&whole);
                Ok(Self::Whole(whole))
            }
            Err(error) => {
                span.fail(&error);
                Err(error)
            }
        }
    }

    /// Has the response measured, to its end.
    pub(super) fn observed(self, mut observed: ObservedReply) -> Self {
        match self {
            Self::Whole(chunk) => {
                observed.receive(&chunk);
                observed.end(None);
                Self::Whole(chunk)
            }
            Self::Chunks(chunks) => {
                // Of a stream, the first chunk has arrived.
                observed.begin_stream();
                Self::Chunks(Chunks { observed: Some(Box::new(observed)), ..chunks })
            }
        }
    }
}

impl From<ReplyChunk> for Chunks<'_> {
    /// Returns the stream of a reply that is whole.
    fn from(whole: ReplyChunk) -> Self {
        Self {
            first: Some(Box::new(whole)),
            rest: stream::empty().boxed(),
            observed: None,
            span: None,
        }
    }
}

impl From<Vec<ReplyChunk>> for Chunks<'_> {
    /// Returns the stream of a reply that was received.
    fn from(chunks: Vec<ReplyChunk>) -> Self {
        let rest = stream::iter(chunks.into_iter().map(Ok)).boxed();
        Self { first: None, rest, observed: None, span: None }
    }
}

impl Chunks<'_> {
    /// Receives the first chunk. A failure before it fails the request, which may be repeated.
    pub(super) async fn begin(&mut self) -> Result<(), ModelError> {
        self.first = self.next().await?.map(Box::new);
        Ok(())
    }

    /// Returns the next chunk; `None` at the end of the response. Fails if the provider reports an
    /// error, or ends or breaks the stream before the response is complete.
    pub async fn next(&mut self) -> Result<Option<ReplyChunk>, ModelError> {
        let next = match self.first.take() {
            Some(first) => Ok(Some(*first)),
            None => self.rest.next().await.transpose(),
        };
        if let Some(observed) = &mut self.observed {
            match &next {
                Ok(Some(chunk)) => observed.receive(chunk),
                Ok(None) => observed.end(None),
                Err(error) => observed.end(Some(error)),
            }
        }
        if let Some(span) = &mut self.span {
            span.observe(&next);
        }
        next
    }
}
