//! Stands for the sessions of servers in containers in a build without the client of Docker.

use std::{
    future::{Ready, ready},
    sync::Arc,
};

use airlock_core::{secret::Scrubber, tool::ClientName};

use super::{NOT_BUILT, settings::Docker};
use crate::{channel::Channel, connector::OpenError};

/// Starts no server.
pub(super) fn open(
    _: &Docker,
    _: &ClientName,
    _: Arc<Scrubber>,
) -> Ready<Result<Channel, OpenError>> {
    ready(Err(OpenError::Invalid(NOT_BUILT.to_owned())))
}
