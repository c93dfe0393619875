//! The gateway as an MCP server: what all requests share, and the results that it has at once.

use std::{sync::Arc, time::Duration};

use parking_lot::RwLock;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::{
    approval::Seal,
    exchange::{Asks, Outlet},
    meta::{self, LogLevel, Peer},
    metrics::ServerTimes,
    offers::{OfferList, Offering},
    result::{SERVER_INFO, server_info},
    settings::{ApprovalMode, Settings},
    subscriptions::Subscriptions,
    tasks::Tasks,
    toolbox::{Selection, Toolbox, Toolboxes},
    watch::{Known, ListKind},
};
use airlock_agent::approvals::Approvals;
use airlock_catalog::Catalog;
use airlock_core::door::{Budget, SessionSources};
use airlock_json::raw;
use airlock_wire::{error::RpcError, message::Request, method, version::Version};

/// Reason that streams end when the gateway stops.
pub const STOPPING: &str = "the gateway is stopping";

/// The gateway as an MCP server, without a transport. Its settings do not change: a change makes another
/// service of the same parts.
pub struct McpService {
    terms: ServiceTerms,
    parts: Arc<ServiceParts>,
    /// Cancelled when the gateway begins to stop, and that of a connection also when its input has ended.
    closing: CancellationToken,
}

/// Settings of a service.
#[derive(Clone)]
struct ServiceTerms {
    budget: Budget,
    settings: Settings,
}

/// The parts that live as long as the gateway.
struct ServiceParts {
    /// The terms of requests that begin now.
    latest: RwLock<ServiceTerms>,
    toolboxes: Arc<Toolboxes>,
    seal: Seal,
    /// Calls that wait for an approval; `None` if there is no such list.
    approvals: Option<Approvals>,
    /// Calls that clients follow as tasks.
    tasks: Arc<Tasks>,
    /// Time until which lists wait for sources that have never been listed.
    settles: Instant,
    times: Arc<ServerTimes>,
}

/// Time after its start for which the gateway waits for sources that have never been listed, before a
/// list is given without them.
const SETTLE: Duration = Duration::from_secs(10);

/// Client of a request.
#[derive(Clone)]
pub struct Requester {
    /// The tools that it asks for.
    pub selection: Selection,
    /// Its revision and capabilities.
    pub peer: Peer,
    /// Name that it gives itself, if it gives one.
    pub name: Option<Arc<str>>,
    /// Time that a call may take.
    pub timeout: Duration,
    /// The gateway's requests to it; `None` if it cannot respond to them.
    pub asks: Option<Arc<Asks>>,
    /// Sources whose results it has received in its session.
    pub received: SessionSources,
}

impl Requester {
    /// Creates the client of a request outside of a session: it has no name, cannot be asked, and has received
    /// nothing that the gateway knows of.
    pub fn new(selection: Selection, peer: Peer, timeout: Duration) -> Self {
        let received = SessionSources::default();
        Self { selection, peer, name: None, timeout, asks: None, received }
    }
}

/// A request that is handled, with what its handler needs.
pub(super) struct Incoming {
    pub(super) service: Arc<McpService>,
    pub(super) client: Requester,
    pub(super) request: Request,
    pub(super) outlet: Outlet,
}

/// Result of a request for a page of a list.
pub struct ListedPage {
    /// JSON text.
    pub text: String,
    /// The list that the client knows now.
    pub known: Known,
}

impl McpService {
    /// Creates the service of the tools of a catalog.
    pub fn new(
        catalog: Arc<Catalog>,
        budget: Budget,
        settings: Settings,
        approvals: Option<Approvals>,
    ) -> Arc<Self> {
        let terms = ServiceTerms { budget, settings };
        let parts = ServiceParts {
            latest: RwLock::new(terms.clone()),
            toolboxes: Arc::new(Toolboxes::new(catalog)),
            seal: Seal::new(),
            approvals,
            tasks: Arc::default(),
            settles: Instant::now() + SETTLE,
            times: Arc::default(),
        };
        Arc::new(Self { terms, parts: Arc::new(parts), closing: CancellationToken::new() })
    }

    /// Changes the settings. Returns the service of requests that begin from now on; those under way keep
    /// theirs.
    #[must_use]
    pub fn with_settings(&self, budget: Budget, settings: Settings) -> Arc<Self> {
        let terms = ServiceTerms { budget, settings };
        *self.parts.latest.write() = terms.clone();
        Arc::new(Self { terms, parts: self.parts.clone(), closing: self.closing.clone() })
    }

    /// Returns the service of one connection: the end of its input ends the subscriptions of its own client alone.
    pub(super) fn of_connection(&self) -> Arc<Self> {
        let terms = self.terms.clone();
        Arc::new(Self { terms, parts: self.parts.clone(), closing: self.closing.child_token() })
    }

    /// Returns the service of a request that begins now, for a connection that lasts longer than its
    /// settings.
    pub(super) fn latest(&self) -> Arc<Self> {
        let terms = self.parts.latest.read().clone();
        Arc::new(Self { terms, parts: self.parts.clone(), closing: self.closing.clone() })
    }

