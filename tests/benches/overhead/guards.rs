//! Cost of guards: the same call of a plugin that does nothing, and the same chat, on gateways that differ in
//! their guards alone.
//!
//! The guard is that of the tests. It allows everything here, after a search for a word that is not there.

use std::{
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use airlock::{
    GatewayRequest, ModelFailure, ModelReply, ModelSource,
    conversation::{Conversation, Item, Message, Part, Role, Wire},
    door::{Origin, View},
};
use airlock_tests::{
    Client, Embedded, Setup,
    bench::{
        latency::{median_added, median_micros},
        report::{Aim, Cell, Table},
    },
    guests,
};
use futures_util::{
    FutureExt as _,
    future::{self, BoxFuture},
};
use serde_json::json;

use super::one;

/// Aim of the project for an empty guard, in microseconds.
const EMPTY: Aim = Aim::AtMost(15.0);
/// Limit in microseconds on the cost of a guard that is not asked. The project's aim is none, which no
/// measurement shows.
const NONE: Aim = Aim::AtMost(1.0);
/// Column with the time beyond that without a guard.
const ADDED: &str = "added p50";
/// Reply of the model.
const REPLY: &str = "ok";

/// Guards of a gateway.
struct GuardSetup {
    name: &'static str,
    /// Hooks of the guard that are run; there is no guard without any.
    hooks: &'static [&'static str],
    /// Tools of the guard; empty for all, and for models.
    tools: &'static [&'static str],
    /// Limit on what it adds.
    aim: Option<Aim>,
}

const WITHOUT: GuardSetup = GuardSetup { name: "no guard", hooks: &[], tools: &[], aim: None };

const CALLS: [GuardSetup; 4] = [
    WITHOUT,
    GuardSetup {
        name: "a guard of another tool",
        hooks: &["before", "after"],
        tools: &["noop-other"],
        aim: Some(NONE),
    },
    GuardSetup {
        name: "an empty guard before",
        hooks: &["before"],
        tools: &["noop-ok"],
        aim: Some(EMPTY),
    },
    GuardSetup {
        name: "an empty guard before and after",
        hooks: &["before", "after"],
        tools: &["noop-ok"],
        aim: Some(EMPTY),
    },
];

const CHATS: [GuardSetup; 3] = [
    WITHOUT,
    GuardSetup {
        name: "a guard of calls",
        hooks: &["before", "after"],
        tools: &["noop-ok"],
        aim: Some(NONE),
    },
    GuardSetup {
        name: "an empty guard after the model",
        hooks: &["after_model"],
        tools: &[],
        aim: Some(EMPTY),
    },
];

/// Work that is guarded.
#[derive(Clone, Copy)]
enum GuardedWork {
    Call,
    Chat,
}

/// Measures calls of a plugin.
pub(crate) async fn calls(rounds: usize) -> Table {
    compared("guards of a call", GuardedWork::Call, &CALLS, rounds).await
}

/// Measures chats without calls.
pub(crate) async fn chats(rounds: usize) -> Table {
    compared("guards of a chat", GuardedWork::Chat, &CHATS, rounds).await
}

/// Measures the work on each gateway. The first has no guard.
async fn compared(title: &str, work: GuardedWork, setups: &[GuardSetup], rounds: usize) -> Table {
    let mut gateways = Vec::new();
    for setup in setups {
        gateways.push(setup.start().await);
    }
    let subjects = gateways.iter().map(GuardedSubject::from).collect();
    // On a worker, as requests are.
    let times = tokio::spawn(measured(subjects, work, rounds)).await.expect("no panic in it");
    for gateway in gateways {
        gateway.stop().await;
    }
    let mut table = Table::new(title, &["p50", ADDED, "ratio"]);
    let base = &times[0];
    for (setup, times) in setups.iter().zip(&times) {
        let p50 = median_micros(times);
        let Some(aim) = setup.aim else {
            table.row(setup.name, [Cell::Time(p50), Cell::Empty, Cell::Empty]);
            continue;
        };
        let added = Cell::Added(median_added(times, base));
        let ratio = Cell::Ratio(p50 / median_micros(base));
        table.row(setup.name, [Cell::Time(p50), added, ratio]).aim(ADDED, aim);
    }
    table
}

/// Measures each subject once a round. Returns the times of each, by round.
async fn measured(
    subjects: Vec<GuardedSubject>,
    work: GuardedWork,
    rounds: usize,
) -> Vec<Vec<Duration>> {
    let mut times = vec![Vec::new(); subjects.len()];
    for round in 0..rounds {
        for index in 0..subjects.len() {
            // The order changes from round to round.
            let at = (index + round) % subjects.len();
            // Leaves the code and the memory of this gateway warm.
            subjects[at].run(work).await;
            times[at].push(subjects[at].run(work).await);
        }
    }
    times
}

impl GuardSetup {
    async fn start(&self) -> Embedded {
        let setup = Setup::new()
            .set("/server/require_virtual_key", false)
            .client(Client::wasm("noop", guests::NOOP));
        let setup = if self.hooks.is_empty() {
            setup
        } else {
            let mut guard =
                json!({"name": "empty", "component": guests::WARDEN, "hooks": self.hooks});
            if !self.tools.is_empty() {
                guard["on"] = json!({"tools": self.tools});
            }
            setup.set("/guards", json!([guard]))
        };
        Embedded::with(
            setup,
            |_| {},
            |builder| builder.with_model_source("own", Arc::new(FixedReply)),
        )
        .await
    }
}

/// What calls a gateway.
struct GuardedSubject {
    view: View,
    request: GatewayRequest,
}

impl From<&Embedded> for GuardedSubject {
    fn from(embedded: &Embedded) -> Self {
        let gateway = embedded.gateway();
        Self {
            view: gateway.caller(Origin::Caller).view().clone(),
            request: gateway.request().open().expect("no key is required"),
        }
    }
}

impl GuardedSubject {
    async fn run(&self, work: GuardedWork) -> Duration {
        match work {
            GuardedWork::Call => one(&self.view, "noop-ok", "{}").await.0,
            GuardedWork::Chat => self.chat().await,
        }
    }

    async fn chat(&self) -> Duration {
        let mut conversation = Conversation::new(Wire::Chat, "own/fixed");
        let question = Message::new(Role::User, vec![Part::text("Say ok.")]);
        conversation.items.push(Item::Message(question));
        let chat = Box::pin(self.request.chat(conversation));
        let began = Instant::now();
        let reply = chat.await;
        let took = began.elapsed();
        assert_eq!(black_box(reply).expect("a reply").text(), REPLY);
        took
    }
}

/// A model that replies at once, and calls no tool.
struct FixedReply;

impl ModelSource for FixedReply {
    fn respond(&self, _: Conversation) -> BoxFuture<'_, Result<ModelReply, ModelFailure>> {
        future::ready(Ok(ModelReply::text(REPLY))).boxed()
    }
}
