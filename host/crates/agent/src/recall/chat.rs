//! Records in the messages of chat completions, and notes that clients send back in them.
//!
//! A record has the rounds before the model's last answer, that answer with all its calls, and the
//! results of those that ran. The client sends back a message with its own calls alone; the rounds
//! are put before it, the calls into it, and the results after it. All of it stays text, so numbers
//! keep their digits.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::Arc,
};

use serde_json::Value;
use uuid::Uuid;

use super::{FoundRecord, Keeper, Recall, Trail, note, trail::MAX_SITES};
use airlock_core::{tenant::Tenant, threads};
use airlock_json::{
    RawObject,
    raw::{self, MAX_MEMBERS},
};
use airlock_store::recall::Anchor;

/// Memory for a message or a call, while records are put back, in bytes.
const ENTRY_BYTES: usize = 128;
/// Members of a message with the text of its reasoning.
const REASONING_TEXTS: [&str; 2] = ["reasoning_content", "reasoning"];
/// Members of a message with its reasoning.
const REASONING: [&str; 4] =
    ["reasoning_content", "reasoning", "thinking_blocks", "reasoning_details"];

/// Rounds of one request that its client does not see. All are JSON texts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rounds {
    /// The messages of the rounds before the last answer: those of the model, each followed by the
    /// results of its calls.
    pub(crate) before: Vec<String>,
    /// The last message of the model, with all its calls.
    pub(crate) message: String,
    /// The results of those of its calls that ran.
    pub(crate) results: Vec<String>,
}

impl Rounds {
    /// Returns whether a call ran.
    pub(crate) fn has_run(&self) -> bool {
        !self.before.is_empty() || !self.results.is_empty()
    }

    /// Returns the bytes of all texts.
    pub(crate) fn bytes(&self) -> usize {
        let lists = self.before.iter().chain(&self.results).map(String::len);
        self.message.len() + lists.sum::<usize>()
    }

    fn to_text(&self) -> String {
        format!(
            r#"{{"record":"{}","before":[{}],"message":{},"results":[{}]}}"#,
            Uuid::new_v4(),
            self.before.join(","),
            self.message,
            self.results.join(",")
        )
    }
}

impl Keeper {
    /// Returns the digests at the end of a conversation: the messages in the request of the client.
    pub(crate) async fn trail_of(&self, sent: &RawObject) -> Trail {
        let mut trail = self.trail();
        let bytes = sent.get("messages").map_or(0, str::len);
        let sent = sent.clone();
        threads::read(&self.tenant, bytes, move || {
            let of_user = messages(&sent).filter(|message| has_role(message, "user"));
            if let Some(last) = of_user.last() {
                note_user(&mut trail, last);
            }
            trail
        })
        .await
    }

    /// Keeps rounds under the calls that the client answers: their identifiers and names. Without
    /// rounds, later requests learn that they are lost.
    pub(crate) async fn keep_rounds(
        &self,
        trail: &Trail,
        calls: impl Iterator<Item = (&str, &str)>,
        rounds: Option<Rounds>,
    ) {
        let anchors: BTreeSet<Anchor> =
            calls.filter_map(|(id, name)| trail.call(id, name)).collect();
        if !anchors.is_empty() {
            self.keep(anchors, rounds.map(|rounds| rounds.to_text())).await;
        }
    }
}

