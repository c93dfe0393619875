//! Events of a running request, in one sequence that every API is rendered from.

mod slot;

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll, ready},
};

use futures_util::{Stream, future::poll_fn};
use parking_lot::Mutex;
use serde_json::Value;

use self::slot::{EventSlot, WaitingEvent};
use super::{AgentError, Answer};
use airlock_conversation::Object;
use airlock_core::{
    door::{self, CallId, Progress},
    tool::{CallFailure, Content},
};
use airlock_model::ReplyChunk;

/// Event of a running request. The last event of each request is `Done` or `Failed`. The rare variants are boxed, because
/// a stream moves an event through several steps for each chunk.
#[derive(Debug)]
pub enum Event {
    /// A piece of a streamed response. Those of all rounds together are one reply: one beginning, one end.
    /// Calls that the gateway runs are not in it; pending calls are. Absent if the request asks for no
    /// chunks.
    Chunk(ReplyChunk),
    /// A call of a tool of the gateway begins, or is refused.
    Started(Box<CallStarted>),
    /// Progress of a call. Only if the request has [`reports`](super::Request::reports).
    Progress {
        /// Id of the call in the conversation.
        tool_call_id: String,
        /// The progress.
        progress: Progress,
    },
    /// Content that a call sent before its result. Only if the request has
    /// [`reports`](super::Request::reports).
    Partial {
        /// Id of the call in the conversation.
        tool_call_id: String,
        /// The content.
        part: Box<Content>,
    },
    /// A call has ended.
    Ended(Box<CallEnded>),
    /// The results of a round of calls are sent to the model, which responds again.
    Round {
        /// Rounds of calls so far.
        rounds: u32,
    },
    /// The request is complete.
    Done(Box<Completion>),
    /// The request has failed.
    Failed(Box<AgentError>),
}

/// A call of one of the gateway's tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallStarted {
    /// Id of the call in the conversation.
    pub tool_call_id: String,
    /// Name of the tool.
    pub name: String,
    /// Arguments as the model sent them.
    pub arguments: String,
    /// Members of the call that the gateway does not know.
    pub extra: Object,
}

/// End of a call.
#[derive(Debug, Clone)]
pub struct CallEnded {
    /// Id of the call in the conversation.
    pub tool_call_id: String,
    /// Name of the tool.
    pub name: String,
    /// Text that the model receives.
    pub text: Arc<str>,
    /// Code and kind of the error; `None` if the call succeeded.
    pub error: Option<CallFailure>,
}

/// Result of a request.
#[derive(Debug)]
pub struct Completion {
    /// The response; `None` if it was streamed.
    pub answer: Option<Answer>,
    /// Usage of all responses together; `None` if the provider sent none, or if there is one response and the
    /// caller receives a chat completion, which has its own.
    pub usage: Option<Value>,
    /// Description of the calls; `None` if there were none.
    pub airlock: Option<Object>,
}

/// A running request: the stream of its events. It runs only while it is polled, and at most one
/// event ahead, so a slow reader stops the model. Dropping it cancels the request to the provider
/// and every running tool.
pub struct Run {
    work: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    slot: Arc<EventSlot<Event>>,
    answering: RespondingProvider,
}

/// Name of the provider that responds to a request, and the cost of the request, each once it is known. Clones
/// share them.
#[derive(Debug, Clone, Default)]
pub struct RespondingProvider(Arc<RespondingFacts>);

#[derive(Debug, Default)]
struct RespondingFacts {
    provider: OnceLock<String>,
    /// In millionths of a US dollar.
    cost: OnceLock<u64>,
}

impl RespondingProvider {
    /// Returns the provider's name; `None` if none has responded yet. It is known before the first
    /// chunk.
    pub fn provider(&self) -> Option<&str> {
        self.0.provider.get().map(String::as_str)
    }

    /// Returns the cost of all requests to models, in millionths of a US dollar; `None` before the last response is
    /// complete, and if no price is known for one of them.
    pub fn cost(&self) -> Option<u64> {
        self.0.cost.get().copied()
    }
}

impl Run {
    /// Creates a run from its work, which gets the sender of the events. The last event that the
    /// work sends must be `Done` or `Failed`.
    pub(super) fn new<F>(work: impl FnOnce(Emitter) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let slot = Arc::new(EventSlot::default());
        let answering = RespondingProvider::default();
        let turn = tokio::sync::Mutex::default();
        let emitter = Emitter { slot: slot.clone(), turn, answering: answering.clone() };
        Self { work: Some(Box::pin(work(emitter))), slot, answering }
    }

