//! Calls through the door, of two sources.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Map, Value};

use super::*;
use crate::{Catalog, SourceKind, tests::client};
use airlock_core::{
    door::{Budget, Caller, Filter, Provider, VirtualKey},
    tool::{Allowlist, ToolError},
};

/// Outcome of a call at a source.
#[derive(Clone, Copy)]
enum Does {
    Answers,
    IsAway,
    LosesTheConnection,
    IsFull,
    Fails,
    IsLate,
}

struct Scripted {
    name: &'static str,
    does: Mutex<Does>,
    calls: AtomicUsize,
}

impl Provider for Scripted {
    fn call(&self, call: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let tool = call.tool().name.clone();
        let does = *self.does.lock();
        Box::pin(async move {
            Err(match does {
                Does::Answers => {
                    let mut output = ToolOutput::text(self.name);
                    output.meta = Some(Map::from_iter([(FALLBACK.to_owned(), json!("forged"))]));
                    return Ok(output);
                }
                Does::IsAway => CallError::unavailable(tool, "x").not_begun(),
                Does::LosesTheConnection => CallError::unavailable(tool, "x"),
                Does::IsFull => CallError::busy().not_begun(),
                Does::Fails => ToolError::new(ErrorKind::Internal, "no").into(),
                Does::IsLate => CallError::deadline(tool, Duration::from_secs(1)),
            })
        })
    }
}

struct Pair {
    catalog: Arc<Catalog>,
    main: Arc<Scripted>,
    other: Arc<Scripted>,
}

fn policy(fallbacks: &[(&str, &str)]) -> Policy {
    let fallbacks = fallbacks.iter().map(|(own, other)| ((*own).to_owned(), (*other).to_owned()));
    Policy {
        execute: Allowlist::All,
        auto_execute: Allowlist::parse(&["search", "read", "find"]).expect("a list"),
        fallbacks: fallbacks.collect(),
        ..Policy::default()
    }
}

fn object(properties: &Value) -> Value {
    json!({"type": "object", "properties": properties})
}

impl Pair {
    async fn new() -> Self {
        let catalog = Catalog::new();
        let fallbacks = [
            ("search", "other-find"),
            ("read", "other-find"),
            ("ask", "other-ask"),
            ("wide", "other-narrow"),
        ];
        catalog.add_client(&client("main"), SourceKind::Server("stdio"), policy(&fallbacks));
        // The configuration refuses a second hop; the door does not make one either.
        let back = [("find", "main-search")];
        catalog.add_client(&client("other"), SourceKind::Server("http"), policy(&back));
        let [main, other] = ["main", "other"].map(|name| {
            Arc::new(Scripted { name, does: Mutex::new(Does::Answers), calls: 0.into() })
        });
        let query = object(&json!({"q": {"type": "string"}}));
        let tools = json!([
            {"name": "search", "inputSchema": query},
            {"name": "read", "inputSchema": query, "annotations": {"readOnlyHint": true}},
            {"name": "ask", "inputSchema": query},
            {"name": "wide", "inputSchema": query},
        ]);
        publish(&catalog, "main", tools, &main).await;
        let tools = json!([
            {"name": "find", "inputSchema": query}, {"name": "ask", "inputSchema": query},
            {"name": "narrow", "inputSchema": object(&json!({"q": {"type": "integer"}}))},
        ]);
        publish(&catalog, "other", tools, &other).await;
        Self { catalog, main, other }
    }

