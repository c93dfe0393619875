//! Composes one Response from the events of the agent loop.

use std::time::{SystemTime, UNIX_EPOCH};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use super::{
    super::{memory::Charge, respond::ApiError},
    archive::Deposit,
    translate::{Call, Echo, Writer},
};
use crate::{
    agent::{Completion, EXTENSION, Ended, Event, Started},
    door::{Caller, Origin},
    json,
    model::{Object, Part, document::choices},
};

/// Label of the gateway's own tools.
const OWN_LABEL: &str = "airlock";
/// Number of copies of the model's text and of results in memory: in the open item, the closed one,
/// the last event and the text to send.
const COPIES: usize = 4;

/// Composes one Response.
pub(super) struct Composer {
    writer: Writer,
    /// The caller, who knows the sources of the tools.
    caller: Caller,
    /// `None` if the Response is not to be stored.
    deposit: Option<Deposit>,
    charge: Charge,
    last: Option<Last>,
}

/// The last event of a Response that is complete.
struct Last {
    event: Object,
    /// Stores the Response; `None` if it is not to be stored.
    saving: Option<BoxFuture<'static, Result<(), NotStored>>>,
}

/// Reason that a complete Response was not stored, for the client.
pub(super) struct NotStored {
    pub(super) code: &'static str,
    pub(super) message: String,
}

impl Composer {
    pub(super) fn new(
        id: &str,
        echo: Echo,
        caller: Caller,
        deposit: Option<Deposit>,
        charge: Charge,
    ) -> Self {
        let created_at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        Self { writer: Writer::new(id, created_at, echo), caller, deposit, charge, last: None }
    }

    /// Begins the Response. Here and below, its stream events are appended to `out`.
    pub(super) fn begin(&mut self, out: &mut Vec<Object>) {
        self.writer.begin(out);
    }

    /// Adds an event of the loop. Fails if the request has failed or the Response has no room in
    /// memory; call [`fail`](Self::fail) then if the stream has begun.
    pub(super) fn add(&mut self, event: Event, out: &mut Vec<Object>) -> Result<(), ApiError> {
        match event {
            Event::Chunk(chunk) => {
                let deltas = choices(chunk.object()).filter_map(|choice| choice.get("delta"));
                let native = chunk.part().map_or(0, |part| match part {
                    Part::Item { item, .. } => json::text_len(item),
                    Part::Reasoning { .. } | Part::Joint => 0,
                });
                self.hold(deltas.map(json::text_len).sum::<usize>().saturating_add(native))?;
                match chunk.part() {
                    Some(part) => self.writer.part(part, out),
                    None => self.writer.chunk(chunk.object(), out),
                }
            }
            Event::Started(started) => {
                self.hold(started.arguments.len())?;
                self.start(&started, out);
            }
            Event::Ended(Ended { tool_call_id, text, error, .. }) => {
                self.hold(text.len())?;
                let result = if error.is_none() { Ok(&*text) } else { Err(&*text) };
                self.writer.call_ended(&tool_call_id, result, out);
            }
            Event::Round { .. } => self.writer.round_ended(out),
            Event::Done(completion) => self.complete(*completion, out),
            Event::Failed(error) => return Err((*error).into()),
            // The API has no events for them, and clients fail on events that they do not know.
            Event::Progress { .. } | Event::Partial { .. } => {}
        }
        Ok(())
    }

    /// Returns whether the Response is complete: then [`conclude`](Self::conclude) it.
    pub(super) fn is_complete(&self) -> bool {
        self.last.is_some()
    }

    /// Stores the complete Response, if it is to be stored, and returns the last stream event. Can
    /// be cancelled and called again.
    ///
    /// # Panics
    ///
    /// Panics if the Response is not complete.
    pub(super) async fn conclude(&mut self) -> Object {
        let last = self.last.as_mut().expect("the Response is complete");
        if let Some(saving) = &mut last.saving {
            let stored = saving.await;
            last.saving = None;
            if let (Err(reason), Some(response)) = (stored, response_of(&mut last.event)) {
                reason.note_in(response);
            }
        }
        self.last.take().expect("it was there").event
    }

    /// Ends the stream of a failed Response, which is not stored.
    pub(super) fn fail(&mut self, error: ApiError, out: &mut Vec<Object>) {
        let mut body = error.into_body();
        let airlock = body.shift_remove(EXTENSION).and_then(into_object);
        let error = body.shift_remove("error").and_then(into_object).unwrap_or_default();
        self.writer.fail(&error, None, airlock, out);
        if let Some(response) = out.last_mut().and_then(response_of) {
            response.insert("store".to_owned(), false.into());
        }
    }

    fn start(&mut self, started: &Started, out: &mut Vec<Object>) {
        let Started { tool_call_id, name, arguments, raw } = started;
        let entry = self.caller.view().find(&Origin::Model, name);
        let client = entry.and_then(|entry| entry.tool.client.as_ref());
        let call = Call {
            tool_call_id,
            server_label: client.map_or(OWN_LABEL, |client| client.as_str()),
            name,
            arguments,
            raw: Some(raw),
        };
        self.writer.call_started(call, out);
    }

    fn complete(&mut self, completion: Completion, out: &mut Vec<Object>) {
        self.writer.finish(completion.usage.as_ref(), completion.airlock, out);
        let mut event = out.pop().unwrap_or_default();
        let deposit = self.deposit.take();
        let saving = deposit.zip(response_of(&mut event));
        let saving = saving.map(|(deposit, response)| deposit.save(response));
        self.last = Some(Last { event, saving });
    }

    /// Charges content of the Response.
    fn hold(&self, bytes: usize) -> Result<(), ApiError> {
        Ok(self.charge.grow(bytes.saturating_mul(COPIES))?)
    }
}

impl NotStored {
    pub(super) fn no_memory() -> Self {
        let message = "the requests in flight leave no memory for storing the response".to_owned();
        Self { code: "gateway_overloaded", message }
    }

    pub(super) fn unavailable() -> Self {
        let message = "the store cannot be reached right now".to_owned();
        Self { code: "store_unavailable", message }
    }

    /// Notes in a Response that it is not stored.
    fn note_in(self, response: &mut Object) {
        response.insert("store".to_owned(), false.into());
        let airlock = response.entry(EXTENSION).or_insert_with(|| json!({}));
        airlock["not_stored"] = json!({"code": self.code, "message": self.message});
    }
}

fn response_of(event: &mut Object) -> Option<&mut Object> {
    event.get_mut("response").and_then(Value::as_object_mut)
}

fn into_object(value: Value) -> Option<Object> {
    match value {
        Value::Object(object) => Some(object),
        _ => None,
    }
}
