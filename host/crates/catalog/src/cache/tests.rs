//! Calls through the door, of a source that counts them.

use std::sync::atomic::AtomicUsize;

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::Map;
use tokio::sync::Semaphore;

use super::*;
use crate::{Catalog, SourceKind, tests::client};
use airlock_core::{
    door::{Budget, Caller, Filter, Origin, Provider, VirtualKey},
    tool::{Allowlist, CallError, Content, ErrorKind, Policy, ResourceLink, ToolError},
};

/// Returns the number of the call as text. What else it does is named by the member `how` of the
/// arguments.
struct Counting {
    calls: AtomicUsize,
    /// Permits for the calls with `waits`.
    may_end: Semaphore,
}

impl Provider for Counting {
    fn call(&self, call: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        Box::pin(async move {
            let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
            let arguments = call.arguments().to_object();
            let mut output = ToolOutput::text(number.to_string());
            match arguments.get("how").and_then(Value::as_str).unwrap_or_default() {
                "fails" => return Err(ToolError::new(ErrorKind::Internal, "no").into()),
                "emits" => call.chain().reporter().emit(Content::text("part")),
                "links" => {
                    let link = ContentBlock::ResourceLink(Box::<ResourceLink>::default());
                    output.content.push(link.into());
                }
                "forges" => {
                    output.meta = Some(Map::from_iter([(CACHED.to_owned(), json!(1))]));
                }
                "calls" => {
                    let granted = Origin::Plugin(Arc::new(["db-other".to_owned()].into()));
                    let nested = call.chain().admit(&granted, "db-other", "{}");
                    drop(nested.expect("admitted").run().await);
                }
                "waits" => drop(self.may_end.acquire().await),
                "is_large" => output.structured = Some(json!("x".repeat(64 << 10))),
                _ => {}
            }
            Ok(output)
        })
    }
}

struct Cached {
    catalog: Arc<Catalog>,
    provider: Arc<Counting>,
}

fn policy(rules: &[CacheRule]) -> Policy {
    Policy {
        execute: Allowlist::All,
        auto_execute: Allowlist::parse(&["read", "shared", "write"]).expect("a list"),
        allow_on_all_keys: true,
        cache: rules.to_vec(),
        ..Policy::default()
    }
}

fn rule(tools: &[&str], is_shared: bool) -> CacheRule {
    let tools = Allowlist::parse(tools).expect("a list");
    CacheRule { tools, ttl: Duration::from_mins(1), max_bytes: 64 << 10, is_shared }
}

fn rules() -> Vec<CacheRule> {
    vec![rule(&["read", "asks", "write"], false), rule(&["shared"], true)]
}

fn key(name: &str) -> VirtualKey {
    VirtualKey::new(name, &format!("sk-bf-{name}"), BTreeMap::new())
}

impl Cached {
    async fn new() -> Self {
        Self::with_kind(SourceKind::Server("stdio")).await
    }

    async fn with_kind(kind: SourceKind) -> Self {
        let catalog = Catalog::new();
        catalog.add_client(&client("db"), kind, policy(&rules()));
        let provider = Arc::new(Counting { calls: 0.into(), may_end: Semaphore::new(0) });
        let this = Self { catalog, provider };
        this.publish("").await;
        this
    }

    async fn publish(&self, description: &str) {
        let tools = json!([
            {"name": "read", "inputSchema": {}, "description": description},
            {"name": "other", "inputSchema": {}},
            {"name": "asks", "inputSchema": {}},
            {"name": "shared", "inputSchema": {}},
            {"name": "write", "inputSchema": {}, "annotations": {"readOnlyHint": false}},
        ]);
        let tools = serde_json::from_value(tools).expect("definitions");
        assert_eq!(
            self.catalog.publish(&client("db"), tools, self.provider.clone()).await,
            [""; 0]
        );
    }

    fn caller(&self, key: Option<&VirtualKey>) -> Caller {
        let deadline = Duration::from_secs(30);
        let budget = Budget { deadline, script: deadline, nested_calls: 8, depth: 2, in_flight: 1 };
        Caller::new(self.catalog.snapshot().view(&Filter::none(), key), Origin::Caller, budget)
    }

    async fn output(&self, key: Option<&VirtualKey>, tool: &str, arguments: &str) -> ToolOutput {
        let call = self.caller(key).admit(&format!("db-{tool}"), arguments).expect("admitted");
        call.run().await.expect("a result")
    }

