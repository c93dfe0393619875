//! The loop of one request: asks the model, runs its calls and asks again. It is a state machine:
//!
//! ```text
//!        ┌──────────────── all calls have results ────────────────┐
//!        ▼                                                        │
//!     Asking ──response──▶ Sorting ──calls to run or refuse──▶ Running
//!                             │                                   │
//!                none, or after the last round         a call waits for the caller
//!                             │                                   │
//!                             └───────────▶ Ending ◀──────────────┘
//! ```
//!
//! A failure in any state ends the request. [`AgentLoop`] has what outlives a state:
//!
//! | | where it is |
//! |---|---|
//! | rounds, and whether one more is permitted | [`Allowance`] |
//! | the names that are held back or refused | [`CallableNames`](super::names::CallableNames), in the conversation |
//! | deltas that are held back, and calls that were shown | [`Relay`] |
//! | the owner of a call, and so whether it runs | the call, when it is read in `Asking` |
//! | calls that are pending, and their reasons | the state |
//! | calls that ran or were refused, in all rounds | [`Trace`] |

use std::{collections::BTreeSet, mem, sync::Arc};

use super::{
    AgentError, Completion, Event, Failure, Request, Run, Settings, TokenVisibility,
    allowance::Allowance,
    answer::Answer,
    calls::{self, ToolCall},
    controlled::ControlledRequest,
    conversation::Conversation,
    event::{Emitter, Reports},
    guarded::{ModelReview, ReviewedReply, looks_at_replies},
    names::CallOwner,
    relay::{Relay, RelayContext, RelayStyle, RelayedChunks},
    results::Results,
    round::{
        self, CallOutcome, CallQuota, PendingCall, PendingReason, RoundConditions, RoundListener,
        SortedCalls,
    },
    span::AgentSpan,
    trace::Trace,
    usage::UsageSum,
    waiting::Approver,
};
use crate::recall::RecallWriter;
use airlock_conversation::Wire;
use airlock_core::{
    door::Caller, model_calls::MAX_CALLS_READ, model_control::ModelControl, tool::GuardActs,
};
use airlock_model::{ExchangeObserver, ModelError, Models, ReplyChunk, Response, Route, Terms};
use airlock_strings::with_causes;
use airlock_telemetry::{Span, TraceFuture as _, names};

mod ending;

/// Runs a chat completion. Nothing happens until the returned [`Run`] is polled. Its last event is
/// [`Event::Done`], or [`Event::Failed`] with the reason. Dropping it cancels the request.
pub fn run(models: Arc<Models>, caller: Caller, request: Request, settings: Settings) -> Run {
    // A stream is polled outside of the span of its request.
    let span = Span::current();
    // Boxed: the work would keep its room until the end of the response.
    let request = Box::new(request);
    Run::new(|emitter| work(models, caller, request, settings, emitter).in_span(&span))
}

/// Runs a chat completion to its last event.
pub(super) fn work(
    models: Arc<Models>,
    caller: Caller,
    mut request: Box<Request>,
    settings: Settings,
    emitter: Emitter,
) -> impl Future<Output = ()> + Send {
    let listener = RoundListener { emitter, reports: Reports::new(request.reports.take()) };
    let observer = request.observer.clone();
    // A block, because an `async fn` has room for its arguments twice.
    async move {
        let (route, begun) = RequestBeginning::route(request, &models, &caller);
        // Boxed: a stream would keep its room until its end.
        let beginning = Box::pin(AgentLoop::begin(begun, &caller, &settings, &listener));
        let mut agent = beginning.await;
        let traced = AgentSpan::begin(agent.conversation.offers());
        agent.span = traced.own().clone();
        let last = match route {
            Ok(mut route) => agent.run(&mut route).in_span(traced.under()).await,
            Err(error) => Err(Box::new(Box::pin(agent.failure(error.into())).await)),
        };
        traced.end(last.as_ref().err().map(|failed| &failed.error));
        if let Some(observer) = observer {
            match &last {
                Ok(completion) => observer.ended(completion.airlock.as_ref(), None),
                Err(failed) => {
                    observer.ended(failed.airlock.as_ref(), Some(&with_causes(&failed.error)));
                }
            }
        }
        let last = match last {
            Ok(completion) => Event::Done(completion),
            Err(failed) => Event::Failed(failed),
        };
        listener.emitter.emit(last).await;
    }
}

