//! Who may call what. A tool runs only as an [`Admitted`] call, and only this module can make one.
//!
//! A [`View`] says what a request may see. A [`Caller`] is a view with the origin of a request; [`Caller::admit`] decides
//! its calls, and [`Chain::admit`] those that a running call makes in turn, with what is left of the first one's budget.
//! Decisions are made on real names and arguments, where the call is made. No I/O happens here.

mod budget;
mod event;
mod filter;
mod key;
mod ledger;
mod view;

use std::{
    collections::BTreeSet,
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use serde::Serialize;
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use uuid::Uuid;

pub use self::{
    budget::Budget,
    event::{Event, Events, Progress},
    filter::{Filter, INCLUDE_CLIENTS, INCLUDE_TOOLS},
    key::{Keys, VirtualKey},
    ledger::{CallRecord, Ledger, Outcome},
    view::{Entry, Placement, View},
};
use self::{budget::Shared, ledger::Report};
use crate::{
    catalog::{CallError, Content, Provider, Tool, ToolOutput},
    json,
    tenant::Tenant,
};

/// Arguments beyond this are refused before they are parsed.
pub const MAX_ARGUMENT_BYTES: usize = 1 << 20;
/// Bounds on the tree that providers and checks build of arguments, which can be a hundred times their text.
const ARGUMENT_CAPS: json::Caps = json::Caps::memory(32 << 20);

/// Where a call comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A model, through the agent loop.
    Model,
    /// A script, in code mode.
    Script,
    /// A plugin, through the host's `tools` interface, with the names that its operator granted it.
    Plugin(Arc<BTreeSet<String>>),
    /// Whoever asks for one call by name, and thereby approves it.
    Caller,
    /// A client of the gateway's MCP endpoint, which asks its own user.
    McpClient,
}

impl Origin {
    /// Whether this origin is shown a tool, and may therefore name it.
    fn is_offered(&self, entry: &Entry) -> bool {
        match self {
            Self::Model | Self::McpClient => entry.placement != Placement::Script,
            Self::Script => entry.placement == Placement::Script,
            Self::Plugin(granted) => entry.placement != Placement::Meta && granted.contains(entry.tool.name.as_str()),
            Self::Caller => true,
        }
    }

    /// Whether a call from here carries its approval with it.
    fn approves(&self) -> bool {
        matches!(self, Self::Caller | Self::McpClient)
    }
}

/// Identifier of one call: a UUID, in order of time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct CallId(Uuid);