    /// Returns the times of requests and sessions.
    pub fn times(&self) -> &Arc<ServerTimes> {
        &self.parts.times
    }

    /// Returns the result of a request for a page of a list. Fails if the list is not offered.
    pub fn list(&self, request: &Request, client: &Requester) -> Result<ListedPage, RpcError> {
        let cursor = match request.params.get("cursor") {
            None | Some("null") => None,
            Some(cursor) => Some(
                raw::string(cursor)
                    .ok_or_else(|| RpcError::invalid_params("`cursor` must be a string"))?,
            ),
        };
        let toolbox = self.parts.toolboxes.open(&client.selection);
        let offering = toolbox.offering();
        let (member, list) = match request.method.as_str() {
            method::RESOURCES_LIST => ("resources", Some(OfferList::Resources)),
            method::TEMPLATES_LIST => ("resourceTemplates", Some(OfferList::Templates)),
            method::PROMPTS_LIST => ("prompts", Some(OfferList::Prompts)),
            _ => ("tools", None),
        };
        let page = match list {
            None => toolbox.page(cursor.as_deref())?,
            Some(list) if offering.has(list) => offering.page(list, cursor.as_deref())?,
            Some(_) => return Err(RpcError::method_not_found(&request.method)),
        };
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
        let text = ["{\"", member, "\":[", page.items, "]", &next, &rest, "}"].concat();
        let known = Known::read(&toolbox, list);
        Ok(ListedPage { text, known })
    }

    /// Returns the result of `server/discover`.
    pub(super) fn discover(&self, selection: &Selection) -> String {
        let toolbox = self.parts.toolboxes.open(selection);
        let mut result = json!({
            "resultType": "complete",
            "supportedVersions": Version::MODERN.map(Version::as_str),
            "capabilities": capabilities(toolbox.offering(), Version::LATEST),
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": {SERVER_INFO: server_info()},
        });
        if let Some(instructions) = toolbox.offering().instructions() {
            result["instructions"] = instructions.into();
        }
        result.to_string()
    }

    /// Returns the result of `initialize`.
    pub fn initialized(&self, version: Version, selection: &Selection) -> String {
        let toolbox = self.parts.toolboxes.open(selection);
        let mut result = json!({
            "protocolVersion": version.as_str(),
            "capabilities": capabilities(toolbox.offering(), version),
            "serverInfo": server_info(),
        });
        if let Some(instructions) = toolbox.offering().instructions() {
            result["instructions"] = instructions.into();
        }
        result.to_string()
    }

    /// Handles `resources/subscribe` and `resources/unsubscribe` of the legacy era.
    pub fn change_subscription(
        &self,
        request: &Request,
        client: &Requester,
        subscriptions: &Subscriptions,
    ) -> Result<String, RpcError> {
        let toolbox = self.parts.toolboxes.open(&client.selection);
        let offering = toolbox.offering();
        if request.method == method::RESOURCES_UNSUBSCRIBE {
            subscriptions.unsubscribe(offering, request)?;
        } else {
            subscriptions.subscribe(offering, request, client.peer.version)?;
        }
        Ok(EMPTY_RESULT.to_owned())
    }

    /// Ends the subscriptions to resources that a selection may not read. They stay while all tools are
    /// switched off, which hides all resources for a time.
    pub fn restrict_subscriptions(&self, selection: &Selection, subscriptions: &Subscriptions) {
        let toolboxes = &self.parts.toolboxes;
        // The toolbox may have a view from before the last change of the switch.
        let is_off = toolboxes.catalog().snapshot().is_switched_off();
        let toolbox = toolboxes.open(selection);
        if !is_off && !toolbox.view().is_switched_off() {
            subscriptions.restrict(toolbox.offering());
        }
    }

    /// Waits for the sources that a selection may have and that have never been listed, during the
    /// first seconds after the start.
    pub async fn settled(&self, selection: &Selection) {
        let catalog = self.parts.toolboxes.catalog();
        catalog
            .settled(self.parts.settles, |client| self.parts.toolboxes.may_have(selection, client))
            .await;
    }

    /// Returns the tools of a client, and waits until `name` is among them or no source is left that
    /// may still have it: at its first start a component is compiled, which takes seconds.
    pub(super) async fn toolbox_with(&self, client: &Requester, name: &str) -> Arc<Toolbox> {
        let toolboxes = &self.parts.toolboxes;
        let catalog = self.parts.toolboxes.catalog();
        let deadline = Instant::now() + client.timeout;
        let toolbox = toolboxes.open(&client.selection);
        if is_complete(&toolbox, client, name) {
            return toolbox;
        }
        let mut changes = catalog.changes();
        loop {
            let toolbox = toolboxes.open(&client.selection);
            if is_complete(&toolbox, client, name) {
                return toolbox;
            }
            // Meta-tools use the tools of all sources, which they have not at once.
            let limit = if toolbox.find(name).is_some() { self.parts.settles } else { deadline };
            if !matches!(timeout_at(limit, changes.changed()).await, Ok(Ok(()))) {
                return toolboxes.open(&client.selection);
            }
        }
    }