impl Recall {
    /// Puts the kept calls and results back into the messages of a request. `charge` is called with
    /// the bytes that this takes. Fails if `charge` fails, and then changes nothing.
    pub async fn restore_messages<E: Send + 'static>(
        &self,
        tenant: &Tenant,
        body: &mut RawObject,
        charge: impl Fn(usize) -> Result<(), E> + Clone + Send + 'static,
    ) -> Result<(), E> {
        let Some(text) = body.get("messages").filter(|text| text.contains(r#""tool_calls""#))
        else {
            return Ok(());
        };
        let bytes = text.len();
        let sent = body.clone();
        let trail = Trail::new(tenant);
        let (sites, entries) =
            threads::read(tenant, bytes, move || sites(messages(&sent), trail)).await;
        let anchors: Vec<Anchor> = sites.iter().map(|site| site.anchor).collect();
        let found = self.find(tenant, &anchors, charge.clone()).await?;
        if found.is_empty() {
            return Ok(());
        }
        charge(entries.saturating_mul(ENTRY_BYTES))?;
        let kept: usize = found.iter().filter_map(|found| Some(found.text.as_ref()?.len())).sum();
        let sent = body.clone();
        let restored = threads::read(tenant, bytes + kept, move || {
            let messages: Vec<&str> = messages(&sent).collect();
            restored(&messages, &sites, &found, charge)
        });
        if let Some(restored) = restored.await? {
            body.set("messages", restored);
        }
        Ok(())
    }
}

/// Removes the note about an approval from the messages of the model that have calls. The results of the
/// calls follow them, so the note is no longer true. `charge` is called with the bytes that this takes.
/// Fails if `charge` fails, and then changes nothing.
pub async fn remove_notes<E: Send + 'static>(
    tenant: &Tenant,
    body: &mut RawObject,
    charge: impl Fn(usize) -> Result<(), E> + Send + 'static,
) -> Result<(), E> {
    let Some(text) = body.get("messages").filter(|text| text.contains(note::BEGIN)) else {
        return Ok(());
    };
    let bytes = text.len();
    let sent = body.clone();
    let changed = threads::read(tenant, bytes, move || without_notes(&sent, bytes, charge)).await?;
    if let Some(changed) = changed {
        body.set("messages", changed);
    }
    Ok(())
}

/// Returns the JSON text of the messages without notes, of which there are `bytes`; `None` if none has
/// a note.
fn without_notes<E>(
    body: &RawObject,
    bytes: usize,
    charge: impl Fn(usize) -> Result<(), E>,
) -> Result<Option<Arc<str>>, E> {
    // Once as it is made, and once as it is shared.
    charge(2 * bytes)?;
    let mut text = String::with_capacity(bytes);
    let mut is_changed = false;
    for message in messages(body) {
        text.push(if text.is_empty() { '[' } else { ',' });
        let changed = without_note(message);
        is_changed |= changed.is_some();
        text.push_str(changed.as_deref().unwrap_or(message));
    }
    text.push(']');
    Ok(is_changed.then(|| text.into()))
}

/// Returns a message of the model with calls without the note about an approval; `None` for any other
/// message.
fn without_note(message: &str) -> Option<String> {
    let has_note = message.contains(note::BEGIN) && has_role(message, "assistant");
    if !has_note || calls(message).next().is_none() {
        return None;
    }
    let content = content_without_note(raw::member(message, "content")?)?;
    let mut message = object(message)?;
    message.set("content", content);
    Some(message.to_text())
}

/// Returns the JSON text of content, a text or a list of parts, without the note at its end: `null` if
/// nothing is left. `None` if there is no note.
fn content_without_note(content: &str) -> Option<String> {
    if let Some(text) = raw::string(content) {
        let before = note::before_approval(&text)?;
        let rest = if before.is_empty() { Value::Null } else { Value::from(before) };
        return Some(rest.to_string());
    }
    let mut parts: Vec<&str> = raw::elements(content)?.collect();
    let last = parts.pop()?;
    let text = raw::member(last, "text").and_then(raw::string)?;
    let before = note::before_approval(&text)?;
    let mut joined = parts.join(",");
    if !before.is_empty() {
        let mut part = object(last)?;
        part.set("text", Value::from(before).to_string());
        if !joined.is_empty() {
            joined.push(',');
        }
        joined.push_str(&part.to_text());
    }
    Some(if joined.is_empty() { "null".to_owned() } else { format!("[{joined}]") })
}

/// Iterates over the messages of a request.
fn messages(body: &RawObject) -> impl Iterator<Item = &str> {
    body.get("messages").and_then(raw::elements).into_iter().flatten()
}

