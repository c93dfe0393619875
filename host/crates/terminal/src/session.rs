//! A gateway that runs for the time of one command.

use std::{
    convert::Infallible,
    future::pending,
    io::{self, ErrorKind::NotFound, IsTerminal as _},
    path::{Path, PathBuf},
    time::Duration,
};

use super::{output, signals::Signals, spinner};
use airlock_catalog::{SourceState, ToolSource};
use airlock_compile::Compiling;
use airlock_config::{self as config, Config, ConfigError, ConfigSource, GatewayAddress, Source};
use airlock_core::{door::Caller, tool::CallError};
use airlock_gateway::{Gateway, command_line};
use airlock_store::Database;

/// Longest wait for sources to connect, of a command that must not wait as long as a source may take
/// to start.
pub const SETTLE: Duration = Duration::from_secs(35);
/// Time for a source to list its tools after its start.
const LISTING: Duration = Duration::from_secs(35);
/// Interval at which a command looks which sources it waits for.
const ANNOUNCED: Duration = Duration::from_secs(3);
/// Time after which a command says that components are still being loaded.
const SLOW_LOAD: Duration = Duration::from_secs(1);
/// Programs that download a server before they run it.
const RUNNERS: [&str; 9] = ["npx", "npm", "pnpm", "yarn", "bunx", "deno", "uvx", "uv", "pipx"];

/// Path of the configuration if the command line names none.
const DEFAULT: &str = "airlock.json";

/// Path of the configuration.
#[derive(Debug, Clone, clap::Args)]
pub struct ConfigFile {
    /// The configuration file.
    #[arg(short = 'c', long = "config", value_name = "FILE", default_value = DEFAULT)]
    pub path: PathBuf,
}

/// The same option before the subcommand of a group, such as in `airlock runs --config FILE list`. The
/// value becomes that of the subcommand.
#[derive(Debug, clap::Args)]
pub struct ConfigOfGroup {
    #[arg(
        id = "path",
        short = 'c',
        long = "config",
        value_name = "FILE",
        global = true,
        hide = true
    )]
    _path: Option<PathBuf>,
}

impl ConfigFile {
    /// Returns whether this is the path that a command uses by default.
    pub fn is_default(&self) -> bool {
        self.path == Path::new(DEFAULT)
    }

    /// Returns the option that names this file in a command that is shown to people, with a space
    /// before it. Empty for the default path.
    pub fn option(&self) -> String {
        if self.is_default() {
            return String::new();
        }
        format!(" --config {}", output::quoted(&self.path.display().to_string()))
    }

    /// Reads the configuration of a gateway that compiles each component in its own process.
    pub fn load(&self) -> anyhow::Result<Config> {
        let mut config = Config::load(&self.path)?;
        config.sandbox.compiling = Compiling::in_child();
        Ok(config)
    }

    /// Reads the configuration with the entries of the store, as a running gateway takes them. A gateway of it
    /// does not read them again, so that the command may leave clients out. Fails if the store is there and
    /// cannot be read.
    pub async fn load_merged(&self) -> anyhow::Result<Config> {
        let config = self.load()?;
        if config.store.is_missing_file() {
            return Ok(config);
        }
        let entries = Database::open(config.store_settings()?).await?.entries().await?;
        let mut merged = ConfigSource::new(self.path.clone()).load(&entries)?.merged;
        for left_out in &merged.left_out {
            output::hint(&format!(
                "an entry of the store has no effect: {}; `GET /api/settings` has the reason",
                output::one_line(&left_out.name, 64)
            ));
        }
        merged.config.sandbox.compiling = Compiling::in_child();
        merged.config.file = None;
        Ok(merged.config)
    }

    /// Reads the addresses of the gateway of the configuration, for a command that talks to it. The variables that the
    /// configuration names need not be set.
    pub fn gateway_address(&self) -> anyhow::Result<GatewayAddress> {
        Ok(GatewayAddress::load(&self.path)?)
    }

    /// Reads the configuration as [`Self::load`] does, for a command that shows or changes what a
    /// gateway keeps. The error of a missing file is that of [`of_kept_calls`].
    pub fn load_of_gateway(&self) -> anyhow::Result<Config> {
        of_kept_calls(self.load())
    }
}

