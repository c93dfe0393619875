//! Slots and full names: what a plugin calls, and what is decided.

use std::{
    pin::pin,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use airlock_core::{
    door::{
        Admitted, Budget, CallGuards, Caller, Filter, FinishedCall, GuardedCall, ProposedCall,
        Provider, Source, View,
    },
    threads,
    tool::{Allowlist, HostCode, Policy, Tool, ToolDefinition, ToolOutput},
};
use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::json;

use super::{
    super::tools::{self, ToolRequest},
    *,
};
use crate::ToolNames;

const TITLE: &str = "Title";
/// A text in the definition of each tool.
const LONG: &str = "thirty-two bytes, or thirty-three";

/// Returns the full name of the tool that was called.
struct Echo;

impl Provider for Echo {
    fn call(&self, call: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        Box::pin(async move { Ok(ToolOutput::text(call.tool().name.as_str())) })
    }
}

/// Returns the chain of a call whose caller may use the tools `a`, `b` and `c` of the client `far`.
pub(super) fn chain() -> Chain {
    guarded(None)
}

/// Returns the same chain with guards.
fn guarded(guards: Option<Arc<dyn CallGuards>>) -> Chain {
    let tools: Vec<_> = ["a", "b", "c"].map(tool).map(Arc::new).into();
    chain_of(&tools, guards)
}

fn far() -> ClientName {
    ClientName::parse("far").expect("a name")
}

/// Returns a tool of the client `far`.
fn tool(name: &str) -> Tool {
    let definition = json!({
        "name": name, "title": TITLE, "description": "A tool.", "inputSchema": {},
        "annotations": {"hint": LONG},
    });
    let definition: ToolDefinition = serde_json::from_value(definition).expect("a tool");
    Tool::adopt(&far(), definition).expect("a good tool")
}

/// Returns the chain of a call whose caller may use these tools of the client `far`.
fn chain_of(tools: &[Arc<Tool>], guards: Option<Arc<dyn CallGuards>>) -> Chain {
    let client = far();
    let policy =
        Policy { execute: Allowlist::All, auto_execute: Allowlist::All, ..Policy::default() };
    let provider: Arc<dyn Provider> = Arc::new(Echo);
    let source = Source {
        client: &client,
        policy: &policy,
        tools,
        unaccepted: &std::collections::BTreeSet::new(),
        provider: &provider,
        is_server: false,
        is_switched_off: false,
    };
    let view = View::new([source], None, &Filter::none(), None).with_guards(guards);
    let budget = Budget {
        deadline: Duration::from_secs(30),
        script: Duration::from_secs(30),
        nested_calls: 64,
        depth: 4,
        in_flight: 8,
    };
    let caller = Caller::new(view, Origin::Caller, budget);
    caller.admit("far-a", "").expect("it is listed").chain().clone()
}

/// Grants with the slots `one` and `two` bound, `gone` bound to a tool that the caller may not use,
/// `spare` not bound, and `far-a` granted by full name.
fn grants() -> Grants {
    let slots =
        [("one", Some("far-b")), ("two", Some("far-c")), ("gone", Some("far-x")), ("spare", None)];
    let slots = slots.map(|(slot, tool)| (slot.to_owned(), tool.map(str::to_owned)));
    let tools = ToolNames { slots: slots.into(), full: ["far-a".to_owned()].into() };
    Grants { tools, ..Grants::default() }
}

/// Calls a tool by the name that a plugin with `grants` uses.
async fn call(grants: Grants, name: &str) -> Result<String, CallError> {
    call_with(grants, name, "").await
}

async fn call_with(grants: Grants, name: &str, arguments: &str) -> Result<String, CallError> {
    let name = name.to_owned();
    let arguments = arguments.to_owned();
    let request = ToolRequest { name, arguments, timeout: None };
    let called = with(grants, Some(chain()), None, async |store| tools::call(store, request).await);
    Ok(called.await??.to_text())
}

#[tokio::test]
async fn a_slot_calls_the_tool_that_is_bound_to_it_and_a_full_name_only_if_it_is_granted() {
    for (name, tool) in [("one", "far-b"), ("two", "far-c"), ("far-a", "far-a")] {
        assert_eq!(call(grants(), name).await.expect("it is granted"), tool);
    }
    // The tool of a slot has no other name for the plugin, and a hidden one is an unknown one.
    for name in ["far-b", "gone", "far-x", "other", ""] {
        let refused = call(grants(), name).await.expect_err("not granted");
        assert_eq!(refused.to_string(), format!("tool '{name}' is not available or not permitted"));
    }
    let unbound = call(grants(), "spare").await.expect_err("not bound");
    assert_eq!(
        (unbound.code(), unbound.kind()),
        (HostCode::UnboundSlot, airlock_core::tool::ErrorKind::NotFound)
    );
    insta::assert_snapshot!(unbound, @"the operator has bound no tool to the slot 'spare'");
    let long = call(grants(), &"x".repeat(1_000)).await.expect_err("unknown").to_string();
    assert!(long.len() < 200, "{long}");
}

#[tokio::test]
async fn an_error_names_the_tool_as_the_plugin_called_it() {
    for name in ["one", "far-a"] {
        let refused = call_with(grants(), name, "[]").await.expect_err("no object").to_string();
        assert!(
            refused.starts_with(&format!("the arguments of tool '{name}' cannot be used")),
            "{refused}"
        );
    }
    let batch = with(grants(), Some(chain()), None, async |store| {
        tools::call_batch(
            store,
            vec![request("two", "[]"), request("one", ""), request("one", "7")],
        )
        .await
    });
    let names: Vec<_> = batch
        .await
        .expect("it ends well")
        .into_iter()
        .map(|answer| match answer {
            Ok(output) => output.to_text(),
            Err(error) => {
                assert_eq!(error.code(), HostCode::BadArguments, "{error}");
                format!("bad {}", error.tool().expect("it names the tool"))
            }
        })
        .collect();
    assert_eq!(names, ["bad two", "far-b", "bad one"]);
}

fn request(name: &str, arguments: &str) -> ToolRequest {
    ToolRequest { name: name.to_owned(), arguments: arguments.to_owned(), timeout: None }
}

#[tokio::test]
async fn a_list_and_a_description_cost_fuel_for_their_bytes() {
    let spent = with(grants(), Some(chain()), None, async |mut store| {
        let mut charged = 0;
        let mut spent = |store: &Store<'_, PluginSide>| {
            let before = std::mem::replace(&mut charged, store.data().meter.debt());
            charged - before
        };
        let _ = tools::list(&mut store, None, 1)?;
        let one = spent(&store);
        let _ = tools::list(&mut store, None, 3)?;
        let three = spent(&store);
        let _ = tools::describe(&mut store, "one".to_owned())?;
        Ok((one, three, spent(&store)))
    });
    let (one, three, described) = spent.await.expect("it ends well");
    assert_eq!(one, BASE_FUEL + summary("one"));
    assert_eq!(three, one + summary("two") + summary("far-a"));
    assert!(described > one + LONG.len() as u64, "{described}");
}

