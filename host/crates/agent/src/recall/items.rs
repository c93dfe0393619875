//! Records in the items of the Responses API.
//!
//! A record has the output of a Response: of the calls that the gateway ran their items, and of all
//! other items a mark, by which they are found in the input of a later request. An item that the
//! client dropped is put back before the next item of its Response that the client sent.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    fmt::Write as _,
};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::{ConversationDigests, FoundRecord, Recall, RecallWriter, note, trail::MAX_SITES};
use airlock_core::{
    tenant::Tenant,
    threads::{self, INLINE_BYTES},
};
use airlock_json::{self as json, Caps};
use airlock_store::recall::Anchor;

/// Type of the items of calls that the gateway ran.
const EXECUTED: &str = "mcp_call";
/// Types of items of calls that the client runs.
const CALLS: [&str; 2] = ["function_call", "custom_tool_call"];
/// Types of items with the results of these calls.
const OUTPUTS: [&str; 2] = ["function_call_output", "custom_tool_call_output"];
/// Memory for an item, while records are put back, in bytes: its mark and its position.
const ENTRY_BYTES: usize = 160;
/// Length of a mark, in hexadecimal digits.
const MARK_DIGITS: usize = 32;

/// Record of the output of a Response.
#[derive(Debug)]
struct OutputRecord {
    anchors: BTreeSet<Anchor>,
    text: String,
}

/// Keeps the output of the Response to one request.
#[derive(Debug)]
pub struct OutputKeeper {
    keeper: RecallWriter,
    trail: ConversationDigests,
}

impl OutputKeeper {
    /// Creates the keeper of the Response to these items: those of earlier Responses, and the input.
    pub fn new(keeper: RecallWriter, earlier: &[Value], input: &[Value]) -> Self {
        let mut trail = keeper.trail();
        trail.note_items(earlier);
        trail.note_items(input);
        Self { keeper, trail }
    }

    /// Keeps the output of a complete Response, if calls ran here. The text is made at once, so the
    /// future does not borrow the items. `has_room` is called with the bytes of the text; without
    /// room, later requests learn that the calls are lost.
    pub fn keep(
        self,
        items: &[Value],
        has_room: impl FnOnce(usize) -> bool,
    ) -> Option<BoxFuture<'static, ()>> {
        let OutputRecord { anchors, text } = self.trail.output(items)?;
        let text = has_room(text.len()).then_some(text);
        Some(Box::pin(async move { self.keeper.keep(anchors, text).await }))
    }
}

impl ConversationDigests {
    /// Advances to the last message of the user in these items, if there is one.
    fn note_items(&mut self, items: &[Value]) {
        if let Some(message) = items.iter().rev().find(|item| is_of_user(item)) {
            self.note_user(texts(message));
        }
    }

    /// Returns the record of the output of a Response; `None` if no call ran here, or if the client
    /// has nothing to send back.
    fn output(&self, items: &[Value]) -> Option<OutputRecord> {
        if !items.iter().any(has_run) {
            return None;
        }
        let anchors: BTreeSet<Anchor> =
            items.iter().filter_map(|item| anchor(self, item)).collect();
        let output = items.iter().filter_map(|item| {
            if is(item, &[EXECUTED]) {
                has_run(item).then(|| json!({"item": item}))
            } else {
                Some(json!({"mark": mark(item)}))
            }
        });
        let output: Vec<Value> = output.collect();
        let text = json!({"record": Uuid::new_v4().to_string(), "output": output}).to_string();
        (!anchors.is_empty()).then_some(OutputRecord { anchors, text })
    }
}

impl Recall {
    /// Puts the items of calls that the client dropped back into the input of a request. `charge` is
    /// called with the bytes that this takes. Fails if `charge` fails, and then changes nothing.
    pub async fn restore_items<E: Send + 'static>(
        &self,
        tenant: &Tenant,
        items: &mut Vec<Value>,
        charge: impl Fn(usize) -> Result<(), E> + Clone + Send + 'static,
    ) -> Result<(), E> {
        let bytes = json::text_len_within(items, INLINE_BYTES).unwrap_or(usize::MAX);
        let sent = std::mem::take(items);
        let trail = ConversationDigests::new(tenant);
        let (sites, sent) = threads::read(tenant, bytes, move || (sites(&sent, trail), sent)).await;
        *items = sent;
        let anchors: Vec<Anchor> = sites.iter().map(|site| site.anchor).collect();
        let found = self.find(tenant, &anchors, charge.clone()).await?;
        if found.is_empty() {
            return Ok(());
        }
        let kept = found.iter().filter_map(|found| Some(found.text.as_ref()?.len()));
        let bytes = kept.fold(bytes, usize::saturating_add);
        let mut sent = std::mem::take(items);
        let (restored, sent) =
            threads::read(tenant, bytes, move || (restore(&mut sent, &sites, found, charge), sent))
                .await;
        *items = sent;
        restored
    }
}

