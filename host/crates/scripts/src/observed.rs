//! Shapes of the results of tools that declare none, as models and scripts got them.
//!
//! A call leaves a sample, which is read later, by [`Observations::follow`]: a busy gateway drops
//! samples and does not wait. Shapes are kept for each tenant, because their keys may be data. The
//! text of a shape changes only at certain numbers of results, so that prompts stay the same between
//! calls.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    sync::Arc,
};

use parking_lot::Mutex;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::{MetricType, counter::Counter},
};
use serde_json::Value;
use tokio::sync::mpsc;
use tracing::warn;

use super::{
    budget::RenderBudget,
    shape::{MAX_NODES, ResultShape},
    stub::{ObservedResult, RenderedResult},
};
use airlock_catalog::Observer;
use airlock_core::{
    tenant::Tenant,
    tool::{ClientName, Tool, ToolName, ToolOutput},
};
use airlock_json as json;

/// Numbers of results at which the text of a shape changes.
const STEPS: [u32; 7] = [1, 3, 10, 30, 100, 300, 1_000];
/// Results after which one that does not fit the shape is reported.
const SETTLED: u32 = 10;
/// Results of one tool after which only some are sampled: one of as many.
const ALL_SAMPLED: u64 = 32;
/// Maximum bytes of a text that is read as JSON. A sample waits as text: [`MAX_WAITING`] of them take 4
/// MiB.
const MAX_TEXT: usize = 64 << 10;
/// Limit on the memory of the tree of such a text, which dense JSON takes 150 times its length for.
const TEXT_CAPS: json::Caps = json::Caps::memory(4 << 20);
/// Maximum number of samples that wait to be read, of all tenants: one task reads them, and results come from all
/// calls. Further ones are dropped. Those that are text take [`MAX_TEXT`] each.
const MAX_WAITING: usize = 64;
/// Maximum memory of the shapes of one tenant, and of all of them, in bytes. Beyond the first,
/// further tools are not observed; beyond the second, tenants that were not seen for long are
/// forgotten.
const TENANT_BYTES: usize = 1 << 20;
const TOTAL_BYTES: usize = 16 << 20;
/// Approximate memory of one tool besides its shape and texts, and of each node of a shape.
const ENTRY_BYTES: usize = 256;
const NODE_BYTES: usize = 192;

/// Observed shapes of all tenants.
pub(super) struct Observations {
    tenants: Mutex<Tenants>,
    /// Results of each tool that did not fit those before them, of all tenants.
    misfits: Mutex<BTreeMap<ToolName, Misfits>>,
    samples: mpsc::Sender<ResultSample>,
    waiting: tokio::sync::Mutex<mpsc::Receiver<ResultSample>>,
}

/// Results of one tool that did not fit.
struct Misfits {
    tool: Arc<Tool>,
    results: Counter,
}

/// A result that was not read yet.
struct ResultSample {
    tenant: Tenant,
    tool: Arc<Tool>,
    content: SampleContent,
}

enum SampleContent {
    Shape(ResultShape),
    /// Text that may be JSON.
    Text(String),
}

#[derive(Default)]
struct Tenants {
    list: HashMap<Tenant, ObservedTools>,
    /// Number of the last use of a tenant.
    uses: u64,
    bytes: usize,
}

#[derive(Default)]
struct ObservedTools {
    list: HashMap<ToolName, ObservedEntry>,
    used: u64,
    bytes: usize,
}

/// The observed results of one tool.
#[derive(Default)]
struct ObservedEntry {
    /// Number of results, sampled or not.
    results: u64,
    /// Number of results in the shape.
    read: u32,
    shape: ResultShape,
    shown: Option<Arc<ObservedResult>>,
    bytes: usize,
}

impl Observations {
    pub(super) fn new() -> Arc<Self> {
        let (samples, waiting) = mpsc::channel(MAX_WAITING);
        Arc::new(Self {
            tenants: Mutex::default(),
            misfits: Mutex::default(),
            samples,
            waiting: waiting.into(),
        })
    }