    async fn call_for(
        &self,
        key: Option<&VirtualKey>,
        tool: &str,
    ) -> (Result<ToolOutput, CallError>, Vec<String>) {
        let deadline = Duration::from_secs(30);
        let budget = Budget { deadline, script: deadline, nested_calls: 8, depth: 4, in_flight: 1 };
        let view = self.catalog.snapshot().view(&Filter::none(), key);
        let caller = Caller::new(view, Origin::Caller, budget);
        let call = caller.admit(&format!("main-{tool}"), r#"{"q":"x"}"#).expect("admitted");
        let result = call.run().await;
        let records = caller.ledger().records();
        (result, records.iter().map(|record| record.name.to_string()).collect())
    }

    async fn call(&self, tool: &str) -> Result<ToolOutput, CallError> {
        self.call_for(None, tool).await.0
    }

    fn calls_of_other(&self) -> usize {
        self.other.calls.load(Ordering::Relaxed)
    }
}

async fn publish(catalog: &Catalog, name: &str, tools: Value, provider: &Arc<Scripted>) {
    let tools = serde_json::from_value(tools).expect("definitions");
    assert_eq!(catalog.publish(&client(name), tools, provider.clone()).await, [""; 0]);
}

#[tokio::test]
async fn a_call_that_its_source_has_not_begun_goes_to_the_fallback_and_says_so() {
    let pair = Pair::new().await;
    let own = pair.call("search").await.expect("a result");
    assert_eq!((own.to_text().as_str(), own.meta), ("main", None), "no mark can be forged");
    for (does, because) in [(Does::IsAway, "airlock.unavailable"), (Does::IsFull, "airlock.busy")] {
        *pair.main.does.lock() = does;
        let (result, calls) = pair.call_for(None, "search").await;
        let output = result.expect("a result");
        let mark = json!({"airlock/fallback": {"tool": "other-find", "because": because}});
        assert_eq!((output.to_text().as_str(), json!(output.meta)), ("other", mark));
        assert_eq!(calls, ["main-search", "other-find"]);
    }
}

#[tokio::test]
async fn a_call_that_may_have_run_goes_to_the_fallback_only_if_its_tool_is_read_only() {
    let pair = Pair::new().await;
    *pair.main.does.lock() = Does::LosesTheConnection;
    assert!(pair.call("search").await.is_err());
    assert_eq!(pair.calls_of_other(), 0);
    assert_eq!(pair.call("read").await.expect("a result").to_text(), "other");
    for does in [Does::Fails, Does::IsLate] {
        *pair.main.does.lock() = does;
        assert!(pair.call("read").await.is_err());
    }
    assert_eq!(pair.calls_of_other(), 1);
}

#[tokio::test]
async fn a_caller_reaches_a_fallback_only_if_it_could_call_it_without_an_approval() {
    let pair = Pair::new().await;
    *pair.main.does.lock() = Does::IsAway;
    let rows = [("main", &["*"][..]), ("other", &["ask"])];
    let rows = rows.map(|(name, tools)| (client(name), Allowlist::parse(tools).expect("a list")));
    let key = VirtualKey::new("ann", "sk-bf-ann", rows.into());
    let (result, _) = pair.call_for(Some(&key), "search").await;
    assert_eq!(result.expect_err("hidden").code(), HostCode::Unavailable);
    let error = pair.call("ask").await.expect_err("it would need an approval");
    assert_eq!(error.code(), HostCode::Unavailable);
    assert_eq!(pair.calls_of_other(), 0);
}

#[tokio::test]
async fn a_fallback_that_takes_other_arguments_is_not_called_and_the_operator_is_told() {
    let pair = Pair::new().await;
    *pair.main.does.lock() = Does::IsAway;
    let opened = Policy { auto_execute: Allowlist::All, ..policy(&[]) };
    pair.catalog.set_policy(&client("other"), opened);
    assert!(pair.call("wide").await.is_err());
    assert_eq!(pair.calls_of_other(), 0);
    let snapshot = pair.catalog.snapshot();
    let main = snapshot.clients().next().expect("a client");
    let problems: Vec<_> =
        snapshot.fallbacks(main).into_iter().map(|state| state.problem).collect();
    let problem = "its input schema accepts less: q: it does not accept the type `string`";
    assert_eq!(problems, [None, None, None, Some(problem.to_owned())]);
}

#[tokio::test]
async fn a_call_falls_back_once_and_its_error_is_that_of_its_own_source() {
    let pair = Pair::new().await;
    *pair.main.does.lock() = Does::IsAway;
    *pair.other.does.lock() = Does::IsFull;
    let error = pair.call("search").await.expect_err("both are away");
    assert_eq!(error.code(), HostCode::Unavailable);
    assert_eq!((pair.main.calls.load(Ordering::Relaxed), pair.calls_of_other()), (1, 1));
    *pair.other.does.lock() = Does::Fails;
    let error = pair.call("search").await.expect_err("the fallback has run and failed");
    assert_eq!(error.code(), HostCode::ToolError);
}

#[tokio::test]
async fn the_error_of_a_fallback_that_may_have_run_is_returned_and_says_so() {
    let pair = Pair::new().await;
    *pair.main.does.lock() = Does::IsAway;
    *pair.other.does.lock() = Does::IsLate;
    let error = pair.call("search").await.expect_err("the fallback is late");
    assert_eq!((error.code(), error.has_not_begun()), (HostCode::Deadline, false));
    *pair.other.does.lock() = Does::LosesTheConnection;
    let error = pair.call("search").await.expect_err("the fallback is lost");
    assert_eq!((error.code(), error.has_not_begun()), (HostCode::Unavailable, false));
    let expected = "the source of tool other-find is unavailable; it took the call as a fallback, and may have run it";
    assert_eq!(error.to_string(), expected);
    *pair.other.does.lock() = Does::IsAway;
    let error = pair.call("search").await.expect_err("both are away");
    assert!(error.has_not_begun());
}

#[tokio::test]
async fn a_tool_of_another_client_with_the_name_of_the_fallback_is_not_called() {
    let pair = Pair::new().await;
    pair.catalog.set_policy(&client("main"), policy(&[("search", "gone-find")]));
    let bare = Policy {
        auto_execute: Allowlist::All,
        prefix: airlock_core::tool::Prefix::Off,
        ..policy(&[])
    };
    pair.catalog.add_client(&client("third"), SourceKind::Server("http"), bare);
    let third =
        Arc::new(Scripted { name: "third", does: Mutex::new(Does::Answers), calls: 0.into() });
    let query = object(&json!({"q": {"type": "string"}}));
    let tools = json!([{"name": "gone-find", "inputSchema": query}]);
    publish(&pair.catalog, "third", tools, &third).await;
    let view = pair.catalog.snapshot().view(&Filter::none(), None);
    assert!(view.find(&Origin::Caller, "gone-find").is_some(), "its name on the wire");
    *pair.main.does.lock() = Does::IsAway;
    let error = pair.call("search").await.expect_err("there is no such fallback");
    assert_eq!(error.code(), HostCode::Unavailable);
    assert_eq!(third.calls.load(Ordering::Relaxed), 0);
    let snapshot = pair.catalog.snapshot();
    let main = snapshot.clients().find(|source| source.name == client("main")).expect("a client");
    let problem = snapshot.fallbacks(main).remove(0).problem;
    assert_eq!(problem.as_deref(), Some("there is no client \"gone\", or it is disabled"));
}

#[tokio::test]
async fn a_fallback_of_an_untrusted_client_takes_no_call_of_a_trusted_one() {
    let pair = Pair::new().await;
    let fallbacks = [("search", "other-find")];
    let trusted = Policy { trust: Trust::Trusted, ..policy(&fallbacks) };
    pair.catalog.set_policy(&client("main"), trusted);
    *pair.main.does.lock() = Does::IsAway;
    assert!(pair.call("search").await.is_err());
    assert_eq!(pair.calls_of_other(), 0);
    let snapshot = pair.catalog.snapshot();
    let main = snapshot.clients().next().expect("a client");
    let problem = snapshot.fallbacks(main).remove(0).problem;
    assert_eq!(problem.as_deref(), Some("client \"other\" is not trusted, as this client is"));
    let trusted = Policy { trust: Trust::Trusted, ..policy(&[]) };
    pair.catalog.set_policy(&client("other"), trusted);
    assert_eq!(pair.call("search").await.expect("a result").to_text(), "other");
}
