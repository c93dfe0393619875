//! The operator's control of the MCP servers, for the administrative API.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::time::timeout;

use super::UpstreamServers;
use airlock_json::{RawObject, object};
use airlock_mcp_client::Pinning;
use airlock_operator_api::{DefinitionsToAccept, NotAccepted, NotDone, Upstreams};
use airlock_strings::{visible_line, with_causes};
use airlock_upstream::{
    Control, ControlError,
    pins::{self, AcceptError, Acceptance, ClientPins, Review},
};

/// Time for a server to list its tools again after an acceptance. Without, the list is compared within seconds.
const RELIST: Duration = Duration::from_secs(5);

impl UpstreamServers {
    fn control(&self, client: &str) -> Result<Control, NotDone> {
        let server = self.find(client);
        server.map(|server| server.control).ok_or_else(|| NotDone::Unknown(client.to_owned()))
    }

    fn client_pins(&self, client: &str) -> Result<Arc<ClientPins>, NotAccepted> {
        self.pins.client(client).ok_or_else(|| NotAccepted::Unknown(client.to_owned()))
    }
}

impl Upstreams for UpstreamServers {
    fn reconnect<'a>(
        &'a self,
        client: &'a str,
        instance: Option<usize>,
    ) -> BoxFuture<'a, Result<Vec<String>, NotDone>> {
        Box::pin(async move { self.control(client)?.reconnect(instance).await.map_err(not_done) })
    }

    fn refresh<'a>(&'a self, client: &'a str) -> BoxFuture<'a, Result<usize, NotDone>> {
        Box::pin(async move { self.control(client)?.refresh().await.map_err(not_done) })
    }

    fn logs(&self, client: &str, instance: Option<usize>) -> Result<Vec<String>, NotDone> {
        self.control(client)?.logs(instance).map_err(not_done)
    }

    fn definitions(
        &self,
        client: &str,
        limit: usize,
        offset: usize,
    ) -> Result<String, NotAccepted> {
        let pins = self.client_pins(client)?;
        Ok(described(client, pins.pinning(), pins.review().as_ref(), limit, offset))
    }

    fn accept<'a>(
        &'a self,
        client: &'a str,
        wanted: DefinitionsToAccept,
        recorded: BoxFuture<'a, bool>,
    ) -> BoxFuture<'a, Result<Vec<String>, NotAccepted>> {
        Box::pin(async move {
            let pins = self.client_pins(client)?;
            let DefinitionsToAccept { review, tools } = wanted;
            let accepted = pins.accept(&Acceptance { review, tools }, recorded).await;
            let accepted = accepted.map_err(|error| not_accepted(&error))?;
            if let Ok(control) = self.control(client) {
                // Also a server that does not list its tools follows the file.
                let _ = timeout(RELIST, control.refresh()).await;
            }
            Ok(accepted)
        })
    }

    fn disabled(&self) -> Vec<(String, &'static str)> {
        let present = self.present.lock();
        let disabled = present.disabled.iter();
        disabled.map(|client| (client.name.to_string(), client.connection_type)).collect()
    }
}

/// Describes a part of the changes of a server. Without a review, nothing was compared yet, or nothing is pinned.
fn described(
    client: &str,
    pinning: Pinning,
    review: Option<&Review>,
    limit: usize,
    offset: usize,
) -> String {
    let changes = review.map_or(&[][..], |review| review.changes.as_slice());
    let mut out = RawObject::from(&object(json!({
        "client": client,
        "pin": pinning,
        "locked": review.is_some_and(|review| review.is_locked),
        "accepted_tools": review.map_or(0, |review| review.accepted.len()),
        "review": review.map(Review::digest),
        "reason": review.and_then(|review| review.problem.as_deref()).map(visible_line),
        "total_count": changes.len(),
        "limit": limit,
        "offset": offset,
    })));
    out.set("changes", pins::documents(changes.iter().skip(offset).take(limit)));
    out.to_text()
}

fn not_accepted(error: &AcceptError) -> NotAccepted {
    match error {
        AcceptError::NoReview | AcceptError::Unknown(_) | AcceptError::NoFile => {
            NotAccepted::Unusable(visible_line(&error.to_string()))
        }
        AcceptError::Changed => NotAccepted::Changed,
        AcceptError::NoSuchChange(_) => NotAccepted::NoSuchChange(visible_line(&error.to_string())),
        AcceptError::NotRecorded => NotAccepted::NotRecorded,
        AcceptError::Lock(_) | AcceptError::Interrupted => {
            NotAccepted::NotWritten(visible_line(&with_causes(error)))
        }
    }
}

fn not_done(error: ControlError) -> NotDone {
    match error {
        ControlError::InProgress => NotDone::InProgress,
        ControlError::Failed(reason) => NotDone::Failed(reason),
        ControlError::NoInstance { .. } => NotDone::NoInstance(error.to_string()),
        ControlError::Stopping => NotDone::Stopping,
    }
}
