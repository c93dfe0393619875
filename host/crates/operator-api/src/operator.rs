//! Finds the operator of a request, and decides whether it may do what only operators may.
//!
//! An operator has a token, or the session of a browser, or comes through the Unix socket of the gateway with
//! the token of the socket, which only the gateway's own user can read. The address of a request is no credential; the metrics alone, which are names
//! and numbers, are shown to programs of the gateway's own machine without one.

use std::{
    net::IpAddr,
    sync::{Arc, LazyLock},
};

use http::{HeaderMap, Method, StatusCode, header};

use super::{
    OperatorApi,
    credential::OperatorCredential,
    operator_login::{self, BrowserSession},
};
use airlock_core::{
    operator::{Operator, Right, Role, TOKEN_PREFIX},
    secret::Secret,
};
use airlock_http::{auth, browser, respond::ApiError};
use airlock_ingress::{Ingress, Peer, Seat};

/// Headers that proxies add. Behind a proxy on this machine, every request comes from this machine.
const PROXIED: [&str; 6] =
    ["forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip"];

/// The operator of requests with the token of the Unix socket.
static LOCAL: LazyLock<Arc<Operator>> = LazyLock::new(|| {
    let name = "local socket".to_owned();
    Arc::new(Operator { name, role: Role::Admin, sees_payloads: true })
});

/// Returns whether an operator is the one of requests with the token of the Unix socket.
pub(super) fn is_of_socket(operator: &Operator) -> bool {
    operator.name == LOCAL.name
}

airlock_strings::named_enum! {
    /// An act of an operator. The words are a verb with its object.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum OperatorAct as words {
        /// Reloads a plugin.
        Reload = "reload plugins",
        /// Takes the configuration file.
        ReloadConfiguration = "reload the configuration",
        /// Reconnects an MCP server or reads its list of tools again.
        Operate = "operate MCP servers",
        /// Reads the stored stderr of an MCP server.
        ReadLogs = "read the logs of MCP servers",
        /// Reads the metrics.
        ReadMetrics = "read the metrics",
        /// Reads why tools are hidden.
        Explain = "read why tools are hidden",
        /// Reads the content of a request.
        ReadRequest = "read the content of requests",
        /// Sees which calls run and what else happens.
        WatchCalls = "watch calls",
        /// Reads runs of scripts.
        ReadRuns = "read runs of scripts",
        /// Replays a run from its journal.
        ReplayRun = "replay runs of scripts",
        /// Reads changed definitions of MCP servers.
        ReadDefinitions = "read changed definitions",
        /// Accepts changed definitions of an MCP server.
        AcceptDefinitions = "accept changed definitions",
        /// Calls a tool.
        TryTool = "call tools",
        /// Connects to a server that is not configured.
        TryServer = "connect to servers that are not configured",
        /// Reads reports of test suites.
        ReadReports = "read reports",
    }
}

impl OperatorAct {
    /// Returns whether the act does anything but show.
    pub fn changes(self) -> bool {
        match self {
            Self::Reload
            | Self::ReloadConfiguration
            | Self::Operate
            | Self::AcceptDefinitions
            | Self::TryTool
            | Self::TryServer => true,
            Self::ReadLogs
            | Self::ReadMetrics
            | Self::Explain
            | Self::ReadRequest
            | Self::WatchCalls
            | Self::ReadRuns
            | Self::ReplayRun
            | Self::ReadDefinitions
            | Self::ReadReports => false,
        }
    }

    fn right(self) -> Right {
        match self {
            // A replay takes the processor for as long as the script may.
            Self::Reload | Self::Operate | Self::ReadLogs | Self::ReplayRun => Right::Operate,
            Self::ReadMetrics
            | Self::Explain
            | Self::ReadRequest
            | Self::WatchCalls
            | Self::ReadRuns
            | Self::ReadDefinitions
            | Self::ReadReports => Right::Read,
            // Who may make a virtual key may call its tools.
            Self::TryTool => Right::Change,
            // A new tool that is accepted may run without an approval.
            Self::ReloadConfiguration | Self::AcceptDefinitions | Self::TryServer => {
                Right::Administer
            }
        }
    }
}

