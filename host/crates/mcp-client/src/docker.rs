//! Servers that are processes in containers, through the Docker API: `docker_config`.
//!
//! A server is an `exec` in a container: its stdin, stdout and stderr are attached, without a
//! terminal. The container is an existing one, or the gateway's own: created from an image with
//! restrictive defaults, shared by all sessions with the server, and removed after the last one.

mod container;
mod engine;
mod error;
mod exec;
mod settings;

use std::{any::Any, sync::Arc};

use futures_util::future::BoxFuture;

pub use self::settings::{Docker, Image, Mount, Place};
use self::{container::ContainerLease, engine::Engine, error::DockerError};
use super::{
    channel::Channel,
    connector::{Connector, OpenError, Opened, Opening},
    secrets::Secrets,
    stdio,
};
use airlock_core::{
    secret::Scrubber,
    tool::{Cause, ClientName},
};

/// Maximum number of attempts to start a server in a container of the gateway's own.
const ATTEMPTS: usize = 4;

impl Connector for Docker {
    fn connection_type(&self) -> &'static str {
        "docker"
    }

    fn is_same(&self, other: &dyn Connector) -> bool {
        (other as &dyn Any).downcast_ref() == Some(self)
    }

    fn open<'a>(&'a self, opening: Opening<'a>) -> BoxFuture<'a, Result<Opened, OpenError>> {
        Box::pin(async move {
            let opened = open(self, opening.client, opening.inbox.scrubber()).await;
            let channel = opened.map_err(|error| OpenError::Failed(Cause::from(error)))?;
            Ok(stdio::over(channel, opening))
        })
    }

    fn secrets(&self) -> Secrets {
        Secrets::in_variables(&self.env)
    }
}

/// Starts a server in a container, which is created and started if needed. Every request to the
/// daemon has a time limit. Must be called within a tokio runtime.
async fn open(
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
