//! Requests of the embedding program: their sender, their selection, and calls that wait for a person.

use airlock::{
    CallReply, GatewayBuilder, NativeTool, RequestError, ToolContext, ToolEffect,
    door::ScriptLanguage,
    schemars::JsonSchema,
    tool::{Allowlist, Policy, ToolError},
};
use airlock_tests::{Embedded, Setup};
use serde::{Deserialize, Serialize};
use serde_json::json;

const ANN: &str = "sk-bf-ann-0123456789abcdef";
const BOB: &str = "sk-bf-bob-0123456789abcdef";

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(crate = "airlock::schemars")]
struct Note {
    text: String,
}

async fn note(note: Note, _: ToolContext) -> Result<String, ToolError> {
    Ok(format!("noted {}", note.text))
}

fn a() -> Note {
    Note { text: "a".to_owned() }
}

/// Starts a gateway with the tool `note`, whose calls by models and by the program need an approval.
pub(super) async fn noting(
    setup: Setup,
    build: impl FnOnce(GatewayBuilder) -> GatewayBuilder,
) -> Embedded {
    let tool = NativeTool::typed("note", "Notes a text.", note).effect(ToolEffect::Adds);
    let build = |builder: GatewayBuilder| build(builder.register_tool(tool).expect("a tool"));
    Embedded::with(setup, |_| {}, build).await
}

/// Returns the text of a reply that has a result.
fn text(reply: CallReply) -> String {
    match reply {
        CallReply::Done(output) => output.to_text(),
        other => panic!("{other:?}"),
    }
}

/// Returns the identifier of a reply that waits.
fn waiting(reply: &CallReply) -> String {
    reply.pending().unwrap_or_else(|| panic!("{reply:?}")).id.clone()
}

#[tokio::test]
async fn a_wrong_key_is_an_error_and_a_key_is_needed_if_there_is_one() {
    let rows: &[(&str, &[&str])] = &[];
    let embedded = noting(Setup::new().key("ann", ANN, rows), |builder| builder).await;
    let gateway = embedded.gateway();
    let wrong = gateway.request().key(BOB).open().expect_err("there is no such key");
    assert!(matches!(wrong, RequestError::UnknownKey), "{wrong}");
    let none = gateway.request().open().expect_err("a key is needed");
    assert!(matches!(none, RequestError::KeyRequired), "{none}");
    assert_eq!([wrong.code(), none.code()], ["invalid_api_key"; 2]);
    gateway.request().key(ANN).open().expect("it is known");
    let operator = gateway.request().as_operator().open().expect("it needs no key");
    let tools = operator.tools().await.expect("tools");
    assert!(tools.iter().any(|tool| tool.name.as_str() == "internal-note"));
    embedded.stop().await;
}

#[tokio::test]
async fn a_request_sees_the_tools_that_it_selects_as_they_are_now() {
    let embedded = noting(Setup::new(), |builder| builder).await;
    let gateway = embedded.gateway();
    for (builder, count) in [
        (gateway.request(), 2),
        (gateway.request().tools(["internal-later"]), 1),
        (gateway.request().exclude_tools(["internal-*"]), 0),
        (gateway.request().clients(["internal"]).exclude_tools(["internal-note"]), 1),
        (gateway.request().clients(Vec::<String>::new()), 0),
    ] {
        let request = builder.open().expect("it is permitted");
        let before = request.tools().await.expect("tools").len();
        let later = NativeTool::typed("later", "Comes later.", note);
        gateway.tools().register(later).await.expect("a new name");
        assert_eq!(request.tools().await.expect("tools").len(), count);
        assert!(before <= count);
        gateway.tools().remove("later").await.expect("it is there");
    }
    let bad = gateway.request().tools(["internal-note,*"]).open().expect_err("two names");
    assert!(matches!(bad, RequestError::Name(_)), "{bad}");
    embedded.stop().await;
}

