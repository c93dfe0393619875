//! The store of Responses. Its database is opened when a request first needs it.

use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::{
    sync::{OnceCell, OwnedSemaphorePermit, Semaphore},
    time::timeout,
};
use tracing::{error, warn};

use crate::memory::RequestCharge;
use airlock_agent::EXTENSION;
use airlock_json as json;
use airlock_model::Object;
use airlock_store::{
    self as store, Database, OwnerId,
    responses::{NewResponse, PutError, ResponseBounds, Responses, Texts},
};
use airlock_strings::with_causes;

/// Operations of one owner at the same time. Further ones wait, so that other owners are served
/// meanwhile: the database has one connection for reading and one for writing.
const OPERATIONS: usize = 4;
/// Maximum time that an operation waits for its turn. Its request holds its memory meanwhile, and a
/// client can try again.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// The store of responses.
pub(crate) struct Archive {
    database: OnceCell<Database>,
    settings: store::Settings,
    bounds: ResponseBounds,
    /// Turns of each owner that has had one. There are as many owners as keys.
    turns: Mutex<HashMap<OwnerId, Arc<Semaphore>>>,
}

/// The responses of an owner, for one operation.
pub(super) struct OwnedResponses {
    pub(super) responses: Responses,
    _turn: OwnedSemaphorePermit,
}

/// Reason that the responses of an owner cannot be used.
pub(super) enum Unreachable {
    /// The database cannot be opened. The log has the reason.
    Closed,
    /// Other operations of the owner take too long.
    Busy,
}

impl Archive {
    pub(crate) fn new(settings: store::Settings, bounds: ResponseBounds) -> Arc<Self> {
        Arc::new(Self { database: OnceCell::new(), settings, bounds, turns: Mutex::default() })
    }

    /// Returns the responses of an owner, when it is its turn. Fails if the database cannot be
    /// opened; the next call tries again.
    pub(super) async fn open(&self, scope: OwnerId) -> Result<OwnedResponses, Unreachable> {
        let turn = timeout(MAX_WAIT, self.turns(scope).acquire_owned()).await;
        let turn = turn.map_err(|_| Unreachable::Busy)?.expect("the semaphore is never closed");
        let opened = self.database.get_or_try_init(|| Database::open(self.settings.clone()));
        let opened = opened.await.map_err(|cause| {
            error!(error = with_causes(&cause), "responses cannot be stored");
            Unreachable::Closed
        })?;
        Ok(OwnedResponses { responses: opened.responses(scope, self.bounds), _turn: turn })
    }

    fn turns(&self, scope: OwnerId) -> Arc<Semaphore> {
        let mut turns = self.turns.lock();
        turns.entry(scope).or_insert_with(|| Arc::new(Semaphore::new(OPERATIONS))).clone()
    }
}

impl Unreachable {
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Closed => "the database cannot be opened",
            Self::Busy => "other requests of this caller use them",
        }
    }
}

/// A Response to store when it is complete.
pub(super) struct Deposit {
    pub(super) archive: Arc<Archive>,
    pub(super) scope: OwnerId,
    pub(super) id: String,
    pub(super) previous: Option<String>,
    /// Items of the request.
    pub(super) input: Vec<Value>,
    pub(super) charge: RequestCharge,
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
            let opened = self.archive.open(self.scope).await;
            let opened = opened.map_err(|error| NotStored::unavailable(error.reason()))?;
            opened.responses.put(new).await.map_err(|error| {
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
        let bounds = ResponseBounds { expire_after: day, owner_bytes: most, total_bytes: most };
        let archive = Archive::new(settings, bounds);
        let one = [1; 32];
        let mut held = Vec::new();
        for _ in 0..OPERATIONS {
            held.push(archive.open(one).await.ok().expect("its turn"));
        }
        let mut next = Box::pin(archive.open(one));
        assert!(poll!(&mut next).is_pending());
        assert!(archive.open([2; 32]).await.is_ok());
        held.pop();
        assert!(next.await.is_ok());
    }
}
