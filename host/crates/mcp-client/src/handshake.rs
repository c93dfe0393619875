//! Agrees with a server on a revision of the protocol: the modern way (`server/discover`) or the
//! legacy way (`initialize`).

use std::pin::pin;

use serde_json::{Value, json};
use tokio::time::sleep;

use super::{
    agreed::{Agreed, push_capabilities, used},
    limits::{MAX_INSTRUCTIONS_BYTES, PROBE_PATIENCE},
    link::{AskError, Link, Request},
    settings::Protocol,
    transport::SendError,
};
use airlock_core::tool::{ClientName, QuestionKinds};
use airlock_strings::{MAX_EXCERPT_BYTES, cut, one_line};
use airlock_wire::{
    error::{RpcError, code},
    method,
    version::Version,
};

/// Handshake of a connection. A legacy connection begins with `initialize`, a modern one with
/// `server/discover`. A legacy server that never answers an unknown method delays the modern
/// handshake by [`PROBE_PATIENCE`], so the one that worked is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handshake {
    /// The modern handshake, then the legacy one.
    ModernFirst,
    /// The legacy handshake, and the modern one if the server refuses it.
    LegacyFirst,
    /// The modern handshake alone.
    Modern,
    /// The legacy handshake alone.
    Legacy,
}

impl Handshake {
    /// Returns the handshake of the first attempt to connect to a server that may ask `questions`.
    ///
    /// A server of both eras that asks with requests of its own can do so in the legacy era alone,
    /// and `server/discover` does not tell whether its tools ask. The legacy era is therefore
    /// preferred if the operator permits questions.
    pub fn first(protocol: Protocol, questions: QuestionKinds) -> Self {
        match protocol {
            Protocol::Legacy => Self::Legacy,
            Protocol::Modern => Self::Modern,
            Protocol::Auto if questions.is_empty() => Self::ModernFirst,
            Protocol::Auto => Self::LegacyFirst,
        }
    }

    /// Returns the handshake to try after an attempt with this one has failed.
    pub fn other(self) -> Self {
        match self {
            Self::ModernFirst => Self::LegacyFirst,
            Self::LegacyFirst => Self::ModernFirst,
            fixed @ (Self::Modern | Self::Legacy) => fixed,
        }
    }

    /// Returns the handshake to try first after one has led to a connection.
    pub fn after_connection(self, is_modern: bool) -> Self {
        match self {
            Self::ModernFirst | Self::LegacyFirst if is_modern => Self::ModernFirst,
            Self::ModernFirst | Self::LegacyFirst => Self::LegacyFirst,
            fixed @ (Self::Modern | Self::Legacy) => fixed,
        }
    }
}

/// Reason that a handshake was not completed.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The server refused it.
    #[error("it refused the handshake with code {code}: {message}")]
    Refused {
        /// Code of the JSON-RPC error.
        code: i64,
        /// Text of the server, on one line.
        message: String,
    },
    /// The server speaks a revision of MCP that the gateway does not know.
    #[error(
        "it speaks MCP {0:?}; this gateway speaks 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25 and 2026-07-28"
    )]
    UnknownVersion(String),
    /// The server does not speak the modern era, and the settings permit no other.
    #[error("it does not speak MCP 2026-07-28, which `protocol` \"modern\" demands")]
    NotModern,
    /// The connection ended before the response.
    #[error("the connection ended")]
    Closed,
    /// A message was not sent or not answered.
    #[error("the handshake failed")]
    Failed(#[source] AskError),
}

/// Identity and capabilities of the gateway as a client of one server.
#[derive(Debug, Clone)]
pub struct Identity {
    info: Value,
    /// Questions that a legacy server may ask at all. A modern one learns with each request what its
    /// caller can answer.
    questions: QuestionKinds,
}

impl Identity {
    /// Creates the identity of the gateway as a client named `client`.
    pub fn new(client: &ClientName, questions: QuestionKinds) -> Self {
        let info =
            json!({"name": format!("Airlock-{client}"), "version": env!("CARGO_PKG_VERSION")});
        Self { info, questions }
    }

