//! Functions of the program that send requests to their own gateway: the calls of these are deeper than their own.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU32, Ordering},
};

use airlock::{
    CallReply, Gateway, GatewayBuilder, ModelFailure, ModelReply, ModelSource, NativeTool,
    RequestError, ToolContext,
    conversation::{Conversation, Item, Message, Part, Role, Wire},
    tool::{Allowlist, ErrorKind, Policy, ToolError, ToolOutput, Trust},
};
use airlock_tests::{Embedded, Setup};
use futures_util::future::BoxFuture;
use serde_json::json;

/// Greatest depth of a call.
const DEPTH: u32 = 3;
/// Text of the error of a call beyond it.
const TOO_DEEP: &str = "limit of 3 levels of nested calls";

/// A tool and a model that ask for themselves again.
#[derive(Default)]
struct Recursion {
    gateway: OnceLock<Gateway>,
    /// Calls so far.
    made: AtomicU32,
    /// True if each request is sent in a task of its own.
    is_apart: bool,
}

impl Recursion {
    fn gateway(&self) -> &Gateway {
        self.gateway.get().expect("it has started")
    }

    /// Calls the tool again, and returns its result.
    async fn call(&self, context: &ToolContext) -> Result<CallReply, RequestError> {
        let depth = self.made.fetch_add(1, Ordering::SeqCst) + 1;
        assert_eq!(context.depth(), depth);
        let name = context.request_context::<String>().expect("the request has one");
        let request = self.gateway().request().context(name.clone());
        if !self.is_apart {
            return request.open()?.call(&name, json!({})).await;
        }
        let request = request.call_depth(context.depth()).open()?;
        let calling = tokio::spawn(async move { request.call(&name, json!({})).await });
        calling.await.expect("it does not panic")
    }
}

/// Returns the tool of a program, which calls itself.
fn again(recursion: &Arc<Recursion>) -> NativeTool {
    let recursion = recursion.clone();
    NativeTool::new("again", "Calls itself.", json!({}), move |_, context| {
        let recursion = recursion.clone();
        async move {
            let called = recursion.call(&context).await;
            let failed = match called {
                Ok(CallReply::Done(output)) => return Ok::<ToolOutput, ToolError>(output),
                Ok(other) => format!("{other:?}"),
                Err(error) => error.to_string(),
            };
            Err(ToolError::new(ErrorKind::Other, failed))
        }
    })
}

/// A model that asks itself.
struct Echo(Arc<Recursion>);

impl ModelSource for Echo {
    fn respond(&self, _: Conversation) -> BoxFuture<'_, Result<ModelReply, ModelFailure>> {
        Box::pin(async move {
            self.0.made.fetch_add(1, Ordering::SeqCst);
            let request = self.0.gateway().request().open();
            let request = request.map_err(|error| ModelFailure::new(error.to_string()))?;
            let asked = request.chat(question()).await;
            let reply = asked.map_err(|error| ModelFailure::new(error.to_string()))?;
            Ok(ModelReply::text(reply.text()))
        })
    }
}

fn question() -> Conversation {
    let mut conversation = Conversation::new(Wire::Chat, "own/echo");
    let text = Message::new(Role::User, vec![Part::text("Again.")]);
    conversation.items.push(Item::Message(text));
    conversation
}

/// Starts a gateway with the tool and the model.
async fn started(recursion: &Arc<Recursion>) -> Embedded {
    let policy = Policy {
        execute: Allowlist::All,
        auto_execute: Allowlist::All,
        trust: Trust::Trusted,
        ..Policy::default()
    };
    let build = |builder: GatewayBuilder| {
        let builder = builder.native_policy(policy);
        let builder = builder.register_tool(again(recursion)).expect("a tool");
        builder.with_model_source("own", Arc::new(Echo(recursion.clone())))
    };
    let setup = Setup::new().set("/mcp/tool_manager_config/max_call_depth", DEPTH);
    let embedded = Embedded::with(setup, |_| {}, build).await;
    assert!(recursion.gateway.set(embedded.gateway().clone()).is_ok());
    embedded
}

#[tokio::test]
async fn a_tool_that_calls_itself_ends_at_the_depth_of_calls() {
    for is_apart in [false, true] {
        let recursion = Arc::new(Recursion { is_apart, ..Recursion::default() });
        let embedded = started(&recursion).await;
        let name = Arc::new("internal-again".to_owned());
        let request = embedded.gateway().request().context(name.clone());
        let request = request.open().expect("it is permitted");
        for _ in 0..2 {
            recursion.made.store(0, Ordering::SeqCst);
            let error = request.call(&name, json!({})).await.expect_err("it has no end");
            assert!(error.to_string().contains(TOO_DEEP), "{error}");
            assert_eq!(recursion.made.load(Ordering::SeqCst), DEPTH);
        }
        embedded.stop().await;
    }
}

#[tokio::test]
async fn a_request_beyond_the_depth_of_calls_is_refused_with_the_limit() {
    let embedded = started(&Arc::default()).await;
    let request = embedded.gateway().request().call_depth(DEPTH).open().expect("it is permitted");
    let call = request.call("internal-again", json!({})).await.expect_err("it is too deep");
    assert_eq!(call.code(), "airlock.budget");
    let chat = request.chat(question()).await.expect_err("it is too deep");
    assert!(chat.to_string().contains(TOO_DEEP), "{chat}");
    assert!(request.tools().await.is_ok(), "a list calls nothing");
    embedded.stop().await;
}

#[tokio::test]
async fn a_model_that_asks_itself_ends_at_the_depth_of_calls() {
    let recursion = Arc::<Recursion>::default();
    let embedded = started(&recursion).await;
    let request = embedded.gateway().request().open().expect("it is permitted");
    let error = request.chat(question()).await.expect_err("it has no end");
    assert!(matches!(error, RequestError::Chat(_)), "{error}");
    assert_eq!(recursion.made.load(Ordering::SeqCst), DEPTH);
    embedded.stop().await;
}