/// Returns what a command about the calls that a gateway keeps has loaded. If there is no such file, the error says whose
/// configuration is needed: a hint that reached the user through a model does not name it.
pub fn of_kept_calls<T>(loaded: anyhow::Result<T>) -> anyhow::Result<T> {
    loaded.map_err(|error| match error.downcast_ref() {
        Some(ConfigError::Unreadable { source, .. }) if source.kind() == NotFound => error.context(
            "this command needs the configuration of the gateway that keeps the calls: the \
             file that it was started with",
        ),
        _ => error,
    })
}

/// Selects whether a command waits for the executor of scripts, which may have to be compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecutorLoad {
    /// It does: it runs a script.
    Awaited,
    /// It does not. A script of the command waits for it, as long as the script may take.
    OnDemand,
}

/// Starts a gateway, waits for the sources that the command `needs`, runs `act`, and stops the gateway
/// whatever the result. A signal ends each step; during `act` it is `act` that decides what a signal
/// does.
pub async fn with_gateway<T>(
    config: Config,
    executor: ExecutorLoad,
    needs: impl Fn(&Config, &ToolSource) -> bool,
    act: impl AsyncFnOnce(&Gateway, &mut Signals) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let known = config.clone();
    let mut signals = Signals::catch()?;
    let mut builder = Gateway::builder(config).on_compile(spinner::compiling);
    if executor == ExecutorLoad::OnDemand {
        builder = command_line::executor_on_demand(builder);
    }
    let gateway = tokio::select! {
        started = builder.start() => started?,
        () = signals.next() => return Err(interrupted()),
        never = announce_load(executor) => match never {},
    };
    let limit = longest_start(&known) + LISTING;
    let is_settled = tokio::select! {
        () = gateway.settled(limit, |client| needs(&known, client)) => true,
        () = signals.next() => false,
        never = announce(&gateway, &known, |client| needs(&known, client)) => match never {},
    };
    let result = if is_settled { act(&gateway, &mut signals).await } else { Err(interrupted()) };
    tokio::select! {
        () = gateway.stop() => {}
        () = signals.next() => {}
    }
    result
}

fn interrupted() -> anyhow::Error {
    anyhow::Error::new(CallError::cancelled()).context("interrupted before the sources had started")
}

/// Returns the longest time that a source may take to start.
fn longest_start(config: &Config) -> Duration {
    let starts = config.clients.iter().filter_map(settings);
    starts.map(|settings| settings.timeouts.startup).max().unwrap_or_default()
}

/// Prints on stderr that components are being loaded, if it is awaited for a second and stderr is no terminal, on
/// which a spinner shows each component. Never returns.
pub async fn announce_load(executor: ExecutorLoad) -> Infallible {
    tokio::time::sleep(SLOW_LOAD).await;
    if !io::stderr().is_terminal() {
        let loaded = match executor {
            ExecutorLoad::Awaited => "the plugins and the executor of scripts",
            ExecutorLoad::OnDemand => "the plugins",
        };
        eprintln!(
            "airlock: loading {loaded}; what is new on this machine is compiled once, which takes up to a minute"
        );
    }
    pending().await
}

/// Prints on stderr which sources a command waits for, once for the same sources. Never returns.
async fn announce(
    gateway: &Gateway,
    config: &Config,
    needs: impl Fn(&ToolSource) -> bool,
) -> Infallible {
    let mut announced = String::new();
    loop {
        tokio::time::sleep(ANNOUNCED).await;
        let snapshot = gateway.catalog().snapshot();
        let waiting: Vec<_> = snapshot
            .clients()
            .filter(|client| client.state == SourceState::Connecting && needs(client))
            .filter_map(|client| {
                config.clients.iter().find(|configured| configured.name == client.name)
            })
            .collect();
        let text = announcement(&waiting);
        if !waiting.is_empty() && text != announced {
            eprintln!("airlock: {text}");
            announced = text;
        }
    }
}

/// Returns the text about clients that a command waits for.
fn announcement(waiting: &[&config::Client]) -> String {
    let names = waiting.iter().map(|client| match settings(client) {
        Some(settings) => format!(
            "{} ({}, at most {})",
            client.name,
            settings.transport.connection_type(),
            humantime::format_duration(settings.timeouts.startup)
        ),
        None => client.name.to_string(),
    });
    let names: Vec<_> = names.collect();
    let runner = waiting.iter().filter_map(|client| settings(client)).find_map(|settings| {
        let program = Path::new(settings.transport.program()?).file_name()?.to_str()?;
        RUNNERS.into_iter().find(|runner| *runner == program)
    });
    let advice = runner
        .map(|runner| format!("; {runner} may have to download it first"))
        .unwrap_or_default();
    format!("waiting for {} to start{advice}", names.join(", "))
}

