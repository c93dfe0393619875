//! Servers that are processes in containers, through the Docker API: `docker_config`.
//!
//! A server is an `exec` in a container: its stdin, stdout and stderr are attached, without a
//! terminal. The container is an existing one, or the gateway's own: created from an image with
//! restrictive defaults, shared by all sessions with the server, and removed after the last one.
//!
//! The client of the API is in `session`, with the feature of this crate `docker`. Without it, the
//! configuration refuses such a server, and it does not open.

#[cfg_attr(not(feature = "docker"), path = "docker/no_session.rs")]
mod session;
mod settings;

use std::any::Any;

use futures_util::future::BoxFuture;

pub use self::settings::{Docker, Image, Mount, Place};
use super::{
    connector::{Connector, OpenError, Opened, Opening},
    stdio,
    variables::variable_secrets,
};
use airlock_mcp_oauth::Secrets;

/// Reason that a server in a container is refused in a build without the feature `docker`.
const NOT_BUILT: &str =
    "servers in containers need the cargo feature \"docker\", which this build does not have";

impl Docker {
    /// Returns the reason that this build reaches no server in a container; `None` if it does.
    pub const fn missing() -> Option<&'static str> {
        if cfg!(feature = "docker") { None } else { Some(NOT_BUILT) }
    }
}

impl Connector for Docker {
    fn connection_type(&self) -> &'static str {
        "docker"
    }

    fn is_same(&self, other: &dyn Connector) -> bool {
        (other as &dyn Any).downcast_ref() == Some(self)
    }

    fn open<'a>(&'a self, opening: Opening<'a>) -> BoxFuture<'a, Result<Opened, OpenError>> {
        Box::pin(async move {
            let channel = session::open(self, opening.client, opening.inbox.scrubber()).await?;
            Ok(stdio::over(channel, opening))
        })
    }

    fn secrets(&self) -> Secrets {
        variable_secrets(&self.env)
    }
}

#[cfg(all(test, feature = "docker"))]
#[path = "docker/no_session.rs"]
mod no_session;

#[cfg(all(test, feature = "docker"))]
mod tests {
    use std::{collections::BTreeMap, sync::Arc};

    use airlock_core::{secret::Scrubber, tool::ClientName};

    use super::*;

    #[tokio::test]
    async fn a_build_without_docker_opens_no_server_and_names_the_feature() {
        let settings = Docker {
            host: "unix:///var/run/docker.sock".to_owned(),
            place: Place::Existing("tools".to_owned()),
            command: vec!["server".to_owned()],
            env: BTreeMap::new(),
            directory: None,
            user: None,
        };
        let client = ClientName::parse("tools").expect("a name");
        let opened = no_session::open(&settings, &client, Arc::new(Scrubber::default())).await;
        let Err(OpenError::Invalid(reason)) = opened else { panic!("it is refused for good") };
        assert!(reason.contains("cargo feature \"docker\""), "{reason}");
        assert_eq!(Docker::missing(), None, "this build has the feature");
    }
}
