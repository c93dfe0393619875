//! Gateways that run the scripts of one language, with and without a journal.

use std::{collections::BTreeMap, hint::black_box, sync::Arc, time::Duration};

use airlock::{
    Gateway,
    catalog::{Catalog, SourceKind},
    config::Config,
    door::{Admitted, Budget, Caller, Filter, Origin, Provider, View},
    tool::{Allowlist, Answers, CallError, ClientName, Policy, ToolOutput, Trust},
};
use airlock_tests::{Client, Setup, guests};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use crate::{
    timed,
    work::{Row, SIZES},
};

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

    fn caller(&self, row: &Row) -> Caller {
        let view = &self.views[usize::from(row.has_journal)][&row.tools];
        Caller::new(view.clone(), Origin::Caller, BUDGET)
    }

    /// Runs a script as its own request. Returns its time and its fuel.
    pub(crate) async fn run(&self, row: &Row, source: &str) -> (Duration, u64) {
        let caller = self.caller(row);
        let arguments = json!({"code": source}).to_string();
        let work = async { caller.admit("executeToolCode", &arguments)?.run().await };
        let (took, ended) = timed(work).await;
        black_box(ended.unwrap_or_else(|error| panic!("{source}: {error}")));
        (took, caller.ledger().records()[0].fuel.unwrap_or(0))
    }

    /// Runs a script that stops for an approval, approves its calls and goes on.
    pub(crate) async fn suspended_and_resumed(&self, row: &Row) -> Duration {
        let arguments = json!({"code": row.source}).to_string();
        let work = async {
            let stopped = self.caller(row).admit("executeToolCode", &arguments)?.run().await;
            let suspension = stopped.as_ref().err().and_then(CallError::suspension);
            let Some(token) = suspension.map(|suspension| suspension.token.clone()) else {
                return stopped;
            };
            let answers = Answers { token, given: BTreeMap::new() };
            self.caller(row).resume("executeToolCode", &arguments, answers)?.run().await
        };
        let (took, ended) = timed(work).await;
        black_box(ended.unwrap_or_else(|error| panic!("{}: {error}", row.source)));
        took
    }

    /// Calls a tool without a script.
    pub(crate) async fn tool(&self, name: &str) -> Duration {
        let view = &self.views[0][&SIZES[0]];
        let caller = Caller::new(view.clone(), Origin::Caller, BUDGET);
        let (took, ended) = timed(async { caller.admit(name, "{}")?.run().await }).await;
        black_box(ended.unwrap_or_else(|error| panic!("{name}: {error}")));
        took
    }
}

async fn start(language: &str, has_journal: bool) -> (Views, Kept) {
    let setup = Setup::new()
        .set("/mcp/tool_manager_config/code_mode_language", language)
        .set("/mcp/tool_manager_config/code_mode_journal", has_journal)
        .client(Client::wasm("noop", guests::NOOP).auto(&["ok"]).code_mode());
    let config = Config::load(&setup.write()).expect("the configuration is valid");
    let gateway = Gateway::builder(config).start().await.expect("the gateway starts");
    let servers: Vec<_> = (1..SIZES[2] / TOOLS).map(|n| format!("server_{n}")).collect();
    publish(gateway.catalog(), "bench", true);
    publish(gateway.catalog(), "asked", false);
    for server in &servers {
        publish(gateway.catalog(), server, true);
    }
    let view = |tools: usize| {
        let others = servers[..tools / TOOLS - 1].iter().map(|server| format!(",{server}"));
        let names = format!("bench,asked,noop{}", others.collect::<String>());
        let filter = Filter::parse(Some(&names), None);
        (tools, gateway.catalog().snapshot().view(&filter, None))
    };
    (SIZES.map(view).into(), Kept { gateway, _setup: setup })
}

/// Publishes a server with [`TOOLS`] tools, of which `read` only reads.
fn publish(catalog: &Catalog, name: &str, is_auto: bool) {
    let client = ClientName::parse(name).expect("a good name");
    let auto_execute = if is_auto { Allowlist::All } else { Allowlist::default() };
    let policy = Policy {
        execute: Allowlist::All,
        auto_execute,
        code_mode: true,
        trust: Trust::Trusted,
        ..Policy::default()
    };
    catalog.add_client(&client, SourceKind::Server("stdio"), policy);
    let tool = |name: &str, reads: bool| {
        json!({
            "name": name, "description": "Does nothing.", "inputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": reads},
        })
    };
    let mut tools = vec![tool("read", true), tool("write", false)];
    tools.extend((2..TOOLS).map(|n| tool(&format!("list_things_{n}"), true)));
    let tools = serde_json::from_value(Value::from(tools)).expect("definitions");
    let dropped = catalog.blocking_publish(&client, tools, Arc::new(Instant));
    assert!(dropped.is_empty(), "{dropped:?}");
}
