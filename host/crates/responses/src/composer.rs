//! Composes one Response from the events of the agent loop.

use std::time::{SystemTime, UNIX_EPOCH};

use futures_util::future::BoxFuture;
use http::StatusCode;
use serde_json::Value;

use super::{
    archive::{NotStored, ResponseToStore},
    translate::{Echo, GatewayCall, Groups, Writer},
};
use airlock_agent::{
    CallEnded, CallStarted, Completion, EXTENSION, Event, recall::items::OutputKeeper,
};
use airlock_conversation::{Delta, Object};
use airlock_core::{
    door::{Caller, Origin},
    memory::RequestMemory as _,
    request_memory::RequestCharge,
    tenant::Tenant,
    threads,
    tool::HostCode,
};
use airlock_http::respond::ApiError;
use airlock_json::{
    self as json,
    weight::{object_weight, weight},
};

/// Label of the gateway's own tools.
const OWN_LABEL: &str = "airlock";
/// Number of copies in memory of the model's texts and of results: in the open item, the closed
/// one, the last event and the text that is sent.
const OUTPUT_COPIES: usize = 4;
/// Memory of an item beside its content, in bytes, in all its forms and with the stream events about
/// it.
const ITEM_BYTES: usize = 8 << 10;
/// Memory of a stream event about the model's text, and of its part of the item, in bytes beside the
/// text. A part that begins and ends has four events.
const EVENT_BYTES: usize = 512;
/// Bytes that are charged for the text of a request or a response, and for its trees, for each byte of the text.
const TREE_BYTES_PER_TEXT: usize = 8;
/// Maximum number of items of a Response: each is charged [`ITEM_BYTES`], so all of them 32 MiB.
/// The rounds of a request with the default limits have fewer calls.
const MAX_ITEMS: usize = 4_096;

/// Composes one Response.
pub struct Composer {
    writer: Writer,
    /// The caller, whose view has the sources of the tools.
    caller: Caller,
    /// `None` if the Response is not to be stored.
    deposit: Option<ResponseToStore>,
    /// Keeps the calls that ran here; `None` if they are not kept.
    keeper: Option<OutputKeeper>,
    charge: RequestCharge,
    /// Upper estimate of the bytes of the items that are open. They are copied when these end.
    open_bytes: usize,
    last: Option<FinalEvent>,
}

/// The last event of a Response that is complete.
struct FinalEvent {
    event: Object,
    /// Keeps the calls that ran here; `None` if there are none.
    keeping: Option<BoxFuture<'static, ()>>,
    /// Stores the Response; `None` if it is not to be stored.
    saving: Option<BoxFuture<'static, Result<(), NotStored>>>,
}

impl Composer {
    /// Creates the composer of a Response that has no events yet.
    pub fn new(
        id: &str,
        echo: Echo,
        caller: Caller,
        deposit: Option<ResponseToStore>,
        keeper: Option<OutputKeeper>,
        charge: RequestCharge,
    ) -> Self {
        let created_at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let writer = Writer::new(id, created_at, echo);
        Self { writer, caller, deposit, keeper, charge, open_bytes: 0, last: None }
    }

    /// Shows calls of the functions of these groups with the name of their group.
    pub fn with_groups(self, groups: Groups) -> Self {
        Self { writer: self.writer.with_groups(groups), ..self }
    }

    /// Adds an event of a Response that is not streamed: here if that is quick, else on a blocking thread. Fails as
    /// [`add`](Self::add) does.
    pub async fn compose(mut self: Box<Self>, event: Event) -> Result<Box<Self>, ApiError> {
        let bytes = self.work_bytes(&event);
        let tenant = self.tenant().clone();
        threads::read(&tenant, bytes, move || self.add(event, &mut Vec::new()).map(|()| self)).await
    }

    /// Returns the tenant whose request it is.
    pub(super) fn tenant(&self) -> &Tenant {
        self.charge.tenant()
    }

    /// Returns the bytes that [`add`](Self::add) reads or copies: those of the event, of the items that it ends, and at the
    /// end of the whole Response.
    pub(super) fn work_bytes(&self, event: &Event) -> usize {
        match event {
            Event::Chunk(chunk) => {
                let continues = chunk.deltas().iter().all(|delta| self.writer.continues(delta));
                let ended = if continues { 0 } else { self.open_bytes };
                chunk.bytes().saturating_add(ended)
            }
            Event::Started(started) => self.open_bytes.saturating_add(started.arguments.len()),
            Event::Ended(ended) => self.open_bytes.saturating_add(ended.text.len()),
            Event::Round { .. } => self.open_bytes,
            Event::Done(_) | Event::Failed(_) => self.response_bytes(),
            Event::Progress { .. } | Event::Partial { .. } => 0,
        }
    }

