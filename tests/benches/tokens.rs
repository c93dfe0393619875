//! Tokens that a model reads before it can call a tool: definitions of all tools, against code mode's
//! meta-tools and the files that a task needs.
//!
//! `make bench-tokens` runs it; `--json` prints one document instead of tables. No model is asked:
//! tokens are counted with the tokenizer of OpenAI's models (`o200k_base`), definitions as they are
//! sent to a provider of that kind.

mod catalogue;

use std::{process::ExitCode, sync::Arc, time::Duration};

use airlock::{
    Gateway,
    catalog::{Catalog, SourceKind},
    config::Config,
    door::{Admitted, Budget, Caller, Filter, Origin, Provider, View},
    tool::{Allowlist, CallError, ClientName, Policy, Tool, ToolOutput, Trust},
};
use airlock_tests::{
    Client, Setup,
    bench::{
        self,
        report::{Cell, Report, Table},
    },
    guests,
};
use catalogue::Server;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tiktoken_rs::CoreBPE;

/// Sizes of the catalogues, in tools.
const SIZES: [usize; 9] = [2, 5, 10, 20, 30, 60, 100, 250, 500];
/// Tools that a task uses, and servers that have them.
const TASKS: [(usize, usize); 3] = [(1, 1), (3, 2), (8, 3)];
/// Results of one search.
const RESULTS: usize = 3;
const BUDGET: Budget = Budget {
    deadline: Duration::from_secs(30),
    script: Duration::from_mins(5),
    nested_calls: 0,
    depth: 1,
    in_flight: 1,
};

/// Never called.
struct Unused;
impl Provider for Unused {
    fn call(&self, _: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        Box::pin(async { Err(CallError::cancelled()) })
    }
}

/// Ways to make tools known to a model.
const WAYS: [&str; 4] = ["direct", "files by server", "files by tool", "search"];

/// Tokens of one way.
#[derive(Clone, Copy, Default)]
struct Cost {
    /// In the context when the model makes its first call, or writes its script.
    context: usize,
    /// Read by the model in all requests of the task, if nothing is cached.
    total: usize,
}

pub(super) fn main() -> ExitCode {
    bench::runtime().block_on(measure_all()).finish()
}

async fn measure_all() -> Report {
    let heading = "tokens before a task (in brackets: all requests, uncached)";
    let mut report = Report::new(heading);
    let sizes = if bench::is_full() { &SIZES[..] } else { &SIZES[..3] };
    let tokens = tiktoken_rs::o200k_base().expect("the tokenizer has its vocabulary");
    let by_server = gateway("server").await;
    let by_tool = gateway("tool").await;
    let mut measured = Vec::new();
    for size in sizes {
        measured.push(measure(&tokens, *size, &by_server, &by_tool).await);
    }
    fill(&mut report, sizes, &measured);
    for gateway in [by_server, by_tool] {
        gateway.stop().await;
    }
    report
}

/// Starts a gateway in code mode. Its own source is not in any view that is measured.
async fn gateway(level: &str) -> Gateway {
    let setup = Setup::new()
        .set("/mcp/tool_manager_config/code_mode_binding_level", level)
        .set("/mcp/tool_manager_config/code_mode_search_threshold", 0)
        .client(Client::wasm("own", guests::TEXT).code_mode());
    let config = Config::load(&setup.write()).expect("the configuration is valid");
    Gateway::builder(config).start().await.expect("the gateway starts")
}

/// Costs of every task in every way, with one catalogue, and how many tools a search found.
struct Measured {
    costs: [[Cost; WAYS.len()]; TASKS.len()],
    found: usize,
    wanted: usize,
}

async fn measure(
    tokens: &CoreBPE,
    size: usize,
    by_server: &Gateway,
    by_tool: &Gateway,
) -> Measured {
    let servers = catalogue::servers(size);
    let direct = definitions(tokens, &direct_view(&servers));
    let server_caller = scripted(by_server, &servers);
    let tool_caller = scripted(by_tool, &servers);
    let count = |text: &str| tokens.encode_ordinary(text).len();
    // The search is not offered unless it is used.
    let meta = |caller: &Caller, searches: bool| {
        let tools = caller
            .view()
            .list(&Origin::Model)
            .filter(|entry| searches || entry.tool.name.as_str() != "searchTools");
        let definitions: Vec<_> = tools.map(|entry| definition(&entry.tool)).collect();
        count(&format!("[{}]", definitions.join(",")))
    };
    let mut measured = Measured { costs: Default::default(), found: 0, wanted: 0 };
    for (costs, (used, among)) in measured.costs.iter_mut().zip(TASKS) {
        let task = task(&servers, used, among);
        costs[0] = Cost { context: direct, total: direct * (task.len() + 1) };

        for (way, caller) in [(1, &server_caller), (2, &tool_caller)] {
            let list = count(&answer(caller, "listToolFiles", json!({})).await);
            let mut paths: Vec<_> = task
                .iter()
                .map(
                    |(server, tool)| {
                        if way == 1 { (*server).to_owned() } else { format!("{server}/{tool}") }
                    },
                )
                .collect();
            paths.dedup();
            let mut files = 0;
            for path in paths {
                files += count(&answer(caller, "readToolFile", json!({"fileName": path})).await);
            }
            let definitions = meta(caller, false);
            // Requests: list, read all at once, script, result.
            costs[way] = Cost {
                context: definitions + list + files,
                total: 4 * definitions + 3 * list + 2 * files,
            };
        }

        let mut results = 0;
        for (server, tool) in &task {
            let query =
                json!({"query": format!("{} {server}", tool.replace('_', " ")), "limit": RESULTS});
            let found = answer(&server_caller, "searchTools", query).await;
            measured.found += usize::from(found.contains(&format!("def {tool}(")));
            measured.wanted += 1;
            results += count(&found);
        }
        let definitions = meta(&server_caller, true);
        // Requests: all searches at once, script, result.
        costs[3] = Cost { context: definitions + results, total: 3 * definitions + 2 * results };
    }
    measured
}

