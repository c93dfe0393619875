//! The running requests of one client.

use std::{collections::HashMap, panic::AssertUnwindSafe};

use futures_util::FutureExt as _;
use tokio_util::sync::CancellationToken;
use tracing::error;

use airlock_wire::{
    error::{RpcError, code},
    id::RpcId,
    message,
};

/// Maximum requests of one client that run at a time. A client such as an editor has a few; each
/// holds its memory and its stream until it ends.
pub(super) const MAX_RUNNING: usize = 64;

/// The running requests of one client, each with the token that cancels it.
#[derive(Default)]
pub(super) struct RunningRequests(HashMap<RpcId, CancellationToken>);

impl RunningRequests {
    /// Adds a request. Fails if one with the same identifier is running, or too many are.
    pub(super) fn begin(&mut self, id: &RpcId, cancel: &CancellationToken) -> Result<(), RpcError> {
        if self.0.contains_key(id) {
            let message = format!("a request with the id {} is running", id.as_json());
            return Err(RpcError::invalid_request(message));
        }
        if self.0.len() >= MAX_RUNNING {
            let message = format!("{MAX_RUNNING} requests of this client are running");
            return Err(RpcError::new(code::REFUSED, message));
        }
        self.0.insert(id.clone(), cancel.clone());
        Ok(())
    }

    /// Cancels a request, if it is running. It stays in the table until it has ended, so that its
    /// identifier is not used twice.
    pub(super) fn cancel(&self, id: &RpcId) {
        if let Some(cancel) = self.0.get(id) {
            cancel.cancel();
        }
    }

    /// Removes a request that has ended.
    pub(super) fn end(&mut self, id: &RpcId) {
        self.0.remove(id);
    }

    /// Returns whether no request is running.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Runs the work of a request. Returns its response, or an error for the client if the work panics.
pub(super) async fn guarded(
    id: &RpcId,
    work: impl Future<Output = Option<String>>,
) -> Option<String> {
    // Unwind-safe: the state of the work is dropped after a panic.
    AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|_| {
        error!("a request of an MCP client made the gateway panic");
        let failure = RpcError::new(code::INTERNAL, "the gateway failed; its log has the reason");
        Some(message::failure(Some(id), &failure))
    })
}