impl CallId {
    fn next() -> Self {
        Self(Uuid::now_v7())
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Arguments of a call: JSON text of an object. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arguments(Arc<str>);

impl Arguments {
    /// Checks text; blank text stands for an object without members, as models send it. Fails if the text is too large, takes
    /// too much memory when parsed, is no JSON object, or has an object with a key twice: readers differ in which of the two
    /// values they take, so the tool could run with another one than was checked.
    pub fn parse(tool: &str, text: &str) -> Result<Self, CallError> {
        let bad = |detail: String| CallError::BadArguments { name: crate::catalog::cut(tool.to_owned(), 128), detail };
        if text.len() > MAX_ARGUMENT_BYTES {
            return Err(bad(format!("{} bytes, the limit is {MAX_ARGUMENT_BYTES}", text.len())));
        }
        if text.trim().is_empty() {
            return Ok(Self("{}".into()));
        }
        json::check(text.as_bytes(), &ARGUMENT_CAPS)
            .map_err(|error| bad(if error.is_cap() { error.to_string() } else { format!("not JSON: {error}") }))?;
        if let Some(kind) = kind_other_than_object(text) {
            return Err(bad(format!("found {kind}, expected a JSON object")));
        }
        json::check_unique_keys(text).map_err(|error| bad(error.to_string()))?;
        Ok(Self(text.into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text, parsed.
    ///
    /// # Panics
    ///
    /// Never: [`Arguments::parse`] lets only objects through.
    pub fn to_object(&self) -> Map<String, Value> {
        serde_json::from_str(&self.0).expect("parse() let only objects through")
    }
}

impl From<Map<String, Value>> for Arguments {
    fn from(object: Map<String, Value>) -> Self {
        Self(Value::Object(object).to_string().into())
    }
}

/// Names what JSON text is, by its first byte; `None` for an object.
fn kind_other_than_object(text: &str) -> Option<&'static str> {
    match text.trim_start().as_bytes().first() {
        Some(b'{') => None,
        Some(b'[') => Some("an array"),
        Some(b'"') => Some("a string"),
        Some(b't' | b'f') => Some("a boolean"),
        Some(b'n') => Some("null"),
        _ => Some("a number"),
    }
}

/// One request's authority to call tools. Cheap to clone.
#[derive(Clone)]
pub struct Caller(Arc<CallerInner>);

struct CallerInner {
    view: View,
    origin: Origin,
    budget: Budget,
    ledger: Ledger,
    events: Option<mpsc::Sender<Event>>,
}

impl Caller {
    /// A caller with a view; each of its calls gets the whole `budget`.
    pub fn new(view: View, origin: Origin, budget: Budget) -> Self {
        Self(Arc::new(CallerInner { view, origin, budget, ledger: Ledger::default(), events: None }))
    }

    /// The same, with what its own calls tell while they run.
    pub fn with_events(view: View, origin: Origin, budget: Budget) -> (Self, Events) {
        let (sender, events) = event::channel();
        (Self(Arc::new(CallerInner { view, origin, budget, ledger: Ledger::default(), events: Some(sender) })), events)
    }

    /// What the caller may see.
    pub fn view(&self) -> &View {
        &self.0.view
    }

    /// What it is offered, sorted by name.
    pub fn list(&self) -> impl Iterator<Item = &Entry> {
        self.0.view.list(&self.0.origin)
    }

    /// What was called so far.
    pub fn ledger(&self) -> &Ledger {
        &self.0.ledger
    }

    /// Decides one call.
    pub fn admit(&self, name: &str, arguments: &str) -> Result<Admitted, CallError> {
        let start = Start {
            shared: Arc::new(Shared::new(&self.0.budget)),
            parent: None,
            depth: 1,
            deadline: Instant::now() + self.0.budget.deadline,
        };
        self.decide(&self.0.origin, name, arguments, start)
    }

    /// The one decision. What may not be seen is told in the same words as what does not exist.
    fn decide(&self, origin: &Origin, name: &str, arguments: &str, start: Start) -> Result<Admitted, CallError> {
        let Some(entry) = self.0.view.find(origin, name) else {
            return Err(CallError::NotFound { name: crate::catalog::cut(name.to_owned(), 128) });
        };
        let arguments = Arguments::parse(name, arguments)?;
        if !entry.auto && !self.0.origin.approves() {
            let arguments = arguments.0.to_string();
            return Err(CallError::NeedsApproval { name: entry.tool.name.clone(), arguments });
        }
        let chain = Chain {
            caller: self.clone(),
            shared: start.shared,
            id: CallId::next(),
            parent: start.parent,
            depth: start.depth,
            deadline: start.deadline,
            report: Report::new(),
        };
        Ok(Admitted { tool: entry.tool.clone(), provider: entry.provider.clone(), arguments, chain })
    }
}

/// What a decision hands on to the call that it admits.
struct Start {
    shared: Arc<Shared>,
    parent: Option<CallId>,
    depth: u32,
    deadline: Instant,
}

/// A call that may run. Holding one is the permission; it is spent by running it.
#[must_use = "an admitted call does nothing until it is run"]
pub struct Admitted {
    tool: Arc<Tool>,
    provider: Arc<dyn Provider>,
    arguments: Arguments,
    chain: Chain,
}

impl Admitted {
    /// The tool.
    pub fn tool(&self) -> &Arc<Tool> {
        &self.tool
    }

    /// The arguments.
    pub fn arguments(&self) -> &Arguments {
        &self.arguments
    }

    /// The call itself: its identifier, its deadline, and where calls that it makes start from.
    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    /// Shortens the call's deadline. It cannot be lengthened.
    pub fn within(mut self, limit: Duration) -> Self {
        self.chain.deadline = self.chain.deadline.min(Instant::now() + limit);
        self
    }

    /// Runs the call and writes it down. Dropping the future cancels the call, and is written down too.
    pub async fn run(self) -> Result<ToolOutput, CallError> {
        let ledger = self.chain.ledger();
        let record = ledger.open(&self.chain, self.tool.name.clone(), self.arguments.0.clone());
        // Before the call is timed by anyone else: waiting for siblings is the chain's own doing.
        let _room = self.chain.shared.enter(self.chain.depth).await;
        let provider = self.provider.clone();
        let result = provider.call(self).await;
        record.close(&result);
        result
    }
}

/// A running call, seen from what it calls in turn. Cheap to clone.
#[derive(Clone)]
pub struct Chain {
    caller: Caller,
    shared: Arc<Shared>,
    id: CallId,
    parent: Option<CallId>,
    depth: u32,
    deadline: Instant,
    report: Arc<Report>,
}

impl Chain {
    /// Identifier of the running call.
    pub fn id(&self) -> CallId {
        self.id
    }

    /// When the running call must have ended.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// How many calls are one inside the other here, from 1.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// How many calls the running call may make at the same time.
    pub fn in_flight(&self) -> usize {
        self.caller.0.budget.in_flight
    }

    /// What the caller who started the chain may see.
    pub fn view(&self) -> &View {
        &self.caller.0.view
    }

    /// Tenant that the running call, and all that it calls in turn, is accounted to.
    pub fn tenant(&self) -> &Tenant {
        self.view().tenant()
    }

    /// Every call of the request so far.
    pub fn ledger(&self) -> &Ledger {
        &self.caller.0.ledger
    }

    /// The fuel that a guest of the running call may burn, of the `limit` that it would have alone: below the first guest it
    /// is a share of what the chain has left. The first one's `host_calls` are the whole chain's.
    pub fn share_fuel(&self, limit: u64, host_calls: u32) -> Result<u64, CallError> {
        self.shared.share_fuel(self.depth, limit, host_calls)
    }

    /// Says how much fuel the running call has burnt, for the ledger and for what the chain has left.
    pub fn spend_fuel(&self, fuel: u64) {
        self.report.set_fuel(fuel);
        self.shared.spend_fuel(self.depth, fuel);
    }

    /// Takes one of the host calls that the chain's guests may make together; false if none is left.
    pub fn take_host_call(&self) -> bool {
        self.shared.take_host_call()
    }

    /// Sends a part of the answer ahead of the rest. Whoever runs the call bounds number and size.
    pub fn emit(&self, part: Content) {
        self.tell(|call| Event::Partial { call, part: part.clone() });
        self.report.emit(part);
    }

    /// Says how far the running call is.
    pub fn progress(&self, progress: Progress) {
        self.tell(|call| Event::Progress { call, progress: progress.clone() });
        self.report.set_progress(progress);
    }

    /// Tells whoever listens to the caller. One that does not keep up misses some.
    fn tell(&self, event: impl FnOnce(CallId) -> Event) {
        if let Some(events) = self.caller.0.events.as_ref().filter(|_| self.depth == 1) {
            // A full queue and a listener that went away are both its own affair.
            let _ = events.try_send(event(self.id));
        }
    }

    /// What the running call has emitted so far.
    pub fn emitted(&self) -> Vec<Content> {
        self.report.emitted()
    }

    /// Decides a call that the running one makes. It needs what the caller who started the chain needs, and takes from
    /// the same budget. A refusal costs a call too, so that asking cannot be used to burn the gateway's time.
    pub fn admit(&self, origin: &Origin, name: &str, arguments: &str) -> Result<Admitted, CallError> {
        self.shared.take_nested(self.depth)?;
        let start = Start { shared: self.shared.clone(), parent: Some(self.id), depth: self.depth + 1, deadline: self.deadline };
        self.caller.decide(origin, name, arguments, start)
    }
}

#[cfg(test)]
mod tests;
