//! The cache of one client: results of tools that the operator calls read-only, for equal calls.
//!
//! A call looks for its result after the door has admitted it and its arguments were checked, so a caller
//! gets no result of a tool that it may not call. The key of a result is the tenant (unless the rule is
//! shared), the tool with the digest of its definition, and the arguments, whatever the order of their
//! members. Results that are not whole are not kept: failures, those of calls that were resumed with
//! answers, and those with parts before the result. Nor are those of a call that has made calls of its own,
//! each of which was decided for its caller alone. Nor are parts other than texts: a link or a resource
//! may be valid for one session alone, and images and sounds would displace everything else.
//!
//! Equal calls that run at the same time each reach the source. One call for all of them would run with the
//! deadline, the budget and the events of one caller, and end when that one leaves.

mod store;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::time::Instant;
use tracing::{debug, warn};

pub(super) use self::store::ResultStore;
use self::store::{Group, Insertion, KeptResult, ResultKey};
use super::left_out::MAX_REASONS;
use airlock_core::{
    door::Admitted,
    tool::{Allowlist, CacheRule, ClientName, ContentBlock, Tool, ToolOutput},
};
use airlock_json::{
    raw,
    weight::{object_weight, weight},
};

/// Key of a result's metadata that tells that it is from the cache.
pub(super) const CACHED: &str = "airlock/cache";
/// The longest arguments of a call whose result is kept, in bytes: reading longer ones for the key costs
/// more than most calls.
const MAX_ARGUMENT_BYTES: usize = 64 << 10;

/// The cache of one client, for its present rules and tools.
pub(super) struct ClientCache {
    rules: Vec<CacheRule>,
    /// Cached tools by their names at the source.
    tools: BTreeMap<String, CachedTool>,
    /// Tools that the operator names and that are not cached, with the reasons.
    refused: BTreeMap<String, &'static str>,
    results: Arc<ClientResults>,
}

#[derive(Clone)]
struct CachedTool {
    rule: usize,
    /// Digest of the definition.
    definition: String,
}

/// The results of one client, from one provider. Dropping the last reference drops the results.
struct ClientResults {
    number: u64,
    store: Arc<ResultStore>,
    /// Number of times that all results were forgotten. A result of a call that began before is not kept.
    epoch: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// A call whose result may be kept.
pub(super) struct Miss {
    key: ResultKey,
    rule: usize,
    epoch: u64,
}

/// Outcome of looking for a result.
pub(super) enum Lookup {
    /// The result of an earlier call.
    Hit(Box<ToolOutput>),
    /// There is none; that of the call may be kept.
    Miss(Miss),
    /// The call has nothing to do with the cache.
    Uncached,
}

impl ClientCache {
    /// Creates the cache of a client for a list of tools, with the results of `before`. `None` if there are
    /// no rules.
    pub(super) fn new(
        client: &ClientName,
        rules: &[CacheRule],
        tools: &[Arc<Tool>],
        store: &Arc<ResultStore>,
        before: Option<&Self>,
    ) -> Option<Arc<Self>> {
        if rules.is_empty() {
            return None;
        }
        let mut cached = BTreeMap::new();
        let mut refused = BTreeMap::new();
        for tool in tools {
            let rule = rules.iter().position(|rule| rule.tools.allows_tool(tool));
            let Some(rule) = rule else { continue };
            if let Some(reason) = rules[rule].refusal(tool) {
                refused.insert(tool.original.clone(), reason);
            } else {
                let definition = tool.digest();
                cached.insert(tool.original.clone(), CachedTool { rule, definition });
            }
        }
        // A rule for all tools is no word about each of them.
        let named = rules.iter().any(|rule| rule.tools != Allowlist::All);
        for (tool, reason) in refused.iter().filter(|_| named) {
            if before.is_none_or(|before| !before.refused.contains_key(tool)) {
                warn!(%client, tool, reason, "results of a tool that `tool_cache` names are not kept");
            }
        }
        // Results that were kept under other rules may be too old, or another tenant's.
        let results = before.filter(|before| before.rules == rules);
        let results = results.map(|before| before.results.clone());
        let results = results.unwrap_or_else(|| ClientResults::new(store));
        Some(Arc::new(Self { rules: rules.to_vec(), tools: cached, refused, results }))
    }

    /// Returns a cache for the same rules and tools without the results.
    pub(super) fn emptied(&self) -> Arc<Self> {
        Arc::new(Self {
            rules: self.rules.clone(),
            tools: self.tools.clone(),
            refused: self.refused.clone(),
            results: ClientResults::new(&self.results.store),
        })
    }

    /// Looks for the result of an admitted call.
    pub(super) fn look_up(&self, call: &Admitted) -> Lookup {
        let tool = call.tool();
        let cached = self.tools.get(&tool.original).filter(|_| call.is_automatic());
        let Some(cached) = cached else { return Lookup::Uncached };
        let rule = &self.rules[cached.rule];
        let tenant = (!rule.is_shared).then(|| call.chain().tenant().scope());
        let arguments = call.arguments().as_str();
        let key = key(tenant, &tool.original, &cached.definition, arguments);
        let Some(key) = key else { return Lookup::Uncached };
        let epoch = self.results.epoch.load(Ordering::Acquire);
        let group = self.results.group(cached.rule, tenant.unwrap_or_default());
        let key = ResultKey { group, digest: key };
        if let Some(found) = self.results.store.get(&key, Instant::now()) {
            self.results.hits.fetch_add(1, Ordering::Relaxed);
            let age = found.kept.elapsed();
            debug!(tool = %tool.name, ?age, "tool result is from the cache");
            Lookup::Hit(Box::new(marked(&found.output, age, rule.is_shared)))
        } else {
            self.results.misses.fetch_add(1, Ordering::Relaxed);
            Lookup::Miss(Miss { key, rule: cached.rule, epoch })
        }
    }

