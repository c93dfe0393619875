use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use futures_util::{FutureExt as _, future::BoxFuture};
use proptest::{prelude::*, sample::subsequence};
use serde_json::json;

use super::*;
use crate::tool::{
    Allowlist, Answers, CallError, ClientName, Content, Details, Exclusions, HostCode, Policy,
    ReachedLimit, Tool, ToolDefinition, ToolName, ToolOutput, client,
};

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

/// Decides a call: as the caller's own call, or, for scripts and plugins, as a nested call.
fn decide(caller: &Caller, origin: &Origin, name: &str) -> Result<(), CallError> {
    if let Origin::Script | Origin::Plugin(_) = origin {
        let own = caller.view().list(&Origin::Caller).next().map(|entry| entry.tool.name.clone());
        let Some(own) = own else { return Err(CallError::not_found(name)) };
        let root = Caller::new(caller.view().clone(), Origin::Caller, BUDGET)
            .admit(own.as_str(), "")
            .expect("it is listed");
        return root.chain().admit(origin, name, "").map(drop);
    }
    caller.admit(name, "").map(drop)
}

fn allowlist() -> impl Strategy<Value = Allowlist> {
    prop_oneof![
        Just(Allowlist::All),
        subsequence(TOOLS.to_vec(), 0..=TOOLS.len())
            .prop_map(|names| Allowlist::parse(&names).expect("no duplicates")),
    ]
}

fn policy() -> impl Strategy<Value = Policy> {
    (allowlist(), exclusions(), allowlist(), any::<[bool; 3]>()).prop_map(
        |(execute, exclude, auto_execute, [code_mode, allow_on_all_keys, is_owned])| Policy {
            execute,
            exclude,
            auto_execute,
            code_mode,
            allow_on_all_keys,
            is_owned,
            ..Policy::default()
        },
    )
}

/// Lists that take nothing away, half of them.
fn exclusions() -> impl Strategy<Value = Exclusions> {
    let names = subsequence(TOOLS.to_vec(), 0..=TOOLS.len());
    let list = names.prop_map(|names| Exclusions::parse(&names).expect("no duplicates"));
    prop_oneof![Just(Exclusions::default()), list]
}

fn header(items: Vec<String>) -> impl Strategy<Value = Option<String>> {
    let count = items.len();
    prop_oneof![
        Just(None),
        Just(Some(String::new())),
        Just(Some(" , ".to_owned())),
        subsequence(items, 0..=count).prop_map(|items| Some(items.join(" ,"))),
    ]
}

fn filter() -> impl Strategy<Value = Filter> {
    let clients = CLIENTS
        .iter()
        .map(|name| (*name).to_owned())
        .chain(["*".into(), "nobody".into()])
        .collect();
    let tools = CLIENTS
        .iter()
        .flat_map(|c| TOOLS.iter().map(move |t| format!("{c}-{t}")).chain([format!("{c}-*")]));
    let tools: Vec<_> = tools.chain(["*".into()]).collect();
    let excluded: Vec<_> = tools.iter().filter(|item| *item != "*").cloned().collect();
    (header(clients), header(tools), header(excluded), group()).prop_map(
        |(clients, tools, excluded, group)| {
            let mut filter =
                Filter::parse(clients.as_deref(), tools.as_deref()).excluding(excluded.as_deref());
            if let Some(group) = group {
                filter.narrow_to_group(Some(&Arc::new(group)));
            }
            filter
        },
    )
}

fn group() -> impl Strategy<Value = Option<ToolGroup>> {
    let names = prop::sample::select(&CLIENTS[..]).prop_map(client);
    let tools = prop::collection::btree_map(names, allowlist(), 0..=CLIENTS.len());
    let group = tools.prop_map(|tools| ToolGroup {
        name: "Group".to_owned(),
        slug: GroupSlug::parse("group").expect("a slug"),
        tools,
        keys: None,
    });
    prop::option::weighted(0.3, group)
}

