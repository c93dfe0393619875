//! Fakes of the parts that operators use.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    DefinitionsToAccept, EventBus, LiveCalls, Management, NotAccepted, NotDone, NotReloaded,
    OperatorApi, OperatorHooks, OperatorSettings, Reload, Upstreams,
};
use airlock_agent::{
    self as agent,
    approvals::Approvals,
    recall::{self, Recall},
    results::{self, Results},
};
use airlock_catalog::Catalog;
use airlock_core::{
    door::{ApprovalChoice, LiveKeys},
    request_memory::Memory,
};
use airlock_fakes as fake;
use airlock_http::body::BodySettings;
use airlock_requests::RequestParts;
use airlock_store::{self as store, LazyDatabase};

/// Path at which no database can be made.
const NO_DATABASE: &str = "/dev/null/airlock.db";
/// Room for no results.
const NO_RESULTS: results::Settings =
    results::Settings { max_inline_bytes: 0, expire_after: Duration::ZERO, total_bytes: 0 };
/// Settings of the agent loop.
const AGENT: agent::Settings = agent::Settings {
    max_depth: 3,
    parallel_calls: 4,
    calls_per_answer: 6,
    max_tool_bytes: 1 << 20,
    timeout: Duration::from_secs(30),
    disable_auto_tool_inject: false,
    results_as_text: agent::ResultsAsText::Auto,
    approval: ApprovalChoice::Return,
    approval_wait: Duration::from_secs(30),
    tool_mode: None,
};

pub(crate) fn settings() -> OperatorSettings {
    OperatorSettings {
        bodies: BodySettings { max_body_bytes: 10_000, read_timeout: Duration::from_secs(10) },
        requires_key: false,
        hides_page: false,
        reports: None,
    }
}

/// Returns the API of a gateway with these tools and keys, and without plugins, MCP servers and a database.
pub(crate) fn api(
    catalog: Arc<Catalog>,
    keys: LiveKeys,
    management: Option<Arc<dyn Management>>,
    settings: OperatorSettings,
) -> OperatorApi {
    let approvals = Approvals::new(LazyDatabase::new(store::Settings::new(NO_DATABASE)));
    let events = EventBus::new();
    let parts = RequestParts {
        catalog,
        keys: keys.clone(),
        models: Arc::new(fake::scripted(&json!([]))),
        agent: AGENT,
        budget: fake::BUDGET,
        results: Results::new(NO_RESULTS),
        recall: Recall::new(recall::Settings::new(None, None, 0)),
        runs: None,
        waiting: Arc::new(approvals.clone()),
        memory: Memory::new(16 << 20),
        started: Instant::now(),
        startup_wait: Duration::ZERO,
    };
    let hooks = OperatorHooks {
        approvals,
        live_calls: LiveCalls::new(events.clone()),
        dry_runs: None,
        replays: None,
        events,
        plugins: Arc::new(NoPlugins),
        upstreams: Arc::new(NoServers),
        management,
    };
    OperatorApi::new(Arc::new(hooks), keys, CancellationToken::new(), Arc::new(parts), settings)
}

/// A gateway without plugins.
struct NoPlugins;

impl Reload for NoPlugins {
    fn digest(&self, _: &str) -> Option<String> {
        None
    }

    fn reload<'a>(&'a self, client: &'a str) -> BoxFuture<'a, Result<bool, NotReloaded>> {
        Box::pin(async { Err(NotReloaded::Unknown(client.to_owned())) })
    }

    fn reload_all(&self) -> BoxFuture<'_, Result<Value, NotReloaded>> {
        Box::pin(async { Ok(json!({})) })
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

    fn logs(&self, client: &str, _: Option<usize>) -> Result<Vec<String>, NotDone> {
        Err(NotDone::Unknown(client.to_owned()))
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

    fn disabled(&self) -> Vec<(String, &'static str)> {
        Vec::new()
    }
}
