//! `POST /v1/responses`: OpenAI's Responses API, whole or streamed, and the stored responses below
//! it.
//!
//! A request goes to the agent loop as it came, with the conversation that it continues. The events of the loop become one
//! *Response*, the object of the API, and its stream events. The whole and the streamed form come
//! from the same events: if the caller does not ask for a stream, neither does the loop, and it
//! renders the model's responses as chunks.

use std::{collections::BTreeSet, mem, sync::Arc, time::Duration};

use http::{HeaderValue, Method, Request};
use serde_json::{Value, json};
use tracing::info;
use uuid::Uuid;

use super::{
    App, debug,
    options::{self, ModelOptions},
};
use airlock_agent::{
    self as agent, EXTENSION, RequestObserver, Run, TokenVisibility,
    recall::{RecallWriter, items::OutputKeeper},
};
use airlock_conversation::{Object, Wire, responses::read_request};
use airlock_core::{
    door::{Caller, Origin},
    memory::MemoryBudget,
    request_memory::RequestCharge,
};
use airlock_http::{
    body, events,
    respond::{self, ApiError, Reply},
    work,
};
use airlock_ingress::RequestBody;
use airlock_json::{self as json, RawObject, weight::weight};
use airlock_model::Prompt;
use airlock_requests::{ModelTools, Sender, ToolOptions};
use airlock_responses::{
    Composer, Prepared, ResponseStream, ResponseToStore, StoredResponses, items, prepare,
    references, stored,
};

/// Path of the API.
const PATH: &str = "/v1/responses";
/// Bytes of a request for each token, of English and JSON. Tokenizers belong to models.
pub(super) const TOKEN_BYTES: usize = 4;
/// Header with the types of built-in tools, and of items about them, that were left out.
pub(super) const DROPPED_TOOLS: &str = "x-airlock-dropped-tools";
/// Member of the `airlock` object with the same.
pub(super) const DROPPED: &str = "dropped_tools";
/// Maximum number of types that are named in a header and in the response. A request can have
/// thousands; so many of the longest names, of 64 bytes, make a header of 2 KiB.
const MAX_DROPPED: usize = 32;
/// Number of copies of the members that a Response repeats, beside those of the request: in the
/// first two events, and later in the last event and its text.
const ECHOES: usize = 2;

/// A path below [`PATH`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StoredTarget {
    /// A stored response.
    Response,
    /// The input items of a stored response.
    InputItems,
    /// An order to stop making a response.
    Cancel,
}

impl StoredTarget {
    /// Returns the target of a path, and the identifier in it.
    pub(super) fn parse(path: &str) -> Option<(Self, &str)> {
        let rest = path.strip_prefix(PATH)?.strip_prefix('/')?;
        match rest.split_once('/') {
            None if !rest.is_empty() => Some((Self::Response, rest)),
            Some((id, "input_items")) if !id.is_empty() => Some((Self::InputItems, id)),
            Some((id, "cancel")) if !id.is_empty() => Some((Self::Cancel, id)),
            _ => None,
        }
    }

    pub(super) fn methods(self) -> &'static [Method] {
        match self {
            Self::Response => &[Method::GET, Method::HEAD, Method::DELETE],
            Self::InputItems => &[Method::GET, Method::HEAD],
            Self::Cancel => &[Method::POST],
        }
    }
}

