//! Runs servers that are processes in containers, through the Docker API.
//!
//! A server is an `exec` in a container: its stdin, stdout and stderr are attached, without a
//! terminal. The container is an existing one, or the gateway's own: created from an image with
//! restrictive defaults, shared by all sessions with the server, and removed after the last one.

mod container;
mod engine;
mod error;
mod exec;
mod settings;

use std::sync::Arc;

pub(super) use self::error::DockerError;
pub use self::settings::{Docker, Image, Mount, Place};
use self::{container::Lease, engine::Engine};
use super::channel::Channel;
use crate::{secret::Scrubber, tool::ClientName};

/// Starts a server in a container, which is created and started if needed. Every request to the
/// daemon has a time limit. Must be called within a tokio runtime.
pub(super) async fn open(
    settings: &Docker,
    client: &ClientName,
    scrubber: Arc<Scrubber>,
) -> Result<Channel, DockerError> {
    let engine = Engine::connect(&settings.host).await?;
    let lease = Box::pin(Lease::take(&engine, settings, client)).await?;
    match Box::pin(exec::start(settings, lease, scrubber.clone())).await {
        // The last session of another gateway may have removed it in the meantime.
        Err(DockerError::NoContainer { .. }) => {
            let lease = Box::pin(Lease::take(&engine, settings, client)).await?;
            Box::pin(exec::start(settings, lease, scrubber)).await
        }
        started => started,
    }
}
