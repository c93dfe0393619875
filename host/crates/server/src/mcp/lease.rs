//! The terms on which a stream waits for notifications: its room, and the rights of its sender.

use std::sync::Arc;

use super::App;
use airlock_core::door::{LiveKeys, VirtualKey};
use airlock_mcp_server::{Selection, StreamSlot};
use airlock_wire::error::RpcError;

/// Room of a stream that waits for notifications, until another caller needs it or the rights with which the
/// stream began end. Dropping it gives the room back.
pub(super) struct StreamLease {
    slot: StreamSlot,
    keys: LiveKeys,
    key: Option<Arc<VirtualKey>>,
}

impl StreamLease {
    /// Takes room for a stream with these tools. Fails if its sender has as many as it may, or if all are in
    /// use.
    pub(super) fn take(app: &App, selection: &Selection) -> Result<Self, RpcError> {
        let slot = app.sessions.stream(selection.tenant())?;
        Ok(Self { slot, keys: app.keys.clone(), key: selection.key.clone() })
    }

    /// Waits until the stream has to end, and returns the reason. That of a sender without a key lasts as
    /// long as its room.
    pub(super) async fn ended(&self) -> &'static str {
        tokio::select! {
            () = self.evicted() => "another caller needs the room",
            () = self.rights_ended() => "the rights of its key or token have ended or changed; open it again",
        }
    }

    /// Waits until another caller needs the room.
    pub(super) async fn evicted(&self) {
        self.slot.evicted().await;
    }

    /// Waits until the key or the token of the sender ends, or has other rights than the stream began with.
    pub(super) async fn rights_ended(&self) {
        match &self.key {
            Some(key) => self.keys.ended(key).await,
            None => std::future::pending().await,
        }
    }
}
