use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::json;

use super::*;
use crate::{
    door::{
        Admitted, Approval, Approved, Arguments, Budget, Caller, Filter, Origin, OwnTools,
        Permission, Provider, SessionSources, Source, View,
    },
    tool::{Allowlist, Answers, Policy, READ_RESOURCE, ToolOutput, Trust, client},
};

struct Empty;

impl Provider for Empty {
    fn call(&self, _: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        async { Ok(ToolOutput::default()) }.boxed()
    }
}

fn rule(tools: &str, from: SourceSelection, decision: SinkDecision) -> SinkRule {
    let tools = vec![ToolPattern::parse(tools).expect("a good pattern")];
    SinkRule { tools, from, arguments: Vec::new(), decision }
}

fn named(names: &[&str]) -> SourceSelection {
    SourceSelection::Named(names.iter().copied().collect())
}

/// Returns the rules of the tests: `mail-send` is refused after `web`, `mail-draft` is asked about after anything.
fn rules() -> SinkRules {
    SinkRules(vec![
        rule("mail-send", named(&["web"]), SinkDecision::Deny),
        rule("mail-draft", SourceSelection::All, SinkDecision::Ask),
    ])
}

/// Returns a view of the untrusted servers `web` and `feed`, the trusted one `wiki`, and the plugin `mail`, whose tools
/// need no approval, for scripts alone if that is asked for.
fn view(is_scripted: bool, sinks: Option<SinkRules>) -> View {
    let policies = [("web", true, false), ("feed", true, false), ("wiki", true, true)];
    let policies = policies.into_iter().chain([("mail", false, true)]);
    let clients: Vec<_> = policies
        .map(|(name, is_server, is_trusted)| {
            let name = client(name);
            let tools: Vec<_> = ["get", "send", "draft"]
                .into_iter()
                .map(|tool| {
                    let definition = json!({"name": tool, "inputSchema": {}});
                    let definition = serde_json::from_value(definition).expect("a definition");
                    Arc::new(Tool::adopt(&name, definition).expect("a good tool"))
                })
                .collect();
            let policy = Policy {
                execute: Allowlist::All,
                auto_execute: Allowlist::All,
                code_mode: is_scripted,
                trust: if is_trusted { Trust::Trusted } else { Trust::Untrusted },
                ..Policy::default()
            };
            (name, policy, tools, is_server)
        })
        .collect();
    let provider: Arc<dyn Provider> = Arc::new(Empty);
    let unaccepted = BTreeSet::new();
    let sources = clients.iter().map(|(client, policy, tools, is_server)| Source {
        client,
        policy,
        tools,
        unaccepted: &unaccepted,
        provider: &provider,
        is_server: *is_server,
        is_switched_off: false,
    });
    let run = Tool::own("executeToolCode", "", json!({"type": "object"}));
    let own = OwnTools { tools: vec![Arc::new(run)], provider: provider.clone() };
    View::new(sources, Some(&own), &Filter::none(), None).with_sinks(sinks.map(Arc::new))
}

fn budget() -> Budget {
    let second = Duration::from_secs(1);
    Budget { deadline: second, script: second, nested_calls: 9, depth: 3, in_flight: 1 }
}

fn caller(origin: Origin, is_scripted: bool) -> Caller {
    Caller::new(view(is_scripted, Some(rules())), origin, budget())
}

async fn run(caller: &Caller, tool: &str) {
    caller.admit(tool, "{}").expect("it is permitted").run().await.expect("it runs");
}

fn granted() -> Origin {
    let tools = ["web-get", "mail-send", "mail-draft"].map(str::to_owned);
    Origin::Plugin(Arc::new(tools.into()))
}

/// Returns the code of a decision, and the sources because of which a call is refused.
fn refused(decided: Result<Admitted, CallError>) -> (HostCode, String) {
    let error = decided.map(drop).expect_err("it is refused");
    let sources = error.untrusted_sources().map(ToString::to_string);
    (error.code(), sources.unwrap_or_default())
}

#[test]
fn deny_takes_precedence_and_a_rule_is_about_its_tools_and_sources_alone() {
    let view = view(true, Some(rules()));
    let arguments = Arguments::parse("any", "{}").expect("an object");
    for (tool, context, expected) in [
        ("mail-send", &["web"][..], Err("web")),
        ("mail-send", &["feed"], Ok("")),
        ("mail-send", &[], Ok("")),
        ("mail-draft", &["feed", "web"], Ok("feed, web")),
        ("mail-get", &["web"], Ok("")),
        ("executeToolCode", &["web"], Ok("")),
    ] {
        let entry = view.find(&Origin::Caller, tool).expect("it is there");
        let context = context.iter().copied().collect();
        let found = view.asking_sources(entry, &context, &arguments, None);
        let found = found.as_ref().map(ToString::to_string).map_err(|error| {
            assert_eq!(
                (error.code(), error.kind()),
                (HostCode::UntrustedContext, ErrorKind::Denied)
            );
            error.untrusted_sources().map(ToString::to_string).unwrap_or_default()
        });
        let expected = expected.map(str::to_owned).map_err(str::to_owned);
        assert_eq!(found, expected, "{tool} {context}");
    }
}