/// Returns the control that a request to a model is told to; `None` if none is.
fn control_of<'r>(route: &'r Route<'_>, caller: &Caller) -> Option<&'r Arc<dyn ModelControl>> {
    let membership = caller.view().membership();
    route.control().filter(|control| control.applies(membership))
}

/// Fails if all calls of a round need a login of the caller's user.
fn login_required(ended: &[CallOutcome]) -> Result<(), Failure> {
    let logins = ended.iter().map(|ended| {
        let error = ended.error.as_ref()?;
        Some((error.needed_login()?, error))
    });
    let Some((login, error)) =
        logins.collect::<Option<Vec<_>>>().and_then(|all| all.first().copied())
    else {
        return Ok(());
    };
    Err(Failure::LoginRequired { login: Box::new(login.clone()), message: error.to_string() })
}

/// Returns the answer of a response that was not streamed. The identifiers of its calls are repaired.
fn whole_answer(mut whole: ReplyChunk, ids: &mut BTreeSet<String>) -> Result<Box<Answer>, Failure> {
    let mut found = 0;
    calls::repair(whole.deltas_mut(), ids, &mut found)?;
    // Calls that were not read, such as those of a member that counts for nothing, do not reach the caller.
    if found > 0 || whole.has_calls() {
        whole.drop_exact();
    }
    Ok(Box::new(Answer::new(whole)))
}

/// State of the loop. Answers are boxed: each step would move them, and a stream would keep room for several.
enum LoopState {
    /// The model is asked.
    Asking,
    /// Its response is complete, and its calls are divided.
    Sorting { answer: Box<Answer>, calls: Vec<ToolCall> },
    /// Calls are run or refused.
    Running { answer: Box<Answer>, calls: SortedCalls },
    /// The last response is sent. `ended` are its calls that ran or were refused.
    Ending { answer: Box<Answer>, pending: Vec<PendingCall>, ended: Vec<CallOutcome> },
}

/// A request before its loop.
struct RequestBeginning {
    request: Box<Request>,
    has_responses: bool,
    /// True if its requests to the model are controlled.
    is_controlled: bool,
}

impl RequestBeginning {
    /// Finds the providers of a request. A function of its own, because the loop would have room for them twice.
    fn route<'m>(
        mut request: Box<Request>,
        models: &'m Models,
        caller: &Caller,
    ) -> (Result<Route<'m>, ModelError>, Self) {
        let route = models.route(&mut request.prompt.body);
        let has_responses = route.as_ref().is_ok_and(Route::has_responses);
        let is_controlled = route.as_ref().is_ok_and(|route| control_of(route, caller).is_some());
        (route, Self { request, has_responses, is_controlled })
    }
}

/// One request.
struct AgentLoop<'a> {
    caller: &'a Caller,
    settings: &'a Settings,
    listener: &'a RoundListener,
    allowance: Allowance,
    quota: CallQuota,
    conversation: Conversation,
    /// Ids of all calls so far.
    ids: BTreeSet<String>,
    /// True if the model is asked for a stream.
    is_streamed: bool,
    /// True if the caller receives chat completions.
    is_chat: bool,
    /// True if the response of a provider of chat completions is passed on as it came.
    passes_on: bool,
    /// The stream to the caller; `None` if only the last response is returned.
    relay: Option<Relay>,
    trace: Trace<'a>,
    /// Token usage of the model in the rounds so far. That of the last response is added at the end, and only
    /// if the sum is needed.
    usage: UsageSum,
    results: Option<Results>,
    approver: Option<Approver>,
    /// Keeps rounds that the caller does not see; `None` if nothing is kept.
    keeper: Option<RecallWriter>,
    /// Receives what is exchanged with providers.
    observer: Option<Arc<dyn ExchangeObserver>>,
    /// Span of the request; empty without tools.
    span: Span,
}