    /// Returns the members of `_meta` of a modern request but the capabilities.
    fn meta(&self, version: Version) -> String {
        format!(
            r#""io.modelcontextprotocol/protocolVersion":"{}","io.modelcontextprotocol/clientInfo":{}"#,
            version.as_str(),
            self.info,
        )
    }
}

/// Completes a handshake. The answer to the modern handshake may come at any time: after
/// [`PROBE_PATIENCE`] the legacy one is sent too, and the first that succeeds counts. A server that
/// is slow to start is therefore never taken for one that is silent.
pub async fn complete_handshake(
    link: &Link,
    identity: &Identity,
    handshake: Handshake,
) -> Result<(), HandshakeError> {
    let agreed = match handshake {
        Handshake::ModernFirst => modern_first(link, identity).await?,
        Handshake::LegacyFirst => legacy_first(link, identity).await?,
        Handshake::Modern => modern(link, identity).await?,
        Handshake::Legacy => initialize(link, identity).await?,
    };
    let is_legacy = !agreed.version.is_modern();
    link.agree(agreed);
    if is_legacy {
        let sent = link.notify(method::INITIALIZED, &json!({})).await;
        sent.map_err(|error| failed(AskError::Send(error)))?;
    }
    Ok(())
}

async fn modern_first(link: &Link, identity: &Identity) -> Result<Agreed, HandshakeError> {
    let mut probe = pin!(discover(link, identity));
    tokio::select! {
        answered = &mut probe => return match answered {
            Ok(Probed::Agreed(agreed)) => Ok(agreed),
            Ok(Probed::Refused) => initialize(link, identity).await,
            Err(error) => Err(error),
        },
        () = sleep(PROBE_PATIENCE) => {}
    }
    let mut legacy = pin!(initialize(link, identity));
    let mut is_refused = false;
    let mut legacy_error = None;
    loop {
        tokio::select! {
            biased;
            answered = &mut probe, if !is_refused => match answered {
                Ok(Probed::Agreed(agreed)) => return Ok(agreed),
                Ok(Probed::Refused) => is_refused = true,
                Err(error) => return Err(error),
            },
            initialized = &mut legacy, if legacy_error.is_none() => match initialized {
                Ok(agreed) => return Ok(agreed),
                // A modern server refuses `initialize`; its answer to the probe is still to come.
                Err(error @ HandshakeError::Refused { .. }) => legacy_error = Some(error),
                Err(error) => return Err(error),
            },
        }
        if let (true, Some(error)) = (is_refused, legacy_error.take_if(|_| is_refused)) {
            return Err(error);
        }
    }
}

async fn legacy_first(link: &Link, identity: &Identity) -> Result<Agreed, HandshakeError> {
    match initialize(link, identity).await {
        // A server of the modern era alone.
        Err(error @ HandshakeError::Refused { .. }) => match discover(link, identity).await? {
            Probed::Agreed(agreed) => Ok(agreed),
            Probed::Refused => Err(error),
        },
        initialized => initialized,
    }
}

async fn modern(link: &Link, identity: &Identity) -> Result<Agreed, HandshakeError> {
    match discover(link, identity).await? {
        Probed::Agreed(agreed) => Ok(agreed),
        Probed::Refused => Err(HandshakeError::NotModern),
    }
}

/// Result of the modern handshake.
enum Probed {
    Agreed(Agreed),
    /// The server does not know the method, or no revision that has it.
    Refused,
}

