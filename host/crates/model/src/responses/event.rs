//! Reads the events of a streamed Response.
//!
//! A stream is `response.created`, then for each item `response.output_item.added`, its deltas and
//! `response.output_item.done`, and last `response.completed`, `response.incomplete` or
//! `response.failed`. Events of other types are ignored: they repeat what the deltas and the items
//! say, or belong to later versions of the API. A whole Response is read as the beginning and the
//! end of a stream, so that both forms agree.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    error::reported,
    item::{CallKind, OpenItem},
    usage,
};
use crate::{Object, translation::ResponseError};

/// Maximum bytes of the identifiers and names that are kept or repeated: of a Response and its
/// model, of reasoning items, and of tools. Each chunk repeats the first two. OpenAI's have some
/// 60 bytes, those of a proxy before it more.
pub(super) const MAX_NAME_BYTES: usize = 256;
/// Maximum number of items of one Response: the calls that the agent reads, each with an item of
/// reasoning before it. Each item keeps its state while it is open.
pub(super) const MAX_ITEMS: usize = 2_048;

/// Maximum number of steps of the items that came with the end of a Response and were not streamed.
/// Each becomes a chunk, and all of them are held at once: four for each of [`MAX_ITEMS`].
const MAX_STEPS: usize = 8_192;

/// One step of a Response.
#[derive(Debug, PartialEq)]
pub(super) enum ResponseStep {
    /// The first item begins, or the Response ends without one.
    Begin(ResponseHead),
    /// Text for the user, with its log probabilities.
    Text { text: String, logprobs: Vec<Value> },
    /// A piece of a refusal.
    Refusal(String),
    /// A piece of the model's own reasoning, or of a summary of it.
    Reasoning { item_id: String, summary: Option<u64>, text: String },
    /// Another part of the reasoning begins.
    Joint,
    /// A source of the text.
    Annotation(Object),
    /// The model calls a tool.
    Call { index: usize, tool: CallKind, id: String, name: String },
    /// A piece of the input of a call.
    Input { index: usize, tool: CallKind, text: String },
    /// An item is complete.
    Item { index: u64, item: Object },
    /// The Response is complete.
    End { finish_reason: &'static str, service_tier: Option<String>, usage: Option<Object> },
}

/// Members that all chunks share.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct ResponseHead {
    pub(super) id: String,
    pub(super) model: String,
    pub(super) created: u64,
}

/// State of a Response. It holds names and identifiers, and no text.
#[derive(Debug, Default)]
pub(super) struct ResponseReader {
    phase: ResponsePhase,
    /// The head, until the first item begins.
    head: Option<ResponseHead>,
    /// Open items by their place in the output.
    open: BTreeMap<u64, OpenItem>,
    /// Least place that the next item can have.
    next: u64,
    items: usize,
    calls: usize,
    /// Place of the reasoning that was read last: item and part.
    reasoning: Option<(u64, u64)>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum ResponsePhase {
    #[default]
    New,
    Begun,
    Ended,
}

impl ResponseReader {
    /// Returns whether the Response is complete. A stream that ends before is cut.
    pub(super) fn has_ended(&self) -> bool {
        self.phase == ResponsePhase::Ended
    }

    /// Reads the data of one event. Fails if it reports an error, or cannot follow the events
    /// before it.
    pub(super) fn event(&mut self, data: &Object) -> Result<Vec<ResponseStep>, ResponseError> {
        let kind = data.get("type").and_then(Value::as_str).unwrap_or_default();
        match kind {
            "error" => Err(reported(data)),
            "response.created" => self.begin(response_of(data)?).map(|()| Vec::new()),
            "response.failed" => Err(failed(response_of(data)?)),
            "response.completed" | "response.incomplete" => self.end(response_of(data)?),
            "response.output_item.added" => self.open_item(data),
            "response.output_item.done" => self.close_item(data),
            _ if OpenItem::knows(kind) => self.delta(kind, data),
            // A service may report an error without a type.
            "" if data.get("error").is_some_and(|error| !error.is_null()) => Err(reported(data)),
            _ => Ok(Vec::new()),
        }
    }

    /// Reads a Response that was not streamed.
    pub(super) fn whole(&mut self, response: &Object) -> Result<Vec<ResponseStep>, ResponseError> {
        match response.get("status").and_then(Value::as_str) {
            Some("failed") => return Err(failed(response)),
            Some("completed" | "incomplete") => {}
            _ if response.get("error").is_some_and(|error| !error.is_null()) => {
                return Err(failed(response));
            }
            _ => return Err(invalid("a Response that is not complete")),
        }
        self.begin(response)?;
        self.end(response)
    }

    fn begin(&mut self, response: &Object) -> Result<(), ResponseError> {
        if self.phase != ResponsePhase::New {
            return Err(invalid("a second response.created event"));
        }
        let id = response.get("id").and_then(Value::as_str);
        let model = response.get("model").and_then(Value::as_str);
        let head = ResponseHead {
            id: id.unwrap_or_default().to_owned(),
            model: model.unwrap_or_default().to_owned(),
            created: seconds(response.get("created_at")),
        };
        if head.id.len().max(head.model.len()) > MAX_NAME_BYTES {
            return Err(invalid("a Response with an id or model of excessive length"));
        }
        self.head = Some(head);
        self.phase = ResponsePhase::Begun;
        Ok(())
    }

    fn open_item(&mut self, data: &Object) -> Result<Vec<ResponseStep>, ResponseError> {
        self.check_begun()?;
        let (Some(index), Some(Value::Object(item))) = (index(data), data.get("item")) else {
            return Err(invalid("an output item without an index or a body"));
        };
        self.added(index, item)
    }