/// Reads a resource of the client that the argument `server` names.
struct Reading(Arc<Tool>);

impl Provider for Reading {
    fn call(&self, _: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        async { Ok(ToolOutput::default()) }.boxed()
    }

    fn decided_tool(&self, _: &View, arguments: &Arguments) -> Option<Arc<Tool>> {
        let arguments = arguments.scalars(&["server"]);
        let server = arguments.get("server")?.as_str()?;
        Some(Arc::new(self.0.of_client(&client(server))))
    }
}

#[test]
fn reading_a_resource_is_a_call_of_a_tool_of_its_client() {
    let tool = Arc::new(Tool::own(READ_RESOURCE, "", json!({"type": "object"})));
    let provider = Arc::new(Reading(tool.clone()));
    let reader = OwnTools { tools: vec![tool], provider };
    let uri = SinkArgument::parse("uri").expect("a path");
    let about = rule("feed-*", SourceSelection::All, SinkDecision::Deny);
    let rules = SinkRules(vec![
        rule("mail-readresource", named(&["web"]), SinkDecision::Deny),
        rule("wiki-*", SourceSelection::All, SinkDecision::Ask),
        SinkRule { arguments: vec![uri], ..about },
    ]);
    let view = view(false, Some(rules)).with_reader(&reader);
    let model = Caller::new(view, Origin::Model, budget());
    assert!(model.admit(READ_RESOURCE, r#"{"server": "mail"}"#).is_ok());
    model.has_read(&SourceSet::from_iter(["web"]));
    for (arguments, expected) in [
        (r#"{"server": "mail"}"#, Some(false)),
        (r#"{"server": "wiki"}"#, Some(true)),
        (r#"{"server": "feed"}"#, None),
        (r#"{"server": "feed", "uri": "a:b"}"#, Some(false)),
        ("{}", None),
    ] {
        let refused = model.admit(READ_RESOURCE, arguments).err();
        assert_eq!(refused.map(|error| error.is_unapproved()), expected, "{arguments}");
    }
}

#[tokio::test]
async fn a_model_has_read_results_of_earlier_rounds_and_not_those_of_its_own() {
    let model = caller(Origin::Model, false);
    run(&model, "wiki-get").await;
    run(&model, "web-get").await;
    assert!(model.context().is_empty(), "it is the same turn");
    let same = model.admit("mail-send", "{}").expect("the model has not read the result");
    assert!(same.chain().context().is_empty());
    model.end_turn();
    assert_eq!(model.context().to_string(), "web", "the results of `wiki` are trusted");
    let denied = (HostCode::UntrustedContext, "web".to_owned());
    assert_eq!(refused(model.admit("mail-send", "{}")), denied);
    let arguments = Arguments::parse("mail-send", "{}").expect("an object");
    assert!(model.call_needs_approval("mail-send", &arguments).is_err());
    assert_eq!(model.call_needs_approval("mail-draft", &arguments).ok(), Some(true));
    let asked = model.admit("mail-draft", "{}").map(drop).expect_err("it needs an approval");
    assert!(asked.is_unapproved() && asked.to_string().contains("from web"), "{asked}");
    let other = model.admit("wiki-get", "{}").expect("it is no sink");
    assert_eq!(other.chain().context().to_string(), "web");
}

#[test]
fn a_model_has_read_what_is_in_the_messages() {
    let model = caller(Origin::Model, false);
    model.has_read(&SourceSet::from_iter(["caller"]));
    assert!(model.admit("mail-send", "{}").is_ok());
    assert!(model.admit("mail-draft", "{}").is_err_and(|error| error.is_unapproved()));
}

#[tokio::test]
async fn an_approval_covers_the_sources_that_were_shown() {
    let model = caller(Origin::Model, false);
    run(&model, "web-get").await;
    model.end_turn();
    let entry = model.view().find(&Origin::Model, "mail-draft").expect("it is there");
    let shown = Approved::new(entry, "{}", None).with_sources(model.context());
    let admitted = model.admit_approved("mail-draft", "{}", &shown).expect("it is approved");
    assert_eq!(admitted.permission(), Permission::Person);
    let unseen = Approved::new(entry, "{}", None);
    assert!(model.admit_approved("mail-draft", "{}", &unseen).is_err());
    run(&model, "feed-get").await;
    model.end_turn();
    let more = model.admit_approved("mail-draft", "{}", &shown).map(drop);
    assert!(more.is_err_and(|error| error.is_unapproved()), "`feed` was not shown");
    // No approval answers a denial.
    let entry = model.view().find(&Origin::Model, "mail-send").expect("it is there");
    let approved = Approved::new(entry, "{}", None).with_sources(model.context());
    let denied = model.admit_approved("mail-send", "{}", &approved);
    assert_eq!(refused(denied).0, HostCode::UntrustedContext);
}

#[tokio::test]
async fn a_script_has_read_the_context_of_its_call_and_the_results_of_its_own() {
    let model = caller(Origin::Model, true);
    let script = model.admit("executeToolCode", "{}").expect("it is listed");
    let chain = script.chain();
    assert!(chain.admit(&Origin::Script, "mail-send", "{}").is_ok());
    let read = chain.admit(&Origin::Script, "web-get", "{}").expect("it is permitted");
    let web = read.chain().clone();
    read.run().await.expect("it runs");
    assert_eq!(web.received().to_string(), "web");
    assert_eq!(chain.nested_context().to_string(), "web");
    let denied = chain.admit(&Origin::Script, "mail-send", "{}");
    assert_eq!(refused(denied), (HostCode::UntrustedContext, "web".to_owned()));
    // The model reads the result of the script.
    model.end_turn();
    assert_eq!(model.context().to_string(), "web");
    let next = model.admit("executeToolCode", "{}").expect("it is listed");
    let denied = next.chain().admit(&Origin::Script, "mail-send", "{}");
    assert_eq!(refused(denied).0, HostCode::UntrustedContext);
}

#[test]
fn a_rehearsal_has_read_what_its_call_has_and_counts_and_reads_for_itself() {
    let model = caller(Origin::Model, true);
    model.has_read(&SourceSet::from_iter(["feed"]));
    let call = model.admit("executeToolCode", "{}").expect("it is listed");
    let rehearsal = call.chain().rehearsal();
    rehearsal.receive(&SourceSet::from_iter(["web"]));
    assert_eq!(rehearsal.nested_context(), SourceSet::from_iter(["feed", "web"]));
    while rehearsal.count_call().is_ok() {}
    assert_eq!(call.chain().nested_context(), SourceSet::from_iter(["feed"]));
    assert!(call.chain().received().is_empty());
    assert!(call.chain().count_call().is_ok(), "the budget of the call is as it was");
    model.end_turn();
    assert_eq!(model.context(), SourceSet::from_iter(["feed"]));
}

#[tokio::test]
async fn an_approval_of_a_whole_script_covers_nothing_that_it_reads() {
    let model = caller(Origin::Caller, true).approving_scripts();
    let script = model.admit("executeToolCode", "{}").expect("it is listed");
    let chain = script.chain();
    assert!(chain.admit(&Origin::Script, "mail-draft", "{}").is_ok());
    chain.receive(&SourceSet::from_iter(["feed"]));
    let asked = chain.admit(&Origin::Script, "mail-draft", "{}").map(drop);
    assert!(asked.is_err_and(|error| error.is_unapproved()));
}

#[tokio::test]
async fn a_plugin_is_refused_because_of_what_it_reads_and_asks_because_of_what_was_read_before() {
    let model = caller(Origin::Model, false);
    let plugin = model.admit("mail-get", "{}").expect("it is permitted");
    let chain = plugin.chain();
    let read = chain.admit(&granted(), "web-get", "{}").expect("it is permitted");
    read.run().await.expect("it runs");
    let denied = chain.admit(&granted(), "mail-draft", "{}");
    assert_eq!(refused(denied), (HostCode::UntrustedContext, "web".to_owned()));
    model.end_turn();
    let after = model.admit("mail-get", "{}").expect("it is no sink");
    let asked = after.chain().admit(&granted(), "mail-draft", "{}").map(drop);
    assert!(asked.is_err_and(|error| error.is_unapproved()));
}

#[tokio::test]
async fn a_call_in_the_place_of_another_does_not_depend_on_the_failure_of_that() {
    let model = caller(Origin::Model, false);
    let call = model.admit("web-get", "{}").expect("it is permitted");
    let chain = call.chain().clone();
    call.run().await.expect("it runs");
    let arguments = Arguments::parse("mail-send", "{}").expect("an object");
    assert!(chain.admit_in_place(&Origin::Model, "mail-send", &arguments).is_ok());
}

#[tokio::test]
async fn a_request_begins_with_an_empty_context_and_one_in_a_session_with_its_own() {
    let session = SessionSources::default();
    let origin = Origin::McpClient(Approval::Missing);
    let first = caller(origin.clone(), false).in_session(&session, session.sources());
    run(&first, "web-get").await;
    assert_eq!(session.sources().to_string(), "web");
    let next = caller(origin.clone(), false).in_session(&session, session.sources());
    assert_eq!(refused(next.admit("mail-send", "{}")).0, HostCode::UntrustedContext);
    assert!(caller(origin, false).admit("mail-send", "{}").is_ok());
    let execute = caller(Origin::Caller, false);
    run(&execute, "web-get").await;
    assert!(execute.admit("mail-send", "{}").is_ok(), "each request names one call");
}

/// Returns the outcome of the decision to resume a call.
fn resumed(caller: &Caller, tool: &str) -> Option<HostCode> {
    let answers = Answers { token: String::new(), given: BTreeMap::new() };
    caller.resume(tool, r#"{"to": "x"}"#, answers).err().map(|error| error.code())
}

#[tokio::test]
async fn a_call_is_not_resumed_once_its_author_has_read_a_source_that_denies_it() {
    let denied = Some(HostCode::UntrustedContext);
    let session = SessionSources::default();
    let origin = Origin::McpClient(Approval::Missing);
    let asking = caller(origin.clone(), false).in_session(&session, session.sources());
    assert_eq!(resumed(&asking, "mail-send"), None);
    // In another request of the session, while the call waits.
    let other = caller(origin, false).in_session(&session, session.sources());
    run(&other, "web-get").await;
    assert_eq!(resumed(&asking, "mail-send"), denied);
    assert_eq!(resumed(&asking, "mail-draft"), None, "it needs no approval again");
    assert_eq!(resumed(&asking, "web-send"), None);
}

#[test]
fn a_continuation_depends_neither_on_its_own_client_nor_on_arguments_decided_before() {
    let to = SinkArgument::parse("to").expect("a path");
    let about = rule("mail-send", SourceSelection::All, SinkDecision::Deny);
    let rules = SinkRules(vec![
        rule("web-send", SourceSelection::All, SinkDecision::Deny),
        SinkRule { arguments: vec![to], ..about },
    ]);
    let client = Caller::new(view(false, Some(rules)), Origin::Model, budget());
    client.has_read(&SourceSet::from_iter(["web"]));
    assert_eq!(resumed(&client, "web-send"), None);
    assert_eq!(resumed(&client, "mail-send"), None);
    client.has_read(&SourceSet::from_iter(["feed"]));
    assert_eq!(resumed(&client, "web-send"), Some(HostCode::UntrustedContext));
}

#[test]
fn a_rule_about_an_argument_is_about_calls_that_have_it_and_whose_value_may_come_from_a_source() {
    let to = SinkArgument::parse("to").expect("a path");
    let about = rule("mail-send", named(&["web"]), SinkDecision::Deny);
    let rules = SinkRules(vec![SinkRule { arguments: vec![to], ..about }]);
    let view = view(true, Some(rules));
    assert!(view.follows_arguments());
    let script = Caller::new(view, Origin::Model, budget()).admit("executeToolCode", "{}");
    let script = script.expect("it is listed");
    let chain = script.chain();
    let web = SourceSet::from_iter(["web"]);
    chain.receive(&web);
    let given = r#"{"to": "x", "body": "y"}"#;
    let denied = (HostCode::UntrustedContext, "web".to_owned());
    assert_eq!(refused(chain.admit(&Origin::Script, "mail-send", given)), denied);
    assert!(chain.admit(&Origin::Script, "mail-send", r#"{"body": "y"}"#).is_ok());
    let mut values = ArgumentSources::default();
    values.add("to", &SourceSet::default());
    values.add("body", &web);
    let known = Some(values.clone());
    assert!(chain.admit_of_script("mail-send", given, None, known).is_ok());
    values.add("to", &web);
    let error = chain.admit_of_script("mail-send", given, None, Some(values)).map(drop);
    let error = error.expect_err("it may come from the source").to_string();
    assert!(error.contains("`to`, from web"), "{error}");
}

#[tokio::test]
async fn without_sinks_nothing_is_followed() {
    let model = Caller::new(view(false, None), Origin::Model, budget());
    run(&model, "web-get").await;
    model.end_turn();
    model.has_read(&SourceSet::from_iter(["web"]));
    assert!(model.context().is_empty() && !model.view().follows_sources());
    assert!(model.admit("mail-send", "{}").is_ok());
}