/// Puts what was found into items. Fails if `charge` fails, and then changes nothing.
fn restore<E>(
    items: &mut Vec<Value>,
    sites: &[AnchorSite],
    found: Vec<FoundRecord>,
    charge: impl Fn(usize) -> Result<(), E>,
) -> Result<(), E> {
    charge(items.len().saturating_mul(ENTRY_BYTES))?;
    let mut input = RestoredInput::new(items);
    let mut lost = Vec::new();
    for found in found {
        let site = &sites[found.position];
        let Some(text) = found.text else {
            lost.push(site.item);
            continue;
        };
        // Within the limits when it was kept, and charged here.
        let caps = Caps::memory(usize::MAX);
        let Ok(cost) = json::check(text.as_bytes(), &caps) else { continue };
        charge(cost.tree_bytes)?;
        let Ok(mut record) = serde_json::from_str(&text) else { continue };
        input.put_back(site, &mut record);
    }
    let RestoredInput { added, filled, .. } = input;
    note_losses(items, &lost);
    for (position, item) in filled {
        items[position] = item;
    }
    insert(items, added);
    Ok(())
}

/// An item that a record may belong to.
struct AnchorSite {
    /// Position of the item.
    item: usize,
    /// Position of the first item after the last message of the user before it.
    turn: usize,
    anchor: Anchor,
}

fn sites(items: &[Value], mut trail: ConversationDigests) -> Vec<AnchorSite> {
    let mut sites = VecDeque::new();
    let mut turn = 0;
    for (position, item) in items.iter().enumerate() {
        if is_of_user(item) {
            trail.note_user(texts(item));
            turn = position + 1;
        }
        let Some(anchor) = anchor(&trail, item) else { continue };
        if sites.len() == MAX_SITES {
            sites.pop_front();
        }
        sites.push_back(AnchorSite { item: position, turn, anchor });
    }
    sites.into()
}

/// Input of a request, and the items that are put back.
struct RestoredInput {
    /// Positions of the items with each mark.
    marks: BTreeMap<String, Vec<usize>>,
    /// Identifiers of the calls that the client sent, or that are put back already.
    executed: BTreeSet<String>,
    /// Positions of the calls that the client sent without their results, by identifier.
    without_result: BTreeMap<String, usize>,
    /// Records that are put back already.
    records: BTreeSet<String>,
    /// Items, each with the position of the one that it is put before.
    added: Vec<(usize, Value)>,
    /// Calls with their results, each with the position of the one that the client sent without.
    filled: Vec<(usize, Value)>,
}

impl RestoredInput {
    fn new(items: &[Value]) -> Self {
        let mut marks = BTreeMap::<String, Vec<usize>>::new();
        for (position, item) in items.iter().enumerate().filter(|(_, item)| !is(item, &OUTPUTS)) {
            marks.entry(mark(item)).or_default().push(position);
        }
        let mut executed = BTreeSet::new();
        let mut without_result = BTreeMap::new();
        for (position, item) in items.iter().enumerate().filter(|(_, item)| is(item, &[EXECUTED])) {
            let id = text(item, "id").to_owned();
            if item["output"].is_null() && item["error"].is_null() {
                without_result.insert(id.clone(), position);
            }
            executed.insert(id);
        }
        let added = Vec::new();
        let filled = Vec::new();
        Self { marks, executed, without_result, records: BTreeSet::new(), added, filled }
    }