/// An operator who sends a request.
#[derive(Clone)]
pub struct RequestOperator {
    /// The operator.
    pub operator: Arc<Operator>,
    /// The session that is its credential; `None` for a token.
    pub(super) session: Option<BrowserSession>,
    pub(super) credential: OperatorCredential,
}

impl RequestOperator {
    /// Fails if the credential is no longer that of the operator, because it was revoked or changed while the body of the
    /// request arrived, or if the store cannot be asked. Call it before the request has an effect.
    pub(super) async fn confirm(&self, api: &OperatorApi) -> Result<(), ApiError> {
        match self.credential.is_of(&self.operator, &api.hooks).await {
            Some(true) => Ok(()),
            Some(false) => Err(ApiError::from_status(
                StatusCode::UNAUTHORIZED,
                "operator_unknown",
                "the credential of this operator was revoked or changed while the request arrived",
            )),
            None => Err(ApiError::unavailable(
                "store_unavailable",
                "the session of this operator cannot be checked again, because the store is not available; nothing was done",
            )),
        }
    }
}

/// Finds the operator of a request; `None` if it has no credential of one. Fails if it has a token that
/// is none, or no longer one, or a session without the token that it needs for this method. While a session
/// is read, the connection in `seat` may be evicted.
pub async fn identify(
    api: &OperatorApi,
    ingress: Ingress,
    method: &Method,
    headers: &HeaderMap,
    seat: Option<&Seat>,
) -> Result<Option<RequestOperator>, ApiError> {
    let Some(token) = auth::token(headers) else {
        if auth::is_explicit(headers) {
            return Ok(None);
        }
        let session = operator_login::session(api, ingress, method, headers, seat).await?;
        return Ok(session.map(|session| RequestOperator {
            operator: session.session.operator.clone(),
            credential: OperatorCredential::Session {
                credential: session.credential.clone(),
                peer: Peer::new(ingress.address()).to_string(),
            },
            session: Some(session),
        }));
    };
    if let Ingress::Socket(own) = ingress
        && own.accepts(token)
    {
        let operator = LOCAL.clone();
        let credential = OperatorCredential::Socket;
        return Ok(Some(RequestOperator { operator, session: None, credential }));
    }
    let management = api.hooks.management.as_ref();
    let operator = management.and_then(|management| management.operator(token));
    if operator.is_none() && token.starts_with(TOKEN_PREFIX) {
        let message = "no operator has this token, or it has expired";
        let status = StatusCode::UNAUTHORIZED;
        return Err(ApiError::from_status(status, "operator_unknown", message));
    }
    Ok(operator.map(|operator| {
        let credential = OperatorCredential::Token(Secret::new(token));
        RequestOperator { operator, session: None, credential }
    }))
}

/// Fails unless the operator of a request may do this.
pub fn check(
    act: OperatorAct,
    operator: Option<&Operator>,
    ingress: Ingress,
    headers: &HeaderMap,
) -> Result<(), ApiError> {
    let is_shown = act == OperatorAct::ReadMetrics && is_local(ingress.address(), headers);
    match operator {
        Some(operator) => check_right(operator, act.right(), act.words()),
        None if is_shown => Ok(()),
        None => Err(required(act.words())),
    }
}

/// Fails unless the role of an operator includes a right. `words` is the act, for the message.
pub fn check_right(operator: &Operator, right: Right, words: &str) -> Result<(), ApiError> {
    if operator.role.has(right) {
        return Ok(());
    }
    let Operator { name, role, .. } = operator;
    Err(ApiError::forbidden(
        "role_insufficient",
        format!("the operator {name:?} may not {words}: its role is \"{role}\""),
    ))
}

