//! The methods of MCP, independent of the transport.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    approval::{ApprovalMode, Seal},
    call,
    error::RpcError,
    exchange::{Asks, Exchange, Outlet},
    message::Request,
    meta::{LogLevel, Peer},
    result::{SERVER_INFO, server_info},
    session::Bounds,
    toolbox::{Selection, Toolboxes},
    version::Version,
    watch::ListWatch,
};
use crate::{catalog::Catalog, door::Budget, json::raw};

/// Key of the metadata with the reason that a subscription ended.
const REASON: &str = "airlock/reason";
/// Reason that streams end when the gateway stops.
pub(crate) const STOPPING: &str = "the gateway is stopping";

/// Key of the metadata that relates a notification to a subscription.
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// Settings of the gateway as an MCP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How a call that needs an approval is decided.
    pub approval: ApprovalMode,
    /// Time for a user to answer a question.
    pub approval_timeout: Duration,
    /// Bounds on sessions and streams.
    pub sessions: Bounds,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            approval: ApprovalMode::default(),
            approval_timeout: Duration::from_mins(5),
            sessions: Bounds::default(),
        }
    }
}

/// The gateway as an MCP server, without a transport.
pub(crate) struct Service {
    toolboxes: Arc<Toolboxes>,
    budget: Budget,
    settings: Settings,
    seal: Seal,
    closing: CancellationToken,
}

/// Client of a request.
#[derive(Clone)]
pub(crate) struct Client {
    /// The tools that it asks for.
    pub(crate) selection: Selection,
    /// Its revision and capabilities.
    pub(crate) peer: Peer,
    /// Time that a call may take.
    pub(crate) timeout: Duration,
    /// The gateway's requests to it; `None` if it cannot respond to them.
    pub(crate) asks: Option<Arc<Asks>>,
}

impl Service {
    pub(crate) fn new(catalog: Arc<Catalog>, budget: Budget, settings: Settings) -> Arc<Self> {
        Arc::new(Self {
            toolboxes: Arc::new(Toolboxes::new(catalog)),
            budget,
            settings,
            seal: Seal::new(),
            closing: CancellationToken::new(),
        })
    }

    /// Begins to handle a request. The transport handles `initialize` and `logging/setLevel`
    /// itself, because they change its state.
    pub(crate) fn begin(self: &Arc<Self>, request: Request, client: Client) -> Exchange {
        let id = request.id.clone();
        let is_modern = client.peer.version.is_modern();
        match request.method.as_str() {
            "tools/call" => {
                let (service, asks) = (self.clone(), client.asks.clone());
                Exchange::new(id, asks, |outlet| call::run(service, client, request, outlet))
            }
            "subscriptions/listen" if is_modern => {
                let service = self.clone();
                Exchange::new(id, None, |outlet| service.listen(request, client, outlet))
            }
            "tools/list" => Exchange::ready(id, self.list(&request, &client).map(|(text, _)| text)),
            "server/discover" if is_modern => Exchange::ready(id, Ok(discover().to_string())),
            "ping" if !is_modern => Exchange::ready(id, Ok("{}".to_owned())),
            method => Exchange::ready(id, Err(RpcError::method_not_found(method))),
        }
    }

    /// Returns the result of `tools/list`, with the digest of the whole list.
    pub(crate) fn list(
        &self,
        request: &Request,
        client: &Client,
    ) -> Result<(String, u64), RpcError> {
        let cursor = match request.params.get("cursor") {
            None | Some("null") => None,
            Some(cursor) => Some(
                raw::string(cursor)
                    .ok_or_else(|| RpcError::invalid_params("`cursor` must be a string"))?,
            ),
        };
        let toolbox = self.toolboxes.open(&client.selection);
        let page = toolbox.page(cursor.as_deref())?;
        let next = page.next.map(|next| format!(r#","nextCursor":"{next}""#)).unwrap_or_default();
        // The list depends on the caller, and is not to be kept: a change is announced.
        let rest = if client.peer.version.is_modern() {
            format!(
                r#","ttlMs":0,"cacheScope":"private","resultType":"complete","_meta":{{"{SERVER_INFO}":{}}}"#,
                server_info()
            )
        } else {
            String::new()
        };
        Ok(([r#"{"tools":["#, page.tools, "]", &next, &rest, "}"].concat(), toolbox.digest()))
    }

    /// Handles `subscriptions/listen`: acknowledges, then notifies of each change until the gateway
    /// stops or the client ends the request.
    async fn listen(
        self: Arc<Self>,
        request: Request,
        client: Client,
        outlet: Outlet,
    ) -> Result<String, RpcError> {
        let wanted =
            request
                .params
                .get("notifications")
                .filter(|wanted| wanted.starts_with('{'))
                .ok_or_else(|| RpcError::invalid_params("`notifications` must be an object"))?;
        let wants_tools = raw::member(wanted, "toolsListChanged") == Some("true");
        let id: Value = serde_json::from_str(request.id.as_json()).unwrap_or_default();
        let meta = json!({SUBSCRIPTION: id});
        let accepted = if wants_tools { json!({"toolsListChanged": true}) } else { json!({}) };
        // Before the acknowledgment: a change after it is noticed.
        let mut watch = ListWatch::new(&self.toolboxes, client.selection, None);
        outlet.notify(
            "notifications/subscriptions/acknowledged",
            &json!({"notifications": accepted, "_meta": meta}),
        );
        loop {
            tokio::select! {
                () = self.closing.cancelled() => break,
                _ = watch.changed(&self.toolboxes), if wants_tools => {
                    outlet.notify("notifications/tools/list_changed", &json!({"_meta": meta}));
                }
            }
        }
        let meta = json!({SUBSCRIPTION: id, SERVER_INFO: server_info(), REASON: STOPPING});
        Ok(json!({"resultType": "complete", "_meta": meta}).to_string())
    }

    pub(crate) fn toolboxes(&self) -> &Arc<Toolboxes> {
        &self.toolboxes
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(super) fn approval(&self) -> ApprovalMode {
        self.settings.approval
    }

    pub(super) fn seal(&self) -> &Seal {
        &self.seal
    }

    pub(crate) fn budget(&self) -> Budget {
        self.budget
    }

    /// Token that is cancelled when the gateway begins to stop: subscriptions and idle streams end.
    pub(crate) fn closing(&self) -> &CancellationToken {
        &self.closing
    }
}

/// Capabilities of the gateway.
fn capabilities() -> Value {
    json!({"tools": {"listChanged": true}, "logging": {}})
}

/// Returns the result of `server/discover`.
fn discover() -> Value {
    json!({
        "resultType": "complete",
        "supportedVersions": Version::MODERN.map(Version::as_str),
        "capabilities": capabilities(),
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {SERVER_INFO: server_info()},
    })
}

/// Returns the result of `initialize`.
pub(crate) fn initialized(version: Version) -> String {
    let result = json!({
        "protocolVersion": version.as_str(),
        "capabilities": capabilities(),
        "serverInfo": server_info(),
    });
    result.to_string()
}

/// Reads `logging/setLevel`. Its result is an empty object.
pub(crate) fn log_level(request: &Request) -> Result<LogLevel, RpcError> {
    LogLevel::read("level", request.params.get("level"))
}

/// Result without members.
pub(crate) const EMPTY: &str = "{}";

/// Returns the notification of a changed list, for a stream of the legacy era.
pub(crate) fn list_changed() -> String {
    super::message::notification("notifications/tools/list_changed", &json!({}))
}