/// Chooses the tools of a task, by server: as far apart in the catalogue as possible.
fn task(servers: &[Server], used: usize, among: usize) -> Vec<(&'static str, String)> {
    let among = among.min(servers.len());
    let mut task = Vec::new();
    for (at, server) in servers.iter().take(among).enumerate() {
        let share = (used + at) / among;
        for n in 0..share.min(server.tools.len()) {
            let tool = &server.tools[n * server.tools.len() / share];
            task.push((server.name, tool["name"].as_str().expect("a name").to_owned()));
        }
    }
    task
}

fn policy(code_mode: bool) -> Policy {
    // The operator's trust leaves out the mark of texts from outside, which each definition has
    // otherwise.
    let trust = Trust::Trusted;
    Policy {
        execute: Allowlist::All,
        auto_execute: Allowlist::All,
        code_mode,
        trust,
        ..Policy::default()
    }
}

fn publish(catalog: &Catalog, name: &str, server: Option<&Server>, code_mode: bool) {
    let client = ClientName::parse(name).expect("a good name");
    catalog.add_client(&client, SourceKind::Server("stdio"), policy(code_mode));
    let tools = server.map(Server::definitions).unwrap_or_default();
    let dropped = catalog.blocking_publish(&client, tools, Arc::new(Unused));
    assert!(dropped.is_empty(), "{dropped:?}");
}

/// Returns a view whose tools models call directly.
fn direct_view(servers: &[Server]) -> View {
    let catalog = Catalog::new();
    for server in servers {
        publish(&catalog, server.name, Some(server), false);
    }
    catalog.snapshot().view(&Filter::none(), None)
}

/// Returns a model in code mode that sees these servers alone.
fn scripted(gateway: &Gateway, servers: &[Server]) -> Caller {
    for name in catalogue::names() {
        publish(gateway.catalog(), name, servers.iter().find(|server| server.name == name), true);
    }
    let names: Vec<_> = servers.iter().map(|server| server.name).collect();
    let filter = Filter::parse(Some(&names.join(",")), None);
    Caller::new(gateway.catalog().snapshot().view(&filter, None), Origin::Model, BUDGET)
}

fn definitions(tokens: &CoreBPE, view: &View) -> usize {
    let tools: Vec<_> = view.list(&Origin::Model).map(|entry| definition(&entry.tool)).collect();
    tokens.encode_ordinary(&format!("[{}]", tools.join(","))).len()
}

/// Returns a tool as it is sent to a provider of kind `openai`.
fn definition(tool: &Tool) -> String {
    let [name, description] = [tool.name.as_str(), &tool.described()].map(Value::from);
    let parameters = tool.parameters();
    format!(
        "{{\"type\":\"function\",\"function\":{{\"name\":{name},\"description\":{description},\"parameters\":{parameters}}}}}"
    )
}

/// Calls a meta-tool and returns its text.
async fn answer(caller: &Caller, tool: &str, arguments: Value) -> String {
    let admitted = caller.admit(tool, &arguments.to_string()).expect("it is offered");
    admitted.run().await.expect("it answers").to_text()
}

fn fill(report: &mut Report, sizes: &[usize], measured: &[Measured]) {
    for (at, (used, among)) in TASKS.into_iter().enumerate() {
        let title = format!("{used} tools of {among} servers, in a catalogue of");
        let mut table = Table::new(title, &WAYS);
        for (size, measured) in sizes.iter().zip(measured) {
            let cells = measured.costs[at]
                .map(|cost| Cell::Text(format!("{} ({})", cost.context, cost.total)));
            table.row(size.to_string(), cells);
        }
        let even = |of: fn(Cost) -> usize| {
            let ways = (1..WAYS.len()).map(move |way| break_even(sizes, measured, at, way, of));
            ways.map(Cell::Text)
        };
        let context = even(|cost| cost.context);
        table.row("cheaper than direct from", [Cell::Empty].into_iter().chain(context));
        let total = even(|cost| cost.total);
        table.row("all requests from", [Cell::Empty].into_iter().chain(total));
        report.table(table);
    }
    let found: usize = measured.iter().map(|measured| measured.found).sum();
    let wanted: usize = measured.iter().map(|measured| measured.wanted).sum();
    report
        .note(format!("searches whose first {RESULTS} results have the tool: {found} of {wanted}"));
}

/// Returns the number of tools from which a way costs less than direct definitions, between the sizes
/// that were measured by their straight line.
fn break_even(
    sizes: &[usize],
    measured: &[Measured],
    task: usize,
    way: usize,
    of: fn(Cost) -> usize,
) -> String {
    let lead = |at: usize| {
        let costs = &measured[at].costs[task];
        let [direct, other] =
            [costs[0], costs[way]].map(|cost| i64::try_from(of(cost)).expect("few tokens"));
        direct - other
    };
    let size = |at: usize| i64::try_from(sizes[at]).expect("few tools");
    let Some(first) = (0..sizes.len()).find(|at| (*at..sizes.len()).all(|at| lead(at) > 0)) else {
        return format!("more than {}", sizes[sizes.len() - 1]);
    };
    let Some(before) = first.checked_sub(1) else { return sizes[0].to_string() };
    let low = lead(before);
    let high = lead(first);
    let from = size(before) + (size(first) - size(before)) * -low / (high - low) + 1;
    from.min(size(first)).to_string()
}