fn key() -> impl Strategy<Value = Option<VirtualKey>> {
    let rows = prop::collection::btree_map(
        prop::sample::select(&CLIENTS[..]).prop_map(client),
        allowlist(),
        0..=CLIENTS.len(),
    );
    let names = || prop::sample::select(&CLIENTS[..]).prop_map(client);
    let excluded = prop::collection::btree_map(names(), exclusions(), 0..=1);
    let owned = prop::collection::btree_set(names(), 0..=CLIENTS.len());
    let bounds = prop::collection::btree_map(names(), exclusions(), 0..=CLIENTS.len());
    let bounds = prop::option::weighted(0.3, bounds);
    let key = (rows, excluded, owned, bounds).prop_map(|(rows, excluded, owned, bounds)| {
        let environment =
            bounds.map(|clients| Arc::new(Environment { name: "bounds".to_owned(), clients }));
        let grants = Grants { rows, excluded, owned, environment, ..Grants::default() };
        VirtualKey::from_digest("key", credential_digest("sk-bf-test"), grants)
    });
    prop::option::of(key)
}

fn origin() -> impl Strategy<Value = Origin> {
    let names: Vec<ToolName> =
        CLIENTS.iter().flat_map(|c| TOOLS.iter().map(|t| ToolName::new(&client(c), t))).collect();
    let count = names.len();
    prop_oneof![
        Just(Origin::Model),
        Just(Origin::Script),
        Just(Origin::Caller),
        Just(Origin::McpClient(Approval::Given)),
        Just(Origin::McpClient(Approval::Missing)),
        subsequence(names, 0..=count).prop_map(|names| Origin::Plugin(Arc::new(
            names.iter().map(|name| name.as_str().to_owned()).collect()
        ))),
    ]
}

proptest! {
    /// The guarantee of the door: the tools that are listed for an origin are exactly the tools
    /// that it can call.
    #[test]
    fn listed_tools_are_exactly_the_callable_ones(
        policies in prop::collection::vec(policy(), 3), filter in filter(), key in key(), origin in origin()
    ) {
        let sources = sources(&policies);
        let caller = caller(&sources, &filter, key.as_ref(), origin.clone());
        let listed: BTreeSet<String> = caller.list().map(|entry| entry.tool.name.as_str().to_owned()).collect();
        let every_name = CLIENTS.iter().flat_map(|c| TOOLS.iter().map(move |t| format!("{c}-{t}")));
        for name in every_name.chain(["executeToolCode".into(), "alpha-nothing".into(), String::new()]) {
            let decided = decide(&caller, &origin, &name);
            let callable = !decided.is_err_and(|error| error.code() == HostCode::NotFound);
            prop_assert_eq!(callable, listed.contains(&name), "{}", name);
        }
    }

    #[test]
    fn a_call_needs_an_approval_if_the_door_refuses_it_without_one(
        policies in prop::collection::vec(policy(), 3),
        filter in filter(),
        key in key(),
        origin in origin()
    ) {
        let sources = sources(&policies);
        let caller = caller(&sources, &filter, key.as_ref(), origin);
        let every_name = CLIENTS.iter().flat_map(|c| TOOLS.iter().map(move |t| format!("{c}-{t}")));
        for name in every_name.chain(["executeToolCode".into(), "alpha-nothing".into()]) {
            let expected = match caller.admit(&name, "{}") {
                Ok(_) => Ok(false),
                Err(error) if error.is_unapproved() => Ok(true),
                Err(error) => Err(error.to_string()),
            };
            let found = caller.needs_approval(&name).map_err(|error| error.to_string());
            prop_assert_eq!(found, expected, "{}", name);
        }
        prop_assert!(caller.ledger().records().is_empty());
    }

    /// A request never sees more tools than the configuration and the key allow.
    #[test]
    fn a_filter_or_a_key_never_adds_tools(policies in prop::collection::vec(policy(), 3), filter in filter(), key in key(), origin in origin()) {
        let sources = sources(&policies);
        let narrowed = visible_names(&sources, &origin, &filter, key.as_ref());
        prop_assert!(narrowed.is_subset(&visible_names(&sources, &origin, &Filter::none(), key.as_ref())));
        // The operator's own view: a key may own clients that a request without one does not see.
        let whole = visible_names(&sources, &origin, &Filter::of_operator(), None);
        prop_assert!(narrowed.is_subset(&whole));
        for name in narrowed.iter().filter(|name| name.as_str() != "executeToolCode") {
            let (client_name, tool) = name.as_str().split_once('-').expect("a prefix");
            let index = CLIENTS.iter().position(|c| *c == client_name).expect("a known client");
            prop_assert!(policies[index].execute.allows(tool));
            prop_assert!(!policies[index].exclude.covers_name(tool));
        }
    }
}