/// Returns the refusal of a request without an operator.
pub fn required(words: &str) -> ApiError {
    let message = format!(
        "only an operator may {words}: send the token of one as `Authorization: Bearer …` or the cookie of a login, or use the gateway's Unix socket; a gateway without an operator prints the setup token for the first one when it starts"
    );
    ApiError::from_status(StatusCode::UNAUTHORIZED, "operator_required", message)
}

/// Returns whether a request comes directly from a program of the gateway's own machine that sends no
/// virtual key. A page in a browser sends `Origin` or `Sec-Fetch-Site`, unless it has rebound a name to the gateway,
/// and comes over plain HTTP: the router checks `Host` for that.
fn is_local(address: Option<IpAddr>, headers: &HeaderMap) -> bool {
    let is_page = headers.contains_key(header::ORIGIN) || headers.contains_key(browser::FETCH_SITE);
    let is_proxied = PROXIED.iter().any(|name| headers.contains_key(*name));
    address.is_some_and(|address| address.to_canonical().is_loopback())
        && !is_page
        && !is_proxied
        && !auth::is_sent(headers)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const ALL: &[Role] = &Role::ALL;
    const OPERATORS: &[Role] = &[Role::Operator, Role::Admin];
    const ADMINS: &[Role] = &[Role::Admin];

    /// The acts, with the roles that may do each.
    const ACTS: [(OperatorAct, &[Role]); 15] = [
        (OperatorAct::Reload, OPERATORS),
        (OperatorAct::ReloadConfiguration, ADMINS),
        (OperatorAct::Operate, OPERATORS),
        (OperatorAct::ReadLogs, OPERATORS),
        (OperatorAct::ReadMetrics, ALL),
        (OperatorAct::Explain, ALL),
        (OperatorAct::ReadRequest, ALL),
        (OperatorAct::WatchCalls, ALL),
        (OperatorAct::ReadRuns, ALL),
        (OperatorAct::ReplayRun, OPERATORS),
        (OperatorAct::ReadDefinitions, ALL),
        (OperatorAct::AcceptDefinitions, ADMINS),
        (OperatorAct::TryTool, OPERATORS),
        (OperatorAct::TryServer, ADMINS),
        (OperatorAct::ReadReports, ALL),
    ];

    fn operator(role: Role) -> Operator {
        Operator { name: "ann".to_owned(), role, sees_payloads: false }
    }

    fn status(
        act: OperatorAct,
        operator: Option<&Operator>,
        peer: &str,
        sent: &[&'static str],
    ) -> u16 {
        let headers = sent
            .iter()
            .map(|name| (header::HeaderName::from_static(name), HeaderValue::from_static("x")))
            .collect();
        let address = peer.parse().expect("an address");
        let ingress = Ingress::Remote { address: Some(address), certificate: None };
        check(act, operator, ingress, &headers)
            .map_or_else(|refused| refused.status().as_u16(), |()| 200)
    }

    #[test]
    fn the_role_decides_wherever_a_request_comes_from() {
        for peer in ["127.0.0.1", "10.0.0.1"] {
            for (act, roles) in ACTS {
                for role in Role::ALL {
                    let expected = if roles.contains(&role) { 200 } else { 403 };
                    for sent in [&["origin"][..], &[]] {
                        let found = status(act, Some(&operator(role)), peer, sent);
                        assert_eq!(found, expected, "{act:?} {role}");
                    }
                }
            }
        }
    }

    #[test]
    fn without_an_operator_only_the_metrics_are_shown_to_the_local_machine() {
        for (act, _) in ACTS {
            let expected = if act == OperatorAct::ReadMetrics { 200 } else { 401 };
            for peer in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
                assert_eq!(status(act, None, peer, &[]), expected, "{act:?} {peer}");
            }
            assert_eq!(status(act, None, "10.0.0.1", &[]), 401);
            for name in [
                "origin",
                "sec-fetch-site",
                "forwarded",
                "x-forwarded-for",
                "x-real-ip",
                "via",
                "x-bf-vk",
            ] {
                assert_eq!(status(act, None, "127.0.0.1", &[name]), 401, "{act:?} {name}");
            }
        }
    }
}
