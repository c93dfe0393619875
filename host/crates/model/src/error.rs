//! Errors of model providers, and their form in OpenAI's API.

mod codes;

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use http::StatusCode;
use serde_json::json;

use super::route::MAX_NAME_BYTES;
use airlock_conversation::Object;
use airlock_egress::https::HttpsError;
use airlock_json::object;
use airlock_tls::{BadIdentity, BadPem};

/// Wait before a retry if memory is short: other requests end all the time.
pub const SOON: Duration = Duration::from_secs(1);

/// Maximum bytes of the message of an error that is logged, or is not in OpenAI's form.
pub(crate) const SAID_BYTES: usize = 1_024;

/// Reason that a provider cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum BadProvider {
    /// Two providers have the same name.
    #[error("there are two providers named {provider:?}")]
    Duplicate {
        /// The name.
        provider: String,
    },
    /// The name is not one that `NAME/model` can have.
    #[error(
        "the name of a provider must have at least one character and no `/`, found {provider:?}"
    )]
    Name {
        /// The name.
        provider: String,
    },
    /// The base URL cannot be used.
    #[error(
        "base_url {base_url:?} of provider {provider:?} must be an http:// or https:// address without user or query"
    )]
    BaseUrl {
        /// The provider.
        provider: String,
        /// The configured URL.
        base_url: String,
    },
    /// A key cannot be sent.
    #[error(
        "the key {key:?} of provider {provider:?} has characters that an HTTP header cannot have"
    )]
    Key {
        /// The provider.
        provider: String,
        /// The key's name.
        key: String,
    },
    /// The key of a service account cannot be used. It is not shown.
    #[error("the service account of key {key:?} of provider {provider:?} {problem}")]
    ServiceAccount {
        /// The provider.
        provider: String,
        /// The key's name.
        key: String,
        /// Description of the problem, to be read after the key.
        problem: String,
    },
    /// The key has a credential of another host.
    #[error("the key {key:?} of provider {provider:?} has a credential of another host")]
    CloudCredential {
        /// The provider.
        provider: String,
        /// The key's name.
        key: String,
    },
    /// A header cannot be sent.
    #[error("the header {header:?} of provider {provider:?} cannot be sent")]
    Header {
        /// The provider.
        provider: String,
        /// The header's name.
        header: String,
    },
    /// The proxy's URL cannot be used. It is not shown, because it may have a password.
    #[error("the proxy of provider {provider:?} must be an http://, https:// or socks5:// URL")]
    Proxy {
        /// The provider.
        provider: String,
    },
    /// The certificates of the service's authority cannot be used.
    #[error("`ca` of provider {provider:?} cannot be used")]
    Authorities {
        /// The provider.
        provider: String,
        /// The cause.
        #[source]
        cause: BadPem,
    },
    /// The gateway's certificate for the service cannot be used, or its key.
    #[error("the certificate for provider {provider:?} cannot be used")]
    Identity {
        /// The provider.
        provider: String,
        /// The cause.
        #[source]
        cause: BadIdentity,
    },
    /// A fallback names no provider.
    #[error(
        "the fallback {fallback:?} of provider {provider:?} must be NAME/model, where NAME is a provider"
    )]
    Fallback {
        /// The provider.
        provider: String,
        /// The fallback.
        fallback: String,
    },
    /// The host does not have the API.
    #[error("the API of provider {provider:?} does not exist at its host")]
    Hosting {
        /// The provider.
        provider: String,
    },
    /// This build does not have the host.
    #[error(
        "provider {provider:?} needs the cargo feature {feature:?}, which this build does not have"
    )]
    Feature {
        /// The provider.
        provider: String,
        /// The feature.
        feature: &'static str,
    },
    /// The HTTP client cannot be created.
    #[error("the HTTP client of provider {provider:?} cannot be created")]
    Client {
        /// The provider.
        provider: String,
        /// The cause.
        #[source]
        cause: rustls::Error,
    },
    /// The script cannot be used.
    #[error("the script of provider {provider:?} cannot be used")]
    Script {
        /// The provider.
        provider: String,
        /// The cause.
        #[source]
        cause: BadScript,
    },
}

/// Reason that a script cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadScript {
    /// The file cannot be read.
    #[error("{} cannot be read", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        cause: io::Error,
    },
    /// The file is not a list of turns.
    #[error("{} must be a JSON object {{\"turns\": [...]}}", .path.display())]
    Shape {
        /// The file.
        path: PathBuf,
        /// The problem and its position.
        #[source]
        cause: serde_json::Error,
    },
    /// One turn is invalid.
    #[error("turn {turn} of {}: {problem}", .path.display())]
    Turn {
        /// The file.
        path: PathBuf,
        /// Its number, from 1.
        turn: usize,
        /// Description of the problem and of valid values.
        problem: String,
    },
}

