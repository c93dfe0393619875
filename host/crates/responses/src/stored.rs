//! Stored Responses of a caller.

use std::fmt;

use http::{HeaderValue, header};
use serde_json::Value;
use tracing::error;

use super::archive::{Archive, CLOSED};
use airlock_core::request_memory::RequestCharge;
use airlock_http::{
    body::{self, BodySettings},
    memory::for_stored,
    respond::{ApiError, excerpt},
    work,
};
use airlock_json::{Caps, RawObject};
use airlock_requests::Sender;
use airlock_store::responses::{ReadError, ResponseList, Responses, StoredTurn, Texts};

/// Copies of a stored text while it is read: as the store returns it, and joined with the others. A
/// tree of it is charged when it is built.
const READ_COPIES: usize = 2;
/// Maximum number of responses before a new one, and of lists of items that its input refers to. All are
/// read in one step, which keeps the store from others of the same owner. So many with 250 tokens each
/// have a million, as many as the largest models read.
const MAX_TURNS: usize = 4_096;
/// Start of an identifier.
const PREFIX: &str = "resp_";
/// Number of hexadecimal digits of an identifier, after [`PREFIX`].
const DIGITS: usize = 32;

/// The stored Responses of a sender.
#[derive(Clone, Copy)]
pub struct StoredResponses<'a> {
    /// The store; `None` if responses are not stored.
    pub archive: Option<&'a Archive>,
    /// The sender, who has only its own.
    pub sender: &'a Sender,
    /// Bounds on what a request reads of them.
    pub bodies: BodySettings,
}

/// Returns the items of a Response and of all that it continues, the oldest first. Fails if one of
/// them is not stored, if they are larger than `max_body`, or if there is no memory for them.
pub async fn conversation(
    stored: StoredResponses<'_>,
    id: &str,
    charge: &RequestCharge,
) -> Result<Vec<Value>, ApiError> {
    let opened = open(stored, id).await?.ok_or_else(|| no_previous(id))?;
    let admit = admit(stored, charge);
    let turns = opened.conversation(id, admit).await.map_err(|error| match error {
        ReadError::Unknown { id } => no_previous(&id),
        error => unread(error),
    })?;
    drop(opened);
    body::list(joined(&turns), stored.bodies, charge).await
}

/// Returns lists of items of stored Responses, each in the place of its Response in `wanted`; an empty
/// one for a Response that the sender does not have. Fails if they are too many or too large for one
/// request, or if there is no memory for them.
pub(super) async fn lists(
    stored: StoredResponses<'_>,
    wanted: Vec<(String, ResponseList)>,
    charge: &RequestCharge,
) -> Result<Vec<Vec<Value>>, ApiError> {
    let Some((first, _)) = wanted.first() else { return Ok(Vec::new()) };
    // Each is looked up by itself, also one that does not exist.
    if wanted.len() > MAX_TURNS {
        let message = format!(
            "the references of this request are to {} inputs and outputs of responses; the limit is {MAX_TURNS}",
            wanted.len()
        );
        return Err(ApiError::bad_request("context_length_exceeded", message));
    }
    let Some(opened) = open(stored, first).await? else { return Ok(Vec::new()) };
    let admit = admit(stored, charge);
    let lists = opened.lists(wanted, admit).await.map_err(unread)?;
    drop(opened);
    let lists = lists.into_iter().map(|list| list.unwrap_or_else(|| "[]".to_owned()));
    let text = format!("[{}]", lists.collect::<Vec<_>>().join(","));
    let lists = body::list(text.into_bytes(), stored.bodies, charge).await?;
    Ok(lists
        .into_iter()
        .map(|list| if let Value::Array(items) = list { items } else { Vec::new() })
        .collect())
}

/// Returns a function that charges each stored text, and fails if they are too long for one request.
fn admit(
    stored: StoredResponses<'_>,
    charge: &RequestCharge,
) -> impl FnMut(u64) -> Result<(), ApiError> + Send + use<> {
    let limit = stored.bodies.max_body_bytes;
    let mut charge_text = for_stored(charge, READ_COPIES);
    let mut length = ConversationLength::default();
    move |bytes| {
        length.add(usize::try_from(bytes).unwrap_or(usize::MAX), limit)?;
        charge_text(bytes)
    }
}

/// Length of a conversation that is read.
#[derive(Default)]
struct ConversationLength {
    bytes: usize,
    turns: usize,
}

impl ConversationLength {
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
pub async fn response(
    stored: StoredResponses<'_>,
    id: &str,
    charge: &RequestCharge,
) -> Result<String, ApiError> {
    let Texts { output, body, .. } = texts(stored, id, charge).await?;
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
pub async fn input(
    stored: StoredResponses<'_>,
    id: &str,
    charge: &RequestCharge,
) -> Result<Vec<Value>, ApiError> {
    let input = texts(stored, id, charge).await?.input;
    body::list(input.into_bytes(), stored.bodies, charge).await
}

/// Deletes a stored Response. Fails if it is not stored.
pub async fn delete(stored: StoredResponses<'_>, id: &str) -> Result<(), ApiError> {
    let opened = open(stored, id).await?.ok_or_else(|| unknown(id))?;
    match opened.delete(id).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(unknown(id)),
        Err(error) => Err(unavailable(&error.to_string())),
    }
}

async fn texts(
    stored: StoredResponses<'_>,
    id: &str,
    charge: &RequestCharge,
) -> Result<Texts, ApiError> {
    let opened = open(stored, id).await?.ok_or_else(|| unknown(id))?;
    let texts = opened.get(id, for_stored(charge, READ_COPIES));
    texts.await.map_err(|error| match error {
        ReadError::Unknown { id } => unknown(&id),
        error => unread(error),
    })
}

/// Opens the responses of the sender; `None` if none of them can have this identifier.
async fn open(stored: StoredResponses<'_>, id: &str) -> Result<Option<Responses>, ApiError> {
    let is_possible = id.strip_prefix(PREFIX).is_some_and(|digits| {
        digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    });
    if !is_possible {
        return Ok(None);
    }
    let Some(archive) = &stored.archive else { return Ok(None) };
    let opened = archive.responses(stored.sender.tenant().scope()).await;
    opened.map(Some).map_err(|_| unavailable(CLOSED))
}

/// Joins the items of all turns to one JSON array.
fn joined(turns: &[StoredTurn]) -> Vec<u8> {
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
    let message = format!("Previous response with id '{}' not found.", excerpt(id));
    ApiError::bad_request("previous_response_not_found", message).about("previous_response_id")
}

fn unknown(id: &str) -> ApiError {
    let message = format!("Response with id '{}' not found.", excerpt(id));
    ApiError::not_found("response_not_found", message)
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
    ApiError::unavailable("store_unavailable", message)
        .with_header(header::RETRY_AFTER, HeaderValue::from_static("1"))
}

fn damaged(id: &str) -> ApiError {
    error!(id, "a stored response is damaged");
    ApiError::internal()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_is_bounded_in_bytes_and_in_responses() {
        let mut length = ConversationLength::default();
        assert!(length.add(10, 20).is_ok() && length.add(10, 20).is_ok());
        assert!(length.add(1, 20).is_err());
        let mut length = ConversationLength::default();
        assert!((0..MAX_TURNS).all(|_| length.add(1, usize::MAX).is_ok()));
        assert!(length.add(1, usize::MAX).is_err());
    }
}
