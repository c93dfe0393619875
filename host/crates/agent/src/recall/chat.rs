//! Records in the messages of chat completions, and notes that clients send back in them.
//!
//! A record has the rounds before the model's last answer, that answer with all its calls, and the
//! results of those that ran. The client sends back a message with its own calls alone; the rounds
//! are put before it, the calls into it, and the results after it. All of it stays text, so numbers
//! keep their digits.

mod notes;
mod restored;

use std::{
    borrow::Cow,
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use uuid::Uuid;

pub use self::notes::remove_notes;
use self::restored::RestoredMessages;
use super::{ConversationDigests, FoundRecord, Recall, RecallWriter, trail::MAX_SITES};
use airlock_core::{tenant::Tenant, threads};
use airlock_json::{
    RawObject,
    raw::{self, MAX_MEMBERS},
};
use airlock_store::recall::Anchor;

/// Memory for a message or a call, while records are put back, in bytes.
const ENTRY_BYTES: usize = 128;

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

impl RecallWriter {
    /// Returns the digests at the end of a conversation: the messages in the request of the client.
    pub(crate) async fn trail_of(&self, sent: &RawObject) -> ConversationDigests {
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
        trail: &ConversationDigests,
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
        let trail = ConversationDigests::new(tenant);
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
    mut trail: ConversationDigests,
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

fn note_user(trail: &mut ConversationDigests, message: &str) {
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
