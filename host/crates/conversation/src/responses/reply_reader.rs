//! Reads the events of a streamed Response.
//!
//! A stream is `response.created`, then for each item `response.output_item.added`, its deltas and
//! `response.output_item.done`, and last `response.completed`, `response.incomplete` or
//! `response.failed`. Events of other types are ignored: they repeat what the deltas and the items
//! say, or belong to later versions of the API. A whole Response is read as the beginning and the
//! end of a stream, so that both forms agree.

mod item;

use std::collections::BTreeMap;

use serde_json::Value;

use self::item::OpenItem;
use super::{error::reported, usage};
use crate::{
    Begin, Delta, FinishReason, Object, ReplyError,
    delta::{MAX_NAME_BYTES, MAX_PIECES, invalid},
};

/// Maximum number of items of one Response: the calls that the agent reads, each with an item of
/// reasoning before it. Each item keeps its state while it is open.
const MAX_ITEMS: usize = 2_048;

/// Reads a Response. Its state holds names and identifiers, and no text.
#[derive(Debug, Default)]
pub struct ReplyReader {
    phase: ResponsePhase,
    /// The beginning, until the first item begins.
    begin: Option<Begin>,
    /// Open items by their place in the output.
    open: BTreeMap<u64, OpenItem>,
    /// Least place that the next item can have.
    next: u64,
    items: usize,
    calls: u64,
    /// Place of the item of the reasoning that was read last, and the beginning of its part.
    part: Option<(u64, Delta)>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum ResponsePhase {
    #[default]
    New,
    Begun,
    Ended,
}

impl ReplyReader {
    /// Returns whether the Response is complete. A stream that ends before is cut.
    pub fn has_ended(&self) -> bool {
        self.phase == ResponsePhase::Ended
    }

    /// Reads the data of one event. Fails if it reports an error, or cannot follow the events
    /// before it. The reply begins with its first item, so an error before it can be answered by
    /// another attempt.
    pub fn event(&mut self, mut data: Object) -> Result<Vec<Delta>, ReplyError> {
        let kind = take_text(&mut data, "type");
        match kind.as_str() {
            "error" => Err(reported(&data)),
            "response.created" => self.begin(&response_of(data)?).map(|()| Vec::new()),
            "response.failed" => Err(failed(&response_of(data)?)),
            "response.completed" | "response.incomplete" => self.end(response_of(data)?),
            "response.output_item.added" => self.open_item(data),
            "response.output_item.done" => self.close_item(data),
            _ if OpenItem::knows(&kind) => self.delta(&kind, data),
            // A service may report an error without a type.
            "" if data.get("error").is_some_and(|error| !error.is_null()) => Err(reported(&data)),
            _ => Ok(Vec::new()),
        }
    }

    /// Reads a Response that was not streamed.
    pub fn whole(&mut self, response: Object) -> Result<Vec<Delta>, ReplyError> {
        match response.get("status").and_then(Value::as_str) {
            Some("failed") => return Err(failed(&response)),
            Some("completed" | "incomplete") => {}
            _ if response.get("error").is_some_and(|error| !error.is_null()) => {
                return Err(failed(&response));
            }
            _ => return Err(invalid("a Response that is not complete")),
        }
        self.begin(&response)?;
        self.end(response)
    }

    fn begin(&mut self, response: &Object) -> Result<(), ReplyError> {
        if self.phase != ResponsePhase::New {
            return Err(invalid("a second response.created event"));
        }
        let id = text(response, "id");
        let model = text(response, "model");
        if id.len().max(model.len()) > MAX_NAME_BYTES {
            return Err(invalid("a Response with an id or model of excessive length"));
        }
        let created = seconds(response.get("created_at"));
        self.begin = Some(Begin { id, model, created, extra: Object::new() });
        self.phase = ResponsePhase::Begun;
        Ok(())
    }

    fn open_item(&mut self, data: Object) -> Result<Vec<Delta>, ReplyError> {
        self.check_begun()?;
        let (place, item) = item_of(data)?;
        let mut deltas = Vec::new();
        self.added(place, &item, &mut deltas)?;
        Ok(deltas)
    }

    /// Opens an item. Items are added in their order, so that calls have the order of their items.
    fn added(
        &mut self,
        place: u64,
        item: &Object,
        deltas: &mut Vec<Delta>,
    ) -> Result<(), ReplyError> {
        if place < self.next {
            return Err(invalid("an output item that was added twice or out of order"));
        }
        self.next = place.checked_add(1).ok_or_else(|| invalid("an output item without end"))?;
        self.items += 1;
        if self.items > MAX_ITEMS {
            return Err(invalid("more output items than the gateway accepts"));
        }
        let (item, call) = OpenItem::open(item, self.calls)?;
        self.calls += u64::from(call.is_some());
        self.open.insert(place, item);
        deltas.extend(self.begin.take().map(Delta::Begin));
        deltas.extend(call);
        Ok(())
    }