impl<'a> AgentLoop<'a> {
    /// Prepares the loop. Boxed, because it is moved into each step.
    async fn begin(
        begun: RequestBeginning,
        caller: &'a Caller,
        settings: &'a Settings,
        listener: &'a RoundListener,
    ) -> Box<Self> {
        let RequestBeginning { mut request, has_responses, is_controlled } = begun;
        let allowance = Allowance::new(settings, &request.budget);
        let quota = CallQuota::new(settings.calls_per_answer, request.max_tool_calls);
        let Request { is_streamed, shows_rounds, tokens, .. } = *request;
        let is_chat = request.wire == Wire::Chat;
        let has_notes = !request.notes.is_empty();
        let keeps_order = shows_rounds && !has_responses;
        let mut trace = Trace::new(caller, mem::take(&mut request.notes));
        let results = request.results.take();
        let approver = request.approver.take();
        let keeper = request.keeper.clone();
        let observer =
            request.observer.take().map(|observer| -> Arc<dyn ExchangeObserver> { observer });
        let conversation = Conversation::begin(*request, caller, settings).await;
        let shows_tokens = tokens == TokenVisibility::Shown;
        if is_controlled || shows_tokens {
            trace.count_tokens(&conversation, shows_tokens);
        }
        let offers = conversation.offers();
        let style = RelayStyle {
            holds: offers || has_notes || shows_rounds,
            is_one_text: !shows_rounds,
            keeps_order,
            holds_text: offers && conversation.wants_json(),
            is_chat,
        };
        let relay = (is_streamed || shows_rounds).then(|| Relay::new(style));
        Box::new(Self {
            caller,
            settings,
            listener,
            allowance,
            quota,
            conversation,
            ids: BTreeSet::new(),
            is_streamed,
            is_chat,
            passes_on: is_chat && !style.holds && !looks_at_replies(caller),
            relay,
            trace,
            usage: UsageSum::default(),
            results,
            approver,
            keeper,
            observer,
            span: Span::none(),
        })
    }

    /// Runs the loop to its end. The result is boxed: the work would have room for it beside the loop.
    async fn run(
        mut self: Box<Self>,
        route: &mut Route<'_>,
    ) -> Result<Box<Completion>, Box<AgentError>> {
        let mut state = LoopState::Asking;
        loop {
            let next = match state {
                LoopState::Asking => self.ask(route).await,
                LoopState::Sorting { answer, calls } => self.sort(answer, calls).await,
                LoopState::Running { answer, calls } => {
                    self.run_round(answer, calls, route.reads_images()).await
                }
                LoopState::Ending { answer, pending, ended } => {
                    // Boxed: a stream would keep its room from the beginning.
                    return Ok(Box::new(Box::pin(self.end(answer, pending, &ended)).await));
                }
            };
            state = match next {
                Ok(state) => state,
                Err(error) => return Err(Box::new(Box::pin(self.failure(error)).await)),
            };
        }
    }

    /// Returns the error of the request, with the calls that were made.
    async fn failure(&self, error: Failure) -> AgentError {
        let error = if self.caller.is_for_program() { error.for_program() } else { error };
        let airlock = self.trace.extension(self.allowance.rounds, &[]).await;
        AgentError { error, airlock }
    }

