//! The span of one attempt at a request to a model, from its beginning to the end of its response. It has
//! the terms, the usage and the end of the exchange, and no message.

use std::time::Instant;

use url::Url;

use super::{
    ModelError, Prompt, ReplyChunk, Service,
    document::{Document, choices, finish_reason},
    hosting::vendor,
};
use airlock_conversation::{Delta, FinishReason, Object};
use airlock_telemetry::{Span, names};

/// Maximum reasons for which choices end that a span has. A provider may send one in each chunk; an honest one sends
/// one for each choice, and most requests have one choice.
const MAX_ENDS: usize = 64;

/// Hosts of OpenAI's API, and the names that the convention has for their vendors.
const VENDORS: &[(&str, &str)] = &[
    ("api.mistral.ai", "mistral_ai"),
    ("api.x.ai", "x_ai"),
    ("api.deepseek.com", "deepseek"),
    ("api.groq.com", "groq"),
    ("api.cohere.ai", "cohere"),
    ("api.cohere.com", "cohere"),
    ("api.perplexity.ai", "perplexity"),
    ("api.moonshot.ai", "moonshot_ai"),
    ("api.moonshot.cn", "moonshot_ai"),
];

/// A service, as its spans name it.
#[derive(Debug)]
pub(super) struct TracedService {
    vendor: &'static str,
    address: Option<(String, u16)>,
}

impl TracedService {
    pub(super) fn new(service: &Service) -> Self {
        let url = Url::parse(&service.base_url).ok();
        let host = url.as_ref().and_then(Url::host_str);
        let vendor = vendor(&service.hosting, service.api).unwrap_or_else(|| {
            let known = VENDORS.iter().find(|(known, _)| host == Some(*known));
            known.map_or("openai", |(_, vendor)| *vendor)
        });
        let port = url.as_ref().and_then(Url::port_or_known_default);
        Self { vendor, address: host.map(str::to_owned).zip(port) }
    }
}

/// Span of an attempt. Dropping it before the response has ended means that the attempt was cancelled.
pub(super) struct AttemptSpan {
    span: Span,
    begun: Instant,
    is_streamed: bool,
    has_first: bool,
    has_model: bool,
    /// Reasons for which choices have ended.
    ends: Vec<String>,
}

impl AttemptSpan {
    /// Starts the span of an attempt. `service` is `None` for a model that is reached in another way.
    pub(super) fn begin(
        provider: &str,
        service: Option<&TracedService>,
        prompt: &Prompt,
        is_streamed: bool,
    ) -> Self {
        let span =
            Span::client(|| format!("{} {}", names::CHAT, prompt.model().unwrap_or_default()));
        let span = span.start();
        if span.is_recorded() {
            let vendor = service.map_or(provider, |service| service.vendor);
            span.set(names::GEN_AI_OPERATION_NAME, names::CHAT);
            span.set(names::GEN_AI_PROVIDER_NAME, vendor);
            span.set(names::AIRLOCK_PROVIDER, provider);
            span.set(names::GEN_AI_REQUEST_MODEL, prompt.model().unwrap_or_default());
            span.set(names::GEN_AI_REQUEST_STREAM, is_streamed);
            if let Some((host, port)) = service.and_then(|service| service.address.as_ref()) {
                span.set(names::SERVER_ADDRESS, host);
                span.set(names::SERVER_PORT, *port);
            }
            set_options(&span, prompt);
        }
        Self {
            span,
            begun: Instant::now(),
            is_streamed,
            has_first: false,
            has_model: false,
            ends: Vec::new(),
        }
    }

    /// Numbers an attempt that is repeated, from 1.
    pub(super) fn numbered(self, attempt: u32) -> Self {
        self.span.set(names::AIRLOCK_ATTEMPT, attempt);
        self
    }

    /// The span, under which the attempt is made.
    pub(super) fn span(&self) -> &Span {
        &self.span
    }

    /// Takes note of a response that is whole, and ends.
    pub(super) fn receive_whole(&mut self, whole: &ReplyChunk) {
        self.has_first = true;
        self.receive(whole);
        self.end();
    }

    /// Takes note that the first chunk has arrived.
    pub(super) fn begin_stream(&mut self) {
        if !self.has_first && self.is_streamed {
            let time = self.begun.elapsed().as_secs_f64();
            self.span.set(names::GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK, time);
        }
        self.has_first = true;
    }

    /// Takes note of what was received from a stream.
    pub(super) fn observe(&mut self, next: &Result<Option<ReplyChunk>, ModelError>) {
        match next {
            Ok(Some(chunk)) => {
                self.begin_stream();
                self.receive(chunk);
            }
            Ok(None) => self.end(),
            Err(error) => self.fail(error),
        }
    }