    /// Returns the cached lists of tools.
    pub fn toolboxes(&self) -> &Arc<Toolboxes> {
        &self.parts.toolboxes
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.terms.settings
    }

    /// Returns how a client's calls that need an approval are handled.
    pub(super) fn approval(&self, client: &Requester) -> ApprovalMode {
        let key = client.selection.key.as_deref().map(|key| key.name.as_str());
        let rules = &self.terms.settings.approval_rules;
        let rule = rules.iter().find(|rule| rule.applies(key, client.name.as_deref()));
        rule.map_or(self.terms.settings.approval, |rule| rule.approval)
    }

    /// Calls that clients follow as tasks.
    pub(super) fn tasks(&self) -> &Arc<Tasks> {
        &self.parts.tasks
    }

    /// The list of pending approvals; `None` if there is none.
    pub(super) fn approvals(&self) -> Option<&Approvals> {
        self.parts.approvals.as_ref()
    }

    pub(super) fn seal(&self) -> &Seal {
        &self.parts.seal
    }

    pub(crate) fn budget(&self) -> Budget {
        self.terms.budget
    }

    /// Token that is cancelled when the gateway begins to stop: subscriptions and idle streams end.
    pub fn closing(&self) -> &CancellationToken {
        &self.closing
    }
}

/// Capabilities of the gateway. Those for resources and prompts are there only for a client that
/// may use some.
fn capabilities(offering: &Offering, version: Version) -> Value {
    let mut capabilities = json!({"tools": {"listChanged": true}, "logging": {}});
    if version.is_modern() {
        capabilities["extensions"] = json!({meta::TASKS: {}});
    } else if version == Version::V2025_11_25 {
        capabilities["tasks"] = json!({"cancel": {}, "requests": {"tools": {"call": {}}}});
    }
    let resources = offering.has(OfferList::Resources);
    let prompts = offering.has(OfferList::Prompts);
    if resources {
        capabilities["resources"] = json!({"subscribe": true, "listChanged": true});
    }
    if prompts {
        capabilities["prompts"] = json!({"listChanged": true});
    }
    if resources || prompts {
        capabilities["completions"] = json!({});
    }
    capabilities
}

/// Reads `logging/setLevel`. Its result is an empty object.
pub fn requested_log_level(request: &Request) -> Result<LogLevel, RpcError> {
    meta::log_level("level", request.params.get("level"))
}

/// Result without members.
pub const EMPTY_RESULT: &str = "{}";

/// Returns the notification of a changed list, for a stream of the legacy era.
pub fn list_changed(list: ListKind) -> String {
    airlock_wire::message::notification(list.notification(), &json!({}))
}

/// Returns whether a toolbox has the tool of this name and all tools that it uses, or no source that may still have them
/// was left when it was made. One of an older catalog without the tool is not complete: the last source may have
/// connected since.
fn is_complete(toolbox: &Toolbox, client: &Requester, name: &str) -> bool {
    toolbox.find(name).is_some_and(|entry| entry.tool.client.is_some())
        || !toolbox.may_be_incomplete(&client.selection)
}

/// Returns the notification of a changed resource, for a stream of the legacy era.
pub fn resource_updated(uri: &str) -> String {
    airlock_wire::message::notification(method::RESOURCE_UPDATED, &json!({"uri": uri}))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: Budget = Budget {
        deadline: Duration::from_secs(1),
        script: Duration::from_secs(1),
        nested_calls: 1,
        depth: 1,
        in_flight: 1,
    };

    #[test]
    fn a_connection_has_the_latest_settings_and_a_request_those_with_which_it_began() {
        let opened = McpService::new(Catalog::new(), BUDGET, Settings::default(), None);
        let settings = Settings { approval: ApprovalMode::Never, ..Settings::default() };
        let budget = Budget { nested_calls: 2, ..BUDGET };
        let replaced = opened.with_settings(budget, settings);
        assert_eq!(opened.settings().approval, ApprovalMode::Elicit);
        for now in [replaced, opened.latest()] {
            assert_eq!(now.settings().approval, ApprovalMode::Never);
            assert_eq!(now.budget(), budget);
            assert!(Arc::ptr_eq(now.toolboxes(), opened.toolboxes()));
        }
    }

    #[test]
    fn a_connection_that_closes_closes_no_other_and_the_gateway_closes_all() {
        let gateway = McpService::new(Catalog::new(), BUDGET, Settings::default(), None);
        let first = gateway.of_connection();
        let second = gateway.of_connection();
        first.closing().cancel();
        assert!(first.latest().closing().is_cancelled());
        assert!(!gateway.closing().is_cancelled() && !second.closing().is_cancelled());
        gateway.with_settings(BUDGET, Settings::default()).closing().cancel();
        assert!(second.latest().closing().is_cancelled());
    }
}