    /// Asks the model. If the caller receives chunks, they are sent meanwhile. After the last round no
    /// call is run here, so none is held back. Fails if the control refuses the request, if the providers
    /// fail, at the deadline, or beyond a bound.
    async fn ask(&mut self, route: &mut Route<'_>) -> Result<LoopState, Failure> {
        self.conversation.names.is_last = self.allowance.is_last_round();
        self.span.set(names::AIRLOCK_ROUNDS, self.allowance.rounds + 1);
        let mut controlled = self.begin_controlled(route).await?;
        let acts = controlled.as_deref().map(ControlledRequest::guard_acts);
        let asked = match self.review_request(route, acts).await {
            Ok(()) => self.exchange(route, controlled.as_deref_mut()).await,
            Err(refused) => Err(refused),
        };
        if let Some(controlled) = controlled {
            self.trace.add_cost(controlled.end(asked.as_ref().err()));
        }
        let mut answer = asked?;
        let names = &self.conversation.names;
        let mut calls = calls::read(&mut answer.reply, names);
        if let Some(relay) = &self.relay {
            // After the last round every call was shown, and one of a gateway's tool is pending for
            // that reason.
            let shown = calls.iter_mut().filter(|call| relay.has_shown(&call.id) && !names.is_last);
            shown.for_each(|call| call.owner = CallOwner::Caller);
        }
        Ok(LoopState::Sorting { answer, calls })
    }

    /// Begins the control of a request; `None` if nothing uses its outcome. Fails if it refuses the request, and at
    /// the deadline.
    async fn begin_controlled(
        &self,
        route: &Route<'_>,
    ) -> Result<Option<Box<ControlledRequest>>, Failure> {
        let Some(control) = control_of(route, self.caller) else { return Ok(None) };
        let conversation = &self.conversation;
        let begun = Box::pin(ControlledRequest::begin(
            control,
            self.caller,
            conversation,
            route,
            self.is_streamed,
            self.trace.tokens(),
        ));
        self.allowance.within(begun).await?
    }

    /// Lets the guards decide about the items that they have not seen. Fails if one of them denies the request or fails,
    /// and at the deadline.
    async fn review_request(
        &mut self,
        route: &Route<'_>,
        acts: Option<&Arc<GuardActs>>,
    ) -> Result<(), Failure> {
        let review = ModelReview::of_request(self.caller, route, acts, &self.conversation);
        let Some(review) = review else { return Ok(()) };
        // Boxed: most requests have no such guards.
        let reviewing = Box::pin(review.request(&mut self.conversation, &self.allowance.held));
        self.allowance.within(reviewing).await?
    }

    /// Sends a request and receives the response.
    async fn exchange(
        &mut self,
        route: &mut Route<'_>,
        mut controlled: Option<&mut ControlledRequest>,
    ) -> Result<Box<Answer>, Failure> {
        let terms = Terms {
            is_streamed: self.is_streamed,
            passes_on: self.passes_on && !self.conversation.has_placeholders(),
            max_calls: MAX_CALLS_READ as usize,
            deadline: self.allowance.deadline,
            held: &self.allowance.held,
            observer: self.observer.as_ref(),
            work: controlled.as_deref().map(ControlledRequest::work),
        };
        // Boxed: this future is the largest, and a stream would keep its room until its end.
        let asking = Box::pin(route.respond(&mut self.conversation.prompt, terms));
        let response = self.allowance.within(asking).await??;
        self.listener.emitter.answers(route.provider());
        if let Some(controlled) = &mut controlled {
            controlled.responds(route);
        }
        let acts = controlled.as_deref().map(ControlledRequest::guard_acts);
        // Boxed: most responses are not reviewed.
        let review =
            ModelReview::of_reply(self.caller, route, acts, &self.conversation).map(Box::new);
        self.receive(response, review.as_deref(), controlled).await
    }

