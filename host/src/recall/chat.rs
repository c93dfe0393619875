//! Records in the messages of chat completions.
//!
//! A record has the rounds before the model's last answer, that answer with all its calls, and the
//! results of those that ran. The client sends back a message with its own calls alone; the rounds
//! are put before it, the calls into it, and the results after it. All of it stays text, so numbers
//! keep their digits.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::Value;
use uuid::Uuid;

use super::{Keeper, Recall, Trail, note};
use crate::{
    json::{RawObject, raw},
    store::recall::Anchor,
    tenant::Tenant,
};

/// Maximum number of messages with calls that are looked up, the newest first.
const MAX_SITES: usize = 512;

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
    /// Keeps rounds under the calls that the client answers: their identifiers and names. `messages`
    /// is the JSON text of the conversation that the client sent. Without rounds, later requests learn
    /// that they are lost.
    pub(crate) async fn keep_rounds(
        &self,
        messages: &str,
        calls: impl Iterator<Item = (&str, &str)>,
        rounds: Option<Rounds>,
    ) {
        let mut trail = self.trail();
        let messages: Vec<&str> = raw::elements(messages).into_iter().flatten().collect();
        if let Some(last) = messages.iter().rev().find(|message| has_role(message, "user")) {
            note_user(&mut trail, last);
        }
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
    pub(crate) async fn restore_messages<E: Send + 'static>(
        &self,
        tenant: &Tenant,
        body: &mut RawObject,
        charge: impl Fn(usize) -> Result<(), E> + Clone + Send + 'static,
    ) -> Result<(), E> {
        let Some(text) = body.get("messages").filter(|text| text.contains(r#""tool_calls""#))
        else {
            return Ok(());
        };
        let messages: Vec<&str> = raw::elements(text).into_iter().flatten().collect();
        let sites = sites(&messages, Trail::new(tenant));
        let anchors: Vec<Anchor> = sites.iter().map(|site| site.anchor).collect();
        let found = self.find(tenant, &anchors, charge.clone()).await?;
        let mut put = Restored { messages: &messages, changes: BTreeMap::new() };
        let mut seen = BTreeSet::new();
        for found in found {
            let site = &sites[found.position];
            match found.text {
                None => put.note_loss(site),
                Some(text) if seen.insert(record_of(&text)) => put.record(site, &text),
                Some(_) => {}
            }
        }
        if let Some(restored) = put.into_text() {
            charge(restored.len())?;
            body.set("messages", restored);
        }
        Ok(())
    }
}

/// One call of a message of the model.
struct Site<'m> {
    /// Position of the message.
    message: usize,
    /// Position of the first message after the last one of the user before it.
    turn: usize,
    id: Cow<'m, str>,
    anchor: Anchor,
}

/// Returns the calls in the messages of the model.
fn sites<'m>(messages: &[&'m str], mut trail: Trail) -> Vec<Site<'m>> {
    let (mut sites, mut turn) = (Vec::new(), 0);
    for (position, message) in messages.iter().copied().enumerate() {
        if has_role(message, "user") {
            note_user(&mut trail, message);
            turn = position + 1;
        }
        for (id, call) in calls(message) {
            let anchor = trail.call(&id, &name_of(call));
            sites.extend(anchor.map(|anchor| Site { message: position, turn, id, anchor }));
        }
    }
    let first = sites.len().saturating_sub(MAX_SITES);
    sites.split_off(first)
}

/// The messages of a request, and their changes.
struct Restored<'m> {
    messages: &'m [&'m str],
    /// Texts in the place of a message, by its position.
    changes: BTreeMap<usize, Vec<String>>,
}

impl Restored<'_> {
    /// Puts a record back, unless the client sent its calls itself.
    fn record(&mut self, site: &Site<'_>, record: &str) {
        let of_client: BTreeSet<Cow<'_, str>> = self.messages[site.turn..=site.message]
            .iter()
            .flat_map(|message| calls(message).map(|(id, _)| id))
            .collect();
        let list = |name| raw::member(record, name).and_then(raw::elements).into_iter().flatten();
        let before: Vec<&str> = list("before").collect();
        let results: Vec<&str> = list("results").collect();
        let mut ran = before.iter().chain(&results).copied().filter_map(answered);
        let is_sent = ran.any(|id| of_client.contains(&id));
        let Some(message) = raw::member(record, "message").filter(|_| !is_sent) else { return };
        let ran: BTreeSet<_> = results.iter().copied().filter_map(answered).collect();
        let merged = merged(message, self.messages[site.message], &ran, !before.is_empty());
        let texts = before.into_iter().map(str::to_owned).chain([merged]);
        let texts = texts.chain(results.into_iter().map(str::to_owned));
        self.changes.entry(site.message).or_insert_with(|| texts.collect());
    }

    /// Tells the model that calls beside this one ran, in the result of this one.
    fn note_loss(&mut self, site: &Site<'_>) {
        let after = self.messages.iter().enumerate().skip(site.message + 1);
        let mut results = after.filter(|(_, message)| answered(message).as_ref() == Some(&site.id));
        let Some((position, message)) = results.next() else { return };
        let Ok(mut result) = serde_json::from_str::<Value>(message) else { return };
        note::add_to(&mut result["content"], "text");
        self.changes.entry(position).or_insert_with(|| vec![result.to_string()]);
    }

    /// Returns the JSON text of all messages; `None` if none is changed.
    fn into_text(self) -> Option<Arc<str>> {
        if self.changes.is_empty() {
            return None;
        }
        let mut text = String::from("[");
        for (position, message) in self.messages.iter().enumerate() {
            let changed = self.changes.get(&position).map(|texts| texts.iter().map(String::as_str));
            for message in changed
                .into_iter()
                .flatten()
                .chain((!self.changes.contains_key(&position)).then_some(*message))
            {
                if text.len() > 1 {
                    text.push(',');
                }
                text.push_str(message);
            }
        }
        text.push(']');
        Some(text.into())
    }
}

/// Returns the message of the model with the calls that ran, in their places, and those that the
/// client sent. Members that the client dropped are those of the model. With `joins`, the client has
/// the texts of several rounds as one.
fn merged(own: &str, sent: &str, ran: &BTreeSet<Cow<'_, str>>, joins: bool) -> String {
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
    let members = |text| raw::members(text).into_iter().flatten();
    let mut out = RawObject::default();
    members(own).for_each(|(name, value)| out.set(&name, value));
    for (name, value) in members(sent).filter(|(name, _)| name != "content") {
        if out.get(&name).is_none() {
            out.set(&name, value);
        }
    }
    let said = raw::member(sent, "content").unwrap_or("null");
    if !is_of_model(said, raw::member(own, "content").unwrap_or("null"), joins) {
        out.set("content", said);
    }
    out.set("tool_calls", format!("[{}]", all.join(",")));
    out.to_text()
}

/// Returns whether the text of a message is what the model said, and not changed by the client.
fn is_of_model(sent: &str, own: &str, joins: bool) -> bool {
    let (sent, own) = (text_of(sent), text_of(own));
    sent.is_empty() || sent == own || joins && sent.ends_with(&*own)
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