#[tokio::test]
async fn a_call_of_the_program_waits_for_an_approval_which_counts_once() {
    let embedded = noting(Setup::new(), |builder| builder).await;
    let request = embedded.gateway().request().open().expect("it is permitted");
    let first = request.call("internal-note", a()).await.expect("it waits");
    let id = waiting(&first);
    let again = request.call("internal-note", a()).await.expect("it waits");
    assert_eq!(waiting(&again), id, "an equal call is the same one");
    let pending = request.pending().await.expect("a list");
    assert_eq!((pending.len(), pending[0].id.as_str()), (1, id.as_str()));
    assert_eq!(pending[0].calls[0].tool, "internal-note");
    assert_eq!(pending[0].calls[0].arguments, r#"{"text":"a"}"#);
    let undecided = request.resume(&id).await.expect("it waits");
    assert_eq!(waiting(&undecided), id);

    request.approve(&id).await.expect("it waits");
    let twice = request.approve(&id).await.expect_err("it was decided about");
    assert_eq!(twice.code(), "approval_not_found");
    assert_eq!(text(request.resume(&id).await.expect("it runs")), "noted a");
    let gone = request.resume(&id).await.expect_err("it has run");
    assert!(matches!(&gone, RequestError::NotWaiting(found) if *found == id), "{gone}");
    let next = request.call("internal-note", a()).await.expect("it waits");
    assert_ne!(waiting(&next), id, "it needs an approval of its own");

    request.deny(&waiting(&next), "not today").await.expect("it waits");
    let denied = request.call("internal-note", a()).await.expect_err("it was denied");
    assert_eq!(denied.code(), "airlock.declined");
    let approving = embedded.gateway().request().approving().open().expect("it is permitted");
    let made = approving.call("internal-note", a()).await.expect("it is its own approval");
    assert_eq!(text(made), "noted a");
    embedded.stop().await;
}

#[tokio::test]
async fn only_the_operator_decides_about_the_calls_of_callers_that_wait_for_operators() {
    let rows: &[(&str, &[&str])] = &[("internal", &["*"])];
    let setup = Setup::new().key("ann", ANN, rows).key("bob", BOB, rows);
    let setup = setup.set("/mcp_server/approval", "wait");
    let embedded = noting(setup, |builder| builder).await;
    let gateway = embedded.gateway();
    let ann = gateway.request().key(ANN).open().expect("it is known");
    let bob = gateway.request().key(BOB).open().expect("it is known");
    let operator = gateway.request().as_operator().open().expect("it needs no key");
    let id = waiting(&ann.call("internal-note", a()).await.expect("it waits"));
    let own = ann.approve(&id).await.expect_err("an operator decides");
    assert!(matches!(own, RequestError::OperatorRequired), "{own}");
    let foreign = bob.approve(&id).await.expect_err("it is the call of another");
    assert!(matches!(foreign, RequestError::NotWaiting(_)), "{foreign}");
    assert!(bob.pending().await.expect("a list").is_empty());
    let listed = operator.pending().await.expect("a list");
    assert_eq!(listed.len(), 1);
    assert!(listed[0].caller.contains("ann"), "{}", listed[0].caller);
    operator.approve(&id).await.expect("it waits");
    assert_eq!(text(ann.resume(&id).await.expect("it runs")), "noted a");
    embedded.stop().await;
}

#[tokio::test]
async fn a_script_stops_at_a_call_that_needs_an_approval_and_goes_on_after_it() {
    let policy = Policy { execute: Allowlist::All, code_mode: true, ..Policy::default() };
    let embedded = noting(Setup::new(), |builder| builder.native_policy(policy)).await;
    let request = embedded.gateway().request().language(ScriptLanguage::Starlark);
    let request = request.open().expect("it is permitted");
    let code = "result = internal.note(text = \"a\")";
    let stopped = request.run_script(code).await.expect("it waits");
    let id = waiting(&stopped);
    assert!(id.starts_with("run_"), "{id}");
    let pending = request.pending().await.expect("a list");
    assert_eq!(stopped.pending(), pending.first(), "the list shows the same");
    let run = id.split_once('.').expect("the state in which it was shown").0;
    let unseen = request.approve(run).await.expect_err("it does not say what was shown");
    assert_eq!(unseen.code(), "approval_not_found");
    request.approve(&id).await.expect("it waits");
    let done = text(request.resume(&id).await.expect("it goes on"));
    assert!(done.contains("noted a"), "{done}");
    assert!(request.pending().await.expect("a list").is_empty());
    let ended = request.approve(&id).await.expect_err("nothing waits");
    assert_eq!(ended.code(), "approval_not_found");
    let code = "result = str(attempt(internal.note, {\"text\": \"b\"}).error)";
    let id = waiting(&request.run_script(code).await.expect("it waits"));
    request.deny(&id, &format!("not today {}", "x".repeat(1_000))).await.expect("it waits");
    let told = text(request.resume(&id).await.expect("it goes on"));
    assert!(told.contains("not today") && told.contains("x…"), "the model reads it: {told}");
    embedded.stop().await;
}

#[tokio::test]
async fn a_call_that_fails_has_the_code_of_the_http_api() {
    let embedded = noting(Setup::new(), |builder| builder).await;
    let request = embedded.gateway().request().approving().open().expect("it is permitted");
    for (tool, arguments, code) in [
        ("internal-none", json!({}), "airlock.not_found"),
        ("internal-note", json!({"text": 1}), "airlock.bad_arguments"),
        ("internal-note", json!("a"), "airlock.bad_arguments"),
    ] {
        let error = request.call(tool, &arguments).await.expect_err("it fails");
        assert_eq!(error.code(), code, "{tool} {arguments}");
        assert!(error.call_error().is_some(), "{error}");
    }
    let script = request.run_script("result = 1").await.expect_err("no client is in code mode");
    assert_eq!(script.code(), "airlock.not_found");
    embedded.stop().await;
}