    /// Returns the provider that responds. It stays the same in all rounds.
    pub fn answering(&self) -> RespondingProvider {
        self.answering.clone()
    }

    /// Waits for the first event, which [`next`](Self::next) then returns. Fails if the request fails before it,
    /// so that the failure has a status of its own.
    pub async fn begin(&mut self) -> Result<(), Box<AgentError>> {
        match self.next().await {
            Some(Event::Failed(error)) => Err(error),
            Some(first) => {
                // Nothing took its place, because the work runs only in `next`.
                self.slot.put_back(first);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Returns the next event; `None` after the last one. Dropping the future loses no event.
    pub async fn next(&mut self) -> Option<Event> {
        poll_fn(|context| self.poll(context)).await
    }

    /// Runs the request to its end and drops all events but the last. Fails if the request fails.
    /// Dropping the future cancels the request.
    pub async fn finish(mut self) -> Result<Completion, Box<AgentError>> {
        loop {
            match self.next().await {
                Some(Event::Done(completion)) => return Ok(*completion),
                Some(Event::Failed(error)) => return Err(error),
                Some(_) => {}
                None => unreachable!("the last event is `Done` or `Failed`"),
            }
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Event>> {
        if let Some(event) = self.slot.take() {
            return Poll::Ready(Some(event));
        }
        if let Some(work) = &mut self.work
            && work.as_mut().poll(context).is_ready()
        {
            self.work = None;
        }
        match (self.slot.take(), &self.work) {
            (None, Some(_)) => Poll::Pending,
            (event, _) => Poll::Ready(event),
        }
    }
}

impl Stream for Run {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event>> {
        self.poll(context)
    }
}

/// Sender of the events of a request.
pub(super) struct Emitter {
    slot: Arc<EventSlot<Event>>,
    /// Held by the part of the work whose event is next. Reports of a call are sent before its end, so parts that
    /// wait are served in the order in which they began to.
    turn: tokio::sync::Mutex<()>,
    answering: RespondingProvider,
}

impl Emitter {
    /// Notes the provider that responded. Only the first one counts.
    pub(super) fn answers(&self, provider: &str) {
        self.answering.0.provider.get_or_init(|| provider.to_owned());
    }

    /// Notes the cost of the request, in millionths of a US dollar.
    pub(super) fn costs(&self, cost: u64) {
        self.answering.0.cost.get_or_init(|| cost);
    }

    /// Sends an event. Waits until the event before it was received.
    pub(super) fn emit(&self, event: Event) -> impl Future<Output = ()> + Send {
        // Not inside of the future, which would have room for the event twice.
        let mut event = Some(event);
        async move {
            // Most events of a stream find room and no other event that waits, and need no turn.
            if self.slot.put_at_once(&mut event) {
                return;
            }
            let _queued = WaitingEvent::begin(&self.slot);
            let _turn = self.turn.lock().await;
            poll_fn(|context| self.slot.poll_put(&mut event, context)).await;
        }
    }

    /// Waits until the last event was received. Without this wait, the work polls the source of its next event in the
    /// same poll in which it has sent one, and again after the receipt. If the next event is ready, the work also waits
    /// for room, and wakes the task that is polling it.
    ///
    /// Only for work that each poll of the [`Run`] polls: no waker is kept, because the run polls the work after each
    /// event that it has received.
    pub(super) fn handed_over(&self) -> impl Future<Output = ()> + Send {
        poll_fn(|_| if self.slot.has_event() { Poll::Pending } else { Poll::Ready(()) })
    }
}

/// Forwards the door's events of running calls under the ids of the conversation.
pub(super) struct Reports {
    events: Mutex<Option<door::Events>>,
    ids: Mutex<HashMap<CallId, String>>,
}

impl Reports {
    /// Creates the forwarding. Without `events` nothing is forwarded.
    pub(super) fn new(events: Option<door::Events>) -> Self {
        Self { events: Mutex::new(events), ids: Mutex::default() }
    }

    /// Registers the id in the conversation of a call that begins.
    pub(super) fn begin(&self, call: CallId, tool_call_id: &str) {
        self.ids().insert(call, tool_call_id.to_owned());
    }

    /// Returns the next event. Never completes if nothing is forwarded, or after the last one.
    pub(super) async fn next(&self) -> Event {
        poll_fn(|context| {
            loop {
                let mut events = self.events.lock();
                let Some(receiver) = &mut *events else { return Poll::Pending };
                match ready!(receiver.poll_recv(context)) {
                    Some(event) => {
                        if let Some(event) = self.translate(event) {
                            return Poll::Ready(event);
                        }
                    }
                    None => *events = None,
                }
            }
        })
        .await
    }

    /// Sends the events that are waiting. Called before the end of a call is sent, so that no event
    /// of the call follows it.
    pub(super) async fn flush(&self, emitter: &Emitter) {
        loop {
            let waiting = {
                let mut events = self.events.lock();
                events.as_mut().and_then(|events| events.try_recv().ok())
            };
            match waiting {
                Some(event) => {
                    if let Some(event) = self.translate(event) {
                        emitter.emit(event).await;
                    }
                }
                None => return,
            }
        }
    }

    /// Converts an event of the door; `None` if its call is not registered.
    fn translate(&self, event: door::Event) -> Option<Event> {
        Some(match event {
            door::Event::Progress { call, progress } => {
                Event::Progress { tool_call_id: self.id(call)?, progress }
            }
            door::Event::Partial { call, part } => {
                Event::Partial { tool_call_id: self.id(call)?, part }
            }
            // The agent asks for none.
            door::Event::Log { .. } | door::Event::Deferred { .. } => return None,
        })
    }

    fn id(&self, call: CallId) -> Option<String> {
        self.ids().get(&call).cloned()
    }

    fn ids(&self) -> parking_lot::MutexGuard<'_, HashMap<CallId, String>> {
        self.ids.lock()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{future::join, poll};
    use std::{
        pin::pin,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use super::*;

    fn round(rounds: u32) -> Event {
        Event::Round { rounds }
    }

    #[tokio::test]
    async fn events_that_wait_for_room_are_received_in_the_order_in_which_they_began_to_wait() {
        let mut run = Run::new(|emitter| async move {
            emitter.emit(round(0)).await;
            let mut first = pin!(emitter.emit(round(1)));
            let mut second = pin!(emitter.emit(round(2)));
            assert!(poll!(first.as_mut()).is_pending() && poll!(second.as_mut()).is_pending());
            // The later one is polled first once there is room.
            join(second, first).await;
        });
        for expected in 0..3 {
            let event = run.next().await;
            assert!(
                matches!(event, Some(Event::Round { rounds }) if rounds == expected),
                "{event:?}"
            );
        }
        assert!(run.next().await.is_none());
    }

    #[tokio::test]
    async fn an_event_that_finds_room_does_not_overtake_one_that_waits() {
        let mut run = Run::new(|emitter| async move {
            emitter.emit(round(0)).await;
            let mut first = pin!(emitter.emit(round(1)));
            assert!(poll!(first.as_mut()).is_pending());
            emitter.handed_over().await;
            join(emitter.emit(round(2)), first).await;
            // One that is dropped is not waited for.
            let mut dropped = Box::pin(emitter.emit(round(0)));
            assert!(poll!(dropped.as_mut()).is_pending());
            drop(dropped);
            emitter.handed_over().await;
            assert!(poll!(pin!(emitter.emit(round(3)))).is_ready());
        });
        for expected in 0..4 {
            let event = run.next().await;
            assert!(matches!(event, Some(Event::Round { rounds }) if rounds == expected));
        }
        assert!(run.next().await.is_none());
    }

    #[tokio::test]
    async fn work_that_hands_an_event_over_goes_on_after_its_receipt() {
        let steps = Arc::new(AtomicUsize::new(0));
        let step = steps.clone();
        let mut run = Run::new(|emitter| async move {
            emitter.handed_over().await;
            for number in 0..3 {
                emitter.emit(round(number)).await;
                emitter.handed_over().await;
                step.fetch_add(1, Ordering::Relaxed);
            }
        });
        run.begin().await.expect("it is no failure");
        for expected in 0..3 {
            let event = run.next().await;
            assert!(
                matches!(event, Some(Event::Round { rounds }) if rounds == expected),
                "{event:?}"
            );
            assert_eq!(steps.load(Ordering::Relaxed), expected as usize);
        }
        assert!(run.next().await.is_none());
        assert_eq!(steps.load(Ordering::Relaxed), 3);
    }

    #[tokio::test]
    async fn the_first_event_is_received_again_after_it_was_waited_for() {
        let mut run = Run::new(|emitter| async move {
            emitter.emit(round(1)).await;
            emitter.emit(round(2)).await;
        });
        run.begin().await.expect("it is no failure");
        for expected in 1..3 {
            let event = run.next().await;
            assert!(
                matches!(event, Some(Event::Round { rounds }) if rounds == expected),
                "{event:?}"
            );
        }
    }
}