/// Handles a request for a Response. Fails if the request is invalid, or ends before its Response
/// begins. Dropping the future or the reply cancels the request to the provider and every running
/// tool; the Response is then not stored, unless the database was already writing it.
pub(super) async fn create(
    app: &App,
    sender: &Sender,
    request: Request<RequestBody>,
    charge: &RequestCharge,
) -> Result<Reply, ApiError> {
    let timeout = options::timeout(request.headers(), app.parts.agent.timeout)?;
    let observer = debug::observe(app, sender, &request);
    let ResponseRequest { prepared, prompt, keeper, tools } =
        read(app, sender, request, charge, false).await?;
    app.parts.wait_for_sources(sender).await;
    let ModelTools { view, notes } = app.parts.model_tools(sender, tools);
    let caller = Caller::new(view, Origin::Model, app.parts.budget);
    let dropped = report_dropped(sender, &prepared.dropped);
    let is_streamed = prepared.stream;
    let id = format!("resp_{}", Uuid::new_v4().simple());
    let caller_of_run = caller.clone();
    let tokens = tools.tokens;
    let run = start(
        app,
        sender,
        caller_of_run,
        &prepared,
        prompt,
        tokens,
        notes,
        timeout,
        charge,
        observer,
    );
    let answering = run.answering();
    let deposit = match &app.archive {
        Some(archive) if prepared.store => Some(ResponseToStore {
            archive: archive.clone(),
            scope: sender.tenant().scope(),
            id: id.clone(),
            previous: previous(prepared.echo.members()).map(str::to_owned),
            input: prepared.input,
            charge: charge.clone(),
        }),
        _ => None,
    };
    let composer = Composer::new(&id, prepared.echo, caller, deposit, Some(keeper), charge.clone())
        .with_groups(prepared.groups);
    let reply = if is_streamed {
        let stream = ResponseStream::begin(run, composer).await?;
        respond::events(events::parts(stream))
    } else {
        whole(run, composer, charge).await?
    };
    let mut reply = respond::answered_by(answering.provider(), answering.cost(), reply);
    if let Some(dropped) = dropped.and_then(|dropped| HeaderValue::try_from(dropped).ok()) {
        reply.headers_mut().insert(DROPPED_TOOLS, dropped);
    }
    Ok(reply)
}

/// Logs the types of built-in tools that are left out, and returns them for the header.
pub(super) fn report_dropped(sender: &Sender, types: &BTreeSet<String>) -> Option<String> {
    if types.is_empty() {
        return None;
    }
    let types = dropped(types).collect::<Vec<_>>().join(", ");
    info!(
        tenant = %sender.tenant(), types,
        "built-in tools of a request are left out because of `server.responses.builtin_tools`"
    );
    Some(types)
}

/// Returns the types that a response names.
pub(super) fn dropped(types: &BTreeSet<String>) -> impl Iterator<Item = &str> {
    types.iter().map(String::as_str).take(MAX_DROPPED)
}

/// Returns the bytes of the definitions of the gateway's tools that a model sees.
pub(super) fn tool_bytes(app: &App, sender: &Sender, tools: ToolOptions) -> usize {
    let ModelTools { view, .. } = app.parts.model_tools(sender, tools);
    let caller = Caller::new(view, Origin::Model, app.parts.budget);
    caller
        .list()
        .map(|entry| entry.tool.input_schema.as_str().len() + entry.tool.description.len())
        .sum()
}

/// Handles a request for the number of its input tokens: an estimate from its length, with the
/// gateway's tools. Fails if the request is invalid.
pub(super) async fn count(
    app: &App,
    sender: &Sender,
    request: Request<RequestBody>,
    charge: &RequestCharge,
) -> Result<Reply, ApiError> {
    let read = read(app, sender, request, charge, true).await?;
    let bytes = read.prompt.body.text_len();
    let tokens = bytes.saturating_add(tool_bytes(app, sender, read.tools)).div_ceil(TOKEN_BYTES);
    Ok(respond::json(&json!({
        "object": "response.input_tokens",
        "input_tokens": tokens,
        EXTENSION: {"is_estimate": true},
    })))
}

/// A request for a Response that was read.
struct ResponseRequest {
    prepared: Prepared,
    prompt: Prompt,
    keeper: OutputKeeper,
    tools: ToolOptions,
}

