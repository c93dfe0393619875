//! Decisions about calls of tools, and the times of the calls that ran: of servers, plugins, scripts and the program
//! alike. The first control of the gateway, so that it sees the refusals of all others.
//!
//! The values of labels are the names of clients in the catalog, of tools, and closed sets. A server names its tools:
//! of each client, [`MAX_TOOLS`] are timed apart, however often it renames them.

mod times;

use std::{
    array,
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Instant,
};

use arc_swap::ArcSwap;
use futures_util::future::{self, BoxFuture, FutureExt as _};
use prometheus_client::{
    collector::Collector, encoding::DescriptorEncoder, metrics::counter::Counter,
};

use self::times::{ObservedTimes, Times};
use airlock_catalog::Catalog;
use airlock_core::{
    door::{Admitted, CallControl, ControlledCall, Origin, Permission, Refusal},
    tool::{CallError, ClientName, HostCode, Tool, ToolName, ToolOutput},
};
use airlock_upstream::encode_family;

/// Maximum tools of one client that are timed apart, each in 17 time series. Calls of others are those of the tool
/// `other`. A server may rename its tools as often as it likes.
const MAX_TOOLS: usize = 200;

/// One counter for each code of an error.
type CodeCounters = [Counter; HostCode::ALL.len()];

/// Counters of calls. Cheap to clone.
#[derive(Clone)]
pub(in super::super) struct CallMetrics(Arc<CallCounts>);

struct CallCounts {
    decisions: Arc<DecisionCounts>,
    /// By the names of clients; that of the gateway's own tools is empty.
    clients: ArcSwap<BTreeMap<String, Arc<ClientCalls>>>,
}

/// Calls by the decision.
struct DecisionCounts {
    allowed: [Counter; Permission::ALL.len()],
    asked: Counter,
    refused: CodeCounters,
}

/// Calls of one client.
struct ClientCalls {
    tools: ArcSwap<BTreeMap<ToolName, Arc<ToolCalls>>>,
    /// Calls of tools that are not in `tools`, which is full.
    other: Arc<ToolCalls>,
}

/// The counters of the calls of one tool, behind one reference: all threads that call the tool change its count.
struct ToolCalls {
    times: Times,
    /// Those of its client.
    errors: Arc<CodeCounters>,
    /// Those of all clients.
    decisions: Arc<DecisionCounts>,
}

impl Default for CallMetrics {
    fn default() -> Self {
        let decisions = DecisionCounts {
            allowed: array::from_fn(|_| Counter::default()),
            asked: Counter::default(),
            refused: code_counters(),
        };
        let decisions = Arc::new(decisions);
        Self(Arc::new(CallCounts { decisions, clients: ArcSwap::default() }))
    }
}

fn code_counters() -> CodeCounters {
    array::from_fn(|_| Counter::default())
}

impl CallMetrics {
    /// Begins to observe a call that was admitted. It counts as cancelled if the value is dropped.
    fn observe(&self, tool: &Tool, permission: Permission) -> ObservedCall {
        let client = tool.client.as_ref().map_or("", ClientName::as_str);
        let known = self.0.clients.load();
        let tool = match known.get(client) {
            Some(calls) => calls.of_tool(&tool.full_name),
            None => self.add_client(client).of_tool(&tool.full_name),
        };
        ObservedCall { tool, permission, began: Instant::now(), has_ended: false }
    }

    fn add_client(&self, name: &str) -> Arc<ClientCalls> {
        let mut calls = Arc::new(ClientCalls::new(&self.0.decisions));
        self.0.clients.rcu(|known| {
            let mut next = BTreeMap::clone(known);
            calls = next.entry(name.to_owned()).or_insert_with(|| calls.clone()).clone();
            next
        });
        calls
    }

    /// Forgets clients that are not in the catalog.
    fn retain(&self, catalog: &Catalog) {
        let snapshot = catalog.snapshot();
        let present = snapshot.clients().map(|client| client.name.as_str());
        // With the name of the gateway's own tools.
        let present: BTreeSet<_> = present.chain([""]).collect();
        if self.0.clients.load().keys().all(|name| present.contains(&**name)) {
            return;
        }
        self.0.clients.rcu(|known| {
            let mut next = BTreeMap::clone(known);
            next.retain(|name, _| present.contains(&**name));
            next
        });
    }
}

impl ClientCalls {
    fn new(decisions: &Arc<DecisionCounts>) -> Self {
        let other = ToolCalls::new(&Arc::new(code_counters()), decisions);
        Self { tools: ArcSwap::default(), other }
    }

    fn of_tool(&self, tool: &ToolName) -> Arc<ToolCalls> {
        let known = self.tools.load();
        if let Some(calls) = known.get(tool) {
            return calls.clone();
        }
        let mut calls = self.other.clone();
        if known.len() >= MAX_TOOLS {
            return calls;
        }
        let own = ToolCalls::new(&self.other.errors, &self.other.decisions);
        self.tools.rcu(|known| {
            let mut next = BTreeMap::clone(known);
            let has_room = next.len() < MAX_TOOLS;
            calls = match next.get(tool) {
                Some(calls) => calls.clone(),
                None if has_room => own.clone(),
                None => self.other.clone(),
            };
            if has_room {
                next.insert(tool.clone(), calls.clone());
            }
            next
        });
        calls
    }
}

