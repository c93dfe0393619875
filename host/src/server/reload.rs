//! `POST /api/mcp/client/{name}/reload`: reloads a plugin whose component has changed.
//!
//! Only the operator may reload, not the holder of a virtual key and not a page in a browser.
//! Operators have no credential yet, so a request counts as the operator's if it comes from the
//! gateway's own machine and no keys are required. Elsewhere the operator reloads with a signal or
//! by replacing the file.

use std::net::IpAddr;

use futures_util::future::BoxFuture;
use http::{HeaderMap, StatusCode, header};
use serde_json::json;

use super::{
    App, Sender, origin,
    respond::{self, ApiError, Reply},
};

const PREFIX: &str = "/api/mcp/client/";
const SUFFIX: &str = "/reload";
/// Headers that proxies add. Behind a proxy on this machine, every request comes from this machine.
const PROXIED: [&str; 6] =
    ["forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip"];

/// Reloads plugins. The server does not depend on the way they are loaded.
pub trait Reload: Send + Sync + 'static {
    /// Returns the digest of the component that a client currently runs; `None` if there is no such
    /// plugin or if it is not loaded.
    fn digest(&self, client: &str) -> Option<String>;

    /// Reloads one client's plugin if its component has changed. Returns whether it had changed.
    /// The old plugin stays if the reload fails or if the future is dropped.
    fn reload<'a>(&'a self, client: &'a str) -> BoxFuture<'a, Result<bool, NotReloaded>>;
}

/// Reason that a plugin was not reloaded, as a message for the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotReloaded {
    /// No plugin has this name.
    #[error("no plugin is named {0:?}")]
    Unknown(String),
    /// The plugin differs from its accepted state or needs rights that are not granted: the
    /// operator must decide.
    #[error("{0}")]
    Undecided(String),
    /// The component is unusable.
    #[error("{0}")]
    Unusable(String),
}

/// Returns the client that a path of this API names; `None` for other paths.
pub(super) fn client_of(path: &str) -> Option<&str> {
    path.strip_prefix(PREFIX)?
        .strip_suffix(SUFFIX)
        .filter(|client| !client.is_empty() && !client.contains('/'))
}

/// Fails unless the request is the operator's. `peer` is the remote end of the connection; `sender`
/// authenticates the request.
pub(super) fn check(
    requires_key: bool,
    peer: Option<IpAddr>,
    headers: &HeaderMap,
    sender: impl FnOnce() -> Result<Sender, ApiError>,
) -> Result<(), ApiError> {
    let refuse = |message: &str| Err(ApiError::forbidden("operator_only", message));
    if requires_key {
        return refuse(
            "plugins cannot be reloaded over HTTP if virtual keys are required; send SIGHUP to the gateway",
        );
    }
    if sender()?.key.is_some() {
        return refuse(
            "only the operator may reload plugins; a request with a virtual key may not",
        );
    }
    // The operator's command-line clients send neither header; a page in a browser always sends one
    // of them.
    if headers.contains_key(header::ORIGIN) || headers.contains_key(origin::FETCH_SITE) {
        return refuse("web pages may not reload plugins");
    }
    let is_local = peer.is_some_and(|peer| peer.to_canonical().is_loopback());
    if !is_local || PROXIED.iter().any(|name| headers.contains_key(*name)) {
        return refuse(
            "plugins may be reloaded only from the gateway's own machine, and not through a proxy",
        );
    }
    Ok(())
}

/// Reloads the plugin. The request has passed [`check`].
pub(super) async fn run(app: &App, client: &str) -> Result<Reply, ApiError> {
    let unknown = || NotReloaded::Unknown(client.to_owned());
    let reloaded = match &app.hooks.plugins {
        Some(plugins) => plugins.reload(client).await,
        None => Err(unknown()),
    };
    match reloaded {
        Ok(changed) => Ok(respond::json(&json!({"status": "success", "changed": changed}))),
        Err(error) => Err(refusal(&error)),
    }
}

fn refusal(error: &NotReloaded) -> ApiError {
    let (status, code) = match error {
        NotReloaded::Unknown(_) => (StatusCode::NOT_FOUND, "unknown_client"),
        NotReloaded::Undecided(_) => (StatusCode::CONFLICT, "plugin_not_accepted"),
        NotReloaded::Unusable(_) => (StatusCode::UNPROCESSABLE_ENTITY, "plugin_unusable"),
    };
    ApiError::new(status, "invalid_request_error", code, error.to_string())
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::Arc};

    use http::HeaderValue;

    use super::*;
    use crate::door::{Filter, VirtualKey};

    const LOCAL: &str = "127.0.0.1";

    fn is_let_in(requires_key: bool, peer: &str, has_key: bool, sent: &[&'static str]) -> bool {
        let headers = sent
            .iter()
            .map(|name| (header::HeaderName::from_static(name), HeaderValue::from_static("x")))
            .collect();
        let key = has_key.then(|| Arc::new(VirtualKey::new("ann", "sk-bf-ann", BTreeMap::new())));
        let sender = || Ok(Sender { key, filter: Filter::none() });
        check(requires_key, peer.parse().ok(), &headers, sender).is_ok()
    }

    #[test]
    fn a_reload_is_accepted_only_directly_from_the_local_machine_without_a_key() {
        assert!(is_let_in(false, LOCAL, false, &[]));
        assert!(
            is_let_in(false, "::1", false, &[]) && is_let_in(false, "::ffff:127.0.0.1", false, &[])
        );
        assert!(!is_let_in(true, LOCAL, false, &[]), "keys are required");
        assert!(!is_let_in(false, LOCAL, true, &[]), "a key was sent");
        for peer in ["10.0.0.1", "::ffff:10.0.0.1", "unknown"] {
            assert!(!is_let_in(false, peer, false, &[]), "{peer}");
        }
        for name in ["origin", "sec-fetch-site", "forwarded", "x-forwarded-for", "x-real-ip", "via"]
        {
            assert!(!is_let_in(false, LOCAL, false, &[name]), "{name}");
        }
    }

    #[test]
    fn a_client_is_one_segment_of_the_path() {
        assert_eq!(client_of("/api/mcp/client/weather/reload"), Some("weather"));
        for path in [
            "/api/mcp/client//reload",
            "/api/mcp/client/reload",
            "/api/mcp/client/a/b/reload",
            "/api/mcp/client/a",
        ] {
            assert_eq!(client_of(path), None, "{path}");
        }
    }
}