    /// Returns an estimate of the text of the whole Response, with the members of the request that it repeats.
    pub(super) fn response_bytes(&self) -> usize {
        self.charge.bytes() / TREE_BYTES_PER_TEXT
    }

    /// Begins the Response. Here and below, its stream events are appended to `out`.
    pub fn begin(&mut self, out: &mut Vec<Object>) {
        self.writer.begin(out);
    }

    /// Adds an event of the loop. Fails if the request has failed, or if there is no memory for the
    /// Response. Call [`fail`](Self::fail) then if the stream has begun.
    pub fn add(&mut self, event: Event, out: &mut Vec<Object>) -> Result<(), ApiError> {
        let added = self.add_event(event, out);
        if !self.writer.has_open_items() {
            self.open_bytes = 0;
        }
        added
    }

    fn add_event(&mut self, event: Event, out: &mut Vec<Object>) -> Result<(), ApiError> {
        match event {
            Event::Chunk(chunk) => {
                let deltas = chunk.into_deltas();
                let continues = deltas.iter().all(|delta| self.writer.continues(delta));
                let content: usize = deltas.iter().map(content_bytes).sum();
                self.charge.grow(content)?;
                self.open_bytes = self.open_bytes.saturating_add(content / OUTPUT_COPIES);
                let before = self.writer.items();
                let events = out.len();
                // Until the items are counted.
                let room = switches(&deltas).saturating_mul(ITEM_BYTES);
                self.charge.grow(room)?;
                self.writer.deltas(deltas, out);
                self.charge.give_back(room);
                self.check_items(before)?;
                let events = (out.len() - events).saturating_mul(EVENT_BYTES);
                self.charge.grow(events)?;
                if !continues {
                    // Of a part with a letter, its object is most of what is copied.
                    self.open_bytes = self.open_bytes.saturating_add(events / OUTPUT_COPIES);
                }
            }
            Event::Started(started) => {
                self.hold(started.arguments.len())?;
                self.open_bytes = self.open_bytes.saturating_add(started.arguments.len());
                let before = self.writer.items();
                self.start(&started, out);
                self.check_items(before)?;
            }
            Event::Ended(ended) => {
                let CallEnded { tool_call_id, text, error, .. } = *ended;
                self.hold(text.len())?;
                // The client gets a call that waits for an approval as a call of its own.
                if error
                    .as_ref()
                    .is_some_and(|error| error.code == HostCode::NeedsApproval.prefixed())
                {
                    self.writer.call_suspended(&tool_call_id, out);
                    return Ok(());
                }
                let result = if error.is_none() { Ok(&*text) } else { Err(&*text) };
                self.writer.call_ended(&tool_call_id, result, out);
            }
            Event::Round { .. } => self.writer.round_ended(out),
            Event::Done(completion) => self.complete(*completion, out),
            Event::Failed(error) => return Err(error.into_error_reply().into()),
            // The API has no events for them, and OpenAI's clients fail on events that they do not
            // know.
            Event::Progress { .. } | Event::Partial { .. } => {}
        }
        Ok(())
    }

    /// Returns whether the Response is complete. Call [`conclude`](Self::conclude) then.
    pub fn is_complete(&self) -> bool {
        self.last.is_some()
    }