/// Returns the JSON text of the messages with what was found; `None` if none is changed.
fn restored<E>(
    messages: &[&str],
    sites: &[AnchorSite],
    found: &[FoundRecord],
    charge: impl Fn(usize) -> Result<(), E>,
) -> Result<Option<Arc<str>>, E> {
    let mut put = RestoredMessages::new(messages);
    let mut seen = BTreeSet::new();
    for found in found {
        let site = &sites[found.position];
        match &found.text {
            None => put.note_loss(site),
            Some(text) if seen.insert(record_of(text)) => put.record(site, text),
            Some(_) => {}
        }
    }
    put.into_text(charge)
}

/// One call of a message of the model.
struct AnchorSite {
    /// Position of the message.
    message: usize,
    /// Position of the first message after the last one of the user before it.
    turn: usize,
    id: String,
    anchor: Anchor,
}

/// Returns the last calls in the messages of the model, and the number of all messages and calls.
fn sites<'m>(
    messages: impl Iterator<Item = &'m str>,
    mut trail: Trail,
) -> (Vec<AnchorSite>, usize) {
    let mut sites = VecDeque::new();
    let mut turn = 0;
    let mut entries = 0;
    for (position, message) in messages.enumerate() {
        entries += 1;
        if has_role(message, "user") {
            note_user(&mut trail, message);
            turn = position + 1;
        }
        for (id, call) in calls(message) {
            entries += 1;
            let Some(anchor) = trail.call(&id, &name_of(call)) else { continue };
            if sites.len() == MAX_SITES {
                sites.pop_front();
            }
            sites.push_back(AnchorSite { message: position, turn, id: id.into_owned(), anchor });
        }
    }
    (sites.into(), entries)
}

/// The messages of a request, and their changes.
struct RestoredMessages<'m> {
    messages: &'m [&'m str],
    /// Positions of the messages with a call, by its identifier, in their order.
    called: HashMap<Cow<'m, str>, Vec<usize>>,
    /// Positions of the results of a call.
    answered: HashMap<Cow<'m, str>, Vec<usize>>,
    /// Texts in the place of a message, by its position.
    changes: BTreeMap<usize, Vec<Cow<'m, str>>>,
}

