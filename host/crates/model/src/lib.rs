//! Sends requests to model providers.
//!
//! A request names its provider in `model`, as `NAME/model`. A provider of the same API receives it unchanged. For any
//! other provider, the crate `airlock-conversation` translates it. Responses are read as the deltas of a reply. This crate
//! adds the tools that it is given, and does not know which callers may call them: the door decides that, for the
//! crate `airlock-agent`.
//!
//! | file | purpose |
//! |---|---|
//! | `settings` | the settings of a provider |
//! | `prompt` | a request, with the tools and messages that the gateway adds |
//! | `route` | the providers of one request: the one that it names, and the fallbacks |
//! | `models` | the configured providers |
//! | `backend` | the traits of a provider and of the API of a service |
//! | `service` | a client of one service: its API, its keys and its attempts |
//! | `hosting` | the properties of each host that depend on no request |
//! | `address` | the URIs of the operations of an API at each host |
//! | `signin` | the credential of a request: the last step before it is sent |
//! | `keys` | the keys that serve a model, and the choice among them by weight |
//! | `retry` | the decision to repeat a request, and the wait before it |
//! | `http` | exchanges over HTTP, bounded in time and memory; whether a service can be reached, without a credential |
//! | `observer` | receives what one request exchanges, if the operator has asked for it |
//! | `metrics` | times, tokens and errors of providers, for metrics |
//! | `work` | whether a provider has begun a request, and the tokens of its response, for limits and records |
//! | `openai`, `responses`, `anthropic`, `gemini` | the four APIs of services |
//! | `translation` | what translations between chat completions and another API share |
//! | `trace` | the span of an attempt, to the end of its response |
//! | `listing` | cached lists of models |
//! | `scripted` | a file of turns instead of a service |
//! | `source` | models of the program that embeds the gateway |
//! | `reply` | a reply in pieces: as it was received, or as deltas |
//! | `chat_reader` | chat completions as deltas, or to be passed on |
//! | `delta_stream` | streams of APIs other than chat completions |
//! | `chat_form` | a reply as chunks of a chat completion |
//! | `document` | a JSON object of a provider, with its exact text |
//! | `outline` | the outline of a chat completion, without its tree |
//! | `repair` | repairs the calls in the chunks of a stream |
//! | `error` | errors of providers, in OpenAI's form |

mod address;
mod anthropic;
mod backend;
mod chat_form;
mod chat_reader;
#[cfg(test)]
mod chat_replies;
mod delta_stream;
pub mod document;
mod error;
mod gemini;
mod hosting;
mod http;
mod keys;
mod listing;
mod metrics;
mod models;
mod observer;
mod openai;
mod outline;
mod prompt;
mod repair;
mod reply;
mod responses;
mod retry;
mod route;
mod scripted;
mod service;
mod settings;
mod signin;
mod source;
mod trace;
mod translation;
mod work;

pub use self::{
    backend::{Chunks, Response, Terms},
    chat_form::ChatForm,
    document::Document,
    error::SOON,
    error::{BadProvider, BadScript, ModelError, Refusal, TokenError, TransportError},
    hosting::own_headers,
    http::reach::{Unreached, reach},
    metrics::ModelMetrics,
    models::Models,
    observer::{ExchangeObserver, Redaction, SentRequest},
    prompt::Prompt,
    prompt::Unforced,
    repair::{Calls, TooManyCalls},
    reply::ReplyChunk,
    route::Route,
    settings::{
        Api, Apis, CloudCredential, Hosting, Key, Kind, MAX_FALLBACKS, Retries, Service,
        ServiceAccountKey, Settings, Timeouts,
    },
    source::{ModelFailure, ModelReply, ModelSource},
    work::ProviderWork,
};
