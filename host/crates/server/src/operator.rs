//! Decides whether a request is the operator's.
//!
//! Only the operator may act on the gateway, not the holder of a virtual key and not a page in a
//! browser. Operators have no credential yet, so a request counts as the operator's if it comes from
//! the gateway's own machine and no keys are required.

use std::{net::IpAddr, sync::Arc};

use http::{HeaderMap, header};

use super::{origin, respond::ApiError};
use airlock_core::door::VirtualKey;

/// Headers that proxies add. Behind a proxy on this machine, every request comes from this machine.
const PROXIED: [&str; 6] =
    ["forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip"];

/// An act of the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OperatorAct {
    /// Reloads a plugin.
    Reload,
    /// Reconnects an MCP server or reads its list of tools again.
    Operate,
    /// Reads the stored stderr of an MCP server.
    ReadLogs,
    /// Reads the metrics. It changes nothing and shows only names and numbers, so it is permitted
    /// from the gateway's own machine even if virtual keys are required.
    ReadMetrics,
}

impl OperatorAct {
    /// Returns the act as a verb with its object.
    fn words(self) -> &'static str {
        match self {
            Self::Reload => "reload plugins",
            Self::Operate => "operate MCP servers",
            Self::ReadLogs => "read the logs of MCP servers",
            Self::ReadMetrics => "read the metrics",
        }
    }

    /// Returns the way to the same end without HTTP, if there is one.
    fn remedy(self) -> &'static str {
        match self {
            Self::Reload => "; send SIGHUP to the gateway",
            Self::Operate | Self::ReadLogs | Self::ReadMetrics => "",
        }
    }

    fn is_permitted_with_keys(self) -> bool {
        self == Self::ReadMetrics
    }
}

/// Fails unless the request is the operator's. `peer` is the remote end of the connection; `key`
/// returns the virtual key of the request.
pub(super) fn check(
    act: OperatorAct,
    requires_key: bool,
    peer: Option<IpAddr>,
    headers: &HeaderMap,
    key: impl FnOnce() -> Result<Option<Arc<VirtualKey>>, ApiError>,
) -> Result<(), ApiError> {
    let words = act.words();
    let remedy = act.remedy();
    if requires_key && !act.is_permitted_with_keys() {
        return Err(refusal(format!(
            "no request may {words} if virtual keys are required, because operators have no credential{remedy}"
        )));
    }
    if key()?.is_some() {
        return Err(refusal(format!(
            "only the operator may {words}; a request with a virtual key may not"
        )));
    }
    // The operator's command-line clients send neither header; a page in a browser always sends one
    // of them.
    if headers.contains_key(header::ORIGIN) || headers.contains_key(origin::FETCH_SITE) {
        return Err(refusal(format!("web pages may not {words}")));
    }
    let is_local = peer.is_some_and(|peer| peer.to_canonical().is_loopback());
    if !is_local || PROXIED.iter().any(|name| headers.contains_key(*name)) {
        return Err(refusal(format!(
            "a request may {words} only from the gateway's own machine, and not through a proxy"
        )));
    }
    Ok(())
}

fn refusal(message: String) -> ApiError {
    ApiError::forbidden("operator_only", message)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use http::HeaderValue;

    use super::*;

    const LOCAL: &str = "127.0.0.1";
    const ALL: [OperatorAct; 4] = [
        OperatorAct::Reload,
        OperatorAct::Operate,
        OperatorAct::ReadLogs,
        OperatorAct::ReadMetrics,
    ];

    fn is_let_in(
        act: OperatorAct,
        requires_key: bool,
        peer: &str,
        has_key: bool,
        sent: &[&'static str],
    ) -> bool {
        let headers = sent
            .iter()
            .map(|name| (header::HeaderName::from_static(name), HeaderValue::from_static("x")))
            .collect();
        let key = has_key.then(|| Arc::new(VirtualKey::new("ann", "sk-bf-ann", BTreeMap::new())));
        check(act, requires_key, peer.parse().ok(), &headers, || Ok(key)).is_ok()
    }

    #[test]
    fn an_act_is_permitted_only_directly_from_the_local_machine_without_a_key() {
        for act in ALL {
            for peer in [LOCAL, "::1", "::ffff:127.0.0.1"] {
                assert!(is_let_in(act, false, peer, false, &[]), "{act:?} {peer}");
            }
            assert!(!is_let_in(act, false, LOCAL, true, &[]), "{act:?}: a key was sent");
            for peer in ["10.0.0.1", "::ffff:10.0.0.1", "unknown"] {
                assert!(!is_let_in(act, false, peer, false, &[]), "{act:?} {peer}");
            }
            for name in
                ["origin", "sec-fetch-site", "forwarded", "x-forwarded-for", "x-real-ip", "via"]
            {
                assert!(!is_let_in(act, false, LOCAL, false, &[name]), "{act:?} {name}");
            }
        }
    }

    #[test]
    fn if_keys_are_required_only_the_metrics_are_permitted_and_only_from_the_local_machine() {
        for act in ALL {
            let is_metrics = act == OperatorAct::ReadMetrics;
            assert_eq!(is_let_in(act, true, LOCAL, false, &[]), is_metrics, "{act:?}");
            assert!(!is_let_in(act, true, LOCAL, true, &[]), "{act:?}");
            assert!(!is_let_in(act, true, LOCAL, false, &["x-forwarded-for"]), "{act:?}");
            assert!(!is_let_in(act, true, "10.0.0.1", false, &[]), "{act:?}");
        }
    }

    #[test]
    fn an_unknown_key_is_refused_as_such() {
        let refused =
            check(OperatorAct::Operate, false, LOCAL.parse().ok(), &HeaderMap::new(), || {
                Err(ApiError::unauthorized("virtual key not found"))
            });
        assert_eq!(refused.expect_err("it is refused").status(), http::StatusCode::UNAUTHORIZED);
    }
}
