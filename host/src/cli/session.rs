//! A gateway that runs for the time of one command.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use super::{output, signals::Signals};
use crate::{
    catalog::{Client, State},
    config::{self, Config, Source},
    gateway::Gateway,
    sandbox::Compiling,
    tool::CallError,
};

/// Longest wait for sources to connect, of a command that must not wait as long as a source may take
/// to start.
pub(super) const SETTLE: Duration = Duration::from_secs(35);
/// Time for a source to list its tools after its start.
const LISTING: Duration = Duration::from_secs(35);
/// Time after which a command says what it waits for, and interval at which it says so again.
const ANNOUNCED: Duration = Duration::from_secs(3);

/// Path of the configuration if the command line names none.
const DEFAULT: &str = "airlock.json";

/// Path of the configuration.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct ConfigFile {
    /// The configuration file.
    #[arg(short = 'c', long = "config", value_name = "FILE", default_value = DEFAULT)]
    pub(super) path: PathBuf,
}

impl ConfigFile {
    /// Returns whether this is the path that a command uses by default.
    pub(super) fn is_default(&self) -> bool {
        self.path == Path::new(DEFAULT)
    }

    /// Returns the option that names this file in a command that is shown to people, with a space
    /// before it. Empty for the default path.
    pub(super) fn option(&self) -> String {
        if self.is_default() {
            return String::new();
        }
        format!(" --config {}", output::quoted(&self.path.display().to_string()))
    }

    /// Reads the configuration of a gateway that compiles each component in its own process.
    pub(super) fn load(&self) -> anyhow::Result<Config> {
        let mut config = Config::load(&self.path)?;
        config.sandbox.compiling = compiler();
        Ok(config)
    }

    /// Starts a gateway, waits for the sources that the command `needs`, runs `act`, and stops the
    /// gateway whatever the result. A signal ends each step; during `act` it is `act` that decides
    /// what a signal does.
    pub(super) async fn with_gateway<T>(
        &self,
        needs: impl Fn(&Config, &Client) -> bool,
        act: impl AsyncFnOnce(&Gateway, &mut Signals) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        self.with_sources(|_| true, needs, act).await
    }

    /// Does the same as [`Self::with_gateway`], with those sources only for which `keep` returns
    /// true.
    pub(super) async fn with_sources<T>(
        &self,
        keep: impl Fn(&config::Client) -> bool,
        needs: impl Fn(&Config, &Client) -> bool,
        act: impl AsyncFnOnce(&Gateway, &mut Signals) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let mut config = self.load()?;
        config.clients.retain(keep);
        let known = config.clone();
        let mut signals = Signals::catch()?;
        let gateway = tokio::select! {
            started = Gateway::builder(config).start() => started?,
            () = signals.next() => return Err(CallError::Cancelled.into()),
        };
        let limit = longest_start(&known) + LISTING;
        let is_settled = tokio::select! {
            () = gateway.settled(limit, |client| needs(&known, client)) => true,
            () = signals.next() => false,
            () = announce(&gateway, |client| needs(&known, client)) => false,
        };
        let result = if is_settled {
            act(&gateway, &mut signals).await
        } else {
            Err(CallError::Cancelled.into())
        };
        tokio::select! {
            () = gateway.stop() => {}
            () = signals.next() => {}
        }
        result
    }
}

/// Returns the longest time that a source may take to start.
fn longest_start(config: &Config) -> Duration {
    let starts = config.clients.iter().filter_map(|client| match &client.source {
        Source::Upstream(settings) => Some(settings.timeouts.startup),
        Source::Plugin(_) => None,
    });
    starts.max().unwrap_or_default()
}

/// Says on stderr, at intervals, which sources a command waits for. Never returns.
async fn announce(gateway: &Gateway, needs: impl Fn(&Client) -> bool) {
    loop {
        tokio::time::sleep(ANNOUNCED).await;
        let snapshot = gateway.catalog().snapshot();
        let waits = |client: &&Arc<Client>| client.state == State::Connecting && needs(client);
        let names: Vec<_> = snapshot
            .clients()
            .filter(waits)
            .map(|client| format!("{} ({})", client.name, client.connection_type))
            .collect();
        if !names.is_empty() {
            eprintln!(
                "airlock: waiting for {} to start; a package runner may have to download it first",
                names.join(", ")
            );
        }
    }
}

/// Returns settings that compile each component in its own process.
pub(super) fn compiler() -> Compiling {
    Compiling { program: Some(Compiling::SELF.into()), ..Compiling::in_process() }
}

/// Returns a line for each source that is not connected.
pub(super) fn absent_sources(gateway: &Gateway) -> Vec<String> {
    let snapshot = gateway.catalog().snapshot();
    let absent = snapshot.clients().filter(|client| client.state != State::Connected);
    absent
        .map(|client| {
            let (name, kind, state) = (&client.name, client.connection_type, client.state.name());
            match client.state.reason() {
                Some(reason) => format!(
                    "{name} ({kind}) is not connected, state {state}: {}",
                    output::both_ends(reason, 1000)
                ),
                None => format!("{name} ({kind}) is not connected, state {state}"),
            }
        })
        .collect()
}
