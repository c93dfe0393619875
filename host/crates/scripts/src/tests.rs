use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use airlock_catalog::Catalog;
use airlock_core::{
    door::{
        Budget, CallGuards, Caller, Filter, FinishedCall, GuardedCall, ProposedCall, VirtualKey,
    },
    tenant::Tenant,
    tool::{
        Allowlist, ClientName, Content, ErrorKind, Policy, Prefix, ToolDefinition, ToolError,
        ToolName, Trust,
    },
};
use airlock_sandbox::{Binding, FailureKind, ScriptCall, ScriptError, ScriptFailure};

pub(crate) const BUDGET: Budget = Budget {
    deadline: Duration::from_secs(30),
    script: Duration::from_secs(30),
    nested_calls: 64,
    depth: 4,
    in_flight: 8,
};

/// Returns the name of the called tool for every call, and the number of an issue for a tool that declares
/// a result.
struct Echo;
impl Provider for Echo {
    fn call(&self, call: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        Box::pin(async move {
            let tool = call.tool();
            let structured = tool.output_schema.is_some().then(|| json!({"number": 1}));
            Ok(ToolOutput { structured, ..ToolOutput::text(tool.name.as_str()) })
        })
    }
}

/// Guards that count the calls about which they are asked.
#[derive(Default)]
pub(crate) struct Counting(pub(crate) AtomicUsize);

impl CallGuards for Counting {
    fn before<'g>(
        &'g self,
        _: &'g ProposedCall<'g>,
        _: Instant,
    ) -> BoxFuture<'g, Result<GuardedCall, CallError>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(async { Ok(GuardedCall::default()) })
    }

    fn looks_before(&self, _: &ProposedCall<'_>) -> bool {
        true
    }

    fn looks_after(&self, _: &ProposedCall<'_>) -> bool {
        false
    }

    fn after(
        &self,
        _: FinishedCall,
        outcome: Result<ToolOutput, CallError>,
    ) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        Box::pin(async { outcome })
    }
}

/// Fake executor that calls some tools, prints some lines, and ends with the given result.
#[derive(Default)]
struct Fake {
    calls: Vec<&'static str>,
    prints: Vec<String>,
    ends: Mutex<Option<ScriptResult>>,
    ran: Mutex<Option<Script>>,
}

impl Fake {
    fn ends(end: ScriptResult) -> Self {
        Self { ends: Mutex::new(Some(end)), ..Self::default() }
    }

    fn calling(mut self, calls: &[&'static str]) -> Self {
        self.calls = calls.to_vec();
        self
    }

    fn printing(mut self, lines: &[&str]) -> Self {
        self.prints = lines.iter().map(|line| (*line).to_owned()).collect();
        self
    }

    fn script(&self) -> Option<Script> {
        self.ran.lock().clone()
    }
}

impl Runner for Fake {
    fn run_script<'a>(
        &'a self,
        script: Script,
        chain: &'a Chain,
        calls: Arc<dyn ScriptCalls>,
    ) -> BoxFuture<'a, ScriptResult> {
        *self.ran.lock() = Some(script);
        Box::pin(async move {
            for name in &self.calls {
                let arguments = match *name {
                    "github-create-issue" => r#"{"title":"t","owner":"o"}"#,
                    "github-send" => r#"{"from":"o"}"#,
                    _ => "{}",
                };
                let tool = (*name).to_owned();
                let arguments = arguments.to_owned();
                let call = ScriptCall { tool, arguments };
                let made = calls.make(vec![call], false).await.map_err(ScriptError::Stopped)?;
                made.into_iter().collect::<Result<Vec<_>, _>>().map_err(ScriptError::Stopped)?;
            }
            for line in &self.prints {
                chain.reporter().emit(Content::text(line));
            }
            self.ends.lock().take().expect("it runs once")
        })
    }
}

pub(crate) fn client(name: &str) -> ClientName {
    ClientName::parse(name).expect("a good name")
}

pub(crate) fn open_policy(code_mode: bool) -> Policy {
    Policy {
        execute: Allowlist::All,
        auto_execute: Allowlist::All,
        code_mode,
        trust: Trust::Trusted,
        ..Policy::default()
    }
}

fn without_prefix() -> Policy {
    Policy { prefix: Prefix::Off, ..open_policy(true) }
}