fn summary(name: &str) -> u64 {
    (name.len() + TITLE.len() + "A tool.".len()) as u64
}

#[tokio::test]
async fn the_list_has_the_slots_and_then_the_full_names_page_by_page() {
    assert_eq!(page(None, 10).await, ("one two far-a".to_owned(), None));
    assert_eq!(page(None, 1).await, ("one".to_owned(), Some("one".to_owned())));
    assert_eq!(page(Some("one"), 1).await, ("two".to_owned(), Some("two".to_owned())));
    assert_eq!(page(Some("two"), 1).await, ("far-a".to_owned(), None));
    let described = with(grants(), Some(chain()), None, async |mut store| {
        let described = tools::describe(&mut store, "one".to_owned())?;
        Ok(described.map(|listed| (listed.name, listed.tool.name.to_string())))
    });
    let described = described.await.expect("it ends well").expect("it is bound");
    assert_eq!(described, ("one".to_owned(), "far-b".to_owned()));
}

#[tokio::test]
async fn the_list_has_the_full_name_of_a_tool_whose_name_on_the_wire_is_another_one() {
    let mut bare = tool("a");
    bare.name = ToolName::bare("a").expect("a good name");
    let chain = chain_of(&[Arc::new(bare)], None);
    assert_eq!(page_of(chain, None, 10).await, ("far-a".to_owned(), None));
}

async fn page(cursor: Option<&str>, limit: u32) -> (String, Option<String>) {
    page_of(chain(), cursor, limit).await
}

async fn page_of(chain: Chain, cursor: Option<&str>, limit: u32) -> (String, Option<String>) {
    let listed =
        with(grants(), Some(chain), None, async |mut store| tools::list(&mut store, cursor, limit));
    let page = listed.await.expect("it ends well").expect("it is permitted");
    let names: Vec<_> = page.items.iter().map(|item| item.name.clone()).collect();
    (names.join(" "), page.next)
}

