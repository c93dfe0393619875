//! MCP servers of the embedding program, which stand beside the clients of every configuration.

use std::{sync::Arc, time::Duration};

use tracing::warn;

use airlock_config::{Client, Config, Source};
use airlock_core::tool::{
    Allowlist, BadClientName, ClientName, INTERNAL_CLIENT, Policy, QuestionKinds,
};
use airlock_mcp_client::{
    Bounds, EmbeddedServer, Framing, Lifecycle, Pinning, Restart, ServerTransport, Settings,
    Timeouts,
};

/// An MCP server that the embedding program reaches in its own way, with the settings that a server of the
/// configuration has as keys. Their types are in `airlock::settings::upstream`.
#[derive(Clone)]
pub struct ProgramServer {
    /// The way to the server.
    pub transport: Arc<dyn ServerTransport>,
    /// Policy of its tools. The default permits execution of all of them, and automatic execution of none;
    /// their texts are untrusted.
    pub policy: Policy,
    /// Time limits.
    pub timeouts: Timeouts,
    /// Restarts after failures.
    pub restart: Restart,
    /// Life cycle of the connection.
    pub lifecycle: Lifecycle,
    /// Limits on calls.
    pub bounds: Bounds,
    /// Interval at which the list of tools is read again, besides the reports of the server; `None` for no
    /// interval.
    pub sync_interval: Option<Duration>,
    /// Definitions of its tools that are used.
    pub pin: Pinning,
    /// Questions that it may ask the callers of its tools.
    pub questions: QuestionKinds,
}

/// Reason that a server of the embedding program is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadServer {
    /// The name is not one of a client.
    #[error(transparent)]
    Name(#[from] BadClientName),
    /// The name is that of the tools of the program.
    #[error("{INTERNAL_CLIENT:?} is reserved for the tools of an embedding program")]
    Reserved,
    /// A client of the configuration, a virtual MCP or another server of the program has the name.
    #[error("the name {0} is taken by a client, a virtual MCP or another server of the program")]
    Taken(ClientName),
}

impl ProgramServer {
    /// Creates a server with the settings that a server of the configuration has by default.
    pub fn new(transport: Arc<dyn ServerTransport>) -> Self {
        Self {
            transport,
            policy: Policy { execute: Allowlist::All, ..Policy::default() },
            timeouts: Timeouts::default(),
            restart: Restart::default(),
            lifecycle: Lifecycle::default(),
            bounds: Bounds::default(),
            sync_interval: None,
            pin: Pinning::default(),
            questions: QuestionKinds::NONE,
        }
    }

    fn into_client(self, name: ClientName) -> Client {
        let Self {
            transport,
            policy,
            timeouts,
            restart,
            lifecycle,
            bounds,
            sync_interval,
            pin,
            questions,
        } = self;
        let settings = Settings {
            timeouts,
            restart,
            lifecycle,
            bounds,
            sync_interval,
            pin,
            questions,
            framing: Framing::Lines,
            ..Settings::new(name.clone(), EmbeddedServer::new(transport))
        };
        Client { name, policy, binding_level: None, source: Source::Upstream(settings) }
    }
}

impl<T: ServerTransport> From<T> for ProgramServer {
    fn from(transport: T) -> Self {
        Self::new(Arc::new(transport))
    }
}

airlock_strings::debug_fields!(ProgramServer { policy });

/// All servers of the program.
#[derive(Clone, Default)]
pub(crate) struct ProgramServers(Vec<Client>);

impl ProgramServers {
    /// Adds a server. Fails if its name is not valid, or if `config` or another server has it.
    pub(crate) fn add(
        &mut self,
        config: &Config,
        name: &str,
        server: ProgramServer,
    ) -> Result<(), BadServer> {
        let name = ClientName::parse(name)?;
        if name.as_str() == INTERNAL_CLIENT {
            return Err(BadServer::Reserved);
        }
        if self.has(&name) || is_taken(config, &name) {
            return Err(BadServer::Taken(name));
        }
        self.0.push(server.into_client(name));
        Ok(())
    }

    /// Adds these servers to a configuration. A client of it that has the name of one of them is left out: the
    /// server was there before it.
    pub(crate) fn join(&self, config: &mut Config) {
        for client in config.clients.iter().filter(|client| self.has(&client.name)) {
            warn!(client = %client.name, "client is left out: a server of the program has its name");
        }
        config.clients.retain(|client| !self.has(&client.name));
        config.disabled.retain(|client| !self.has(&client.name));
        config.clients.extend(self.0.iter().cloned());
    }

    fn has(&self, name: &ClientName) -> bool {
        self.0.iter().any(|server| server.name == *name)
    }
}

fn is_taken(config: &Config, name: &ClientName) -> bool {
    config.clients.iter().any(|client| client.name == *name)
        || config.disabled.iter().any(|client| client.name == *name)
        || config.groups.iter().any(|group| group.slug.as_str() == name.as_str())
}

#[cfg(test)]
mod tests {
    use futures_util::future::BoxFuture;
    use serde_json::json;

    use super::*;
    use airlock_mcp_client::{ConnectFailure, ServerStream};

    struct Nowhere;

    impl ServerTransport for Nowhere {
        fn connect(&self) -> BoxFuture<'_, Result<Box<dyn ServerStream>, ConnectFailure>> {
            Box::pin(async { Err(ConnectFailure::retried("there is no server")) })
        }
    }

    /// Returns a configuration with the client `taken`, and the disabled client `off`.
    fn config() -> Config {
        let client = json!({
            "name": "taken", "connection_type": "stdio", "stdio_config": {"command": "/bin/true"},
        });
        let mut disabled = client.clone();
        disabled["name"] = "off".into();
        disabled["disabled"] = true.into();
        let file = json!({"mcp": {"client_configs": [client, disabled]}});
        Config::parse(&file.to_string(), "test", &|_| None).expect("a configuration")
    }

    #[test]
    fn a_name_that_is_taken_reserved_or_not_valid_is_refused() {
        let config = config();
        let mut servers = ProgramServers::default();
        servers.add(&config, "own", Nowhere.into()).expect("the name is free");
        for (name, taken) in [("own", true), ("taken", true), ("off", true), ("a-b", false)] {
            let refused = servers.add(&config, name, Nowhere.into()).expect_err(name);
            assert_eq!(matches!(refused, BadServer::Taken(_)), taken, "{refused}");
        }
        let refused = servers.add(&config, INTERNAL_CLIENT, Nowhere.into());
        assert_eq!(refused, Err(BadServer::Reserved));
    }

    #[test]
    fn a_later_client_with_the_name_of_a_server_is_left_out() {
        let mut servers = ProgramServers::default();
        let empty = Config::parse("{}", "test", &|_| None).expect("a configuration");
        servers.add(&empty, "taken", Nowhere.into()).expect("the name is free");
        servers.add(&empty, "off", Nowhere.into()).expect("the name is free");
        let mut config = config();
        servers.join(&mut config);
        let names: Vec<&str> = config.clients.iter().map(|client| client.name.as_str()).collect();
        assert_eq!(names, ["taken", "off"]);
        assert!(config.disabled.is_empty());
        let Source::Upstream(settings) = &config.clients[0].source else { panic!("a server") };
        assert_eq!(settings.transport.connection_type(), EmbeddedServer::CONNECTION_TYPE);
        servers.join(&mut config);
        assert_eq!(config.clients.len(), 2, "they are there once");
    }
}