    /// Returns the observed result of a tool for `tenant`; `None` if the tool declares its result, or
    /// none was observed.
    pub(super) fn shown(&self, tenant: &Tenant, tool: &Tool) -> Option<Arc<ObservedResult>> {
        if tool.output_schema.is_some() {
            return None;
        }
        self.tenants.lock().list.get(tenant)?.list.get(&tool.full_name)?.shown.clone()
    }

    /// Reads samples until the future is dropped.
    pub(super) async fn follow(&self) {
        let mut waiting = self.waiting.lock().await;
        while let Some(sample) = waiting.recv().await {
            self.read(sample);
            // A flood of samples must not occupy a thread.
            tokio::task::yield_now().await;
        }
    }

    /// Reads the samples that wait.
    #[cfg(test)]
    pub(super) fn read_waiting(&self) {
        let mut waiting = self.waiting.try_lock().expect("nothing else reads");
        while let Ok(sample) = waiting.try_recv() {
            self.read(sample);
        }
    }

    /// Forgets the tools that no longer exist.
    pub(super) fn retain(&self, existing: &BTreeSet<ToolName>) {
        let mut tenants = self.tenants.lock();
        let mut removed = 0;
        for tools in tenants.list.values_mut() {
            let before = tools.bytes;
            tools.list.retain(|name, _| existing.contains(name));
            tools.bytes = tools.list.values().map(|entry| entry.bytes).sum();
            removed += before - tools.bytes;
        }
        tenants.list.retain(|_, tools| !tools.list.is_empty());
        tenants.bytes -= removed;
        drop(tenants);
        self.misfits.lock().retain(|name, _| existing.contains(name));
    }

    fn read(&self, sample: ResultSample) {
        let ResultSample { tenant, tool, content } = sample;
        let shape = match content {
            SampleContent::Shape(shape) => shape,
            SampleContent::Text(text) => of_text(&text),
        };
        if self.tenants.lock().add(&tenant, &tool.full_name, shape) {
            self.report_misfit(&tool);
        }
    }

    /// Counts a result that did not fit, and logs some of them. The log has no key of the result,
    /// which may be data.
    fn report_misfit(&self, tool: &Arc<Tool>) {
        let mut misfits = self.misfits.lock();
        let misfits = misfits
            .entry(tool.full_name.clone())
            .or_insert_with(|| Misfits { tool: tool.clone(), results: Counter::default() });
        let results = misfits.results.inc() + 1;
        if results.is_power_of_two() {
            let tool = &tool.full_name;
            warn!(%tool, results, "results of tool stopped fitting the type observed before");
        }
    }
}

impl Observer for Observations {
    fn observe(&self, tenant: &Tenant, tool: &Arc<Tool>, output: &ToolOutput) {
        if !self.tenants.lock().is_sampled(tenant, &tool.full_name) {
            return;
        }
        let content = match &output.structured {
            Some(value) => SampleContent::Shape(ResultShape::new(value)),
            None => match text_of(output) {
                Some(text) => SampleContent::Text(text),
                None => return,
            },
        };
        let sample = ResultSample { tenant: tenant.clone(), tool: tool.clone(), content };
        // A full queue drops it.
        let _ = self.samples.try_send(sample);
    }

    fn misfits(&self, tools: &[Arc<Tool>]) -> Vec<(String, u64)> {
        let misfits = self.misfits.lock();
        if misfits.is_empty() {
            return Vec::new();
        }
        let counted = tools.iter().filter_map(|tool| {
            let misfits = misfits.get(&tool.full_name)?;
            Some((tool.shown_original().into_owned(), misfits.results.get()))
        });
        counted.collect()
    }
}

