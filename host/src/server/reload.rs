//! `POST /api/mcp/client/{name}/reload`: loads a plugin again whose component has changed.
//!
//! This is the operator's to ask and nobody else's: neither a key's holder nor a page in a browser.
//! There is no credential for operators yet, so it is whoever can reach the gateway from its own
//! machine where no keys are required; elsewhere a signal or the file itself does it.

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
/// What proxies add. Behind one on this machine, everybody comes from this machine.
const PROXIED: [&str; 6] =
    ["forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip"];

/// The plugins, for their operator. The server does not know how they are loaded.
pub trait Reload: Send + Sync + 'static {
    /// The digest of a client's component as it is in place; none where there is no such plugin or
    /// it is not loaded.
    fn digest(&self, client: &str) -> Option<String>;

    /// Loads one client's plugin again if it has changed; answers whether it had. The old one stays
    /// where that fails, and if the future is dropped.
    fn reload<'a>(&'a self, client: &'a str) -> BoxFuture<'a, Result<bool, NotReloaded>>;
}

/// Why a plugin was not loaded again, in words for its operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotReloaded {
    /// There is no such plugin.
    #[error("no plugin is named {0:?}")]
    Unknown(String),
    /// It is not what was accepted, or needs what is not granted: the operator has to decide.
    #[error("{0}")]
    Undecided(String),
    /// The component cannot be used.
    #[error("{0}")]
    Unusable(String),
}

/// The client in the path, if it is a path of this API.
pub(super) fn client_of(path: &str) -> Option<&str> {
    path.strip_prefix(PREFIX)?
        .strip_suffix(SUFFIX)
        .filter(|client| !client.is_empty() && !client.contains('/'))
}

/// Refuses everybody but the operator. `peer` is the other end of the connection, `sender` whose
/// key was sent.
pub(super) fn check(
    requires_key: bool,
    peer: Option<IpAddr>,
    headers: &HeaderMap,
    sender: impl FnOnce() -> Result<Sender, ApiError>,
) -> Result<(), ApiError> {
    let refuse = |message: &str| Err(ApiError::forbidden("operator_only", message));
    if requires_key {
        return refuse(
            "plugins are not reloaded over HTTP where virtual keys are required; send the gateway SIGHUP",
        );
    }
    if sender()?.key.is_some() {
        return refuse(
            "a virtual key does not make its holder an operator; only the operator reloads plugins",
        );
    }
    // A command of the operator's carries none; a page in a browser always does.
    if headers.contains_key(header::ORIGIN) || headers.contains_key(origin::FETCH_SITE) {
        return refuse("plugins are not reloaded for web pages");
    }
    let is_local = peer.is_some_and(|peer| peer.to_canonical().is_loopback());
    if !is_local || PROXIED.iter().any(|name| headers.contains_key(*name)) {
        return refuse(
            "plugins are reloaded only at the request of the gateway's own machine, not through a proxy",
        );
    }
    Ok(())
}

/// Loads the plugin again, for whom [`check`] lets through.
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
    fn only_the_operators_own_machine_is_let_in() {
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
