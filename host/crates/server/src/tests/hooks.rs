//! Fakes of the parts that the request handlers use.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use http::StatusCode;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    Hooks, LoginOffer, LoginRefusal, RequestSettings, Settings, ShownMetrics, UserLogins,
    tests::SETTINGS,
};
use airlock_agent::{
    ApprovalList, ApprovalVerdict,
    approvals::Approvals,
    recall::{self, Recall},
    results::{self, Results},
};
use airlock_catalog::Catalog;
use airlock_core::{
    act::Actor,
    door::{Arguments, Entry, LiveKeys},
    operator::{Operator, Role},
    secret::Secret,
    tenant::Tenant,
    tool::SourceSet,
};
use airlock_fakes as fake;
use airlock_model::Models;
use airlock_operator_api::{
    DefinitionsToAccept, EventBus, LiveCalls, Management, ManagementRefusal, ManagementRequest,
    NotAccepted, NotDone, NotReloaded, OperatorHooks, Reload, Upstreams,
};
use airlock_store::{self as store, LazyDatabase, login::UserLogin};

/// Path at which no database can be made.
const NO_DATABASE: &str = "/dev/null/airlock.db";
/// Room for no results.
const NO_RESULTS: results::Settings =
    results::Settings { max_inline_bytes: 0, expire_after: Duration::ZERO, total_bytes: 0 };

/// No server acts for single users.
struct NoLogins;

impl UserLogins for NoLogins {
    fn is_secure(&self) -> bool {
        false
    }

    fn new_secret(&self) -> String {
        "secret".to_owned()
    }

    fn is_secret(&self, text: &str) -> bool {
        text == "secret"
    }

    fn find<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<LoginOffer, LoginRefusal>> {
        Box::pin(async { Err(LoginRefusal::Gone) })
    }

    fn begin<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<String, LoginRefusal>> {
        Box::pin(async { Err(LoginRefusal::Gone) })
    }

    fn submit<'a>(
        &'a self,
        _: &'a str,
        _: &'a [(String, Secret)],
    ) -> BoxFuture<'a, Result<(), LoginRefusal>> {
        Box::pin(async { Err(LoginRefusal::Gone) })
    }

    fn enter_key<'a>(&'a self, _: &'a str, _: bool) -> BoxFuture<'a, Result<(), LoginRefusal>> {
        Box::pin(async { Err(LoginRefusal::Gone) })
    }

    fn unconfirmed<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
        _: &'a str,
    ) -> BoxFuture<'a, Result<Option<LoginOffer>, LoginRefusal>> {
        Box::pin(async { Err(LoginRefusal::Gone) })
    }

    fn complete<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
        _: &'a str,
    ) -> BoxFuture<'a, Result<(), LoginRefusal>> {
        Box::pin(async { Err(LoginRefusal::Gone) })
    }

    fn list(
        &self,
        _: Option<[u8; 32]>,
        _: u32,
    ) -> BoxFuture<'_, Result<Vec<UserLogin>, LoginRefusal>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn revoke<'a>(
        &'a self,
        _: &'a str,
        _: Option<[u8; 32]>,
        _: Actor,
    ) -> BoxFuture<'a, Result<bool, LoginRefusal>> {
        Box::pin(async { Ok(false) })
    }
}

/// Returns settings of requests that keep neither results, calls nor runs.
pub(crate) fn request_settings(settings: Settings, models: Models) -> RequestSettings {
    RequestSettings {
        settings,
        models: Arc::new(models),
        agent: SETTINGS,
        budget: fake::BUDGET,
        results: Results::new(NO_RESULTS),
        recall: Recall::new(recall::Settings::new(None, None, 0)),
        runs: None,
        identity: None,
    }
}

/// Returns hooks to fake plugins, no tools and no MCP servers. They deny every call that waits. Without
/// `store`, nothing may use the database.
pub(crate) fn hooks(store: Option<store::Settings>) -> Hooks {
    with_management(store, Arc::new(Desk::default()))
}

/// Returns the same hooks with another management API.
pub(crate) fn with_management(
    store: Option<store::Settings>,
    management: Arc<dyn Management>,
) -> Hooks {
    let store = store.unwrap_or_else(|| store::Settings::new(NO_DATABASE));
    let database = LazyDatabase::new(store);
    Hooks {
        catalog: Catalog::new(),
        keys: LiveKeys::default(),
        waiting: Arc::new(Refusing),
        operators: Arc::new(operators(&database, management)),
        gauges: Vec::new(),
        metrics: ShownMetrics::new(Registry::default()),
        http: crate::HttpMetrics::new(),
        logins: Arc::new(NoLogins),
        database,
        settings_read: settings_read(),
        tls: None,
        audit_key: Box::new(|| None),
    }
}