fn settings(client: &config::Client) -> Option<&airlock_mcp_client::Settings> {
    match &client.source {
        Source::Upstream(settings) => Some(settings),
        Source::Plugin(_) => None,
    }
}

/// Returns the names of the tools that are named `name` at their sources, without a client.
pub fn with_own_name(caller: &Caller, name: &str) -> Vec<String> {
    let entries = caller.list().filter(|entry| *entry.tool.original == *name);
    entries.map(|entry| entry.tool.name.to_string()).collect()
}

/// Returns a line for each MCP server among those that `matters` whose tools are in quarantine, or
/// whose accepted definitions cannot be read.
pub fn held_sources(
    gateway: &Gateway,
    config: &ConfigFile,
    matters: impl Fn(&ToolSource) -> bool,
) -> Vec<String> {
    let snapshot = gateway.catalog().snapshot();
    let sources = snapshot.clients().filter(|client| matters(client));
    sources.filter_map(|client| held_tools(gateway, config, client)).collect()
}

fn held_tools(gateway: &Gateway, config: &ConfigFile, client: &ToolSource) -> Option<String> {
    let pins = command_line::upstream_pins(gateway).client(client.name.as_str())?;
    let name = &client.name;
    let kind = client.kind.name();
    let held = pins.held().len();
    if let Some(problem) = pins.problem() {
        return Some(format!("{name} ({kind}): {}", output::both_ends(&problem, 1000)));
    }
    let tools_are = if held == 1 { "tool is" } else { "tools are" };
    (held > 0).then(|| {
        format!(
            "{name} ({kind}): {held} {tools_are} in quarantine; `airlock upstream diff {name}{}` shows why",
            config.option()
        )
    })
}

/// Returns a line for each source among those that `matters` that is not connected.
pub fn absent_sources(gateway: &Gateway, matters: impl Fn(&ToolSource) -> bool) -> Vec<String> {
    let snapshot = gateway.catalog().snapshot();
    let absent = snapshot
        .clients()
        .filter(|client| client.state != SourceState::Connected && matters(client));
    absent
        .map(|client| {
            let name = &client.name;
            let kind = client.kind.name();
            let state = client.state.name();
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

/// Returns a line for each disagreement of the operator's lists and the tools of a source, among those
/// that `matters`.
pub fn mismatched_sources(gateway: &Gateway, matters: impl Fn(&ToolSource) -> bool) -> Vec<String> {
    let snapshot = gateway.catalog().snapshot();
    let clients = snapshot.clients().filter(|client| matters(client));
    let mismatches = clients.flat_map(|client| {
        let name = client.name.clone();
        client.mismatches().into_iter().map(move |problem| format!("{name}: {problem}"))
    });
    mismatches.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_missing_configuration_of_a_gateway_is_an_error_that_asks_for_that_of_the_gateway() {
        let file = ConfigFile { path: "/nowhere/airlock.json".into() };
        let settings = file.load_of_gateway().map(|_| ());
        for loaded in [settings, of_kept_calls(file.gateway_address()).map(|_| ())] {
            let error = loaded.expect_err("there is no file");
            let text = error.to_string();
            assert!(text.contains("the configuration of the gateway"), "{text}");
            // The code of the error is that of any other configuration.
            assert!(error.is::<ConfigError>());
        }
    }

    #[test]
    fn an_announcement_names_the_limit_and_a_package_runner_if_there_is_one() {
        insta::assert_snapshot!(announced("server"), @"waiting for a (stdio, at most 2m), b (http, at most 30s) to start");
        insta::assert_snapshot!(announced("/usr/bin/npx"), @"waiting for a (stdio, at most 2m), b (http, at most 30s) to start; npx may have to download it first");
    }

    fn announced(command: &str) -> String {
        let stdio =
            json!({"name": "a", "connection_type": "stdio", "stdio_config": {"command": command}});
        let http = json!({"name": "b", "connection_type": "http", "connection_string": "http://127.0.0.1:9/mcp"});
        let text = json!({"mcp": {"client_configs": [stdio, http]}}).to_string();
        let config = Config::parse(&text, "test", &|_| None).expect("a configuration");
        announcement(&config.clients.iter().collect::<Vec<_>>())
    }
}