impl<'m> RestoredMessages<'m> {
    fn new(messages: &'m [&'m str]) -> Self {
        let mut called = HashMap::<_, Vec<_>>::new();
        let mut results = HashMap::<_, Vec<_>>::new();
        for (position, message) in messages.iter().copied().enumerate() {
            for (id, _) in calls(message) {
                called.entry(id).or_default().push(position);
            }
            if let Some(id) = answered(message) {
                results.entry(id).or_default().push(position);
            }
        }
        Self { messages, called, answered: results, changes: BTreeMap::new() }
    }

    /// Puts a record back, unless the client sent its calls itself.
    fn record(&mut self, site: &AnchorSite, record: &'m str) {
        if self.changes.contains_key(&site.message) {
            return;
        }
        let before = list(record, "before");
        let results = list(record, "results");
        let ran: BTreeSet<_> = results.iter().copied().filter_map(answered).collect();
        let is_sent =
            before.iter().copied().filter_map(answered).chain(ran.iter().cloned()).any(|id| {
                first_from(self.called.get(&*id), site.turn).is_some_and(|at| at <= site.message)
            });
        let Some(message) = raw::member(record, "message").filter(|_| !is_sent) else { return };
        let repeated = self.repeated(site, message, &before);
        let joins = !before.is_empty();
        let sent = self.messages[site.message];
        let Some(merged) = merged(message, sent, &ran, joins, repeated > 0) else { return };
        let repeated = site.message - repeated..site.message;
        self.changes.extend(repeated.map(|position| (position, Vec::new())));
        let texts = before.into_iter().map(Cow::Borrowed).chain([Cow::Owned(merged)]);
        let texts = texts.chain(results.into_iter().map(Cow::Borrowed));
        self.changes.insert(site.message, texts.collect());
    }

    /// Counts the messages just before that of a call which repeat texts of its record. A stream of the
    /// Messages API has the texts of all rounds in one message, and the one of a call has only those after
    /// the last block of thinking.
    fn repeated(&self, site: &AnchorSite, own: &str, before: &[&str]) -> usize {
        let earlier = joined_texts(before.iter().copied());
        let all = joined_texts(before.iter().copied().chain([own]));
        let said = said(self.messages[site.message]);
        let Some(mut rest) = without_end(&all, &said) else { return 0 };
        let mut count = 0;
        for message in self.messages[site.turn..site.message].iter().copied().rev() {
            let text = self::said(message);
            let is_text = has_role(message, "assistant") && calls(message).next().is_none();
            if !is_text || text.is_empty() {
                break;
            }
            // A client may drop the text beside the call.
            let is_dropped = count == 0 && said.is_empty();
            let shorter = without_end(rest, &text)
                .or_else(|| without_end(&earlier, &text).filter(|_| is_dropped));
            let Some(shorter) = shorter else { break };
            rest = shorter;
            count += 1;
        }
        // Otherwise they are other texts. Earlier rounds have none if they were not shown.
        let rest = rest.trim_end();
        if rest.is_empty() || rest == earlier.trim_end() { count } else { 0 }
    }

    /// Notes for the model that calls beside this one ran, in the result of this one.
    fn note_loss(&mut self, site: &AnchorSite) {
        let positions = self.answered.get(&*site.id);
        let Some(position) = first_from(positions, site.message + 1) else { return };
        if self.changes.contains_key(&position) {
            return;
        }
        let Some(mut result) = object(self.messages[position]) else { return };
        let noted = result.get("content").and_then(|content| note::added_to(content, "text"));
        let Some(noted) = noted else { return };
        result.set("content", noted);
        self.changes.insert(position, vec![Cow::Owned(result.to_text())]);
    }

    /// Returns the JSON text of all messages, whose bytes are charged before; `None` if none is
    /// changed.
    fn into_text<E>(self, charge: impl Fn(usize) -> Result<(), E>) -> Result<Option<Arc<str>>, E> {
        if self.changes.is_empty() {
            return Ok(None);
        }
        let bytes = self.texts().map(|text| text.len() + 1).sum::<usize>() + 1;
        // Once as it is made, and once as it is shared.
        charge(2 * bytes)?;
        let mut text = String::with_capacity(bytes);
        text.push('[');
        for message in self.texts() {
            if text.len() > 1 {
                text.push(',');
            }
            text.push_str(message);
        }
        text.push(']');
        Ok(Some(text.into()))
    }

    /// Iterates over the messages and what is in their places.
    fn texts(&self) -> impl Iterator<Item = &str> {
        self.messages.iter().enumerate().flat_map(|(position, message)| {
            let changed = self.changes.get(&position);
            let unchanged = changed.is_none().then_some(*message);
            changed.into_iter().flatten().map(|text| &**text).chain(unchanged)
        })
    }
}

/// Returns the elements of a list of a record.
fn list<'m>(record: &'m str, name: &str) -> Vec<&'m str> {
    raw::member(record, name).and_then(raw::elements).into_iter().flatten().collect()
}

/// Returns the first of positions, which are in their order, that is not before `from`.
fn first_from(positions: Option<&Vec<usize>>, from: usize) -> Option<usize> {
    let positions = positions?;
    positions.get(positions.partition_point(|position| *position < from)).copied()
}

/// Reads the members of a message; `None` if it is no object, or if it has more members than any
/// message.
fn object(message: &str) -> Option<RawObject> {
    let mut object = RawObject::default();
    for (count, (name, value)) in raw::members(message)?.enumerate() {
        if count == MAX_MEMBERS {
            return None;
        }
        object.set(&name, value);
    }
    Some(object)
}

