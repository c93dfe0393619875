//! Puts records back into the messages of a client.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use super::{AnchorSite, answered, calls, has_role, object, text_of};
use crate::recall::note;
use airlock_json::{RawObject, raw};

/// Members of a message with the text of its reasoning.
const REASONING_TEXTS: [&str; 2] = ["reasoning_content", "reasoning"];
/// Members of a message with its reasoning.
const REASONING: [&str; 4] =
    ["reasoning_content", "reasoning", "thinking_blocks", "reasoning_details"];

/// The messages of a request, and their changes.
pub(super) struct RestoredMessages<'m> {
    messages: &'m [&'m str],
    /// Positions of the messages with a call, by its identifier, in their order.
    called: HashMap<Cow<'m, str>, Vec<usize>>,
    /// Positions of the results of a call.
    answered: HashMap<Cow<'m, str>, Vec<usize>>,
    /// Texts in the place of a message, by its position.
    changes: BTreeMap<usize, Vec<Cow<'m, str>>>,
}

impl<'m> RestoredMessages<'m> {
    pub(super) fn new(messages: &'m [&'m str]) -> Self {
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
    pub(super) fn record(&mut self, site: &AnchorSite, record: &'m str) {
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
    pub(super) fn note_loss(&mut self, site: &AnchorSite) {
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
    pub(super) fn into_text<E>(
        self,
        charge: impl Fn(usize) -> Result<(), E>,
    ) -> Result<Option<Arc<str>>, E> {
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
    let all = merged_calls(own, sent, ran);
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

/// Returns the calls of the model that ran, in their places, and those that the client sent. Of two that it sent with
/// one identifier, the first one has the place of the model's first one. Takes linear time: a client may send any number.
fn merged_calls<'m>(own: &'m str, sent: &'m str, ran: &BTreeSet<Cow<'_, str>>) -> Vec<&'m str> {
    let (ids, mut left): (Vec<_>, Vec<_>) = calls(sent).map(|(id, call)| (id, Some(call))).unzip();
    // The places of each identifier, of which the first is taken first.
    let mut places = HashMap::<&str, Vec<usize>>::new();
    for (place, id) in ids.iter().enumerate().rev() {
        places.entry(id).or_default().push(place);
    }
    let mut all: Vec<&str> = Vec::new();
    for (id, call) in calls(own) {
        match places.get_mut(&*id).and_then(Vec::pop) {
            Some(place) => all.extend(left[place].take()),
            None if ran.contains(&id) => all.push(call),
            // The client dropped it.
            None => {}
        }
    }
    all.extend(left.into_iter().flatten());
    all
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a message with calls of these identifiers, each with a mark.
    fn message(ids: &[&str], mark: &str) -> String {
        let calls = ids.iter().enumerate();
        let calls: Vec<_> =
            calls.map(|(place, id)| format!(r#"{{"id":"{id}","m":"{mark}{place}"}}"#)).collect();
        format!(r#"{{"tool_calls":[{}]}}"#, calls.join(","))
    }

    #[test]
    fn calls_that_ran_have_their_places_among_those_that_the_client_sent() {
        let ran = BTreeSet::from([Cow::Borrowed("a"), Cow::Borrowed("d")]);
        let own = message(&["a", "b", "b", "c", "d"], "own");
        for (sent, expected) in [
            (&["b"][..], &["own0", "sent0", "own4"][..]),
            (&["x", "b", "b", "b"], &["own0", "sent1", "sent2", "own4", "sent0", "sent3"]),
            (&["d", "a"], &["sent1", "sent0"]),
            (&[], &["own0", "own4"]),
        ] {
            let sent = message(sent, "sent");
            let merged = merged_calls(&own, &sent, &ran);
            let marks = merged.iter().filter_map(|call| raw::string(raw::member(call, "m")?));
            assert_eq!(marks.collect::<Vec<_>>(), expected, "{sent}");
        }
    }
}