    fn delta(&mut self, kind: &str, data: Object) -> Result<Vec<Delta>, ReplyError> {
        self.check_begun()?;
        let place = place(&data).ok_or_else(|| invalid("a delta without an output index"))?;
        let open = self.open.get_mut(&place);
        let open = open.ok_or_else(|| invalid("a delta of an output item that is not open"))?;
        let mut deltas = open.delta(kind, data)?;
        self.join(place, &mut deltas);
        Ok(deltas)
    }

    fn close_item(&mut self, data: Object) -> Result<Vec<Delta>, ReplyError> {
        self.check_begun()?;
        let (place, item) = item_of(data)?;
        self.done(place, item)
    }

    fn done(&mut self, place: u64, item: Object) -> Result<Vec<Delta>, ReplyError> {
        let open = self.open.remove(&place);
        let open = open.ok_or_else(|| invalid("the end of an output item that is not open"))?;
        let is_kept = open.is_kept();
        let mut deltas = open.close(&item)?;
        self.join(place, &mut deltas);
        deltas.extend(is_kept.then(|| Delta::ItemEnd { choice: 0, index: place, item }));
        Ok(deltas)
    }

    /// Removes the beginnings of parts of reasoning that have begun.
    fn join(&mut self, place: u64, deltas: &mut Vec<Delta>) {
        deltas.retain(|delta| {
            if !matches!(delta, Delta::ReasoningPart { .. }) {
                return true;
            }
            let is_open =
                self.part.as_ref().is_some_and(|(at, part)| *at == place && part == delta);
            if !is_open {
                self.part = Some((place, delta.clone()));
            }
            !is_open
        });
    }

    /// Ends the Response. Items that were not streamed are read from it.
    fn end(&mut self, mut response: Object) -> Result<Vec<Delta>, ReplyError> {
        self.check_begun()?;
        let output = match response.get_mut("output") {
            Some(Value::Array(output)) => std::mem::take(output),
            _ => Vec::new(),
        };
        let mut deltas = Vec::new();
        for (place, item) in (0..).zip(output) {
            let Value::Object(item) = item else {
                return Err(invalid("an output item that is not an object"));
            };
            if place >= self.next {
                self.added(place, &item, &mut deltas)?;
            }
            if self.open.contains_key(&place) {
                deltas.append(&mut self.done(place, item)?);
            }
            if deltas.len() > MAX_PIECES {
                return Err(invalid("more parts than the gateway accepts"));
            }
        }
        if !self.open.is_empty() {
            return Err(invalid("a Response that ends inside an output item"));
        }
        self.phase = ResponsePhase::Ended;
        deltas.extend(self.begin.take().map(Delta::Begin));
        // The one that was asked for, `auto`, is known before; the one that was used, only now.
        let tier = text(&response, "service_tier");
        if (1..=MAX_NAME_BYTES).contains(&tier.len()) {
            deltas.push(Delta::ServiceTier(tier));
        }
        deltas.push(Delta::End { choice: 0, reason: self.finish_reason(&response) });
        deltas.extend(usage::read(response.get("usage")).map(Delta::Usage));
        Ok(deltas)
    }

    fn finish_reason(&self, response: &Object) -> FinishReason {
        let details = response.get("incomplete_details");
        let reason = details.and_then(|details| details.get("reason")?.as_str());
        match reason {
            Some("content_filter") => FinishReason::ContentFilter,
            Some(_) => FinishReason::Length,
            None if response.get("status").is_some_and(|status| status == "incomplete") => {
                FinishReason::Length
            }
            None if self.calls > 0 => FinishReason::ToolCalls,
            None => FinishReason::Stop,
        }
    }

    fn check_begun(&self) -> Result<(), ReplyError> {
        match self.phase {
            ResponsePhase::New => Err(invalid("an event before response.created")),
            ResponsePhase::Begun => Ok(()),
            ResponsePhase::Ended => Err(invalid("an event after the end of the Response")),
        }
    }
}

fn response_of(mut data: Object) -> Result<Object, ReplyError> {
    match data.shift_remove("response") {
        Some(Value::Object(response)) => Ok(response),
        _ => Err(invalid("an event without its Response")),
    }
}

/// Returns the item of an event, with its place.
fn item_of(mut data: Object) -> Result<(u64, Object), ReplyError> {
    match (place(&data), data.shift_remove("item")) {
        (Some(place), Some(Value::Object(item))) => Ok((place, item)),
        _ => Err(invalid("an output item without an index or a body")),
    }
}

fn failed(response: &Object) -> ReplyError {
    reported(response.get("error").and_then(Value::as_object).unwrap_or(response))
}

fn place(data: &Object) -> Option<u64> {
    data.get("output_index").and_then(Value::as_u64)
}

/// Returns a time in seconds. Some services write a fraction.
fn seconds(time: Option<&Value>) -> u64 {
    let Some(time) = time else { return 0 };
    // A cast from a float saturates.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
    time.as_u64().or_else(|| time.as_f64().map(|time| time as u64)).unwrap_or_default()
}

/// Returns a text; it is empty if it is absent.
fn text(object: &Object, name: &str) -> String {
    object.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Takes a text; it is empty if it is absent.
fn take_text(object: &mut Object, name: &str) -> String {
    match object.shift_remove(name) {
        Some(Value::String(text)) => text,
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests;
