//! Sessions with servers in containers, through the Docker API.

mod container;
mod engine;
mod error;
mod exec;

use std::sync::Arc;

use airlock_core::{
    secret::Scrubber,
    tool::{Cause, ClientName},
};

use self::{container::ContainerLease, engine::Engine, error::DockerError};
use super::settings::{Docker, Place};
use crate::{channel::Channel, connector::OpenError};

/// Maximum number of attempts to start a server in a container of the gateway's own.
const ATTEMPTS: usize = 4;

/// Starts a server in a container, which is created and started if needed. Every request to the
/// daemon has a time limit. Must be called within a tokio runtime.
pub(super) async fn open(
    settings: &Docker,
    client: &ClientName,
    scrubber: Arc<Scrubber>,
) -> Result<Channel, OpenError> {
    let started = start(settings, client, scrubber).await;
    started.map_err(|error| OpenError::Failed(Cause::from(error)))
}

async fn start(
    settings: &Docker,
    client: &ClientName,
    scrubber: Arc<Scrubber>,
) -> Result<Channel, DockerError> {
    let engine = Engine::connect(&settings.host).await?;
    let is_own = matches!(settings.place, Place::Own(_));
    let mut attempts = 1;
    loop {
        let lease = Box::pin(ContainerLease::take(&engine, settings, client)).await;
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