/// Error of an exchange with a service. For the operator: it has the address.
#[derive(Debug, thiserror::Error)]
#[error("no response from {url}")]
pub struct TransportError {
    /// URL of the request, without credentials and without its query.
    pub url: String,
    /// The cause, without the URL.
    #[source]
    pub cause: HttpsError,
}

/// Reason that there is no access token. For the operator.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The endpoint of tokens cannot be reached.
    #[error("the token endpoint cannot be reached")]
    Transport(#[source] HttpsError),
    /// The endpoint did not respond in time.
    #[error("the token endpoint did not respond in time")]
    Timeout,
    /// The endpoint refused the credential.
    #[error("the token endpoint responded with status {}: {message}", .status.as_u16())]
    Refused {
        /// Its status.
        status: StatusCode,
        /// The beginning of its message.
        message: String,
    },
    /// The endpoint broke its protocol.
    #[error("the token endpoint responded with {what}")]
    Invalid {
        /// Description of the response.
        what: &'static str,
    },
    /// The key cannot sign.
    #[error("the key of the service account cannot sign")]
    Unsigned,
}

/// Reason that there is no completion. `Display` is safe to show to callers: it contains no
/// credentials and no addresses.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The request names no model, or one of excessive length.
    #[error("`model` must be a string of at most {MAX_NAME_BYTES} bytes, as in \"provider/model\"")]
    NoModel,
    /// No provider is configured.
    #[error(
        "no provider is configured for model '{model}': the operator of the gateway must add one to `providers`"
    )]
    UnknownModel {
        /// The requested model.
        model: String,
    },
    /// The request went to the first provider, which failed, because its `model` names none. The
    /// name may be misspelt.
    #[error("no provider is named '{name}', so the model '{model}' was asked of the first one")]
    NoSuchProvider {
        /// The text before the first slash of the model.
        name: String,
        /// The requested model.
        model: String,
        /// The error of the first provider.
        #[source]
        cause: Box<ModelError>,
    },
    /// A member has a name that some providers read as that of another one, which the gateway reads.
    #[error("`{found}`: some providers read it as `{meant}`; write that name as the API has it")]
    DisguisedMember {
        /// The name, cut to a bounded length.
        found: String,
        /// The name of the other member.
        meant: &'static str,
    },
    /// An element of the request's `fallbacks` cannot be used.
    #[error("`{field}`: {problem}")]
    BadFallback {
        /// The field: `fallbacks[1]`.
        field: String,
        /// Description of the problem and of valid values.
        problem: String,
    },
    /// No key of the provider serves the model.
    #[error("no key of provider '{provider}' serves the model '{model}'")]
    NoKey {
        /// The provider.
        provider: String,
        /// The requested model.
        model: String,
    },
    /// The provider returned an error. Its status is kept, and so is its `error` object if OpenAI's
    /// clients can read it.
    #[error("provider '{provider}' responded with status {}", .refusal.status.as_u16())]
    Refused {
        /// The provider.
        provider: String,
        /// The provider's error.
        refusal: Box<Refusal>,
    },
    /// The provider does not accept the gateway's credential. The provider's message is for the
    /// operator, because it is about the operator's key.
    #[error(
        "provider '{provider}' does not accept the gateway's credential (status {})", .refusal.status.as_u16()
    )]
    Credential {
        /// The provider.
        provider: String,
        /// The provider's error.
        refusal: Box<Refusal>,
    },
    /// There is no access token for the provider.
    #[error("the gateway got no access token for provider '{provider}'")]
    Token {
        /// The provider.
        provider: String,
        /// The cause. For the operator.
        #[source]
        cause: Arc<TokenError>,
    },
    /// The proxy in front of the provider does not accept the credential that its URL has.
    #[error(
        "the proxy of provider '{provider}' does not accept the gateway's credential (status 407)"
    )]
    Proxy {
        /// The provider.
        provider: String,
    },
    /// The provider returned something other than a completion.
    #[error("provider '{provider}' responded with {what}")]
    BadAnswer {
        /// The provider.
        provider: String,
        /// Description of the response.
        what: &'static str,
    },
    /// The response has more calls of tools than the request permits.
    #[error("the model's response has {found} tool calls, more than the limit of {limit}")]
    TooManyCalls {
        /// Calls in the response, or so far.
        found: usize,
        /// Maximum number of calls.
        limit: usize,
    },
    /// The connection to the provider could not be made, or broke.
    #[error("the connection to provider '{provider}'{} failed", if *.has_proxy { " through its proxy" } else { "" })]
    Unreachable {
        /// The provider.
        provider: String,
        /// True if connections are made through a proxy, which may be the cause.
        has_proxy: bool,
        /// The cause. For the operator.
        #[source]
        cause: Box<TransportError>,
    },
    /// The provider did not respond in time.
    #[error("provider '{provider}' did not respond within `{limit}`")]
    Timeout {
        /// The provider.
        provider: String,
        /// Name of the limit in the provider's settings.
        limit: &'static str,
        /// The cause. For the operator.
        #[source]
        cause: Box<TransportError>,
    },
    /// The provider accepted the request and then sent nothing within `timeouts.first_byte` or
    /// `timeouts.idle`.
    #[error("provider '{provider}' sent nothing for longer than `{limit}`")]
    Silent {
        /// The provider.
        provider: String,
        /// Name of the limit in the provider's settings.
        limit: &'static str,
    },
    /// The memory of the request has no room for the data that is sent to the provider, or for its
    /// response.
    #[error(
        "the request to provider '{provider}' and its response do not fit into `max_request_memory` with the other requests in flight; \
         try again later"
    )]
    NoMemory {
        /// The provider.
        provider: String,
    },
    /// The request has a part that cannot be sent to the provider.
    #[error("the request cannot be sent to provider '{provider}': {reason}")]
    BadRequest {
        /// The provider.
        provider: String,
        /// Description of the part, of the value that was found and of valid values.
        reason: String,
    },
    /// No turn of a script matches the conversation.
    #[error("no turn of script '{provider}' matches {conversation}")]
    NoTurn {
        /// The provider.
        provider: String,
        /// Description of the conversation.
        conversation: String,
    },
}

