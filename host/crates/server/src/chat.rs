//! `POST /v1/chat/completions`: chat completions, whole or streamed.

mod stream;

use http::Request;

use self::stream::ChatStream;
pub(super) use self::stream::describe;
use super::{
    App, debug,
    options::{self, ModelOptions},
};
use airlock_agent::recall;
use airlock_conversation::{Object, Wire};
use airlock_core::{request_memory::RequestCharge, tool::QuestionKinds};
use airlock_http::{
    body, events,
    respond::{self, ApiError, Reply},
    work,
};
use airlock_ingress::RequestBody;
use airlock_model::{ChatForm, Prompt};
use airlock_requests::{PreparedChat, Sender};

/// Handles a chat completion. Checks only the members that the loop needs; the provider checks the
/// rest. Fails if the request is invalid, or ends before its response begins. Dropping the future
/// or the reply cancels the request to the provider and every running tool.
pub(super) async fn complete(
    app: &App,
    sender: &Sender,
    request: Request<RequestBody>,
    charge: &RequestCharge,
) -> Result<Reply, ApiError> {
    let timeout = options::timeout(request.headers(), app.parts.agent.timeout)?;
    let options = ModelOptions::from_headers(request.headers())?;
    let observer = debug::observe(app, sender, &request);
    let mut body = body::members(request, app.settings.bodies(), charge).await?;
    if !body.get("messages").is_some_and(|messages| messages.starts_with('[')) {
        return Err(
            ApiError::bad_request("invalid_type", "`messages` must be an array").about("messages")
        );
    }
    let tenant = sender.tenant();
    recall::chat::remove_notes(&tenant, &mut body, charge.grower()).await?;
    app.parts.recall.restore_messages(&tenant, &mut body, charge.grower()).await?;
    let is_streamed = options::flag(&body, "stream")?;
    let options = options.overridden_by(&options::take_extension(&mut body)?);
    let includes_usage = options::includes_usage(&body)?;
    app.parts.wait_for_sources(sender).await;
    let chat = PreparedChat {
        wire: Wire::Chat,
        may_store: body.get("store") != Some("false"),
        prompt: Prompt::new(body),
        is_streamed,
        wants_events: options.events,
        questions: QuestionKinds::ELICITATION,
        notes: Object::new(),
        tools: options.tools,
        timeout,
        charge: charge.clone(),
        observer,
    };
    let run = app.parts.start_chat(sender, chat);
    let answering = run.answering();
    let reply = if is_streamed {
        let form = ChatForm::new(includes_usage);
        let stream = ChatStream::begin(run, form, options.events, charge.clone()).await?;
        respond::events(events::parts(stream))
    } else {
        let completion = run.finish().await.map_err(|error| error.into_error_reply())?;
        let answer = completion.answer.expect("it was not streamed");
        let airlock = completion.airlock;
        let text = work::on_tree(charge, move |_| Ok(answer.into_chat(airlock).into_text()));
        respond::json_text(text.await?)
    };
    Ok(respond::answered_by(answering.provider(), answering.cost(), reply))
}
