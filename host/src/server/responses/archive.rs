//! Stored Responses of a caller. The database is opened when a request first needs it.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tracing::{error, warn};

use super::{
    super::{App, Sender, memory::Charge, respond::ApiError},
    composer::NotStored,
};
use crate::{
    json::{self, Caps, RawObject},
    model::Object,
    store::{
        self, Database,
        responses::{Bounds, NewResponse, PutError, ReadError, Responses, Scope, Texts, Turn},
    },
    text::with_causes,
};

/// Number of copies of a stored text in memory while it is read.
const COPIES: usize = 2;
/// Start of an identifier.
const PREFIX: &str = "resp_";
/// Number of hexadecimal digits of an identifier, after [`PREFIX`].
const DIGITS: usize = 32;

/// The store of responses.
pub(in crate::server) struct Archive {
    database: OnceCell<Database>,
    settings: store::Settings,
    bounds: Bounds,
}

impl Archive {
    pub(in crate::server) fn new(settings: store::Settings, bounds: Bounds) -> Arc<Self> {
        Arc::new(Self { database: OnceCell::new(), settings, bounds })
    }

    /// Returns the Responses of an owner. Fails if the database cannot be opened; the next call
    /// tries again.
    async fn of(&self, scope: Scope) -> Result<Responses, Unreachable> {
        let open = || Database::open(self.settings.clone());
        let opened = self.database.get_or_try_init(open).await.map_err(|cause| {
            error!(error = with_causes(&cause), "responses cannot be stored");
            Unreachable
        })?;
        Ok(opened.responses(scope, self.bounds))
    }
}

/// Error: the database cannot be opened. The log has the reason.
struct Unreachable;

/// Returns the items of a Response and of all that it continues, the oldest first. Fails if one of
/// them is not stored, if they are larger than `max_body`, or if there is no memory for them.
pub(super) async fn conversation(
    app: &App,
    sender: &Sender,
    id: &str,
    charge: &Charge,
) -> Result<Vec<Value>, ApiError> {
    let responses = open(app, sender, id).await?.ok_or_else(|| no_previous(id))?;
    let (limit, memory) = (app.settings.max_body_bytes, charge.clone());
    let mut found = 0_usize;
    let admit = move |bytes: u64| {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        found = found.saturating_add(bytes);
        if found > limit {
            return Err(too_long(limit));
        }
        memory.grow(bytes.saturating_mul(COPIES)).map_err(ApiError::from)
    };
    let turns = responses.conversation(id, admit).await.map_err(|error| match error {
        ReadError::Unknown { id } => no_previous(&id),
        error => unread(error),
    })?;
    app.intake.list(joined(&turns), &app.settings, charge).await
}

/// Returns a stored Response as JSON text. Fails if it is not stored, or if there is no memory for
/// it.
pub(super) async fn response(
    app: &App,
    sender: &Sender,
    id: &str,
    charge: &Charge,
) -> Result<String, ApiError> {
    let Texts { output, body, .. } = texts(app, sender, id, charge).await?;
    // Parsed without a limit: it was within the limits when it was stored, and is charged.
    let (mut response, _) =
        RawObject::parse(body.into_bytes(), &Caps::memory(usize::MAX)).map_err(|_| damaged(id))?;
    response.set("output", output);
    Ok(response.to_text())
}

/// Returns the input items of a stored Response. Fails if it is not stored, or if there is no
/// memory for it.
pub(super) async fn input(
    app: &App,
    sender: &Sender,
    id: &str,
    charge: &Charge,
) -> Result<Vec<Value>, ApiError> {
    let input = texts(app, sender, id, charge).await?.input;
    app.intake.list(input.into_bytes(), &app.settings, charge).await
}

/// Deletes a stored Response. Fails if it is not stored.
pub(super) async fn delete(app: &App, sender: &Sender, id: &str) -> Result<(), ApiError> {
    let responses = open(app, sender, id).await?.ok_or_else(|| unknown(id))?;
    match responses.delete(id).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(unknown(id)),
        Err(error) => Err(unavailable(&error.to_string())),
    }
}

async fn texts(app: &App, sender: &Sender, id: &str, charge: &Charge) -> Result<Texts, ApiError> {
    let responses = open(app, sender, id).await?.ok_or_else(|| unknown(id))?;
    let memory = charge.clone();
    let admit = move |bytes: u64| {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        memory.grow(bytes.saturating_mul(COPIES)).map_err(ApiError::from)
    };
    responses.get(id, admit).await.map_err(|error| match error {
        ReadError::Unknown { id } => unknown(&id),
        error => unread(error),
    })
}