#[tokio::test]
async fn a_tool_that_does_not_declare_calls_has_no_tools_and_learns_which_effect_to_declare() {
    for name in ["one", "spare", "far-a", "far-b"] {
        let refused =
            call(narrowed(grants(), &["http"]), name).await.expect_err("not declared").to_string();
        insta::allow_duplicates! {
            insta::assert_snapshot!(
                refused,
                @r#"the tool does not declare the effect "call_tools" in plugin.toml"#
            );
        }
    }
    let refused = with(narrowed(grants(), &["http"]), Some(chain()), None, async |mut store| {
        let listed = is_undeclared(&tools::list(&mut store, None, 10)?.map(drop));
        let described = is_undeclared(&tools::describe(&mut store, "one".to_owned())?.map(drop));
        Ok((listed, described, refused(&store)))
    });
    assert_eq!(refused.await.expect("it ends well"), (true, true, vec!["call_tools".to_owned()]));
    let declared = narrowed(grants(), &["call_tools"]);
    assert_eq!(call(declared, "one").await.expect("declared"), "far-b");
}

fn is_undeclared(answer: &Result<(), CallError>) -> bool {
    answer.as_ref().is_err_and(|error| error.code() == HostCode::UndeclaredEffect)
}

#[tokio::test]
async fn a_tool_that_declares_one_slot_calls_that_one_and_learns_what_else_to_declare() {
    assert_eq!(
        call(narrowed(grants(), &["call_tools.one"]), "one").await.expect("declared"),
        "far-b"
    );
    for (name, effect) in
        [("two", "call_tools.two"), ("spare", "call_tools.spare"), ("far-a", "call_tools")]
    {
        let refused =
            call(narrowed(grants(), &["call_tools.one"]), name).await.expect_err("not declared");
        assert_eq!(
            refused.to_string(),
            format!("the tool does not declare the effect {effect:?} in plugin.toml")
        );
    }
    let unknown =
        call(narrowed(grants(), &["call_tools.one"]), "far-b").await.expect_err("not granted");
    assert_eq!(unknown.code(), HostCode::NotFound);
    let listed =
        with(narrowed(grants(), &["call_tools.one"]), Some(chain()), None, async |mut store| {
            let page = tools::list(&mut store, None, 10)?.map_err(|error| error.to_string());
            Ok(page.map(|page| page.items.into_iter().map(|item| item.name).collect::<Vec<_>>()))
        });
    assert_eq!(listed.await.expect("it ends well"), Ok(vec!["one".to_owned()]));
}

/// Counts the calls that it is asked about.
#[derive(Default)]
struct Counting(AtomicUsize);

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

#[tokio::test]
async fn a_guest_yields_after_each_decision_about_a_guarded_call() {
    let guards = Arc::new(Counting::default());
    let chain = guarded(Some(guards.clone()));
    let before = guards.0.load(Ordering::Relaxed);
    let batch = with(grants(), Some(chain), None, async |store| {
        let requests = vec![request("one", ""), request("two", "")];
        let mut batch = pin!(tools::call_batch(store, requests));
        assert!(batch.as_mut().now_or_never().is_none(), "its deadline is looked at");
        assert_eq!(guards.0.load(Ordering::Relaxed) - before, 1);
        batch.await
    });
    let answers = batch.await.expect("it ends well");
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(guards.0.load(Ordering::Relaxed) - before, 2);
    // Also after one that is refused.
    let refused = with(grants(), Some(guarded(Some(guards))), None, async |store| {
        let mut refused = pin!(tools::call(store, request("one", "[]")));
        assert!(refused.as_mut().now_or_never().is_none());
        refused.await
    });
    assert!(refused.await.expect("it ends well").is_err());
}

#[tokio::test]
async fn long_arguments_wait_for_a_blocking_thread() {
    // Refused: such a call does not wait for its tool.
    let twice = format!(r#"{{"a":"{}","a":1}}"#, "x".repeat(threads::INLINE_BYTES));
    let chain = chain();
    let held = threads::occupy(chain.tenant()).await;
    let refused = with(grants(), Some(chain), None, async |store| {
        let mut called = pin!(tools::call(store, request("one", &twice)));
        // Several polls: arguments that were read here would yield once, after the first.
        for _ in 0..3 {
            assert!(called.as_mut().now_or_never().is_none(), "it waits for a thread");
        }
        drop(held);
        called.await
    });
    let refused = refused.await.expect("it ends well").expect_err("a key is there twice");
    assert_eq!(refused.code(), HostCode::BadArguments);
}