    /// Keeps the result of a call, if it is one that is kept.
    pub(super) fn keep(&self, miss: &Miss, output: &ToolOutput) {
        let Some(rule) = self.rules.get(miss.rule).filter(|_| is_plain(output)) else { return };
        let bytes = memory(output);
        if bytes > rule.max_bytes || self.results.epoch.load(Ordering::Acquire) != miss.epoch {
            return;
        }
        let kept = Instant::now();
        let result = KeptResult { output: Arc::new(output.clone()), kept, until: kept + rule.ttl };
        let insertion = Insertion { key: miss.key, result, bytes, max_bytes: rule.max_bytes };
        self.results.store.insert(insertion);
        // They may have been forgotten between the look at the epoch and here.
        if self.results.epoch.load(Ordering::Acquire) != miss.epoch {
            self.results.store.remove_client(self.results.number);
        }
    }

    /// Forgets all results, and those of the calls that run now.
    pub(super) fn forget(&self) {
        self.results.epoch.fetch_add(1, Ordering::AcqRel);
        self.results.store.remove_client(self.results.number);
    }

    /// Returns the state for operators.
    pub(super) fn status(&self) -> Value {
        let (results, bytes) = self.results.store.usage(self.results.number);
        let refused = self.refused.iter().take(MAX_REASONS);
        let refused: Vec<_> =
            refused.map(|(tool, reason)| json!({"tool": tool, "reason": reason})).collect();
        json!({
            "results": results,
            "bytes": bytes,
            "hits": self.results.hits.load(Ordering::Relaxed),
            "misses": self.results.misses.load(Ordering::Relaxed),
            "refused": refused,
        })
    }
}

/// Returns a result with the mark that it is an earlier one. Its age is the time of a call, which may be
/// another tenant's if it `is_shared`.
fn marked(output: &ToolOutput, age: Duration, is_shared: bool) -> ToolOutput {
    let mut output = output.clone();
    let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
    let mark = if is_shared { json!({}) } else { json!({"age_ms": age}) };
    output.meta.get_or_insert_default().insert(CACHED.to_owned(), mark);
    output
}

impl ClientResults {
    fn new(store: &Arc<ResultStore>) -> Arc<Self> {
        Arc::new(Self {
            number: store.next_client(),
            store: store.clone(),
            epoch: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        })
    }

    fn group(&self, rule: usize, tenant: [u8; 32]) -> Group {
        Group { client: self.number, rule, tenant }
    }
}

impl Drop for ClientResults {
    fn drop(&mut self) {
        self.store.remove_client(self.number);
    }
}

/// Returns whether a result has nothing but texts and data.
fn is_plain(output: &ToolOutput) -> bool {
    output.content.iter().all(|part| matches!(part.block, ContentBlock::Text { .. }))
}

/// Returns about the memory that a kept result takes, in bytes.
fn memory(output: &ToolOutput) -> usize {
    let members = [output.meta.as_ref(), output.extra.as_deref()].into_iter().flatten();
    let members: usize = members.map(object_weight).sum();
    let parts = output.content.iter();
    let parts = parts.flat_map(|part| [&part.annotations, &part.meta, &part.extra]).flatten();
    let parts: usize = parts.map(|members| object_weight(members)).sum();
    output.size() + members + parts + output.structured.as_ref().map_or(0, weight)
}

/// Returns the digest that equal calls have; `None` if the arguments, which were checked, are too long.
fn key(
    tenant: Option<[u8; 32]>,
    tool: &str,
    definition: &str,
    arguments: &str,
) -> Option<[u8; 32]> {
    if arguments.len() > MAX_ARGUMENT_BYTES {
        return None;
    }
    let mut hasher = blake3::Hasher::new();
    match tenant {
        Some(scope) => hasher.update(b"t").update(&scope),
        None => hasher.update(b"-"),
    };
    feed_text(&mut hasher, tool);
    feed_text(&mut hasher, definition);
    feed(&mut hasher, arguments);
    Some(*hasher.finalize().as_bytes())
}

/// Feeds checked JSON text so that only equal values read the same: whatever the order of members, the
/// spaces and the escapes. Numbers are equal if they are written alike. A tree would not tell large ones
/// apart, which a source may.
fn feed(hasher: &mut blake3::Hasher, text: &str) {
    if let Some(members) = raw::members(text) {
        // No name occurs twice.
        let members: BTreeMap<_, _> = members.collect();
        hasher.update(b"o").update(&members.len().to_le_bytes());
        for (name, value) in members {
            feed_text(hasher, &name);
            feed(hasher, value);
        }
    } else if let Some(items) = raw::elements(text) {
        let items: Vec<_> = items.collect();
        hasher.update(b"a").update(&items.len().to_le_bytes());
        for item in items {
            feed(hasher, item);
        }
    } else if let Some(text) = raw::string(text) {
        hasher.update(b"s");
        feed_text(hasher, &text);
    } else {
        hasher.update(b"v");
        feed_text(hasher, text.trim_ascii());
    }
}

fn feed_text(hasher: &mut blake3::Hasher, text: &str) {
    hasher.update(&text.len().to_le_bytes()).update(text.as_bytes());
}

#[cfg(test)]
mod tests;