/// A provider's error.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// Its status.
    pub status: StatusCode,
    /// Its `error` object.
    pub error: Object,
    /// Wait that its `Retry-After` asks for.
    pub retry_after: Option<Duration>,
}

impl ModelError {
    /// Returns the HTTP status of the error.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::NoSuchProvider { cause, .. } => cause.status(),
            Self::NoModel
            | Self::NoTurn { .. }
            | Self::BadRequest { .. }
            | Self::DisguisedMember { .. }
            | Self::BadFallback { .. } => StatusCode::BAD_REQUEST,
            Self::UnknownModel { .. } | Self::NoKey { .. } => StatusCode::NOT_FOUND,
            Self::Refused { refusal, .. } => refusal.status,
            Self::Credential { .. }
            | Self::Token { .. }
            | Self::Proxy { .. }
            | Self::BadAnswer { .. }
            | Self::TooManyCalls { .. }
            | Self::Unreachable { .. } => StatusCode::BAD_GATEWAY,
            Self::NoMemory { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Self::Timeout { .. } | Self::Silent { .. } => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    /// Returns the time to wait before a retry, if known.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { refusal, .. } => refusal.retry_after,
            Self::NoMemory { .. } => Some(SOON),
            Self::NoSuchProvider { cause, .. } => cause.retry_after(),
            _ => None,
        }
    }

    /// Returns the beginning of the provider's message, for the operator; `None` if it sent none. It
    /// may be about the operator's key.
    pub fn said(&self) -> Option<&str> {
        match self {
            Self::Refused { refusal, .. } | Self::Credential { refusal, .. } => {
                let text = refusal.error.get("message")?.as_str()?;
                Some(&text[..text.floor_char_boundary(SAID_BYTES)])
            }
            Self::NoSuchProvider { cause, .. } => cause.said(),
            _ => None,
        }
    }

    /// Returns whether another provider may be asked: this one is overloaded, failed, does not
    /// respond, breaks its protocol, or does not accept the gateway's credential. An error of the
    /// request itself is final.
    pub(super) fn permits_fallback(&self) -> bool {
        match self {
            Self::Refused { refusal, .. } => {
                refusal.status == StatusCode::TOO_MANY_REQUESTS || refusal.status.is_server_error()
            }
            Self::Credential { .. }
            | Self::Token { .. }
            | Self::Proxy { .. }
            | Self::BadAnswer { .. }
            | Self::Unreachable { .. }
            | Self::Timeout { .. }
            | Self::Silent { .. } => true,
            Self::NoSuchProvider { cause, .. } => cause.permits_fallback(),
            _ => false,
        }
    }

    /// Returns the `error` object: the provider's own, if there is one. That of a provider that was
    /// not named has the reason first, unless the provider has written the message.
    pub fn to_object(&self) -> Object {
        let param = match self {
            Self::Refused { refusal, .. } => return refusal.error.clone(),
            Self::NoSuchProvider { cause, .. } => {
                let mut error = cause.to_object();
                if !matches!(**cause, Self::Refused { .. }) {
                    error.insert("message".to_owned(), format!("{self}: {cause}").into());
                }
                return error;
            }
            Self::NoModel | Self::UnknownModel { .. } | Self::NoKey { .. } => Some("model"),
            Self::BadFallback { field, .. } => Some(field.as_str()),
            Self::DisguisedMember { found, .. } => Some(found.as_str()),
            Self::NoTurn { .. } => Some("messages"),
            _ => None,
        };
        let is_of_server = self.status().is_server_error();
        let kind = if is_of_server { "server_error" } else { "invalid_request_error" };
        let code = self.code();
        object(json!({"message": self.to_string(), "type": kind, "param": param, "code": code}))
    }
}