    /// Puts back the items of a record that the client dropped.
    fn put_back(&mut self, site: &AnchorSite, record: &mut Value) {
        if !self.records.insert(text(record, "record").to_owned()) {
            return;
        }
        let Some(Value::Array(entries)) = record.get_mut("output").map(Value::take) else { return };
        let mut next = site.turn;
        let mut waiting = Vec::new();
        for mut entry in entries {
            if let Some(mark) = entry.get("mark").and_then(Value::as_str) {
                let Some(position) = self.position(mark, next) else { continue };
                self.added.extend(waiting.drain(..).map(|item| (position, item)));
                next = position + 1;
            } else if let Some(item) = entry.get_mut("item").map(Value::take) {
                let id = text(&item, "id");
                if let Some(position) = self.without_result.remove(id) {
                    self.filled.push((position, item));
                } else if self.executed.insert(id.to_owned()) {
                    waiting.push(item);
                }
            }
        }
        // Nothing of the Response follows them that the client sent.
        self.added.extend(waiting.into_iter().map(|item| (site.item, item)));
    }

    /// Returns the first position of a mark, from `from` on.
    fn position(&self, mark: &str, from: usize) -> Option<usize> {
        let positions = self.marks.get(mark)?;
        positions.get(positions.partition_point(|position| *position < from)).copied()
    }
}

/// Puts items before those at their positions.
fn insert(items: &mut Vec<Value>, mut added: Vec<(usize, Value)>) {
    if added.is_empty() {
        return;
    }
    added.sort_by_key(|(position, _)| *position);
    let mut added = added.into_iter().peekable();
    let mut all = Vec::with_capacity(items.len() + added.len());
    for (position, item) in std::mem::take(items).into_iter().enumerate() {
        while let Some((_, put)) = added.next_if(|(before, _)| *before == position) {
            all.push(put);
        }
        all.push(item);
    }
    *items = all;
}

/// Notes for the model that calls beside these ran, in the results of these.
fn note_losses(items: &mut [Value], calls: &[usize]) {
    if calls.is_empty() {
        return;
    }
    let mut outputs = HashMap::<String, Vec<usize>>::new();
    for (position, item) in items.iter().enumerate().filter(|(_, item)| is(item, &OUTPUTS)) {
        outputs.entry(text(item, "call_id").to_owned()).or_default().push(position);
    }
    for call in calls {
        let positions = outputs.get(text(&items[*call], "call_id")).map_or(&[][..], Vec::as_slice);
        let next = positions.partition_point(|position| position <= call);
        if let Some(position) = positions.get(next) {
            note::add_to(&mut items[*position]["output"], "input_text");
        }
    }
}

/// Returns the digest by which the record of a Response with this item is found; `None` for an item
/// that another Response could have too.
fn anchor(trail: &ConversationDigests, item: &Value) -> Option<Anchor> {
    if is(item, &CALLS) {
        return trail.call(text(item, "call_id"), text(item, "name"));
    }
    if is_message(item) && item["role"] == "assistant" {
        return trail.message(text(item, "id"));
    }
    None
}

/// Returns the mark of an item: what stays the same if a client sends it back.
fn mark(item: &Value) -> String {
    let state = text(item, "encrypted_content");
    let own = match text(item, "type") {
        kind if CALLS.contains(&kind) => format!("call {}", text(item, "call_id")),
        _ if is_message(item) => format!("message {}", whole_text(item)),
        "reasoning" if !state.is_empty() => format!("reasoning {state}"),
        kind => format!("{kind} {}", text(item, "id")),
    };
    let digest = Sha256::digest(own);
    let mut digits = String::with_capacity(2 * digest.len());
    for byte in digest {
        // Writing to a text cannot fail.
        let _ = write!(digits, "{byte:02x}");
    }
    digits.truncate(MARK_DIGITS);
    digits
}

/// Returns whether an item is a message, whose type may be absent in a request.
fn is_message(item: &Value) -> bool {
    is(item, &["message"])
        || item.get("type").is_none_or(Value::is_null) && item["role"].is_string()
}

fn is_of_user(item: &Value) -> bool {
    is_message(item) && item["role"] == "user"
}

/// Returns whether an item is a call that ran here.
fn has_run(item: &Value) -> bool {
    is(item, &[EXECUTED]) && item["status"] != "incomplete"
}

fn is(item: &Value, kinds: &[&str]) -> bool {
    kinds.contains(&text(item, "type"))
}

/// Returns a member that is a text; empty if it is absent.
fn text<'i>(item: &'i Value, name: &str) -> &'i str {
    item.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the texts of a message.
fn texts(message: &Value) -> impl Iterator<Item = &str> {
    let content = &message["content"];
    let parts = content.as_array().into_iter().flatten().filter_map(|part| part["text"].as_str());
    content.as_str().into_iter().chain(parts)
}

fn whole_text(message: &Value) -> String {
    texts(message).collect()
}
