use std::{collections::BTreeSet, path::Path};

use futures_util::{FutureExt as _, future};
use prometheus_client::{encoding::text::encode, registry::Registry};
use serde_json::json;

use super::*;
use crate::{Hooks, Scope, Settings, ToolPattern};
use airlock_core::{
    act::{Act, ActKind, ActRecord, Actor},
    tool::HostCode,
};
use airlock_sandbox::Limits;

fn tool(name: &str) -> Arc<Tool> {
    tool_of("desk", name)
}

fn tool_of(client: &str, name: &str) -> Arc<Tool> {
    let client = ClientName::parse(client).expect("a good name");
    let definition =
        json!({"name": name, "description": "Says x.", "inputSchema": {"type": "object"}});
    let definition = serde_json::from_value(definition).expect("a definition");
    Arc::new(Tool::adopt(&client, definition).expect("a good tool"))
}

/// Keeps acts.
#[derive(Default)]
struct NotedActs(Mutex<Vec<Act>>);

impl ActRecord for NotedActs {
    fn record(&self, act: Act) {
        self.0.lock().push(act);
    }

    fn record_before(&self, act: Act) -> BoxFuture<'_, bool> {
        self.record(act);
        Box::pin(future::ready(true))
    }
}

/// Returns the review by one guard that is not loaded.
fn review(scope: Scope, hooks: Hooks) -> DefinitionReview {
    recorded(scope, hooks, Acts::default())
}

fn recorded(scope: Scope, hooks: Hooks, acts: Acts) -> DefinitionReview {
    let guards = Guards::new(&[Settings {
        name: "absent".into(),
        component: Path::new("/absent/guard.wasm").to_owned(),
        scope,
        hooks,
        settings: "{}".into(),
        limits: Limits::PLUGIN,
        stream_window: None,
    }]);
    DefinitionReview::new(guards.expect("there is one"), acts)
}

fn detail<'a>(act: &'a Act, name: &str) -> Option<&'a str> {
    act.details.iter().find(|(known, _)| *known == name).map(|(_, value)| &**value)
}

/// Returns the names of the tools that are offered.
fn offered(review: &DefinitionReview) -> Vec<String> {
    let list = review.decide(vec![tool("a"), tool("b")]);
    assert!(list.withheld.iter().all(|tool| tool.error().code() == HostCode::GuardFailed));
    list.tools.iter().map(|tool| tool.original.clone()).collect()
}

#[test]
fn tools_in_the_scope_of_a_guard_that_is_not_loaded_are_withheld() {
    let of_tools = Scope {
        tools: Some(vec![ToolPattern::parse("desk-a").expect("a good pattern")]),
        ..Scope::default()
    };
    // A definition has no key.
    let keys = Some(BTreeSet::from(["ann".to_owned()]));
    let of_keys = Scope { keys, ..Scope::default() };
    let before = Hooks::from_iter([GuardHook::Before]);
    for (scope, hooks, expected) in [
        (Scope::default(), Hooks::default(), vec![]),
        (of_tools, Hooks::from_iter([HOOK]), vec!["b"]),
        (of_keys, Hooks::default(), vec!["a", "b"]),
        (Scope::default(), before, vec!["a", "b"]),
    ] {
        assert_eq!(offered(&review(scope, hooks)), expected);
    }
}

/// Returns the number of times that the guard was asked about a definition and failed.
fn failures(review: &DefinitionReview) -> usize {
    let mut registry = Registry::default();
    review.guards.register_metrics(&mut registry);
    let mut text = String::new();
    encode(&mut text, &registry).expect("text");
    let start = r#"airlock_guard_hooks_total{guard="absent",hook="definition",verdict="fail"} "#;
    let count = text.lines().find_map(|line| line.strip_prefix(start));
    count.and_then(|count| count.parse().ok()).expect("a number")
}

#[test]
fn no_guard_is_asked_about_a_client_whose_time_is_over() {
    let review = review(Scope::default(), Hooks::default());
    let now = Instant::now();
    let hostile = tool("a").client.clone();
    review.times.spend(hostile.as_ref(), now, now + Duration::from_hours(1));
    assert!(offered(&review).is_empty());
    assert_eq!(failures(&review), 0);
    assert_eq!(review.decide(vec![tool_of("other", "a")]).withheld.len(), 1);
    assert_eq!(failures(&review), 1);
}

