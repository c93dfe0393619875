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
use airlock_core::{secret::Scrubber, tool::ClientName};

/// Maximum number of attempts to start a server in a container of the gateway's own.
const ATTEMPTS: usize = 4;

/// Starts a server in a container, which is created and started if needed. Every request to the
/// daemon has a time limit. Must be called within a tokio runtime.
pub(super) async fn open(
    settings: &Docker,
    client: &ClientName,
    scrubber: Arc<Scrubber>,
) -> Result<Channel, DockerError> {
    let engine = Engine::connect(&settings.host).await?;
    let is_own = matches!(settings.place, Place::Own(_));
    let mut attempts = 1;
    loop {
        let lease = Box::pin(Lease::take(&engine, settings, client)).await;
        let started = match lease {
            Ok(lease) => Box::pin(exec::start(settings, lease, scrubber.clone())).await,
            Err(error) => Err(error),
        };
        match started {
            // The last of the other sessions may have ended in the meantime, here or in another
            // gateway, and have removed the container.
            Err(error) if is_own && error.is_of_removal() && attempts < ATTEMPTS => attempts += 1,
            started => return started,
        }
    }
}