pub(crate) fn publish(catalog: &Catalog, name: &str, policy: Policy, tools: &Value) {
    let definitions: Vec<ToolDefinition> =
        serde_json::from_value(tools.clone()).expect("definitions");
    catalog.add_client(&client(name), airlock_catalog::SourceKind::Internal, policy);
    let dropped = catalog.blocking_publish(&client(name), definitions, Arc::new(Echo));
    assert!(dropped.is_empty(), "{dropped:?}");
}

fn github() -> Value {
    json!([
        {"name": "create-issue", "description": "Creates an issue in a repository. Needs write access.", "inputSchema": {
            "type": "object", "required": ["title", "owner"], "properties": {
                "title": {"type": "string", "description": "One line"},
                "owner": {"type": "string"},
                "labels": {"type": "array", "items": {"type": "string"}, "description": "Names of\nlabels"},
                "state": {"enum": ["open", "closed"], "default": "open"},
                "place": {"type": "object", "required": ["path"], "properties": {
                    "path": {"type": "string", "description": "File"}, "line": {"type": "integer"}
                }},
            }
        }, "outputSchema": {"type": "object", "required": ["number"], "properties": {
            "number": {"type": "integer", "description": "Of the issue"}, "url": {"type": "string"}
        }}},
        {"name": "getUser", "inputSchema": {"type": "object", "properties": {}}},
        {"name": "send", "description": "Sends.", "inputSchema": {"type": "object", "required": ["from"], "properties": {
            "from": {"type": "string"}, "reply-to": {"type": ["string", "null"]}
        }}},
    ])
}

/// Returns a catalog with an issue tracker in code mode, a time server in code mode, and a server
/// whose tools models call directly.
pub(crate) fn catalog() -> Arc<Catalog> {
    let catalog = Catalog::new();
    publish(&catalog, "github", open_policy(true), &github());
    publish(
        &catalog,
        "clock",
        open_policy(true),
        &json!([{"name": "now", "description": "Tells the time", "inputSchema": {}}]),
    );
    publish(
        &catalog,
        "direct",
        open_policy(false),
        &json!([{"name": "secret", "inputSchema": {}}]),
    );
    catalog
}

/// Number of tools for scripts above which a view has the search.
const ABOVE: usize = 60;

fn meta_tools(layout: &Layout) -> Vec<Arc<Tool>> {
    meta::tools(layout, language::describe(ScriptLanguage::Starlark))
}

fn with_runner(runner: Arc<dyn Runner>, layout: impl Into<Layout>) -> Arc<CodeMode> {
    let runner = (ScriptLanguage::Starlark, runner);
    CodeMode::with_runners(runner, BTreeMap::new(), layout, None)
}

fn caller(
    catalog: &Catalog,
    runner: Arc<dyn Runner>,
    binding_level: BindingLevel,
    filter: &Filter,
) -> Caller {
    with_runner(runner, binding_level).install(catalog, ABOVE);
    Caller::new(catalog.snapshot().view(filter, None), Origin::Model, BUDGET)
}

async fn call(caller: &Caller, tool: &str, arguments: Value) -> Result<ToolOutput, CallError> {
    caller.admit(tool, &arguments.to_string()).expect("it is listed").run().await
}

/// Returns the text of a call that runs no script.
async fn text(catalog: &Catalog, level: BindingLevel, tool: &str, arguments: Value) -> String {
    let caller = caller(catalog, Arc::new(Fake::default()), level, &Filter::none());
    call(&caller, tool, arguments)
        .await
        .map_or_else(|error| format!("error: {error}"), |output| output.to_text())
}

async fn run(fake: Fake, code: &str) -> Result<ToolOutput, CallError> {
    let caller = caller(&catalog(), Arc::new(fake), BindingLevel::Server, &Filter::none());
    call(&caller, meta::EXECUTE, json!({"code": code})).await
}

fn failure(kind: FailureKind) -> ScriptError {
    ScriptError::Failed(ScriptFailure {
        kind,
        message: "Variable `x` not found".into(),
        line: Some(2),
        column: Some(5),
        rendered: "error: Variable `x` not found\n --> code.star:2:5\n".into(),
    })
}

