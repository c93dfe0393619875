//! Gateways that run the scripts of one language, with and without a journal.

use std::{collections::BTreeMap, hint::black_box, sync::Arc, time::Duration};

use airlock::{
    Gateway,
    catalog::SourceKind,
    config::Config,
    door::{Admitted, Budget, Caller, Filter, Origin, Provider, View},
    tool::{Allowlist, Answers, CallError, ClientName, Policy, ToolOutput, Trust},
};
use airlock_tests::{Client, Setup, guests};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use super::{
    timed,
    work::{Row, SIZES},
};

/// The tool that runs scripts.
pub(crate) const EXECUTE: &str = "executeToolCode";
/// Tools of each server.
const TOOLS: usize = 10;
/// Calls that a script may make: more than any row does.
const BUDGET: Budget = Budget {
    deadline: Duration::from_secs(30),
    script: Duration::from_mins(5),
    nested_calls: 200,
    depth: 4,
    in_flight: 8,
};

/// Tools that return at once.
struct Instant;

impl Provider for Instant {
    fn call(&self, call: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        drop(black_box(call));
        Box::pin(async { Ok(ToolOutput::text("ok")) })
    }
}

/// A gateway that runs.
pub(crate) struct Kept {
    gateway: Gateway,
    // Owns the directory of the components.
    _setup: Setup,
}

impl Kept {
    /// Starts a gateway that runs scripts of a language, with a plugin and with what `change` adds.
    pub(crate) async fn start(
        language: &str,
        has_journal: bool,
        change: impl FnOnce(Setup) -> Setup,
    ) -> Self {
        let setup = Setup::new()
            .set("/mcp/tool_manager_config/code_mode_language", language)
            .set("/mcp/tool_manager_config/code_mode_journal", has_journal)
            .client(Client::wasm("noop", guests::NOOP).auto(&["ok"]).code_mode());
        let setup = change(setup);
        let config = Config::load(&setup.write()).expect("the configuration is valid");
        let gateway = Gateway::builder(config).start().await.expect("the gateway starts");
        Self { gateway, _setup: setup }
    }

    /// Publishes a server whose tools return at once. Its calls need an approval unless it `is_auto`.
    pub(crate) fn publish(&self, name: &str, trust: Trust, is_auto: bool, tools: Value) {
        let client = ClientName::parse(name).expect("a good name");
        let auto_execute = if is_auto { Allowlist::All } else { Allowlist::default() };
        let policy = Policy {
            execute: Allowlist::All,
            auto_execute,
            code_mode: true,
            trust,
            ..Policy::default()
        };
        let catalog = self.gateway.catalog();
        catalog.add_client(&client, SourceKind::Server("stdio"), policy);
        let tools = serde_json::from_value(tools).expect("definitions");
        let dropped = catalog.blocking_publish(&client, tools, Arc::new(Instant));
        assert!(dropped.is_empty(), "{dropped:?}");
    }

    /// Returns the view of some clients, with commas between their names.
    pub(crate) fn view(&self, clients: &str) -> View {
        self.gateway.catalog().snapshot().view(&Filter::parse(Some(clients), None), None)
    }

    pub(crate) async fn stop(self) {
        self.gateway.stop().await;
    }
}

/// Views of the tools, by their number.
type Views = BTreeMap<usize, View>;

/// The views of one language.
pub(crate) struct Stage {
    /// Without and with a journal.
    views: [Views; 2],
}

impl Stage {
    /// Starts the gateways of a language.
    pub(crate) async fn start(language: &str) -> (Self, [Kept; 2]) {
        let (without, kept) = start(language, false).await;
        let (with, also_kept) = start(language, true).await;
        (Self { views: [without, with] }, [kept, also_kept])
    }

    fn view(&self, row: &Row) -> &View {
        &self.views[usize::from(row.has_journal)][&row.tools]
    }