/// Reads and prepares a request, together with the conversation that it continues. With `checks`, fails if
/// its provider could not receive it.
async fn read(
    app: &App,
    sender: &Sender,
    request: Request<RequestBody>,
    charge: &RequestCharge,
    checks: bool,
) -> Result<ResponseRequest, ApiError> {
    // Events have no effect, because calls are items of every Response.
    let options = ModelOptions::from_headers(request.headers())?;
    let mut body = body::object(request, app.settings.bodies(), charge).await?;
    let tools = options.overridden_by(&options::take_parsed_extension(&mut body)?).tools;
    let model = body.get("model").and_then(Value::as_str).unwrap_or_default();
    let has_responses = app.parts.models.has_responses(model);
    let earlier = match previous(&body) {
        Some(_) if app.archive.is_none() => return Err(stores_nothing()),
        Some(id) => stored::conversation(own(app, sender), id, charge).await?,
        None => Vec::new(),
    };
    if let Some(Value::Array(input)) = body.get_mut("input") {
        references::resolve(own(app, sender), input, charge).await?;
    }
    let (keeper, earlier) = restore(app, sender, &mut body, earlier, charge).await?;
    let stores = app.archive.is_some();
    let builtin_tools = app.settings.builtin_tools.clone();
    let prepared = work::on_tree(charge, move |charge| {
        charge.grow(json::text_len(&body).saturating_add(json::text_len(&earlier)))?;
        if body.get("store").is_none_or(|store| *store != false) {
            // The input is copied for the store.
            charge.grow(body.get("input").map_or(0, weight))?;
        }
        let mut prepared = prepare(body, earlier, has_responses, &builtin_tools)?;
        if !stores {
            prepared.echo.set("store", false.into());
        }
        let echo = prepared.echo.members().values().map(weight).sum::<usize>()
            + json::text_len(prepared.echo.members());
        charge.grow(echo.saturating_mul(ECHOES))?;
        // The tree is dropped. It stays charged, for its parts in `prepared`.
        let tree = mem::take(&mut prepared.body);
        let body = RawObject::from(&tree);
        if checks && !has_responses {
            read_request(tree, &prepared.places)?;
        }
        let prompt = Prompt::responses(body, mem::take(&mut prepared.places).into());
        Ok((prepared, prompt))
    });
    let (prepared, prompt) = prepared.await?;
    Ok(ResponseRequest { prepared, prompt, keeper, tools })
}

/// Puts calls that the client dropped back into the input, and returns the keeper of those of the
/// Response, and the items of the earlier ones. The text of the user's last message is read: of a long request on a
/// blocking thread.
async fn restore(
    app: &App,
    sender: &Sender,
    body: &mut Object,
    earlier: Vec<Value>,
    charge: &RequestCharge,
) -> Result<(OutputKeeper, Vec<Value>), ApiError> {
    let may_store = app.archive.is_some() && body.get("store").is_none_or(|store| *store != false);
    if let Some(Value::Array(items)) = body.get_mut("input") {
        let memory = charge.clone();
        app.parts
            .recall
            .restore_items(&sender.tenant(), items, move |bytes| memory.grow(bytes))
            .await?;
    }
    let keeper = app.parts.keeper(sender, may_store);
    let sent = mem::take(body);
    let reading = work::on_tree(charge, move |_| {
        let keeper = output_keeper(keeper, &earlier, sent.get("input"));
        Ok((keeper, sent, earlier))
    });
    let (keeper, sent, earlier) = reading.await?;
    *body = sent;
    Ok((keeper, earlier))
}

/// Returns the keeper of the Response to the items of earlier ones and the input of a request.
fn output_keeper(keeper: RecallWriter, earlier: &[Value], input: Option<&Value>) -> OutputKeeper {
    let text;
    let input: &[Value] = match input {
        Some(Value::Array(items)) => items.as_slice(),
        Some(other) => {
            text = [json!({"role": "user", "content": *other})];
            &text
        }
        None => &[],
    };
    OutputKeeper::new(keeper, earlier, input)
}