impl Collector for Observations {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let name = "airlock_tool_result_misfits";
        let help = "Results of a tool in code mode that did not fit the type observed before.";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for Misfits { tool, results } in self.misfits.lock().values() {
            let client = tool.client.as_ref().map(ClientName::as_str).unwrap_or_default();
            // Two tools of a client may have the same name but for invisible characters.
            let labels = [("client", client), ("tool", tool.full_name.as_str())];
            results.encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

airlock_strings::debug_fields!(Observations {});

/// Returns the text that a script gets. `None` if it is too long to be read.
fn text_of(output: &ToolOutput) -> Option<String> {
    let mut text = String::new();
    for part in &output.content {
        // Other parts are replaced by a description, so the result is no JSON.
        let part = part.as_text().unwrap_or("[...]");
        if text.len() + part.len() > MAX_TEXT {
            return None;
        }
        text.push_str(part);
    }
    Some(text)
}

/// Returns the shape of the value that a script gets for a text: what it is as JSON, or a text.
fn of_text(text: &str) -> ResultShape {
    let is_bounded = json::check(text.as_bytes(), &TEXT_CAPS).is_ok();
    let value = is_bounded.then(|| serde_json::from_str::<Value>(text).ok()).flatten();
    value.map_or_else(ResultShape::text, |value| ResultShape::new(&value))
}

impl Tenants {
    /// Counts a result. Returns whether it is sampled.
    fn is_sampled(&mut self, tenant: &Tenant, tool: &ToolName) -> bool {
        self.uses += 1;
        let uses = self.uses;
        let Some(tools) = self.list.get_mut(tenant) else { return true };
        tools.used = uses;
        let has_room = tools.bytes < TENANT_BYTES;
        let Some(entry) = tools.list.get_mut(tool) else { return has_room };
        entry.results = entry.results.saturating_add(1);
        entry.results < ALL_SAMPLED || entry.results.is_multiple_of(ALL_SAMPLED)
    }

    /// Adds the shape of a result. Returns true if it does not fit those before it.
    fn add(&mut self, tenant: &Tenant, tool: &ToolName, shape: ResultShape) -> bool {
        let uses = self.uses;
        let tools = self.list.entry(tenant.clone()).or_default();
        tools.used = uses;
        if tools.bytes >= TENANT_BYTES && !tools.list.contains_key(tool) {
            return false;
        }
        let entry = tools.list.entry(tool.clone()).or_default();
        let before = entry.bytes;
        let is_misfit = entry.read >= SETTLED && !entry.shape.accepts(&shape);
        entry.add(shape);
        tools.bytes = tools.bytes - before + entry.bytes;
        self.bytes = self.bytes - before + entry.bytes;
        while self.bytes > TOTAL_BYTES && self.list.len() > 1 {
            self.forget_oldest();
        }
        is_misfit
    }

    fn forget_oldest(&mut self) {
        let oldest = self.list.iter().min_by_key(|(_, tools)| tools.used);
        let Some(tenant) = oldest.map(|(tenant, _)| tenant.clone()) else { return };
        if let Some(tools) = self.list.remove(&tenant) {
            self.bytes -= tools.bytes;
        }
    }
}

impl ObservedEntry {
    fn add(&mut self, shape: ResultShape) {
        self.read = self.read.saturating_add(1);
        let mut merged = self.shape.clone();
        merged.merge(shape);
        // A shape that has grown too large stays as it is.
        if merged.nodes() <= MAX_NODES {
            self.shape = merged;
        }
        if STEPS.contains(&self.read) {
            let returned = RenderedResult::render(&self.shape.schema(), &RenderBudget::whole());
            let seen = match self.read {
                1 => "1 result".to_owned(),
                results => format!("{results}+ results"),
            };
            self.shown = Some(Arc::new(ObservedResult { returned, seen }));
        }
        let shown = self.shown.as_ref().map_or(0, |shown| shown.returned.bytes());
        self.bytes = ENTRY_BYTES + NODE_BYTES * self.shape.nodes() + shown;
    }
}

#[cfg(test)]
mod tests;