    fn receive(&mut self, chunk: &ReplyChunk) {
        if !self.has_model
            && let Some(model) = chunk.model()
        {
            self.has_model = true;
            self.span.set(names::GEN_AI_RESPONSE_MODEL, model);
        }
        if let Some(tokens) = chunk.tokens() {
            self.span.set(names::GEN_AI_USAGE_INPUT_TOKENS, tokens.input);
            self.span.set(names::GEN_AI_USAGE_OUTPUT_TOKENS, tokens.output);
            if tokens.cached_input > 0 {
                self.span.set(names::GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS, tokens.cached_input);
            }
            if tokens.reasoning > 0 {
                self.span.set(names::GEN_AI_USAGE_REASONING_OUTPUT_TOKENS, tokens.reasoning);
            }
        }
        if chunk.has_end() {
            let room = MAX_ENDS.saturating_sub(self.ends.len());
            self.ends.extend(ends(chunk, room));
        }
    }

    fn end(&mut self) {
        if !self.ends.is_empty() {
            self.span.set(names::GEN_AI_RESPONSE_FINISH_REASONS, self.ends.as_slice());
        }
        self.span.end();
    }

    /// Ends the span of an attempt that has failed. The provider's text is left out.
    pub(super) fn fail(&mut self, error: &ModelError) {
        match error {
            ModelError::Refused { refusal, .. } | ModelError::Credential { refusal, .. } => {
                self.span.fail(refusal.status.as_str(), "");
            }
            error => self.span.fail(error.code(), ""),
        }
        self.end();
    }
}

impl Drop for AttemptSpan {
    fn drop(&mut self) {
        // It has ended otherwise, and drops what is set.
        self.span.fail(names::CANCELLED, "");
        self.end();
    }
}

/// Sets the options of a request that are numbers.
fn set_options(span: &Span, prompt: &Prompt) {
    let members = [
        (names::GEN_AI_REQUEST_TEMPERATURE, "temperature"),
        (names::GEN_AI_REQUEST_TOP_P, "top_p"),
    ];
    for (name, member) in members {
        if let Some(number) = prompt.body.get(member).and_then(|text| text.parse::<f64>().ok()) {
            span.set(name, number);
        }
    }
    if let Some(most) = prompt.max_output_tokens() {
        span.set(names::GEN_AI_REQUEST_MAX_TOKENS, most);
    }
    if prompt.choices() > 1 {
        span.set(names::GEN_AI_REQUEST_CHOICE_COUNT, prompt.choices());
    }
}

/// Returns at most `room` of the reasons for which choices end in a chunk, in the words of chat completions.
fn ends(chunk: &ReplyChunk, room: usize) -> Vec<String> {
    let read = chunk.deltas().iter().filter_map(|delta| match delta {
        Delta::End { reason, .. } => Some(short(word(reason))),
        _ => None,
    });
    let read: Vec<_> = read.take(room).collect();
    if !read.is_empty() {
        return read;
    }
    let exact: Option<&Object> = chunk.exact().map(Document::object);
    let ended = exact.into_iter().flat_map(choices).filter_map(finish_reason);
    ended.take(room).map(short).collect()
}

/// Returns a reason, cut to its bound before it is copied: a string that is cut keeps its memory.
fn short(reason: &str) -> String {
    // Reads slightly more than the limit, so that `cut` detects the overflow.
    let head = &reason[..reason.floor_char_boundary(airlock_strings::MAX_WORD_BYTES + 4)];
    airlock_strings::cut(head.to_owned(), airlock_strings::MAX_WORD_BYTES)
}

fn word(reason: &FinishReason) -> &str {
    match reason {
        FinishReason::Stop | FinishReason::StopSequence(_) => "stop",
        FinishReason::Length => "length",
        FinishReason::ToolCalls => "tool_calls",
        FinishReason::ContentFilter => "content_filter",
        FinishReason::Other(other) => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Api, Hosting};

    #[test]
    fn a_reason_is_cut_before_it_is_kept() {
        assert_eq!(short("stop"), "stop");
        let kept = short(&"é".repeat(1 << 20));
        assert!(
            kept.len() <= airlock_strings::MAX_WORD_BYTES
                && kept.capacity() < 4 * airlock_strings::MAX_WORD_BYTES,
            "{kept}"
        );
    }

    #[test]
    fn a_service_has_the_name_that_the_convention_has_for_its_vendor() {
        let vertex = Hosting::Vertex { project: "p".to_owned(), location: "eu".to_owned() };
        for (api, hosting, url, expected) in [
            (Api::OpenAi, Hosting::Vendor, "https://api.openai.com/v1", "openai"),
            (Api::OpenAi, Hosting::Vendor, "https://api.groq.com/openai/v1", "groq"),
            (Api::OpenAi, Hosting::Vendor, "http://127.0.0.1:8000/v1", "openai"),
            (Api::Anthropic, Hosting::Vendor, "https://api.anthropic.com/v1", "anthropic"),
            (Api::Gemini, vertex, "https://aiplatform.eu.rep.googleapis.com", "gcp.vertex_ai"),
        ] {
            let service = Service { hosting, ..Service::new(api, url) };
            assert_eq!(TracedService::new(&service).vendor, expected, "{url}");
        }
        let service = Service::new(Api::OpenAi, "http://127.0.0.1:8000/v1");
        let address = TracedService::new(&service).address;
        assert_eq!(address, Some(("127.0.0.1".to_owned(), 8000)));
    }
}