    /// Returns the text of a result.
    async fn call(&self, tool: &str, arguments: &str) -> String {
        self.output(None, tool, arguments).await.to_text()
    }

    fn status(&self) -> Value {
        let snapshot = self.catalog.snapshot();
        let client = snapshot.clients().next().expect("one client");
        client.provider().expect("a provider").status().remove("tool_cache").unwrap_or_default()
    }
}

/// Arguments of which no two are equal. A tree of JSON values would not tell the last two apart.
const OTHERS: [&str; 8] = [
    "{}",
    r#"{"a":1}"#,
    r#"{"a":"1"}"#,
    r#"{"a":[1]}"#,
    r#"{"a":{"1":null}}"#,
    r#"{"a":[[1],[]]}"#,
    r#"{"a":100000000000000000001}"#,
    r#"{"a":100000000000000000002}"#,
];

#[tokio::test(start_paused = true)]
async fn an_equal_call_gets_the_earlier_result_with_its_age_until_its_time_has_passed() {
    let db = Cached::new().await;
    let first = db.output(None, "read", r#"{"a": 1, "b": [{"c": 2, "d": 3}]}"#).await;
    assert_eq!((first.to_text().as_str(), &first.meta), ("1", &None));
    tokio::time::advance(Duration::from_secs(3)).await;
    let again = db.output(None, "read", r#"{ "b" : [{"d":3,"c":2}],"\u0061":1}"#).await;
    let meta = json!({"airlock/cache": {"age_ms": 3_000}});
    assert_eq!((again.to_text().as_str(), json!(again.meta)), ("1", meta));
    for (at, other) in OTHERS.iter().enumerate() {
        assert_eq!(db.call("read", other).await, (at + 2).to_string(), "{other}");
    }
    assert_eq!(db.call("other", "{}").await, "10", "no rule names it");
    assert_eq!(db.call("other", "{}").await, "11");
    let status = db.status();
    assert_eq!(
        (&status["hits"], &status["misses"], &status["results"]),
        (&json!(1), &json!(9), &json!(9))
    );
    tokio::time::advance(Duration::from_secs(57)).await;
    assert_eq!(db.call("read", r#"{"a":1,"b":[{"c":2,"d":3}]}"#).await, "12");
}

#[tokio::test]
async fn another_tenant_gets_a_result_only_if_the_rule_is_shared() {
    let db = Cached::new().await;
    let keys = [key("ann"), key("bob")];
    for (tool, expected) in [("read", ["1", "2", "1", "2"]), ("shared", ["3", "3", "3", "3"])] {
        for (key, expected) in keys.iter().chain(&keys).zip(expected) {
            assert_eq!(db.output(Some(key), tool, "{}").await.to_text(), expected, "{tool}");
        }
    }
    // The age would tell when another tenant made the call.
    let meta = db.output(Some(&keys[1]), "shared", "{}").await.meta;
    assert_eq!(json!(meta), json!({"airlock/cache": {}}));
}

#[tokio::test]
async fn a_result_that_is_kept_is_not_shown_to_a_caller_that_may_not_call_the_tool() {
    let db = Cached::new().await;
    assert_eq!(db.output(Some(&key("ann")), "shared", "{}").await.to_text(), "1");
    let rows = BTreeMap::from([(client("db"), Allowlist::parse(&["read"]).expect("a list"))]);
    let restricted = VirtualKey::new("eve", "sk-bf-eve", rows);
    assert!(db.caller(Some(&restricted)).admit("db-shared", "{}").is_err());
}

#[tokio::test]
async fn results_that_are_not_whole_texts_are_not_kept() {
    let db = Cached::new().await;
    for how in ["fails", "emits", "links", "is_large"] {
        let arguments = json!({"how": how}).to_string();
        for _ in 0..2 {
            let before = db.provider.calls.load(Ordering::Relaxed);
            let call = db.caller(None).admit("db-read", &arguments).expect("admitted");
            drop(call.run().await);
            assert_eq!(db.provider.calls.load(Ordering::Relaxed), before + 1, "{how}");
        }
    }
    let long = json!({"text": "x".repeat(MAX_ARGUMENT_BYTES)}).to_string();
    assert_ne!(db.call("read", &long).await, db.call("read", &long).await);
    assert_eq!(db.status()["results"], 0);
}

#[tokio::test]
async fn the_result_of_a_plugins_call_that_made_another_one_is_not_kept() {
    let db = Cached::with_kind(SourceKind::Plugin).await;
    assert_eq!(db.call("read", "{}").await, db.call("read", "{}").await);
    let arguments = r#"{"how":"calls"}"#;
    assert_ne!(db.call("read", arguments).await, db.call("read", arguments).await);
    assert_eq!(db.status()["results"], 1);
}

#[tokio::test]
async fn a_call_that_needs_an_approval_reaches_its_source() {
    let db = Cached::new().await;
    let deadline = Duration::from_secs(30);
    let budget = Budget { deadline, script: deadline, nested_calls: 0, depth: 1, in_flight: 1 };
    for number in ["1", "2"] {
        let view = db.catalog.snapshot().view(&Filter::none(), None);
        let caller = Caller::new(view, Origin::Caller, budget);
        let call = caller.admit("db-asks", "{}").expect("the caller's request approves it");
        assert_eq!(call.run().await.expect("a result").to_text(), number);
    }
    assert_eq!(db.status()["results"], 0);
}

#[tokio::test]
async fn a_tool_that_says_that_it_changes_something_is_not_cached_and_the_operator_is_told() {
    let db = Cached::new().await;
    assert_ne!(db.call("write", "{}").await, db.call("write", "{}").await);
    let reason = "its definition says `readOnlyHint: false`";
    assert_eq!(db.status()["refused"], json!([{"tool": "write", "reason": reason}]));
}

#[tokio::test]
async fn results_end_with_the_definition_the_rules_the_provider_and_when_they_are_forgotten() {
    let db = Cached::new().await;
    assert_eq!(db.call("read", "{}").await, "1");
    db.publish("").await;
    assert_eq!(db.call("read", "{}").await, "1", "the same list");
    db.publish("it does something else").await;
    assert_eq!(db.call("read", "{}").await, "2");
    db.catalog.forget_results(&client("db"));
    assert_eq!(db.status()["results"], 0);
    assert_eq!(db.call("read", "{}").await, "3");
    let trusted = Policy { trust: airlock_core::tool::Trust::Trusted, ..policy(&rules()) };
    db.catalog.set_policy(&client("db"), trusted);
    assert_eq!(db.call("read", "{}").await, "3", "the same rules");
    db.catalog.set_policy(&client("db"), policy(&rules()[..1]));
    assert_eq!(db.call("read", "{}").await, "4");
    let provider = Arc::new(Counting { calls: 100.into(), may_end: Semaphore::new(0) });
    let db = Cached { provider, ..db };
    db.publish("it does something else").await;
    assert_eq!(db.call("read", "{}").await, "101");
    db.catalog.set_policy(&client("db"), policy(&[]));
    assert_eq!((db.call("read", "{}").await.as_str(), db.status()), ("102", Value::Null));
}

#[tokio::test]
async fn the_results_of_a_removed_client_are_dropped() {
    let db = Cached::new().await;
    db.call("read", "{}").await;
    assert_eq!(db.catalog.results.usage(0).0, 1);
    db.catalog.remove_client(&client("db"));
    assert_eq!(db.catalog.results.usage(0), (0, 0));
}

#[tokio::test]
async fn the_result_of_a_call_that_began_before_all_were_forgotten_is_not_kept() {
    let db = Cached::new().await;
    let arguments = r#"{"how":"waits"}"#;
    let mut running = Box::pin(db.call("read", arguments));
    while db.provider.calls.load(Ordering::Relaxed) == 0 {
        assert!((&mut running).now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    db.catalog.forget_results(&client("db"));
    db.provider.may_end.add_permits(10);
    assert_eq!(running.await, "1");
    assert_eq!(db.call("read", arguments).await, "2");
    assert_eq!(db.call("read", arguments).await, "2");
}

#[tokio::test]
async fn equal_calls_at_the_same_time_each_reach_the_source() {
    let db = Cached::new().await;
    let arguments = r#"{"how":"waits"}"#;
    let mut both =
        Box::pin(async { tokio::join!(db.call("read", arguments), db.call("read", arguments)) });
    for _ in 0..1_000 {
        assert!((&mut both).now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    assert_eq!(db.provider.calls.load(Ordering::Relaxed), 2, "neither waits for the other");
    db.provider.may_end.add_permits(2);
    both.await;
}

#[tokio::test]
async fn a_source_cannot_forge_the_mark_of_the_cache() {
    let db = Cached::new().await;
    assert_eq!(db.output(None, "read", r#"{"how":"forges"}"#).await.meta, None);
}