    /// Stores the complete Response, if it is to be stored, and returns the last stream event. If
    /// the future is dropped, the method can be called again and continues.
    ///
    /// # Panics
    ///
    /// Panics if the Response is not complete.
    pub async fn conclude(&mut self) -> Object {
        let last = self.last.as_mut().expect("the Response is complete");
        if let Some(keeping) = &mut last.keeping {
            keeping.await;
            last.keeping = None;
        }
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

    fn start(&mut self, started: &CallStarted, out: &mut Vec<Object>) {
        let CallStarted { tool_call_id, name, arguments, extra } = started;
        let entry = self.caller.view().find(&Origin::Model, name);
        let client = entry.and_then(|entry| entry.tool.client.as_ref());
        let call = GatewayCall {
            tool_call_id,
            server_label: client.map_or(OWN_LABEL, |client| client.as_str()),
            name,
            arguments,
            extra,
        };
        self.writer.call_started(call, out);
    }

    fn complete(&mut self, completion: Completion, out: &mut Vec<Object>) {
        self.writer.finish(completion.usage.as_ref(), completion.airlock, out);
        let mut event = out.pop().unwrap_or_default();
        let keeper = self.keeper.take();
        let keeping = keeper.and_then(|keeper| {
            keeper.keep(self.writer.output_items(), |bytes| self.charge.grow(bytes).is_ok())
        });
        let deposit = self.deposit.take();
        let saving = deposit.zip(response_of(&mut event));
        let saving = saving.map(|(deposit, response)| deposit.save(response));
        self.last = Some(FinalEvent { event, keeping, saving });
    }

    /// Charges the items that were added after the first `before`. Fails if there are too many.
    fn check_items(&self, before: usize) -> Result<(), ApiError> {
        let items = self.writer.items();
        if items > MAX_ITEMS {
            let message = format!("the response of the model has more than {MAX_ITEMS} items");
            let status = StatusCode::BAD_GATEWAY;
            return Err(ApiError::from_status(status, "provider_bad_answer", message));
        }
        Ok(self.charge.grow((items - before).saturating_mul(ITEM_BYTES))?)
    }

    /// Charges content of the Response.
    fn hold(&self, bytes: usize) -> Result<(), ApiError> {
        Ok(self.charge.grow(bytes.saturating_mul(OUTPUT_COPIES))?)
    }
}

/// Returns the number of items that deltas can begin, without the first.
fn switches(deltas: &[Delta]) -> usize {
    let kinds = deltas.windows(2);
    kinds
        .filter(|pair| std::mem::discriminant(&pair[0]) != std::mem::discriminant(&pair[1]))
        .count()
}

/// Returns an upper estimate of the memory that the content of a delta takes in a Response, in bytes.
fn content_bytes(delta: &Delta) -> usize {
    let copied = match delta {
        Delta::Text { text, .. }
        | Delta::Refusal { text, .. }
        | Delta::Reasoning { text, .. }
        | Delta::Arguments { text, .. } => json::text_len(text),
        Delta::Call { id, name, extra, .. } => {
            json::text_len(id) + json::text_len(name) + copies_of(extra)
        }
        Delta::Citation { citation, .. } => copies_of(citation),
        Delta::ItemEnd { item, .. } => copies_of(item),
        Delta::Member { name, value, .. } if name == "logprobs" => {
            json::text_len(value) + weight(value)
        }
        // The state of reasoning is copied once, and then kept as text.
        Delta::Member { value, .. } => {
            return json::text_len(value).saturating_mul(OUTPUT_COPIES) + weight(value);
        }
        Delta::ReasoningEnd { reasoning, .. } => 2 * reasoning.bytes(),
        _ => 0,
    };
    copied.saturating_mul(OUTPUT_COPIES)
}

/// Returns the memory of an object and of its text, in bytes.
fn copies_of(object: &Object) -> usize {
    json::text_len(object) + object_weight(object)
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

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use serde_json::json;

    use super::*;
    use crate::translate::{BuiltinTools, prepare};
    use airlock_conversation::chat::ReplyReader;
    use airlock_core::{door::Filter, request_memory::Memory, threads::INLINE_BYTES};
    use airlock_fakes as fake;
    use airlock_json::object;

    #[tokio::test]
    async fn a_long_piece_and_the_end_of_a_long_item_are_not_composed_on_a_worker() {
        let (mut composer, charge) = composer(usize::MAX);
        let call = Event::Chunk(vec![call_delta()].into());
        assert!(composer.work_bytes(&text(10)) <= INLINE_BYTES);
        assert!(composer.work_bytes(&text(INLINE_BYTES + 1)) > INLINE_BYTES);
        composer.add(text(INLINE_BYTES + 1), &mut Vec::new()).expect("room");
        assert!(composer.work_bytes(&text(10)) <= INLINE_BYTES, "it ends nothing");
        assert!(composer.work_bytes(&call) > INLINE_BYTES, "it ends the message");
        let held = threads::occupy(charge.tenant()).await;
        let mut composing = Box::pin(Box::new(composer).compose(call));
        assert!(composing.as_mut().now_or_never().is_none(), "it waits for a thread");
        drop(held);
        let after = composing.await.expect("room");
        assert!(after.writer.has_open_items(), "the call is open");
    }

    #[test]
    fn an_item_of_many_short_parts_is_not_closed_on_a_worker() {
        let (mut composer, _charge) = composer(usize::MAX);
        let call = Event::Chunk(vec![call_delta()].into());
        for _ in 0..100 {
            let refusal = Delta::Refusal { choice: 0, text: "n".to_owned() };
            composer.add(text(1), &mut Vec::new()).expect("room");
            composer.add(Event::Chunk(vec![refusal].into()), &mut Vec::new()).expect("room");
        }
        assert!(composer.work_bytes(&call) > INLINE_BYTES, "{}", composer.work_bytes(&call));
        let (mut plain, _charge) = self::composer(usize::MAX);
        for _ in 0..100 {
            plain.add(text(1), &mut Vec::new()).expect("room");
        }
        assert!(plain.work_bytes(&call) <= INLINE_BYTES, "one text has one part");
    }

    fn text(bytes: usize) -> Event {
        let text = "x".repeat(bytes);
        Event::Chunk(vec![Delta::Text { choice: 0, text }].into())
    }

    fn call_delta() -> Delta {
        let [id, name] = ["c", "f"].map(str::to_owned);
        Delta::Call { choice: 0, index: 0, id, name, is_custom: false, extra: Object::new() }
    }

    fn composer(memory: usize) -> (Composer, RequestCharge) {
        let request = object(json!({"model": "m", "input": "x"}));
        let prepared = prepare(request, Vec::new(), false, &BuiltinTools::Drop);
        let echo = prepared.expect("a good request").echo;
        let view = fake::catalog().0.snapshot().view(&Filter::none(), None);
        let caller = Caller::new(view, Origin::Model, fake::BUDGET);
        let memory = Memory::new(memory);
        let charge = memory.open(Tenant::ANONYMOUS, 0).expect("room");
        (Composer::new("resp_1", echo, caller, None, None, charge.clone()), charge)
    }

    /// Returns the deltas of a chunk with one choice.
    fn deltas(mut choice: Value) -> Vec<Delta> {
        choice["index"] = 0.into();
        let mut reader = ReplyReader::default();
        let mut deltas = reader.chunk(object(json!({"choices": [choice]}))).expect("a chunk");
        deltas.append(&mut reader.finish().expect("an end"));
        deltas
    }

    fn add(composer: &mut Composer, delta: &Value) -> Result<(), ApiError> {
        let deltas = deltas(json!({"delta": delta}));
        composer.add(Event::Chunk(deltas.into()), &mut Vec::new())
    }

    #[test]
    fn items_are_charged_and_their_number_is_bounded() {
        let both = json!({"reasoning": "x", "content": "y"});
        let (mut small, _) = composer(64 * ITEM_BYTES);
        let added = (0..64).take_while(|_| add(&mut small, &both).is_ok()).count();
        assert!((8..16).contains(&added), "two items of {added} chunks are charged");
        let (mut large, _) = composer(usize::MAX);
        for _ in 0..MAX_ITEMS / 2 {
            add(&mut large, &both).expect("not too many");
        }
        let error = add(&mut large, &both).expect_err("too many").into_body();
        assert_eq!(error["error"]["code"], "provider_bad_answer");
    }

    #[test]
    fn lists_of_small_objects_are_charged_as_the_memory_that_they_take() {
        let small = vec![json!({}); 1_000];
        let kept = weight(&json!(small));
        for (choice, least) in [
            (json!({"delta": {}, "logprobs": {"content": small}}), OUTPUT_COPIES * kept),
            (json!({"delta": {"annotations": [{"type": "x", "x": small}]}}), OUTPUT_COPIES * kept),
            (json!({"delta": {"tool_calls": [{"index": 0, "x": small}]}}), OUTPUT_COPIES * kept),
            (json!({"delta": {"thinking_blocks": small}}), kept),
        ] {
            let bytes = deltas(choice).iter().map(content_bytes).sum::<usize>();
            assert!(bytes >= least, "{bytes}, at least {least}");
        }
        let text = deltas(json!({"delta": {"content": "x".repeat(1_000)}}));
        assert!((4_000..5_000).contains(&text.iter().map(content_bytes).sum::<usize>()));
    }
}