#[test]
fn a_failure_is_recorded_once_and_the_guard_is_asked_again() {
    let kept = Arc::new(NotedActs::default());
    let review = recorded(Scope::default(), Hooks::default(), Acts::new(kept.clone()));
    for _ in 0..3 {
        assert!(offered(&review).is_empty());
    }
    let acts = kept.0.lock();
    let objects: Vec<_> = acts.iter().map(|act| &*act.object).collect();
    assert_eq!(objects, ["desk-a", "desk-b"]);
    let first = &acts[0];
    assert_eq!(
        (first.kind, &first.actor),
        (ActKind::DefinitionGuarded, &Actor::Guard("absent".into()))
    );
    assert_eq!((detail(first, "client"), detail(first, "verdict")), (Some("desk"), Some("fail")));
    assert_eq!((detail(first, "guard_digest"), detail(first, "left_out")), (Some(""), None));
    let [one, other] = [0, 1].map(|number| detail(&acts[number], "definition"));
    assert!(one.is_some_and(|digest| digest.starts_with("sha256:")) && one != other);
}

#[test]
fn no_list_is_decided_before_the_guards_are_loaded() {
    let review = review(Scope::default(), Hooks::default());
    assert!(review.ready().now_or_never().is_none());
    review.begin();
    assert!(review.ready().now_or_never().is_some());
}

#[test]
fn a_rewrite_replaces_texts_and_nothing_else() {
    let tool = tool("a");
    let definition = serde_json::to_value(tool.to_definition()).expect("JSON");
    let same = rewritten(&tool, &definition.to_string()).expect("it is the same");
    assert_eq!(same, *tool);
    for (member, value, description) in [
        ("description", json!("Says y."), Some("Says y.")),
        ("name", json!("b"), None),
        ("inputSchema", json!({"type": "object", "required": ["x"]}), None),
    ] {
        let mut changed = definition.clone();
        changed[member] = value;
        let changed = rewritten(&tool, &changed.to_string()).ok();
        assert_eq!(changed.as_ref().map(|tool| &*tool.description), description, "{member}");
    }
    for text in ["[]", "{", "{}"] {
        assert!(rewritten(&tool, text).is_err(), "{text}");
    }
}

#[test]
fn kept_decisions_are_bounded() {
    let mut kept = KeptDecisions::default();
    let text: Arc<str> = "x".repeat(MAX_KEPT_BYTES / 4).into();
    let own = tool("a");
    for number in 0..8 {
        kept.keep(&own, number.to_string(), DefinitionDecision::Rewritten(text.clone()));
        assert!(kept.0[&own.client].bytes <= MAX_KEPT_BYTES);
    }
    assert!((1..=3).contains(&kept.0[&own.client].decisions.len()));
    for number in 0..60 {
        let other = tool_of(&format!("c{}", number / 3), "a");
        kept.keep(&other, number.to_string(), DefinitionDecision::Rewritten(text.clone()));
        assert!(kept.0.values().map(|client| client.bytes).sum::<usize>() <= MAX_ALL_BYTES);
    }
}

#[test]
fn the_decisions_of_one_client_do_not_displace_those_of_another() {
    let mut kept = KeptDecisions::default();
    let own = tool("a");
    kept.keep(&own, "own".to_owned(), DefinitionDecision::Kept);
    let hostile = tool_of("hostile", "a");
    for number in 0..=MAX_KEPT {
        kept.keep(&hostile, number.to_string(), DefinitionDecision::Kept);
    }
    assert_eq!(kept.0[&hostile.client].decisions.len(), 1);
    assert!(kept.get(&own, "own").is_some() && kept.get(&hostile, "0").is_none());
    assert!(kept.get(&hostile, "own").is_none());
}

#[test]
fn a_decision_that_replaces_another_one_takes_its_room() {
    let mut kept = KeptDecisions::default();
    let own = tool("a");
    let text: Arc<str> = "x".repeat(MAX_KEPT_BYTES / 2).into();
    for _ in 0..4 {
        kept.keep(&own, "own".to_owned(), DefinitionDecision::Rewritten(text.clone()));
    }
    kept.keep(&own, "own".to_owned(), DefinitionDecision::Kept);
    let client = &kept.0[&own.client];
    assert_eq!(client.bytes, "own".len() + DefinitionDecision::Kept.bytes());
}
