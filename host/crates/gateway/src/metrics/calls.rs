//! Decisions about calls of tools, and the times of the calls that ran: of servers, plugins, scripts and the program
//! alike. The first control of the gateway, so that it sees the refusals of all others.
//!
//! The values of labels are the names of clients in the catalog, of tools, and closed sets. A server names its tools:
//! of each client, [`MAX_TOOLS`] are timed apart, however often it renames them.

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
    collector::Collector,
    encoding::DescriptorEncoder,
    metrics::{counter::Counter, histogram::Histogram},
};

use airlock_catalog::Catalog;
use airlock_core::{
    door::{Admitted, CallControl, ControlledCall, Origin, Permission, Refusal},
    tool::{CallError, ClientName, HostCode, Tool, ToolName, ToolOutput},
};
use airlock_upstream::encode_family;

/// Maximum tools of one client that are timed apart. Calls of others are those of the tool `other`.
const MAX_TOOLS: usize = 200;
/// Upper bounds of the buckets in seconds, as the conventions for MCP have them. One more bucket has no bound.
const BOUNDS_SECONDS: [f64; 14] =
    [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

/// One counter for each code of an error.
type CodeCounters = [Counter; HostCode::ALL.len()];

/// Counters of calls. Cheap to clone.
#[derive(Clone)]
pub(in super::super) struct CallMetrics(Arc<CallCounts>);

struct CallCounts {
    allowed: [Counter; Permission::ALL.len()],
    asked: Counter,
    refused: CodeCounters,
    /// By the names of clients; the gateway's own tools have none.
    clients: ArcSwap<BTreeMap<Option<ClientName>, Arc<ClientCalls>>>,
}

/// Calls of one client.
struct ClientCalls {
    tools: ArcSwap<BTreeMap<ToolName, Histogram>>,
    /// Calls of tools that are not in `tools`, which is full.
    other: Histogram,
    errors: CodeCounters,
}

impl Default for CallMetrics {
    fn default() -> Self {
        Self(Arc::new(CallCounts {
            allowed: array::from_fn(|_| Counter::default()),
            asked: Counter::default(),
            refused: code_counters(),
            clients: ArcSwap::default(),
        }))
    }
}

fn code_counters() -> CodeCounters {
    array::from_fn(|_| Counter::default())
}

impl CallMetrics {
    /// Begins to observe a call that was admitted. It counts as cancelled if the value is dropped.
    fn observe(&self, tool: &Tool, permission: Permission) -> ObservedCall {
        let client = self.client(tool.client.as_ref());
        let durations = client.durations(&tool.full_name);
        let metrics = self.clone();
        let began = Instant::now();
        ObservedCall { metrics, client, durations, permission, began, has_ended: false }
    }

    fn client(&self, name: Option<&ClientName>) -> Arc<ClientCalls> {
        let name = name.cloned();
        if let Some(calls) = self.0.clients.load().get(&name) {
            return calls.clone();
        }
        let mut calls = Arc::new(ClientCalls::new());
        self.0.clients.rcu(|known| {
            let mut next = BTreeMap::clone(known);
            calls = next.entry(name.clone()).or_insert_with(|| calls.clone()).clone();
            next
        });
        calls
    }

    /// Forgets clients that are not in the catalog.
    fn retain(&self, catalog: &Catalog) {
        let snapshot = catalog.snapshot();
        let present: BTreeSet<_> = snapshot.clients().map(|client| &client.name).collect();
        if self.0.clients.load().keys().flatten().all(|name| present.contains(name)) {
            return;
        }
        self.0.clients.rcu(|known| {
            let mut next = BTreeMap::clone(known);
            next.retain(|name, _| name.as_ref().is_none_or(|name| present.contains(name)));
            next
        });
    }
}

impl ClientCalls {
    fn new() -> Self {
        Self {
            tools: ArcSwap::default(),
            other: Histogram::new(BOUNDS_SECONDS),
            errors: code_counters(),
        }
    }

    fn durations(&self, tool: &ToolName) -> Histogram {
        let known = self.tools.load();
        if let Some(durations) = known.get(tool) {
            return durations.clone();
        }
        let mut durations = self.other.clone();
        if known.len() >= MAX_TOOLS {
            return durations;
        }
        let own = Histogram::new(BOUNDS_SECONDS);
        self.tools.rcu(|known| {
            let mut next = BTreeMap::clone(known);
            let has_room = next.len() < MAX_TOOLS;
            durations = match next.get(tool) {
                Some(durations) => durations.clone(),
                None if has_room => own.clone(),
                None => self.other.clone(),
            };
            if has_room {
                next.insert(tool.clone(), durations.clone());
            }
            next
        });
        durations
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
        let counter = match refusal.error.code() {
            HostCode::NeedsApproval => &self.0.asked,
            code => &self.0.refused[code as usize],
        };
        counter.inc();
    }

    fn asked(&self, _: &Origin, _: &str) {
        self.0.asked.inc();
    }
}

/// A call that is being observed.
struct ObservedCall {
    metrics: CallMetrics,
    client: Arc<ClientCalls>,
    durations: Histogram,
    permission: Permission,
    began: Instant,
    has_ended: bool,
}

impl ObservedCall {
    fn close(&mut self, error: Option<HostCode>, has_begun: bool) {
        if std::mem::replace(&mut self.has_ended, true) {
            return;
        }
        if let Some(code) = error {
            self.client.errors[code as usize].inc();
        }
        let counts = &self.metrics.0;
        match error {
            Some(code) if !has_begun => {
                counts.refused[code as usize].inc();
            }
            _ => {
                let at = Permission::ALL.iter().position(|known| *known == self.permission);
                counts.allowed[at.unwrap_or_default()].inc();
                self.durations.observe(self.began.elapsed().as_secs_f64());
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
        encode_decisions(encoder, counts)?;
        let clients = counts.clients.load();
        encode_family(
            encoder,
            "gen_ai_execute_tool_duration_seconds",
            "Time of a call of a tool that was permitted, from the decision to its end.",
            clients.iter().flat_map(|(client, calls)| times(name_of(client.as_ref()), calls)),
        )?;
        encode_family(
            encoder,
            "airlock_tool_errors",
            "Calls of tools that were admitted and have failed, by the code of the error.",
            clients.iter().flat_map(|(client, calls)| {
                let client = name_of(client.as_ref());
                nonzero(&calls.errors)
                    .map(move |(code, errors)| ([("client", client), ("error_type", code)], errors))
            }),
        )
    }
}

fn encode_decisions(encoder: &mut DescriptorEncoder<'_>, counts: &CallCounts) -> fmt::Result {
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

fn name_of(client: Option<&ClientName>) -> &str {
    client.map(ClientName::as_str).unwrap_or_default()
}

/// Returns the labels and the times of the tools of a client. Those beyond [`MAX_TOOLS`] have the name `other`, which is
/// no full name of a tool.
fn times(client: &str, calls: &ClientCalls) -> Vec<([(&'static str, String); 2], Histogram)> {
    let tools = calls.tools.load();
    let named = tools.iter().map(|(tool, times)| (tool.as_str().to_owned(), times.clone()));
    let other = (tools.len() >= MAX_TOOLS).then(|| ("other".to_owned(), calls.other.clone()));
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
