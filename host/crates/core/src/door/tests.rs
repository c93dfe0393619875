use std::{
    any::Any,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::json;

use super::*;
use crate::tool::{
    Allowlist, Answers, CallError, ClientName, Content, Details, Exclusions, HostCode, Policy,
    ReachedLimit, SourceSet, Tool, ToolDefinition, ToolOutput, client,
};

mod arguments;
mod properties;

/// Returns the name of the tool that was called.
struct Echo;
impl Provider for Echo {
    fn call(&self, call: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        async move { Ok(ToolOutput::text(call.tool().name.as_str())) }.boxed()
    }
}

const CLIENTS: [&str; 3] = ["alpha", "beta", "gamma"];
const TOOLS: [&str; 4] = ["read", "write", "a-b", "a_b"];
const BUDGET: Budget = Budget {
    deadline: Duration::from_secs(30),
    script: Duration::from_secs(30),
    nested_calls: 3,
    depth: 3,
    in_flight: 8,
};

/// Sources in the form in which the catalog keeps them.
struct Sources {
    clients: Vec<(ClientName, Policy, Vec<Arc<Tool>>)>,
    echo: Arc<dyn Provider>,
    meta_tools: OwnTools,
    unaccepted: BTreeSet<String>,
}

impl Sources {
    fn view(&self, filter: &Filter, key: Option<&VirtualKey>) -> View {
        let sources = self.clients.iter();
        let sources = sources.map(|(client, policy, tools)| Source {
            client,
            policy,
            tools,
            unaccepted: &self.unaccepted,
            provider: &self.echo,
            is_server: client.as_str() == CLIENTS[0],
            is_switched_off: false,
        });
        View::new(sources, Some(&self.meta_tools), filter, key)
    }
}

fn sources(policies: &[Policy]) -> Sources {
    let echo: Arc<dyn Provider> = Arc::new(Echo);
    let clients = CLIENTS.iter().zip(policies).map(|(name, policy)| {
        let tools = TOOLS.iter().map(|tool| {
            let definition: ToolDefinition =
                serde_json::from_value(json!({"name": tool, "inputSchema": {}})).expect("a tool");
            Arc::new(Tool::adopt(&client(name), definition).expect("a good tool"))
        });
        (client(name), policy.clone(), tools.collect())
    });
    let run = Tool::own("executeToolCode", "", json!({"type": "object"}));
    let meta_tools = OwnTools { tools: vec![Arc::new(run)], provider: echo.clone() };
    Sources { clients: clients.collect(), echo, meta_tools, unaccepted: BTreeSet::new() }
}

fn caller(sources: &Sources, filter: &Filter, key: Option<&VirtualKey>, origin: Origin) -> Caller {
    Caller::new(sources.view(filter, key), origin, BUDGET)
}

fn open_policy(code_mode: bool) -> Policy {
    Policy { execute: Allowlist::All, auto_execute: Allowlist::All, code_mode, ..Policy::default() }
}

#[test]
fn a_request_that_began_before_the_tools_were_switched_off_makes_no_further_call() {
    let sources = sources(&[open_policy(false), open_policy(true)]);
    let switch = ToolSwitch::default();
    let view = sources.view(&Filter::none(), None).with_switch(switch.clone());
    let model = Caller::new(view, Origin::Model, BUDGET);
    let script = model.admit("executeToolCode", "").expect("it is listed");
    assert!(switch.set_off(true) && !switch.set_off(true));
    let answers = Answers { token: String::new(), given: BTreeMap::new() };
    let resumed = model.resume("alpha-read", "", answers).map(drop);
    for decided in [direct(&model, "alpha-read"), scripted(&script, "beta-read"), resumed] {
        assert_eq!(decided.expect_err("refused").code(), HostCode::ToolsDisabled);
    }
    let asked = model.needs_approval("alpha-read").expect_err("refused");
    assert_eq!(asked.code(), HostCode::ToolsDisabled);
    // Also a tool that does not exist: one reason for every call.
    assert_eq!(direct(&model, "no-tool").expect_err("refused").code(), HostCode::ToolsDisabled);
    switch.set_off(false);
    assert!(direct(&model, "alpha-read").is_ok() && scripted(&script, "beta-read").is_ok());
}

#[test]
fn a_default_policy_lists_no_tools() {
    let sources = sources(&vec![Policy::default(); 3]);
    let client = Origin::McpClient(Approval::Given);
    for origin in [Origin::Model, Origin::Script, Origin::Caller, client] {
        assert_eq!(caller(&sources, &Filter::none(), None, origin).list().count(), 0);
    }
}

#[test]
fn an_unaccepted_tool_needs_approval_even_if_every_tool_is_in_auto_execute() {
    let mut sources = sources(&[open_policy(false), open_policy(true)]);
    sources.unaccepted.insert("write".to_owned());
    let model = caller(&sources, &Filter::none(), None, Origin::Model);
    let script = model.admit("executeToolCode", "").expect("it is listed");
    for decided in [direct(&model, "alpha-write"), scripted(&script, "beta-write")] {
        assert!(decided.is_err_and(|error| error.is_unapproved()));
    }
    assert!(direct(&model, "alpha-read").is_ok() && scripted(&script, "beta-read").is_ok());
}

fn direct(model: &Caller, name: &str) -> Result<(), CallError> {
    model.admit(name, "").map(drop)
}

fn scripted(script: &Admitted, name: &str) -> Result<(), CallError> {
    script.chain().admit(&Origin::Script, name, "").map(drop)
}

#[test]
fn a_tool_outside_auto_execute_needs_approval_for_a_model_and_not_for_a_caller() {
    let policy = Policy { execute: Allowlist::All, ..Policy::default() };
    let sources = sources(&[policy]);
    let model = caller(&sources, &Filter::none(), None, Origin::Model);
    let refused = model.admit("alpha-write", r#"{"a":1}"#).err().expect("it is not approved");
    assert!(
        matches!(refused.details(), Details::Unapproved { arguments } if arguments == r#"{"a":1}"#)
    );
    assert!(
        caller(&sources, &Filter::none(), None, Origin::Caller).admit("alpha-write", "").is_ok()
    );
}

#[test]
fn arguments_that_were_checked_are_decided_like_their_text_and_not_checked_again() {
    let auto = Allowlist::parse(&["read"]).expect("a good list");
    let sources =
        sources(&[Policy { execute: Allowlist::All, auto_execute: auto, ..Policy::default() }]);
    let model = caller(&sources, &Filter::none(), None, Origin::Model);
    let arguments = Arguments::parse("any", r#"{"a":1}"#).expect("an object");
    for (name, code) in [
        ("alpha-read", None),
        ("alpha-write", Some(HostCode::NeedsApproval)),
        ("alpha-nothing", Some(HostCode::NotFound)),
    ] {
        let decided = model.admit(name, &arguments);
        assert_eq!(decided.as_ref().err().map(CallError::code), code);
        let text = model.admit(name, arguments.as_str()).map(drop);
        assert_eq!(text.err().map(|error| error.code()), code);
        if let Ok(admitted) = decided {
            assert!(std::ptr::eq(admitted.arguments().as_str(), arguments.as_str()));
        }
    }
}

#[test]
fn a_call_of_a_script_needs_an_approval_of_its_own() {
    let sources = code_mode();
    for origin in [Origin::Model, Origin::Caller, Origin::McpClient(Approval::Given)] {
        assert!(nested(&sources, origin.clone(), "alpha-read").is_ok());
        let unapproved = nested(&sources, origin.clone(), "alpha-write");
        assert!(unapproved.is_err_and(|error| error.is_unapproved()), "{origin:?}");
        let unknown = nested(&sources, origin, "executeToolCode");
        assert!(unknown.is_err_and(|error| error.code() == HostCode::NotFound));
    }
    let caller = caller(&sources, &Filter::none(), None, Origin::Model);
    let approving = script(&caller.approving_scripts());
    assert!(approving.chain().admit(&Origin::Script, "alpha-write", "").is_ok());
}

/// Returns sources in code mode whose tool `read` needs no approval.
fn code_mode() -> Sources {
    sources(&[Policy {
        execute: Allowlist::All,
        auto_execute: Allowlist::parse(&["read"]).expect("a good list"),
        code_mode: true,
        ..Policy::default()
    }])
}

fn nested(sources: &Sources, origin: Origin, name: &str) -> Result<(), CallError> {
    let caller = caller(sources, &Filter::none(), None, origin);
    script(&caller).chain().admit(&Origin::Script, name, "").map(drop)
}

fn script(caller: &Caller) -> Admitted {
    caller.admit("executeToolCode", "").expect("it is listed")
}

#[test]
fn an_approval_covers_one_tool_as_it_was_defined_with_its_arguments_and_what_the_tool_calls() {
    let sources = code_mode();
    let first = script(&caller(&sources, &Filter::none(), None, Origin::Model));
    let write = first.chain().view().find(&Origin::Script, "alpha-write").expect("it is there");
    let approved = Approved {
        tool: "alpha-write".into(),
        definition: write.tool.digest().into(),
        arguments: "{\"a\":1}".into(),
        covers_nested: true,
        by_operators: false,
        decided_by: Some("operator \"ann\"".into()),
        sources: SourceSet::default(),
    };
    let admitted = admit_write(&sources, &approved, "{\"a\":1}").expect("it is approved");
    assert_eq!(admitted.decided_by(), Some("operator \"ann\""));
    let granted = Origin::Plugin(Arc::new(["alpha-write".to_owned()].into()));
    assert!(admitted.chain().admit(&granted, "alpha-write", "").is_ok(), "its own calls are too");
    let retried = Approved { covers_nested: false, ..approved.clone() };
    let admitted = admit_write(&sources, &retried, "{\"a\":1}").expect("it is approved");
    let nested = admitted.chain().admit(&granted, "alpha-write", "");
    assert!(nested.is_err_and(|error| error.is_unapproved()), "its own calls are not");
    for (approved, arguments) in [
        (approved.clone(), "{\"a\":2}"),
        (approved.clone(), "{\"a\": 1}"),
        (Approved { tool: "alpha-read".into(), ..approved.clone() }, "{\"a\":1}"),
        (Approved { definition: "other".into(), ..approved.clone() }, "{\"a\":1}"),
    ] {
        let refused = admit_write(&sources, &approved, arguments);
        assert!(refused.is_err_and(|error| error.is_unapproved()), "{approved:?}");
    }
}

#[test]
fn a_tool_that_two_operators_approve_is_called_by_nobody_else() {
    let all = Exclusions::parse(&["*"]).expect("a good list");
    let twice = Policy { approve_twice: all, ..open_policy(false) };
    let sources = sources(&[twice, Policy::default()]);
    let by_caller = Approved {
        tool: "alpha-write".into(),
        definition: sources.clients[0]
            .2
            .iter()
            .find(|tool| tool.name.as_str() == "alpha-write")
            .expect("it is there")
            .digest()
            .into(),
        arguments: "{}".into(),
        covers_nested: true,
        by_operators: false,
        decided_by: None,
        sources: SourceSet::default(),
    };
    let by_operators = Approved { by_operators: true, ..by_caller.clone() };
    for origin in [
        Origin::Model,
        Origin::Caller,
        Origin::McpClient(Approval::Given),
        Origin::McpClient(Approval::ByPerson),
    ] {
        let caller = caller(&sources, &Filter::none(), None, origin.clone());
        assert_eq!(caller.needs_approval("alpha-write").ok(), Some(true), "{origin:?}");
        assert!(caller.admit("alpha-write", "{}").is_err_and(|error| error.is_unapproved()));
        let refused = caller.admit_approved("alpha-write", "{}", &by_caller);
        assert!(refused.is_err_and(|error| error.is_unapproved()), "{origin:?}");
        assert!(caller.admit_approved("alpha-write", "{}", &by_operators).is_ok(), "{origin:?}");
    }
    let approved = Origin::McpClient(Approval::ByOperators);
    let approved = caller(&sources, &Filter::none(), None, approved);
    let admitted = approved.admit("alpha-write", "{}").expect("it is approved");
    let granted = Origin::Plugin(Arc::new(["alpha-read".to_owned()].into()));
    let nested = admitted.chain().admit(&granted, "alpha-read", "{}").err().expect("it is refused");
    assert_eq!(nested.tool_code(), Some("airlock.declined"));
}

#[test]
fn the_permission_of_a_call_over_mcp_says_who_has_approved_it() {
    let sources = sources(&[Policy { execute: Allowlist::All, ..Policy::default() }]);
    for (approval, permission) in [
        (Approval::Given, Some(Permission::Caller)),
        (Approval::ByPerson, Some(Permission::Person)),
        (Approval::ByOperators, Some(Permission::Person)),
        (Approval::Missing, None),
    ] {
        let client = caller(&sources, &Filter::none(), None, Origin::McpClient(approval));
        let admitted = client.admit("alpha-write", "{}").ok();
        assert_eq!(admitted.map(|call| call.permission()), permission, "{approval:?}");
    }
}

fn admit_write(
    sources: &Sources,
    approved: &Approved,
    arguments: &str,
) -> Result<Admitted, CallError> {
    let model = caller(sources, &Filter::none(), None, Origin::Model);
    script(&model).chain().admit_approved(&Origin::Script, "alpha-write", arguments, Some(approved))
}

#[test]
fn a_chain_shares_one_budget_and_a_call_beyond_its_depth_is_refused() {
    let sources = sources(&[open_policy(true)]);
    let root = caller(&sources, &Filter::none(), None, Origin::Model)
        .admit("executeToolCode", "")
        .expect("it is listed");
    let second = root.chain().admit(&Origin::Script, "alpha-read", "").expect("in budget");
    let third = second.chain().admit(&Origin::Script, "alpha-read", "").expect("in budget");
    let too_deep = third.chain().admit(&Origin::Script, "alpha-read", "").err();
    assert_eq!(
        too_deep.and_then(|error| error.limit()),
        Some(reached_budget("levels of nested calls"))
    );
    assert!(
        second.chain().admit(&Origin::Script, "alpha-nothing", "").is_err(),
        "a refusal costs a call"
    );
    let too_many = root.chain().admit(&Origin::Script, "alpha-read", "").err();
    assert_eq!(too_many.and_then(|error| error.limit()), Some(reached_budget("nested tool calls")));
    assert_eq!(third.chain().deadline(), root.chain().deadline());
}

#[test]
fn the_calls_around_a_request_of_the_program_count_towards_the_depth() {
    let sources = sources(&[open_policy(true)]);
    let context: Arc<dyn Any + Send + Sync> = Arc::new(7_u8);
    let request = ProgramRequest { depth: 1, context: Some(context) };
    let caller = caller(&sources, &Filter::none(), None, Origin::Program).for_program(request);
    let root = caller.admit("executeToolCode", "").expect("it is listed");
    assert_eq!((root.chain().depth(), root.chain().whole_depth()), (1, 2));
    let second = root.chain().admit(&Origin::Script, "alpha-read", "").expect("in budget");
    let too_deep = second.chain().admit(&Origin::Script, "alpha-read", "").err();
    assert_eq!(too_deep.and_then(|error| error.limit()), Some(reached_budget(CALL_LEVELS)));
    let carried = second.chain().program().and_then(|request| request.context.clone());
    assert_eq!(carried.and_then(|context| context.downcast::<u8>().ok()).as_deref(), Some(&7));
}

fn reached_budget(what: &'static str) -> ReachedLimit {
    ReachedLimit::Budget { what, most: 3 }
}

#[tokio::test]
async fn the_ledger_records_calls_that_ran_and_no_call_that_was_never_polled() {
    let sources = sources(&[open_policy(false)]);
    let caller = caller(&sources, &Filter::none(), None, Origin::Model);
    let output =
        caller.admit("alpha-read", "{}").expect("it is listed").run().await.expect("echo answers");
    assert_eq!(output.to_text(), "alpha-read");
    drop(caller.admit("alpha-write", "{}").expect("it is listed").run());
    let outcomes: Vec<_> =
        caller.ledger().records().into_iter().map(|record| record.outcome).collect();
    assert_eq!(outcomes, [Outcome::Ok], "a call that was never polled never ran");
}

#[tokio::test]
async fn the_ledger_keeps_every_call_and_leaves_out_arguments_beyond_its_quota() {
    let sources = sources(&[open_policy(false)]);
    let caller = caller(&sources, &Filter::none(), None, Origin::Model);
    let arguments = format!("{{\"a\":\"{}\"}}", "x".repeat((64 << 10) - 8));
    assert_eq!(arguments.len(), 64 << 10, "as long as one record keeps whole");
    for _ in 0..70 {
        caller
            .admit("alpha-read", &arguments)
            .expect("it is listed")
            .run()
            .await
            .expect("echo answers");
    }
    let records = caller.ledger().records();
    let kept: usize = records.iter().map(|record| record.arguments.len()).sum();
    assert_eq!(records.len(), 70);
    assert!((4 << 20..5 << 20).contains(&kept), "{kept}");
    assert_eq!((records[63].arguments.len(), &*records[64].arguments), (64 << 10, "…"));
}

#[test]
fn a_present_header_admits_only_the_items_that_it_names() {
    let sources = sources(&[open_policy(false), open_policy(false)]);
    assert_eq!(listed_names(&sources, None, None).len(), 8);
    assert_eq!(listed_names(&sources, Some("*"), None).len(), 8);
    assert_eq!(listed_names(&sources, Some("alpha"), Some("beta-*, alpha-read")), ["alpha-read"]);
    assert_eq!(
        listed_names(&sources, None, Some(" alpha-a-b ,alpha-a_b")),
        ["alpha-a-b", "alpha-a_b"]
    );
    for denies in [Some(""), Some(" , "), Some("Alpha"), Some("nobody")] {
        assert!(listed_names(&sources, denies, None).is_empty(), "{denies:?}");
    }
    for denies in [Some(""), Some(","), Some("*"), Some("alpha-Read")] {
        assert!(listed_names(&sources, None, denies).is_empty(), "{denies:?}");
    }
}

fn listed_names(sources: &Sources, clients: Option<&str>, tools: Option<&str>) -> Vec<String> {
    let filter = Filter::parse(clients, tools);
    caller(sources, &filter, None, Origin::Model)
        .list()
        .map(|entry| entry.tool.name.to_string())
        .collect()
}

#[test]
fn a_key_grants_its_rows_and_an_empty_row_denies_a_client_open_to_all_keys() {
    let open_to_all = Policy { allow_on_all_keys: true, ..open_policy(false) };
    let sources = sources(&[open_to_all.clone(), open_to_all, open_policy(false)]);
    let rows = BTreeMap::from([
        (client("beta"), Allowlist::default()),
        (client("gamma"), Allowlist::parse(&["READ"]).expect("good")),
    ]);
    let key = VirtualKey::new("k", "sk-bf-1", rows);
    let keys = Keys::new([key.clone()]);
    assert_eq!(keys.find("sk-bf-1", None, UNIX_EPOCH).as_deref(), Some(&key));
    assert_eq!(keys.find("sk-bf-2", None, UNIX_EPOCH), None);
    let names: Vec<_> = caller(&sources, &Filter::none(), Some(&key), Origin::Caller)
        .list()
        .map(|e| e.tool.name.to_string())
        .collect();
    assert_eq!(names, ["alpha-a-b", "alpha-a_b", "alpha-read", "alpha-write", "gamma-read"]);
}

#[test]
fn a_storm_of_progress_does_not_displace_content_from_the_queue_of_events() {
    let sources = sources(&[open_policy(false)]);
    let view = sources.view(&Filter::none(), None);
    let (caller, mut events) =
        Caller::with_events(view, Origin::Caller, BUDGET, CallerCapabilities::default());
    let call = caller.admit("alpha-read", "{}").expect("it is listed");
    let reporter = call.chain().reporter();
    for done in 0..10_000 {
        reporter.progress(Progress { done: f64::from(done), total: None, message: None });
    }
    reporter.emit(Content::text("part"));
    let mut received = Vec::new();
    while let Ok(event) = events.try_recv() {
        received.push(event);
    }
    assert!(matches!(received.first(), Some(Event::Progress { .. })));
    assert!(matches!(received.pop(), Some(Event::Partial { .. })));
    assert_eq!(received.len(), event::RESERVED);
}

#[test]
fn the_reader_is_offered_to_models_that_see_a_tool_of_a_server() {
    // The first client is a server.
    let open = [open_policy(false), open_policy(false)];
    assert!(offers_reader(&open, &Filter::none(), &Origin::Model));
    assert!(offers_reader(&open, &Filter::none(), &Origin::Caller));
    for origin in [
        Origin::Script,
        Origin::McpClient(Approval::Given),
        Origin::Plugin(Arc::new(BTreeSet::from(["readContent".to_owned()]))),
    ] {
        assert!(!offers_reader(&open, &Filter::none(), &origin), "{origin:?}");
    }
    assert!(!offers_reader(&open, &Filter::parse(Some("beta"), None), &Origin::Model));
    assert!(!offers_reader(
        &[open_policy(true), open_policy(false)],
        &Filter::none(),
        &Origin::Model
    ));
}

fn offers_reader(policies: &[Policy], filter: &Filter, origin: &Origin) -> bool {
    names_with_reader(&sources(policies), filter, origin).contains(&"readContent".to_owned())
}

fn names_with_reader(sources: &Sources, filter: &Filter, origin: &Origin) -> Vec<String> {
    let view = sources.view(filter, None).with_reader(&reader(sources));
    view.list(origin).map(|entry| entry.tool.name.to_string()).collect()
}

fn reader(sources: &Sources) -> OwnTools {
    OwnTools {
        tools: vec![Arc::new(Tool::own("readContent", "", json!({"type": "object"})))],
        provider: sources.echo.clone(),
    }
}