/// Returns the message of the model with the calls that ran, in their places, and those that the
/// client sent. Members that the client dropped are those of the model. With `joins`, the client has
/// the texts and the reasoning of several rounds as one; with `keeps_text`, its text is not read. `None`
/// if it is no message.
fn merged(
    own: &str,
    sent: &str,
    ran: &BTreeSet<Cow<'_, str>>,
    joins: bool,
    keeps_text: bool,
) -> Option<String> {
    let mut out = object(own)?;
    let theirs = object(sent)?;
    let mut left: Vec<(Cow<'_, str>, &str)> = calls(sent).collect();
    let mut all = Vec::new();
    for (id, call) in calls(own) {
        match left.iter().position(|(other, _)| *other == id) {
            Some(position) => all.push(left.remove(position).1),
            None if ran.contains(&id) => all.push(call),
            // The client dropped it.
            None => {}
        }
    }
    all.extend(left.into_iter().map(|(_, call)| call));
    let said = theirs.get("content").unwrap_or("null");
    if !keeps_text && !is_of_model(said, raw::member(own, "content").unwrap_or("null"), joins) {
        out.set("content", said);
    }
    let has_reasoning = has_reasoning(&out);
    for (name, value) in theirs.iter().filter(|(name, _)| *name != "content") {
        let is_of_rounds = joins && REASONING.contains(&name);
        let is_repeated = has_reasoning && REASONING_TEXTS.contains(&name);
        if !is_of_rounds && !is_repeated && out.get(name).is_none() {
            out.set(name, value);
        }
    }
    out.set("tool_calls", format!("[{}]", all.join(",")));
    Some(out.to_text())
}

/// Returns whether a message has readable reasoning: in a member, or in parts of its content.
fn has_reasoning(message: &RawObject) -> bool {
    let mut parts = message.get("content").and_then(raw::elements).into_iter().flatten();
    REASONING_TEXTS.iter().any(|name| message.get(name).is_some())
        || parts.any(|part| {
            raw::member(part, "type").and_then(raw::string).is_some_and(|kind| kind == "thinking")
        })
}

/// Returns whether the text of a message is the model's own, unchanged by the client.
fn is_of_model(sent: &str, own: &str, joins: bool) -> bool {
    let sent = text_of(sent);
    let own = text_of(own);
    sent.is_empty() || sent == own || joins && sent.ends_with(&*own)
}

/// Returns the texts of those messages that are the model's, as a stream joins them.
fn joined_texts<'m>(messages: impl Iterator<Item = &'m str>) -> String {
    let texts = messages.filter(|message| has_role(message, "assistant")).map(said);
    let texts: Vec<_> = texts.filter(|text| !text.is_empty()).collect();
    texts.join(note::SEPARATOR)
}

/// Returns the text before `end`, with or without the separator between them; `None` if it does not end so.
fn without_end<'t>(text: &'t str, end: &str) -> Option<&'t str> {
    text.strip_suffix(end).or_else(|| text.strip_suffix(note::SEPARATOR)?.strip_suffix(end))
}

/// Returns the text of a message.
fn said(message: &str) -> Cow<'_, str> {
    raw::member(message, "content").map(text_of).unwrap_or_default()
}

/// Iterates over the calls of a message of the model: identifier and JSON text.
fn calls(message: &str) -> impl Iterator<Item = (Cow<'_, str>, &str)> {
    let list = raw::member(message, "tool_calls").and_then(raw::elements);
    list.into_iter()
        .flatten()
        .filter_map(|call| Some((raw::member(call, "id").and_then(raw::string)?, call)))
}

fn name_of(call: &str) -> Cow<'_, str> {
    let named = raw::member(call, "function").or_else(|| raw::member(call, "custom"));
    named.and_then(|named| raw::member(named, "name")).and_then(raw::string).unwrap_or_default()
}

/// Returns the identifier of the call that a message is the result of.
fn answered(message: &str) -> Option<Cow<'_, str>> {
    has_role(message, "tool").then(|| raw::member(message, "tool_call_id"))?.and_then(raw::string)
}

fn has_role(message: &str, role: &str) -> bool {
    raw::member(message, "role").and_then(raw::string).is_some_and(|own| own == role)
}

fn note_user(trail: &mut Trail, message: &str) {
    trail.note_user([&*text_of(raw::member(message, "content").unwrap_or_default())]);
}

/// Returns the text of the content of a message: a text, or the texts of its parts.
fn text_of(content: &str) -> Cow<'_, str> {
    if let Some(text) = raw::string(content) {
        return text;
    }
    let parts = raw::elements(content).into_iter().flatten();
    let texts = parts.filter_map(|part| raw::member(part, "text").and_then(raw::string));
    Cow::Owned(texts.collect())
}

fn record_of(text: &str) -> String {
    raw::member(text, "record").and_then(raw::string).unwrap_or_default().into_owned()
}
