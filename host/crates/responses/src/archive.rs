//! The store of Responses. Its database is opened when a request first needs it.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tracing::warn;

use airlock_agent::EXTENSION;
use airlock_conversation::Object;
use airlock_core::request_memory::RequestCharge;
use airlock_json as json;
use airlock_store::{
    LazyDatabase, OwnerId, Unavailable,
    responses::{NewResponse, PutError, ResponseBounds, Responses, Texts},
};
use airlock_strings::with_causes;

/// Reason that responses cannot be used, for callers. The log has more.
pub(super) const CLOSED: &str = "the database cannot be opened";

/// The store of responses.
pub struct Archive {
    database: LazyDatabase,
    bounds: ResponseBounds,
}

impl Archive {
    /// Creates the store of responses in this database.
    pub fn new(database: LazyDatabase, bounds: ResponseBounds) -> Arc<Self> {
        Arc::new(Self { database, bounds })
    }

    /// Returns the responses of an owner. Fails if the database cannot be opened; the next call tries
    /// again.
    pub(super) async fn responses(&self, scope: OwnerId) -> Result<Responses, Unavailable> {
        Ok(self.database.available().await?.responses(scope, self.bounds))
    }
}

/// A Response that is stored when it is complete.
pub struct ResponseToStore {
    /// The store.
    pub archive: Arc<Archive>,
    /// Its owner.
    pub scope: OwnerId,
    /// Its identifier.
    pub id: String,
    /// Identifier of the Response that it continues.
    pub previous: Option<String>,
    /// Items of the request.
    pub input: Vec<Value>,
    /// The charge of the request.
    pub charge: RequestCharge,
}

impl ResponseToStore {
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
            let opened = self.archive.responses(self.scope).await;
            let responses = opened.map_err(|_| NotStored::unavailable(CLOSED))?;
            responses.put(new).await.map_err(|error| {
                warn!(error = with_causes(&error), "a response was not stored");
                NotStored::from(error)
            })
        })
    }
}

/// Reason that a complete Response was not stored, for the caller.
pub(super) struct NotStored {
    code: &'static str,
    message: String,
}

impl NotStored {
    fn no_memory() -> Self {
        let message = "the requests in flight leave no memory for storing the response".to_owned();
        Self { code: "gateway_overloaded", message }
    }

    fn unavailable(reason: &str) -> Self {
        let message = format!("stored responses cannot be reached right now: {reason}");
        Self { code: "store_unavailable", message }
    }

    /// Notes in a Response that it is not stored.
    pub(super) fn note_in(self, response: &mut Object) {
        response.insert("store".to_owned(), false.into());
        let airlock = response.entry(EXTENSION).or_insert_with(|| json!({}));
        airlock["not_stored"] = json!({"code": self.code, "message": self.message});
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