/// Opens the Responses of the caller; `None` if no Response can have this identifier, or none are
/// stored.
async fn open(app: &App, sender: &Sender, id: &str) -> Result<Option<Responses>, ApiError> {
    let digits = id.strip_prefix(PREFIX).filter(|digits| {
        digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    });
    let Some(archive) = app.archive.as_ref().filter(|_| digits.is_some()) else { return Ok(None) };
    let opened = archive.of(sender.tenant().scope()).await;
    opened.map(Some).map_err(|Unreachable| unavailable("the database cannot be opened"))
}

/// A Response to store when it is complete.
pub(super) struct Deposit {
    pub(super) archive: Arc<Archive>,
    pub(super) scope: Scope,
    pub(super) id: String,
    pub(super) previous: Option<String>,
    /// Items of the request.
    pub(super) input: Vec<Value>,
    pub(super) charge: Charge,
}

impl Deposit {
    /// Returns the future that stores a complete Response. Its texts are made at once, so it does
    /// not borrow the Response.
    pub(super) fn save(self, response: &mut Object) -> BoxFuture<'static, Result<(), NotStored>> {
        let bytes = json::text_len(&self.input).saturating_add(json::text_len(response));
        if self.charge.grow(bytes).is_err() {
            return Box::pin(async { Err(NotStored::no_memory()) });
        }
        // Stored apart from the other members, because the next turn needs only the output of the
        // Response.
        let output = response.insert("output".to_owned(), Value::Null).unwrap_or_default();
        let texts = Texts {
            input: Value::from(self.input).to_string(),
            output: output.to_string(),
            body: json!(response).to_string(),
        };
        response.insert("output".to_owned(), output);
        let new = NewResponse { id: self.id, previous: self.previous, texts };
        Box::pin(async move {
            let opened = self.archive.of(self.scope).await;
            let responses = opened.map_err(|Unreachable| NotStored::unavailable())?;
            responses.put(new).await.map_err(|error| {
                warn!(error = with_causes(&error), "a response was not stored");
                NotStored::from(error)
            })
        })
    }
}

impl From<PutError> for NotStored {
    fn from(error: PutError) -> Self {
        let code = match error {
            PutError::PreviousGone => "previous_response_not_found",
            PutError::TooLarge { .. } => "conversation_too_large",
            PutError::Unavailable(_) => "store_unavailable",
        };
        Self { code, message: error.to_string() }
    }
}

/// Joins the items of all turns to one JSON array.
fn joined(turns: &[Turn]) -> Vec<u8> {
    let mut text = String::from("[");
    for list in turns.iter().flat_map(|turn| [&turn.input, &turn.output]) {
        let items = list.trim_start_matches('[').strip_suffix(']').unwrap_or_default();
        if !items.is_empty() && text.len() > 1 {
            text.push(',');
        }
        text.push_str(items);
    }
    text.push(']');
    text.into_bytes()
}

fn no_previous(id: &str) -> ApiError {
    let message = format!("Previous response with id '{}' not found.", shown(id));
    ApiError::bad_request("previous_response_not_found", message).about("previous_response_id")
}

fn unknown(id: &str) -> ApiError {
    let message = format!("Response with id '{}' not found.", shown(id));
    ApiError::new(StatusCode::NOT_FOUND, "invalid_request_error", "response_not_found", message)
}

fn too_long(limit: usize) -> ApiError {
    let message = format!(
        "the conversation before this request is larger than the {limit} bytes of `max_body`; begin a new one"
    );
    ApiError::bad_request("context_length_exceeded", message).about("previous_response_id")
}

fn unread(error: ReadError<ApiError>) -> ApiError {
    match error {
        ReadError::Unknown { id } => unknown(&id),
        ReadError::Refused(refusal) => refusal,
        ReadError::Unavailable(error) => unavailable(&error.to_string()),
    }
}

fn unavailable(reason: &str) -> ApiError {
    let message = format!("stored responses cannot be reached right now: {reason}");
    let status = StatusCode::SERVICE_UNAVAILABLE;
    ApiError::new(status, "server_error", "store_unavailable", message)
        .with_header(header::RETRY_AFTER, HeaderValue::from_static("1"))
}

fn damaged(id: &str) -> ApiError {
    error!(id, "a stored response is damaged");
    ApiError::internal()
}

fn shown(id: &str) -> String {
    crate::text::cut(id[..id.floor_char_boundary(68)].to_owned(), 64)
}