#[test]
fn descriptions_of_meta_tools_match_the_file_layout() {
    let by_server = described(BindingLevel::Server);
    let by_tool = described(BindingLevel::Tool);
    assert!(
        by_server[0].contains("servers/<server>.pyi")
            && by_tool[0].contains("servers/<server>/<tool>.pyi")
    );
    insta::assert_snapshot!(by_tool[..3].join("\n\n"), @r#"
    Lists the tools that scripts can call, as a tree of virtual files: one file a tool, servers/<server>/<tool>.pyi. Call this first, then readToolFile for names and parameters, getToolDocs if they are not enough, and executeToolCode to run a script.

    Reads a virtual file: the signature of each tool, with types, on one line. Only the names and parameters listed here exist; do not guess others. File names match without regard to case. The first line tells how many lines there are; if it says that the file is complete, do not read it again in parts.

    Explains one tool in full: its whole description, every parameter with its limits, what it returns, whether it needs an approval, and an example. Use it when the signature from readToolFile is not enough.
    "#);
}

fn described(level: BindingLevel) -> Vec<String> {
    meta::tools(&Layout::from(level), language::describe(ScriptLanguage::Starlark))
        .iter()
        .map(|tool| tool.description.clone())
        .collect()
}

mod explaining;
mod files;
mod observing;
mod python;
mod reports;
mod searching;

proptest! {
    /// The tools in stubs, in docs and in the bindings of a script are the same set.
    #[test]
    fn stubs_docs_and_bindings_name_the_same_tools(names in prop::collection::btree_set("[aAbB_.\\- 1\"]{1,4}|for|\\PC{1,6}", 1..20)) {
        let tools: Vec<_> = names.iter().map(|name| json!({"name": name, "inputSchema": {}})).collect();
        let catalog = Catalog::new();
        publish(&catalog, "x", open_policy(true), &json!(tools));
        let view = catalog.snapshot().view(&Filter::none(), None);
        let namespaces = names::namespaces(view.scripted());
        let bound: BTreeSet<_> = names::bindings(&namespaces).iter().map(|binding| binding.name.clone()).collect();
        prop_assert_eq!(bound.len(), names.len());
        let file = stubs::find(&namespaces, &BindingLevel::Server.into(), "x").expect("it is there");
        let tools = file.tools();
        let rendered: Vec<_> = stub::Stub::render_all(tools.iter().map(|tool| &**tool)).into_iter().map(|stub| ShownTool { stub: Arc::new(stub), observed: None }).collect();
        let file = file.show(&rendered, stubs::LineRange::default());
        let defined = file.lines().filter_map(|line| line.strip_prefix("def ")?.split_once('('));
        prop_assert_eq!(&defined.map(|(name, _)| name.to_owned()).collect::<BTreeSet<_>>(), &bound);
        let list = stubs::list(&namespaces, &BindingLevel::Tool.into());
        let listed = list.lines().filter_map(|line| line.strip_prefix("    ")?.strip_suffix(".pyi"));
        prop_assert_eq!(&listed.map(str::to_owned).collect::<BTreeSet<_>>(), &bound);
        for name in &bound {
            let (namespace, function) = docs::find(&namespaces, "x", name).expect("it is there");
            let docs = docs::page(namespace, function, &rendered[0], true, language::describe(ScriptLanguage::Starlark));
            let head = format!("\ndef {name}() -> Any:\n");
            prop_assert!(docs.contains(&head), "{}", docs);
        }
    }
}

#[tokio::test]
async fn the_texts_of_a_server_that_is_not_trusted_are_marked() {
    let catalog = Catalog::new();
    let policy = Policy { trust: Trust::Untrusted, ..open_policy(true) };
    let tools = json!([{"name": "read", "description": "Reads\u{202e}.", "inputSchema": {}}]);
    publish(&catalog, "web", policy, &tools);
    let file =
        text(&catalog, BindingLevel::Server, "readToolFile", json!({"fileName": "web"})).await;
    let marker = "\n# [MCP Service: web (external)] Names and descriptions are the server's own\n";
    assert!(file.contains(marker) && file.contains("# Reads."), "{file}");
    let docs = json!({"server": "web", "tool": "read"});
    let docs = text(&catalog, BindingLevel::Server, "getToolDocs", docs).await;
    assert!(docs.contains("[MCP Service: web (external)] Reads.\n"), "{docs}");
}