/// Returns the stored Responses of a sender.
fn own<'a>(app: &'a App, sender: &'a Sender) -> StoredResponses<'a> {
    StoredResponses { archive: app.archive.as_deref(), sender, bodies: app.settings.bodies() }
}

fn stores_nothing() -> ApiError {
    let message = "this gateway stores no responses (`server.responses.store` of its configuration is false): send the whole \
                   conversation as `input`";
    ApiError::bad_request("previous_response_not_found", message).about("previous_response_id")
}

/// Returns the id of the Response that a request continues. `None` also for a value that is not a
/// string, which the translation refuses.
fn previous(body: &Object) -> Option<&str> {
    body.get("previous_response_id").and_then(Value::as_str)
}

/// Starts the agent loop.
#[expect(clippy::too_many_arguments, reason = "all of them are parts of one request")]
fn start(
    app: &App,
    sender: &Sender,
    caller: Caller,
    prepared: &Prepared,
    prompt: Prompt,
    tokens: TokenVisibility,
    mut notes: Object,
    timeout: Duration,
    charge: &RequestCharge,
    observer: Option<Arc<dyn RequestObserver>>,
) -> Run {
    app.parts.add_missing(sender, &mut notes);
    if !prepared.dropped.is_empty() {
        notes.insert(DROPPED.to_owned(), dropped(&prepared.dropped).collect());
    }
    let request = agent::Request {
        wire: Wire::Responses,
        prompt,
        is_streamed: prepared.stream,
        shows_rounds: true,
        names_tools: sender.filter.names_tools(),
        max_tool_calls: prepared
            .max_tool_calls
            .map(|most| usize::try_from(most).unwrap_or(usize::MAX)),
        reports: None,
        results: Some(app.parts.results.clone()),
        keeper: None,
        approver: app.parts.approver(sender),
        notes,
        tokens,
        budget: MemoryBudget::new(charge.clone()),
        observer,
    };
    app.parts.start(caller, request, timeout)
}

/// Runs the loop to its end and returns the Response.
async fn whole(
    mut run: Run,
    composer: Composer,
    charge: &RequestCharge,
) -> Result<Reply, ApiError> {
    let mut composer = Box::new(composer);
    while !composer.is_complete() {
        let event = run.next().await.ok_or_else(ApiError::internal)?;
        composer = composer.compose(event).await?;
    }
    let mut last = composer.conclude().await;
    let response = last.remove("response").unwrap_or_default();
    let text = work::on_tree(charge, move |_| Ok(response.to_string()));
    Ok(respond::json_text(text.await?))
}

/// Handles a request for a stored Response. Fails if the caller has none with this id.
pub(super) async fn stored(
    app: &App,
    sender: &Sender,
    target: StoredTarget,
    id: &str,
    request: Request<RequestBody>,
    charge: &RequestCharge,
) -> Result<Reply, ApiError> {
    // Drops the unread body.
    let head = request.into_parts().0;
    let query = head.uri.query().unwrap_or_default();
    match target {
        StoredTarget::Response if head.method == Method::DELETE => {
            stored::delete(own(app, sender), id).await?;
            Ok(respond::json(&json!({"id": id, "object": "response", "deleted": true})))
        }
        StoredTarget::Response => {
            items::check_not_streamed(query)?;
            Ok(respond::json_text(stored::response(own(app, sender), id, charge).await?))
        }
        StoredTarget::Cancel => {
            stored::response(own(app, sender), id, charge).await?;
            let message =
                "Cannot cancel a response that was made while its client waited: it is complete.";
            Err(ApiError::bad_request("invalid_value", message))
        }
        StoredTarget::InputItems => {
            let page = items::ItemsQuery::parse(query)?;
            let items = stored::input(own(app, sender), id, charge).await?;
            let id = id.to_owned();
            let page = work::on_tree(charge, move |_| page.select(items, &id));
            Ok(respond::json(&page.await?))
        }
    }
}