fn visible_names(
    sources: &Sources,
    origin: &Origin,
    filter: &Filter,
    key: Option<&VirtualKey>,
) -> BTreeSet<ToolName> {
    caller(sources, filter, key, origin.clone())
        .list()
        .map(|entry| entry.tool.name.clone())
        .collect()
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
fn scalars_are_the_wanted_members_without_what_is_nested() {
    let text = r#"{"a":"x","b":[[1,2],{}],"c":{"d":1},"e":2.5,"f":null,"other":"y"}"#;
    let arguments = Arguments::parse("any", text).expect("an object");
    let scalars = arguments.scalars(&["a", "b", "c", "e", "f", "g"]);
    assert_eq!(
        serde_json::Value::from(scalars),
        json!({"a": "x", "b": [], "c": {}, "e": 2.5, "f": null})
    );
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
    };
    let admitted = admit_write(&sources, &approved, "{\"a\":1}").expect("it is approved");
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
    let twice = Policy { approve_twice: Allowlist::All, ..open_policy(false) };
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
    };
    let by_operators = Approved { by_operators: true, ..by_caller.clone() };
    for origin in [Origin::Model, Origin::Caller, Origin::McpClient(Approval::Given)] {
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
    let limit = |what| Some(ReachedLimit::Budget { what, most: 3 });
    assert_eq!(too_deep.and_then(|error| error.limit()), limit("levels of nested calls"));
    assert!(
        second.chain().admit(&Origin::Script, "alpha-nothing", "").is_err(),
        "a refusal costs a call"
    );
    let too_many = root.chain().admit(&Origin::Script, "alpha-read", "").err();
    assert_eq!(too_many.and_then(|error| error.limit()), limit("nested tool calls"));
    assert_eq!(third.chain().deadline(), root.chain().deadline());
}

const CANNOT_BE_USED: &str = "the arguments of tool 't' cannot be used: ";

#[test]
fn blank_arguments_are_an_empty_object_and_other_values_are_refused() {
    assert_eq!(Arguments::parse("t", " \n").expect("blank is fine").as_str(), "{}");
    for bad in
        ["[]", "1", "nul", "{", &format!("{{\"a\":{}1{}}}", "[".repeat(200), "]".repeat(200))]
    {
        assert_eq!(Arguments::parse("t", bad).expect_err(bad).code(), HostCode::BadArguments);
    }
    let fits = format!("{{\"a\":\"{}\"}}", "x".repeat(MAX_ARGUMENT_BYTES - 8));
    assert!(Arguments::parse("t", &fits).is_ok());
    assert!(Arguments::parse("t", &format!("{fits} ")).is_err());
}

#[test]
fn arguments_with_a_duplicate_key_are_refused_at_any_depth() {
    for (text, key) in [
        (r#"{"path":"/allowed","path":"/etc"}"#, "path"),
        (r#"{"path":1,"\u0070ath":2}"#, "path"),
        (r#"{"filter":[{"items":{"id":1,"id":2}}]}"#, "id"),
    ] {
        let error = Arguments::parse("t", text).expect_err(text);
        let expected = format!("{CANNOT_BE_USED}the key {key:?} occurs twice in one object");
        assert_eq!(error.to_string(), expected);
    }
    assert!(Arguments::parse("t", r#"{"a":{"a":1},"b":[{"a":1},{"a":2}]}"#).is_ok());
}

#[test]
fn arguments_that_take_too_much_memory_are_refused_before_they_are_parsed() {
    assert!(Arguments::parse("t", &small_objects(10_000)).is_ok());
    let error = Arguments::parse("t", &small_objects(140_000)).expect_err("it takes 64 MiB");
    let expected = format!("{CANNOT_BE_USED}takes more than 33554432 bytes of memory when parsed");
    assert!(error.to_string().starts_with(&expected), "{error}");
}

fn small_objects(count: usize) -> String {
    format!(r#"{{"a":[{}0]}}"#, r#"{"":0},"#.repeat(count))
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
        Caller::with_events(view, Origin::Caller, BUDGET, Hearing::default());
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