impl ToolCalls {
    fn new(errors: &Arc<CodeCounters>, decisions: &Arc<DecisionCounts>) -> Arc<Self> {
        let times = Times::default();
        Arc::new(Self { times, errors: errors.clone(), decisions: decisions.clone() })
    }
}

impl CallControl for CallMetrics {
    fn begin<'c>(
        &'c self,
        call: &'c Admitted,
    ) -> BoxFuture<'c, Result<Box<dyn ControlledCall>, CallError>> {
        let observed: Box<dyn ControlledCall> =
            Box::new(self.observe(call.tool(), call.permission()));
        future::ready(Ok(observed)).boxed()
    }

    fn refused(&self, refusal: &Refusal<'_>) {
        let DecisionCounts { asked, refused, .. } = &*self.0.decisions;
        let counter = match refusal.error.code() {
            HostCode::NeedsApproval => asked,
            code => &refused[code as usize],
        };
        counter.inc();
    }

    fn asked(&self, _: &Origin, _: &str) {
        self.0.decisions.asked.inc();
    }
}

/// A call that is being observed.
struct ObservedCall {
    tool: Arc<ToolCalls>,
    permission: Permission,
    began: Instant,
    has_ended: bool,
}

impl ObservedCall {
    fn close(&mut self, error: Option<HostCode>, has_begun: bool) {
        if std::mem::replace(&mut self.has_ended, true) {
            return;
        }
        let ToolCalls { times, errors, decisions } = &*self.tool;
        if let Some(code) = error {
            errors[code as usize].inc();
        }
        match error {
            Some(code) if !has_begun => {
                decisions.refused[code as usize].inc();
            }
            _ => {
                let at = Permission::ALL.iter().position(|known| *known == self.permission);
                decisions.allowed[at.unwrap_or_default()].inc();
                times.observe(self.began.elapsed());
            }
        }
    }
}

impl ControlledCall for ObservedCall {
    fn end(mut self: Box<Self>, result: &Result<ToolOutput, CallError>) {
        let error = result.as_ref().err();
        let has_begun = error.is_none_or(|error| !error.has_not_begun());
        self.close(error.map(CallError::code), has_begun);
    }
}

impl Drop for ObservedCall {
    fn drop(&mut self) {
        self.close(Some(HostCode::Cancelled), true);
    }
}

/// The metrics of calls, to be registered once.
pub(super) struct CallCollector {
    calls: CallMetrics,
    catalog: Arc<Catalog>,
}

impl CallCollector {
    pub(super) fn new(calls: CallMetrics, catalog: Arc<Catalog>) -> Self {
        Self { calls, catalog }
    }
}

impl Collector for CallCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        self.calls.retain(&self.catalog);
        let counts = &self.calls.0;
        encode_decisions(encoder, &counts.decisions)?;
        let clients = counts.clients.load();
        encode_family(
            encoder,
            "gen_ai_execute_tool_duration_seconds",
            "Time of a call of a tool that was permitted, from the decision to its end.",
            clients.iter().flat_map(|(client, calls)| tool_times(client, calls)),
        )?;
        encode_family(
            encoder,
            "airlock_tool_errors",
            "Calls of tools that were admitted and have failed, by the code of the error.",
            clients.iter().flat_map(|(client, calls)| {
                let client = client.as_str();
                nonzero(&calls.other.errors)
                    .map(move |(code, errors)| ([("client", client), ("error_type", code)], errors))
            }),
        )
    }
}

fn encode_decisions(encoder: &mut DescriptorEncoder<'_>, counts: &DecisionCounts) -> fmt::Result {
    let permissions = Permission::ALL.into_iter().map(Permission::name);
    let allowed = permissions.zip(counts.allowed.iter().cloned());
    let allowed = allowed.map(|(reason, counter)| ("allowed", reason, counter));
    let asked = ("asked", HostCode::NeedsApproval.as_str(), counts.asked.clone());
    let refused = nonzero(&counts.refused).map(|(code, counter)| ("refused", code, counter));
    encode_family(
        encoder,
        "airlock_decisions",
        "Calls of tools by the decision: allowed, with the kind of permission; asked, for an approval; refused, with the code of the error.",
        allowed.chain([asked]).chain(refused).map(|(decision, reason, counter)| {
            ([("decision", decision), ("reason", reason)], counter)
        }),
    )
}

/// Returns the labels and the times of the tools of a client. Those beyond [`MAX_TOOLS`] have the name `other`, which is
/// no full name of a tool.
fn tool_times(
    client: &str,
    calls: &ClientCalls,
) -> Vec<([(&'static str, String); 2], ObservedTimes)> {
    let tools = calls.tools.load();
    let named =
        tools.iter().map(|(tool, calls)| (tool.as_str().to_owned(), calls.times.observed()));
    let other =
        (tools.len() >= MAX_TOOLS).then(|| ("other".to_owned(), calls.other.times.observed()));
    let all = named.chain(other);
    all.map(|(tool, times)| ([("client", client.to_owned()), ("gen_ai_tool_name", tool)], times))
        .collect()
}

/// Iterates over the counters that are not zero, with their codes.
fn nonzero(counters: &CodeCounters) -> impl Iterator<Item = (&'static str, Counter)> {
    let codes = HostCode::ALL.into_iter().map(HostCode::as_str).zip(counters);
    codes.filter(|(_, counter)| counter.get() > 0).map(|(code, counter)| (code, counter.clone()))
}

airlock_strings::debug_fields!(CallCollector {});

#[cfg(test)]
mod tests;
