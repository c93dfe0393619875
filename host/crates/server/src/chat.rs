//! `POST /v1/chat/completions`: chat completions, whole or streamed.

mod stream;

use std::{sync::Arc, time::Duration};

use http::Request;
use hyper::body::Incoming;

use self::stream::ChatStream;
pub(super) use self::stream::describe;
use super::{
    App, availability, body, debug, events,
    memory::RequestCharge,
    options,
    respond::{self, ApiError, Reply},
    sender::Sender,
};
use airlock_agent::{self as agent, RequestObserver, Run, recall};
use airlock_conversation::Wire;
use airlock_core::{
    door::{Caller, Hearing, Origin},
    tool::QuestionKinds,
};
use airlock_json::RawObject;
use airlock_model::{ChatForm, MemoryBudget, Object, Prompt};

/// Handles a chat completion. Checks only the members that the loop needs; the provider checks the
/// rest. Fails if the request is invalid, or ends before its response begins. Dropping the future
/// or the reply cancels the request to the provider and every running tool.
pub(super) async fn complete(
    app: &App,
    sender: &Sender,
    request: Request<Incoming>,
    charge: &RequestCharge,
) -> Result<Reply, ApiError> {
    let timeout = options::timeout(request.headers(), app.agent.timeout)?;
    let events_header = options::events(request.headers())?;
    let observer = debug::observe(app, sender, &request);
    let mut body = body::members(request, &app.settings, charge).await?;
    if !body.get("messages").is_some_and(|messages| messages.starts_with('[')) {
        return Err(
            ApiError::bad_request("invalid_type", "`messages` must be an array").about("messages")
        );
    }
    let tenant = sender.tenant();
    let memory = charge.clone();
    let charged = move |bytes| memory.grow(bytes);
    recall::chat::remove_notes(&tenant, &mut body, charged.clone()).await?;
    app.recall.restore_messages(&tenant, &mut body, charged).await?;
    let is_streamed = options::flag(&body, "stream")?;
    let wants_events = options::take_extension(&mut body)?.events.unwrap_or(events_header);
    availability::wait_for_sources(app, sender).await;
    let includes_usage = options::includes_usage(&body);
    let run = start(app, sender, body, is_streamed, wants_events, timeout, charge, observer);
    let answering = run.answering();
    let reply = if is_streamed {
        let form = ChatForm::new(includes_usage);
        let stream = ChatStream::begin(run, form, wants_events, charge.clone()).await?;
        respond::events(events::parts(stream))
    } else {
        let completion = run.finish().await.map_err(|error| ApiError::from(*error))?;
        let answer = completion.answer.expect("it was not streamed");
        respond::json_text(answer.into_chat(completion.airlock).into_text())
    };
    Ok(respond::answered_by(&answering, reply))
}

/// Starts the agent loop for a request.
#[expect(clippy::too_many_arguments, reason = "all of them are parts of one request")]
fn start(
    app: &App,
    sender: &Sender,
    body: RawObject,
    is_streamed: bool,
    wants_events: bool,
    timeout: Duration,
    charge: &RequestCharge,
    observer: Option<Arc<dyn RequestObserver>>,
) -> Run {
    let view = app.model_view(sender);
    let origin = Origin::Model;
    let budget = app.budget;
    // A person reads the answer.
    let hearing = Hearing { questions: QuestionKinds::ELICITATION, ..Hearing::default() };
    let (caller, reports) = if wants_events {
        let (caller, reports) = Caller::with_events(view, origin, budget, hearing);
        (caller, Some(reports))
    } else {
        (Caller::hearing(view, origin, budget, hearing), None)
    };
    let keeper = app.keeper(sender, body.get("store") != Some("false"));
    let mut notes = Object::new();
    availability::add_notes(app, sender, &mut notes);
    let request = agent::Request {
        wire: Wire::Chat,
        prompt: Prompt::new(body),
        is_streamed,
        shows_rounds: false,
        names_tools: sender.filter.names_tools(),
        max_tool_calls: None,
        reports,
        results: Some(app.results.clone()),
        keeper: Some(keeper),
        approver: app.approver(sender),
        notes,
        budget: MemoryBudget::new(charge.clone()),
        observer,
    };
    app.start(caller, request, timeout)
}