    /// Runs a script as its own request. Returns its time and its fuel.
    pub(crate) async fn run(&self, row: &Row, source: &str) -> (Duration, u64) {
        run(self.view(row), source).await
    }

    /// Runs a script that stops for an approval, approves its calls and goes on.
    pub(crate) async fn suspended_and_resumed(&self, row: &Row) -> Duration {
        let view = self.view(row);
        let arguments = arguments(row.source);
        let work = async {
            let stopped = caller(view).admit(EXECUTE, &arguments)?.run().await;
            let suspension = stopped.as_ref().err().and_then(CallError::suspension);
            let Some(token) = suspension.map(|suspension| suspension.token.clone()) else {
                return stopped;
            };
            let answers = Answers { token, given: BTreeMap::new() };
            caller(view).resume(EXECUTE, &arguments, answers)?.run().await
        };
        let (took, ended) = timed(work).await;
        black_box(ended.unwrap_or_else(|error| panic!("{}: {error}", row.source)));
        took
    }

    /// Calls a tool without a script.
    pub(crate) async fn tool(&self, name: &str) -> Duration {
        let caller = caller(&self.views[0][&SIZES[0]]);
        let (took, ended) = timed(async { caller.admit(name, "{}")?.run().await }).await;
        black_box(ended.unwrap_or_else(|error| panic!("{name}: {error}")));
        took
    }
}

/// Runs a script as its own request. Returns its time and its fuel.
pub(crate) async fn run(view: &View, source: &str) -> (Duration, u64) {
    let caller = caller(view);
    let arguments = arguments(source);
    let work = async { caller.admit(EXECUTE, &arguments)?.run().await };
    let (took, ended) = timed(work).await;
    black_box(ended.unwrap_or_else(|error| panic!("{source}: {error}")));
    (took, caller.ledger().records()[0].fuel.unwrap_or(0))
}

/// Runs a script until it stops for an approval. Returns its time, and the tool of the call that waits.
pub(crate) async fn run_until_pending(view: &View, source: &str) -> (Duration, String) {
    let caller = caller(view);
    let arguments = arguments(source);
    let work = async { caller.admit(EXECUTE, &arguments)?.run().await };
    let (took, ended) = timed(work).await;
    let waiting = ended.as_ref().err().and_then(CallError::suspension);
    let waiting = waiting.and_then(|suspension| suspension.pending.first());
    let Some(call) = waiting else {
        panic!("{source}: it waits for nothing, and ends as {ended:?}")
    };
    (took, call.tool.clone())
}

fn caller(view: &View) -> Caller {
    Caller::new(view.clone(), Origin::Caller, BUDGET)
}

fn arguments(source: &str) -> String {
    json!({"code": source}).to_string()
}

async fn start(language: &str, has_journal: bool) -> (Views, Kept) {
    let kept = Kept::start(language, has_journal, |setup| setup).await;
    let servers: Vec<_> = (1..SIZES[2] / TOOLS).map(|n| format!("server_{n}")).collect();
    kept.publish("bench", Trust::Trusted, true, tools());
    kept.publish("asked", Trust::Trusted, false, tools());
    for server in &servers {
        kept.publish(server, Trust::Trusted, true, tools());
    }
    let view = |tools: usize| {
        let others = servers[..tools / TOOLS - 1].iter().map(|server| format!(",{server}"));
        (tools, kept.view(&format!("bench,asked,noop{}", others.collect::<String>())))
    };
    (SIZES.map(view).into(), kept)
}

/// Returns the definitions of the [`TOOLS`] tools of a server, of which `read` only reads.
fn tools() -> Value {
    let mut tools = vec![tool("read", true), tool("write", false)];
    tools.extend((2..TOOLS).map(|n| tool(&format!("list_things_{n}"), true)));
    tools.into()
}

fn tool(name: &str, reads: bool) -> Value {
    json!({
        "name": name, "description": "Does nothing.", "inputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": reads},
    })
}