    /// Receives a response. If the caller receives chunks, they are sent meanwhile.
    async fn receive(
        &mut self,
        response: Response<'_>,
        review: Option<&ModelReview<'_>>,
        mut controlled: Option<&mut ControlledRequest>,
    ) -> Result<Box<Answer>, Failure> {
        let Self { conversation, ids, relay, allowance, listener, .. } = self;
        if let (Response::Whole(whole), Some(controlled)) = (&response, &mut controlled) {
            controlled.receives(whole);
        }
        let ReviewedReply { response, windows } = match review {
            // Boxed: most responses are not reviewed.
            Some(review) => {
                Box::pin(review.receive(response, allowance, controlled.take())).await?
            }
            None => response.into(),
        };
        let chunks = match (response, relay.is_some()) {
            (Response::Whole(whole), false) => return whole_answer(whole, ids),
            (Response::Whole(mut whole), true) => {
                // It is no chunk.
                whole.drop_exact();
                whole.into()
            }
            (Response::Chunks(chunks), _) => chunks,
        };
        let relay = relay.as_mut().expect("without one, no stream is asked for");
        let emitter = &listener.emitter;
        let context = RelayContext { names: &conversation.names, allowance, emitter };
        let chunks = RelayedChunks { chunks, windows };
        relay.response(chunks, ids, controlled, context).await
    }

    /// Divides the calls of a response. Fails if they do not fit into the conversation, and at the deadline.
    async fn sort(
        &mut self,
        answer: Box<Answer>,
        calls: Vec<ToolCall>,
    ) -> Result<LoopState, Failure> {
        if calls.is_empty() {
            return Ok(LoopState::Ending { answer, pending: Vec::new(), ended: Vec::new() });
        }
        let is_last = self.conversation.names.is_last;
        // Charged before the calls are parsed, and before a tool is run whose result the model
        // could not receive. A response that ends the loop adds nothing to the conversation.
        if !is_last && calls.iter().any(|call| call.owner != CallOwner::Caller) {
            self.allowance.take(answer.bytes())?;
            if !self.allowance.held.grow(answer.item_bytes()) {
                return Err(Failure::NoMemory);
            }
        }
        let waits = self.approver.is_some();
        // Guards may be asked about each call, one after the other. Boxed: a stream without calls would have room for it
        // twice, from its beginning.
        let sorting = Box::pin(round::sort(calls, self.caller, waits, &mut self.quota));
        let calls = self.allowance.within(sorting).await?;
        if !is_last && !calls.batch.is_empty() {
            return Ok(LoopState::Running { answer, calls });
        }
        let SortedCalls { batch, mut pending } = calls;
        let beyond = batch.into_calls();
        pending.extend(beyond.map(|call| PendingCall::new(call, PendingReason::DepthLimit)));
        Ok(LoopState::Ending { answer, pending, ended: Vec::new() })
    }

    /// Runs a round of calls, and adds it to the conversation unless a call is pending. Fails at the
    /// deadline.
    async fn run_round(
        &mut self,
        answer: Box<Answer>,
        calls: SortedCalls,
        reads_images: bool,
    ) -> Result<LoopState, Failure> {
        let SortedCalls { batch, mut pending } = calls;
        let conditions = RoundConditions {
            caller: self.caller,
            settings: self.settings,
            allowance: &self.allowance,
            listener: self.listener,
            names: &self.conversation.names,
            results: self.results.as_ref(),
            reads_images,
            approver: self.approver.as_ref(),
        };
        // Boxed: a request without calls of the gateway's tools needs no room for it.
        let ended = Box::pin(round::run(batch, &conditions)).await;
        self.caller.end_turn();
        self.allowance.rounds += 1;
        self.trace.record(&ended);
        pending.extend(ended.iter().filter_map(CallOutcome::to_pending));
        if self.allowance.rounds == 1 && self.relay.is_none() && pending.is_empty() {
            // Nothing was sent to a server and nothing to the caller, so the whole request can be repeated
            // after the login. Otherwise the model tells its user of the link.
            login_required(&ended)?;
        }
        if self.allowance.is_over() {
            return Err(self.allowance.timeout());
        }
        if !pending.is_empty() {
            return Ok(LoopState::Ending { answer, pending, ended });
        }
        self.usage.add(answer.usage());
        self.conversation.add_round(*answer, &ended);
        let emitter = &self.listener.emitter;
        if let Some(relay) = &mut self.relay {
            relay.end_round(emitter).await;
        }
        emitter.emit(Event::Round { rounds: self.allowance.rounds }).await;
        Ok(LoopState::Asking)
    }
}
