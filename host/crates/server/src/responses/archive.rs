//! Stored Responses of a caller. The database is opened when a request first needs it.

use parking_lot::Mutex;
use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use http::{HeaderValue, StatusCode, header};
use serde_json::Value;
use tokio::{
    sync::{OnceCell, OwnedSemaphorePermit, Semaphore},
    time::timeout,
};
use tracing::{error, warn};

use super::{
    super::{App, Sender, body, memory::Charge, respond::ApiError, work},
    composer::NotStored,
};
use airlock_json::{self as json, Caps, RawObject};
use airlock_model::Object;
use airlock_store::{
    self as store, Database,
    responses::{Bounds, List, NewResponse, PutError, ReadError, Responses, Scope, Texts, Turn},
};
use airlock_strings::with_causes;

/// Number of copies of a stored text in memory while it is read.
const COPIES: usize = 2;
/// Maximum number of responses before a new one. All are read in one step.
const MAX_TURNS: usize = 4_096;
/// Operations of one owner at the same time. Further ones wait, so that other owners are served
/// meanwhile: the database has one connection for reading and one for writing.
const OPERATIONS: usize = 4;
/// Longest time that an operation waits for its turn.
const MAX_WAIT: Duration = Duration::from_secs(5);
/// Start of an identifier.
const PREFIX: &str = "resp_";
/// Number of hexadecimal digits of an identifier, after [`PREFIX`].
const DIGITS: usize = 32;

/// The store of responses.
pub(crate) struct Archive {
    database: OnceCell<Database>,
    settings: store::Settings,
    bounds: Bounds,
    /// Turns of each owner that has had one. There are as many owners as keys.
    turns: Mutex<HashMap<Scope, Arc<Semaphore>>>,
}

/// The responses of an owner, for one operation.
struct Opened {
    responses: Responses,
    _turn: OwnedSemaphorePermit,
}

/// Reason that the responses of an owner cannot be used.
enum Unreachable {
    /// The database cannot be opened. The log has the reason.
    Closed,
    /// Other operations of the owner take too long.
    Busy,
}

impl Archive {
    pub(crate) fn new(settings: store::Settings, bounds: Bounds) -> Arc<Self> {
        Arc::new(Self { database: OnceCell::new(), settings, bounds, turns: Mutex::default() })
    }

    /// Returns the responses of an owner, when it is its turn. Fails if the database cannot be
    /// opened; the next call tries again.
    async fn of(&self, scope: Scope) -> Result<Opened, Unreachable> {
        let turn = timeout(MAX_WAIT, self.turns_of(scope).acquire_owned()).await;
        let turn = turn.map_err(|_| Unreachable::Busy)?.expect("the semaphore is never closed");
        let opened = self.database.get_or_try_init(|| Database::open(self.settings.clone()));
        let opened = opened.await.map_err(|cause| {
            error!(error = with_causes(&cause), "responses cannot be stored");
            Unreachable::Closed
        })?;
        Ok(Opened { responses: opened.responses(scope, self.bounds), _turn: turn })
    }

    fn turns_of(&self, scope: Scope) -> Arc<Semaphore> {
        let mut turns = self.turns.lock();
        turns.entry(scope).or_insert_with(|| Arc::new(Semaphore::new(OPERATIONS))).clone()
    }
}

impl Unreachable {
    fn reason(&self) -> &'static str {
        match self {
            Self::Closed => "the database cannot be opened",
            Self::Busy => "other requests of this caller use them",
        }
    }
}

/// Returns the items of a Response and of all that it continues, the oldest first. Fails if one of
/// them is not stored, if they are larger than `max_body`, or if there is no memory for them.
pub(super) async fn conversation(
    app: &App,
    sender: &Sender,
    id: &str,
    charge: &Charge,
) -> Result<Vec<Value>, ApiError> {
    let opened = open(app, sender, id).await?.ok_or_else(|| no_previous(id))?;
    let admit = admit(app, charge);
    let turns = opened.responses.conversation(id, admit).await.map_err(|error| match error {
        ReadError::Unknown { id } => no_previous(&id),
        error => unread(error),
    })?;
    drop(opened);
    body::list(joined(&turns), &app.settings, charge).await
}

/// Returns lists of items of stored Responses, each in the place of its Response in `wanted`; an empty
/// one for a Response that the sender does not have. Fails if they are too large for one request, or
/// if there is no memory for them.
pub(super) async fn lists(
    app: &App,
    sender: &Sender,
    wanted: Vec<(String, List)>,
    charge: &Charge,
) -> Result<Vec<Vec<Value>>, ApiError> {
    let Some((first, _)) = wanted.first() else { return Ok(Vec::new()) };
    let Some(opened) = open(app, sender, first).await? else { return Ok(Vec::new()) };
    let admit = admit(app, charge);
    let lists = opened.responses.lists(wanted, admit).await.map_err(unread)?;
    drop(opened);
    let lists = lists.into_iter().map(|list| list.unwrap_or_else(|| "[]".to_owned()));
    let text = format!("[{}]", lists.collect::<Vec<_>>().join(","));
    let lists = body::list(text.into_bytes(), &app.settings, charge).await?;
    Ok(lists
        .into_iter()
        .map(|list| if let Value::Array(items) = list { items } else { Vec::new() })
        .collect())
}