fn operators(database: &LazyDatabase, management: Arc<dyn Management>) -> OperatorHooks {
    let events = EventBus::new();
    OperatorHooks {
        approvals: Approvals::new(database.clone()),
        live_calls: LiveCalls::new(events.clone()),
        dry_runs: None,
        replays: None,
        events,
        plugins: Arc::new(Shelf),
        upstreams: Arc::new(NoServers),
        management: Some(management),
    }
}

/// Returns the token of a gateway whose settings were read.
fn settings_read() -> CancellationToken {
    let read = CancellationToken::new();
    read.cancel();
    read
}

/// Fake plugins: changed, unchanged, refused and broken.
struct Shelf;

impl Reload for Shelf {
    fn digest(&self, client: &str) -> Option<String> {
        (client == "desk").then(|| "sha256:00".to_owned())
    }

    fn reload<'a>(&'a self, client: &'a str) -> BoxFuture<'a, Result<bool, NotReloaded>> {
        Box::pin(async move {
            match client {
                "changed" => Ok(true),
                "same" => Ok(false),
                "drifted" => Err(NotReloaded::Undecided("new tool steal".to_owned())),
                "broken" => Err(NotReloaded::Unusable("not a WebAssembly component".to_owned())),
                other => Err(NotReloaded::Unknown(other.to_owned())),
            }
        })
    }

    fn reload_all(&self) -> BoxFuture<'_, Result<Value, NotReloaded>> {
        Box::pin(async { Ok(json!({"settings": ["server.max_body"], "restart": []})) })
    }
}

/// A list of approvals from which every call is denied.
struct Refusing;

impl ApprovalList for Refusing {
    fn decide<'a>(
        &'a self,
        _: &'a Entry,
        _: &'a Arguments,
        _: &'a SourceSet,
        _: &'a Tenant,
        _: Duration,
    ) -> BoxFuture<'a, ApprovalVerdict> {
        Box::pin(async { ApprovalVerdict::Denied(None) })
    }
}

/// A gateway without MCP servers.
struct NoServers;

impl Upstreams for NoServers {
    fn reconnect<'a>(
        &'a self,
        client: &'a str,
        _: Option<usize>,
    ) -> BoxFuture<'a, Result<Vec<String>, NotDone>> {
        Box::pin(async { Err(NotDone::Unknown(client.to_owned())) })
    }

    fn refresh<'a>(&'a self, client: &'a str) -> BoxFuture<'a, Result<usize, NotDone>> {
        Box::pin(async { Err(NotDone::Unknown(client.to_owned())) })
    }

    fn definitions(&self, client: &str, _: usize, _: usize) -> Result<String, NotAccepted> {
        Err(NotAccepted::Unknown(client.to_owned()))
    }

    fn accept<'a>(
        &'a self,
        client: &'a str,
        _: DefinitionsToAccept,
        _: BoxFuture<'a, bool>,
    ) -> BoxFuture<'a, Result<Vec<String>, NotAccepted>> {
        Box::pin(async { Err(NotAccepted::Unknown(client.to_owned())) })
    }

    fn logs(&self, client: &str, _: Option<usize>) -> Result<Vec<String>, NotDone> {
        Err(NotDone::Unknown(client.to_owned()))
    }

    fn disabled(&self) -> Vec<(String, &'static str)> {
        Vec::new()
    }
}

/// Fake management API with two operators. It echoes every request, and refuses those for changes.
#[derive(Default)]
struct Desk {
    /// True once an administrator's token was used that is valid once.
    is_revoked: AtomicBool,
}

impl Management for Desk {
    fn operator(&self, token: &str) -> Option<Arc<Operator>> {
        if token == "alop_once" {
            let name = "once".to_owned();
            let operator = Operator { name, role: Role::Admin, sees_payloads: true };
            return (!self.is_revoked.swap(true, Ordering::Relaxed)).then(|| Arc::new(operator));
        }
        let role: Role = token.strip_prefix("alop_")?.parse().ok()?;
        let name = role.name().to_owned();
        Some(Arc::new(Operator { name, role, sees_payloads: false }))
    }

    fn answer<'a>(
        &'a self,
        operator: Option<&'a Operator>,
        request: ManagementRequest,
    ) -> BoxFuture<'a, Result<Value, ManagementRefusal>> {
        let echo = json!({
            "operator": operator.map(|operator| &operator.name),
            "method": request.method.as_str(),
            "path": request.path,
            "query": request.query,
            "body": request.body,
            "setup_token": request.setup_token.as_ref().map(Secret::expose),
            "has_session": request.session.is_some(),
        });
        let refused = request.path == "/api/changes";
        let status = StatusCode::IM_A_TEAPOT;
        let message = "no".to_owned();
        let refusal = ManagementRefusal { status, code: "teapot", message, retry_after: None };
        Box::pin(async move { if refused { Err(refusal) } else { Ok(echo) } })
    }
}