    /// Opens an item. Items are added in their order, so that calls have the order of their items.
    fn added(&mut self, index: u64, item: &Object) -> Result<Vec<ResponseStep>, ResponseError> {
        if index < self.next {
            return Err(invalid("an output item that was added twice or out of order"));
        }
        self.next = index.checked_add(1).ok_or_else(|| invalid("an output item without end"))?;
        self.items += 1;
        if self.items > MAX_ITEMS {
            return Err(invalid("more output items than the gateway accepts"));
        }
        let (item, step) = OpenItem::open(item, self.calls)?;
        self.calls += usize::from(item.is_call());
        self.open.insert(index, item);
        Ok(self.head.take().map(ResponseStep::Begin).into_iter().chain(step).collect())
    }

    fn delta(&mut self, kind: &str, data: &Object) -> Result<Vec<ResponseStep>, ResponseError> {
        self.check_begun()?;
        let place = index(data).ok_or_else(|| invalid("a delta without an output index"))?;
        let open = self.open.get_mut(&place);
        let open = open.ok_or_else(|| invalid("a delta of an output item that is not open"))?;
        let Some(step) = open.delta(kind, data)? else { return Ok(Vec::new()) };
        let part =
            ["summary_index", "content_index"].iter().find_map(|name| data.get(*name)?.as_u64());
        Ok(self.joined(step, place, part.unwrap_or_default()))
    }

    fn close_item(&mut self, data: &Object) -> Result<Vec<ResponseStep>, ResponseError> {
        self.check_begun()?;
        let (Some(index), Some(Value::Object(item))) = (index(data), data.get("item")) else {
            return Err(invalid("an output item without an index or a body"));
        };
        self.done(index, item)
    }

    fn done(&mut self, place: u64, item: &Object) -> Result<Vec<ResponseStep>, ResponseError> {
        let open = self.open.remove(&place);
        let open = open.ok_or_else(|| invalid("the end of an output item that is not open"))?;
        let mut steps = Vec::new();
        let is_kept = open.is_kept();
        for (part, step) in open.close(item)? {
            steps.extend(self.joined(step, place, part));
        }
        steps.extend(is_kept.then(|| ResponseStep::Item { index: place, item: item.clone() }));
        Ok(steps)
    }

    /// Puts a joint before a step with another part of the reasoning.
    fn joined(&mut self, step: ResponseStep, place: u64, part: u64) -> Vec<ResponseStep> {
        let mut steps = Vec::new();
        if matches!(step, ResponseStep::Reasoning { .. }) {
            let earlier = self.reasoning.replace((place, part));
            steps.extend(
                earlier.filter(|earlier| *earlier != (place, part)).map(|_| ResponseStep::Joint),
            );
        }
        steps.push(step);
        steps
    }

    /// Ends the Response. Items that were not streamed are read from it.
    fn end(&mut self, response: &Object) -> Result<Vec<ResponseStep>, ResponseError> {
        self.check_begun()?;
        let output =
            response.get("output").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let mut steps = Vec::new();
        for (place, item) in output.iter().enumerate() {
            let (place, Some(item)) = (place as u64, item.as_object()) else {
                return Err(invalid("an output item that is not an object"));
            };
            if place >= self.next {
                steps.extend(self.added(place, item)?);
            }
            if self.open.contains_key(&place) {
                steps.extend(self.done(place, item)?);
            }
            if steps.len() > MAX_STEPS {
                return Err(invalid("more parts than the gateway accepts"));
            }
        }
        if !self.open.is_empty() {
            return Err(invalid("a Response that ends inside an output item"));
        }
        self.phase = ResponsePhase::Ended;
        let begin = self.head.take().map(ResponseStep::Begin);
        let finish_reason = self.finish_reason(response);
        let usage = usage::to_chat(response.get("usage"));
        // The one that was asked for, `auto`, is known before; the one that was used, only now.
        let service_tier = response.get("service_tier").and_then(Value::as_str);
        let service_tier =
            service_tier.filter(|tier| tier.len() <= MAX_NAME_BYTES).map(str::to_owned);
        let end = ResponseStep::End { finish_reason, service_tier, usage };
        steps.extend(begin.into_iter().chain([end]));
        Ok(steps)
    }

    fn finish_reason(&self, response: &Object) -> &'static str {
        let details = response.get("incomplete_details");
        let reason = details.and_then(|details| details.get("reason")?.as_str());
        match reason {
            Some("content_filter") => "content_filter",
            Some(_) => "length",
            None if response.get("status").is_some_and(|status| status == "incomplete") => "length",
            None if self.calls > 0 => "tool_calls",
            None => "stop",
        }
    }

    fn check_begun(&self) -> Result<(), ResponseError> {
        match self.phase {
            ResponsePhase::New => Err(invalid("an event before response.created")),
            ResponsePhase::Begun => Ok(()),
            ResponsePhase::Ended => Err(invalid("an event after the end of the Response")),
        }
    }
}

fn response_of(data: &Object) -> Result<&Object, ResponseError> {
    let response = data.get("response").and_then(Value::as_object);
    response.ok_or_else(|| invalid("an event without its Response"))
}

fn failed(response: &Object) -> ResponseError {
    reported(response.get("error").and_then(Value::as_object).unwrap_or(response))
}

fn index(data: &Object) -> Option<u64> {
    data.get("output_index").and_then(Value::as_u64)
}

/// Returns a time in seconds. Some services write a fraction.
fn seconds(time: Option<&Value>) -> u64 {
    let Some(time) = time else { return 0 };
    // A cast from a float saturates.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
    time.as_u64().or_else(|| time.as_f64().map(|time| time as u64)).unwrap_or_default()
}

pub(super) fn invalid(what: &'static str) -> ResponseError {
    ResponseError::Invalid { what }
}

#[cfg(test)]
mod tests;