/// Returns a function that charges each stored text, and fails if they are too long for one request.
fn admit(app: &App, charge: &Charge) -> impl FnMut(u64) -> Result<(), ApiError> + Send + use<> {
    let limit = app.settings.max_body_bytes;
    let memory = charge.clone();
    let mut length = Length::default();
    move |bytes| {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        length.add(bytes, limit)?;
        memory.grow(bytes.saturating_mul(COPIES)).map_err(ApiError::from)
    }
}

/// Length of a conversation that is read.
#[derive(Default)]
struct Length {
    bytes: usize,
    turns: usize,
}

impl Length {
    /// Adds a turn. Fails if the conversation is too long for one request.
    fn add(&mut self, bytes: usize, limit: usize) -> Result<(), ApiError> {
        self.bytes = self.bytes.saturating_add(bytes);
        self.turns += 1;
        if self.bytes > limit {
            return Err(too_long(format_args!("is larger than the {limit} bytes of `max_body`")));
        }
        if self.turns > MAX_TURNS {
            return Err(too_long(format_args!("has more than {MAX_TURNS} responses")));
        }
        Ok(())
    }
}

/// Returns a stored response as JSON text.
pub(super) async fn response(
    app: &App,
    sender: &Sender,
    id: &str,
    charge: &Charge,
) -> Result<String, ApiError> {
    let Texts { output, body, .. } = texts(app, sender, id, charge).await?;
    let damaged_id = id.to_owned();
    let joined = work::on_text(body.into_bytes(), charge, move |body, _| {
        // Without a limit: it was within the limits when it was stored, and its memory is charged.
        let (mut response, _) =
            RawObject::parse(body, &Caps::memory(usize::MAX)).map_err(|_| damaged(&damaged_id))?;
        response.set("output", output);
        Ok(response.to_text())
    });
    joined.await
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
    body::list(input.into_bytes(), &app.settings, charge).await
}

/// Deletes a stored Response. Fails if it is not stored.
pub(super) async fn delete(app: &App, sender: &Sender, id: &str) -> Result<(), ApiError> {
    let opened = open(app, sender, id).await?.ok_or_else(|| unknown(id))?;
    match opened.responses.delete(id).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(unknown(id)),
        Err(error) => Err(unavailable(&error.to_string())),
    }
}

async fn texts(app: &App, sender: &Sender, id: &str, charge: &Charge) -> Result<Texts, ApiError> {
    let opened = open(app, sender, id).await?.ok_or_else(|| unknown(id))?;
    let memory = charge.clone();
    let texts = opened.responses.get(id, move |bytes| {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        memory.grow(bytes.saturating_mul(COPIES)).map_err(ApiError::from)
    });
    texts.await.map_err(|error| match error {
        ReadError::Unknown { id } => unknown(&id),
        error => unread(error),
    })
}

/// Opens the responses of the sender; `None` if none of them can have this identifier.
async fn open(app: &App, sender: &Sender, id: &str) -> Result<Option<Opened>, ApiError> {
    let is_possible = id.strip_prefix(PREFIX).is_some_and(|digits| {
        digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    });
    if !is_possible {
        return Ok(None);
    }
    let Some(archive) = &app.archive else { return Ok(None) };
    let opened = archive.of(sender.tenant().scope()).await;
    opened.map(Some).map_err(|error| unavailable(error.reason()))
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
            input: serde_json::to_string(&self.input).unwrap_or_default(),
            output: output.to_string(),
            body: serde_json::to_string(response).unwrap_or_default(),
        };
        response.insert("output".to_owned(), output);
        drop(self.input);
        let new = NewResponse { id: self.id, previous: self.previous, texts };
        Box::pin(async move {
            let opened = self.archive.of(self.scope).await;
            let opened = opened.map_err(|error| NotStored::unavailable(error.reason()))?;
            opened.responses.put(new).await.map_err(|error| {
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

fn too_long(reason: fmt::Arguments<'_>) -> ApiError {
    let message = format!("the conversation before this request {reason}; begin a new one");
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
    airlock_strings::cut(id[..id.floor_char_boundary(68)].to_owned(), 64)
}

#[cfg(test)]
mod tests {
    use futures_util::poll;

    use super::*;

    #[tokio::test]
    async fn an_owner_with_many_operations_keeps_no_other_waiting() {
        let directory = tempfile::tempdir().expect("a directory");
        let settings = store::Settings::new(directory.path().join("airlock.db"));
        let day = Duration::from_hours(24);
        let most = 1 << 20;
        let bounds = Bounds { expire_after: day, owner_bytes: most, total_bytes: most };
        let archive = Archive::new(settings, bounds);
        let one = [1; 32];
        let mut held = Vec::new();
        for _ in 0..OPERATIONS {
            held.push(archive.of(one).await.ok().expect("its turn"));
        }
        let mut next = Box::pin(archive.of(one));
        assert!(poll!(&mut next).is_pending());
        assert!(archive.of([2; 32]).await.is_ok());
        held.pop();
        assert!(next.await.is_ok());
    }

    #[test]
    fn a_conversation_is_bounded_in_bytes_and_in_responses() {
        let mut length = Length::default();
        assert!(length.add(10, 20).is_ok() && length.add(10, 20).is_ok());
        assert!(length.add(1, 20).is_err());
        let mut length = Length::default();
        assert!((0..MAX_TURNS).all(|_| length.add(1, usize::MAX).is_ok()));
        assert!(length.add(1, usize::MAX).is_err());
    }
}