async fn discover(link: &Link, identity: &Identity) -> Result<Probed, HandshakeError> {
    let meta = identity.meta(Version::LATEST);
    let mut full = meta.clone();
    push_capabilities(&mut full, QuestionKinds::NONE, false);
    let mut asked = link.ask(probe(&full)).result().await;
    // A server may refuse the first request with the revisions that it speaks (2026-07-28, section
    // "Protocol Version Negotiation").
    if asked.as_ref().is_err_and(lists_latest) {
        asked = link.ask(probe(&full)).result().await;
    }
    let result = match asked {
        Ok(result) => result,
        // A server of the legacy era may refuse an unknown method with any code.
        Err(AskError::Refused(_) | AskError::Unreadable(_)) => return Ok(Probed::Refused),
        Err(error) => return Err(failed(error)),
    };
    let supported = result.get("supportedVersions").and_then(Value::as_array);
    // A legacy server may answer an unknown method with an empty result.
    let is_spoken = supported.is_some_and(|supported| {
        supported.iter().any(|version| version.as_str() == Some(Version::LATEST.as_str()))
    });
    if !is_spoken {
        return Ok(Probed::Refused);
    }
    let info = result.pointer("/_meta/io.modelcontextprotocol~1serverInfo");
    let info = info.or_else(|| result.get("serverInfo")).cloned().unwrap_or_default();
    Ok(Probed::Agreed(agreed(link, Version::LATEST, &result, &info, meta)))
}

fn probe(meta: &str) -> Request {
    Request::new(method::DISCOVER).uncancellable().with_raw_meta(meta)
}

/// Returns whether a server refuses a revision and lists the newest one as spoken.
fn lists_latest(error: &AskError) -> bool {
    let AskError::Refused(RpcError { code, data, .. }) = error else { return false };
    let supported = data.as_ref().and_then(|data| data.get("supported")).and_then(Value::as_array);
    *code == code::UNSUPPORTED_VERSION
        && supported.is_some_and(|supported| {
            supported.iter().any(|version| version.as_str() == Some(Version::LATEST.as_str()))
        })
}

async fn initialize(link: &Link, identity: &Identity) -> Result<Agreed, HandshakeError> {
    let request = Request::new(method::INITIALIZE)
        .uncancellable()
        .with("protocolVersion", Value::from(Version::LATEST_LEGACY.as_str()).to_string())
        .with("capabilities", identity.questions.to_capabilities().to_string())
        .with("clientInfo", identity.info.to_string());
    let result = link.ask(request).result().await.map_err(failed)?;
    let named = result.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
    let version = Version::find(named)
        .filter(|version| !version.is_modern())
        .ok_or_else(|| HandshakeError::UnknownVersion(cut(one_line(named), MAX_EXCERPT_BYTES)))?;
    let info = result.get("serverInfo").cloned().unwrap_or_default();
    Ok(agreed(link, version, &result, &info, String::new()))
}

fn agreed(link: &Link, version: Version, result: &Value, info: &Value, meta: String) -> Agreed {
    let software = [
        quoted(link, info.get("name"), MAX_EXCERPT_BYTES),
        quoted(link, info.get("version"), MAX_EXCERPT_BYTES),
    ];
    let instructions = result.get("instructions").and_then(Value::as_str);
    Agreed {
        version,
        capabilities: used(result.get("capabilities")),
        software: software.join(" ").trim().to_owned(),
        instructions: instructions
            .map(|text| link.inbox().scrubber().cut(text, MAX_INSTRUCTIONS_BYTES)),
        meta,
    }
}

/// Returns a text of the server on one line, without secrets; empty if it is no text.
fn quoted(link: &Link, value: Option<&Value>, limit_bytes: usize) -> String {
    let text = value.and_then(Value::as_str).unwrap_or_default();
    link.inbox().scrubber().line(text, limit_bytes)
}

fn failed(error: AskError) -> HandshakeError {
    match error {
        AskError::Refused(RpcError { code, message, .. }) => {
            HandshakeError::Refused { code, message: one_line(&message) }
        }
        // The pipe broke, or its end was read, before the response.
        AskError::Lost | AskError::Send(SendError::Closed) => HandshakeError::Closed,
        AskError::Send(SendError::Failed(cause)) if cause.is::<std::io::Error>() => {
            HandshakeError::Closed
        }
        error => HandshakeError::Failed(error),
    }
}
