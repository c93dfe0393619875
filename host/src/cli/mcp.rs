//! `airlock mcp`.

use std::{
    io::{self, BufReader},
    pin::pin,
    time::Duration,
};

use anyhow::{Context as _, bail};
use http::{HeaderMap, HeaderName, HeaderValue};
use reqwest::Url;
use tokio_util::sync::CancellationToken;

use super::credential::{KEY_VARIABLE, authorization};
use crate::telemetry::Export;
use airlock_config::Config;
use airlock_core::{door::Filter, tool::ClientName};
use airlock_gateway::{Gateway, command_line};
use airlock_mcp_bridge::{BridgeSettings, run_bridge};
use airlock_mcp_server::{
    ConnectionRequests, ConnectionSettings, McpService, Selection, ToolboxScope, serve_connection,
};
use airlock_terminal::{
    connection::{self, GatewayTrust},
    outcome::CommandOutcome,
    session::ConfigFile,
    signals::Signals,
    spinner,
};
use airlock_wire::lines::{read_lines, write_lines};

/// Time for the last messages to be written.
const FLUSH: Duration = Duration::from_secs(1);
/// Longest message to a running gateway, in bytes. The gateway has a limit of its own.
const BRIDGE_LINE_BYTES: usize = 64 << 20;
/// Time for requests to a running gateway to complete after the end of the input.
const BRIDGE_DRAIN: Duration = Duration::from_secs(30);

/// Serve one MCP client on standard input and output
///
/// For desktop and editor agents, which start their MCP servers themselves. Only messages of the
/// protocol are written to standard output; logs go to standard error. The command ends when its
/// input ends. With --connect it starts no gateway, but forwards the messages to a running one,
/// with the virtual key in the environment variable `AIRLOCK_KEY`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  airlock mcp --config /etc/airlock.json\n  \
                  airlock mcp --client github\n  \
                  AIRLOCK_KEY=sk-bf-... airlock mcp --connect https://airlock.example.com/mcp\n\n\
                  In the configuration of a desktop agent:\n  \
                  {\"mcpServers\": {\"airlock\": {\"command\": \"airlock\", \"args\": [\"mcp\", \"--config\", \"/etc/airlock.json\"]}}}")]
pub(super) struct McpArgs {
    #[command(flatten)]
    config: ConfigFile,
    /// Serve the tools of this client of the configuration only, under their own names.
    #[arg(long, value_name = "NAME")]
    client: Option<String>,
    /// Connect to the endpoint of a running gateway, such as `http://127.0.0.1:8080/mcp`.
    #[arg(long, value_name = "URL", conflicts_with_all = ["client", "path"])]
    connect: Option<Url>,
    /// Add a header to every request to that gateway. May be repeated.
    #[arg(long = "header", value_name = "NAME: VALUE", requires = "connect", value_parser = header)]
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// Parses a header.
fn header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    const EXPECTED: &str = "expected NAME: VALUE, such as x-bf-mcp-include-clients: github";
    let (name, value) = text.split_once(':').ok_or(EXPECTED)?;
    let name = HeaderName::try_from(name.trim()).map_err(|_| EXPECTED)?;
    let mut value = HeaderValue::try_from(value.trim()).map_err(|_| EXPECTED)?;
    // It may be a credential.
    value.set_sensitive(true);
    Ok((name, value))
}

pub(super) async fn run(args: &McpArgs) -> anyhow::Result<CommandOutcome> {
    match &args.connect {
        Some(url) => Box::pin(connect(args, url)).await,
        None => Box::pin(export_and_serve(args)).await,
    }
}

/// Forwards messages to a running gateway.
async fn connect(args: &McpArgs, url: &Url) -> anyhow::Result<CommandOutcome> {
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        bail!("found --connect {url}; expected an http or https URL");
    }
    let mut headers: HeaderMap = args.headers.iter().cloned().collect();
    if let Some(value) = authorization(url)? {
        if headers.contains_key(http::header::AUTHORIZATION) {
            bail!("give {KEY_VARIABLE} or --header \"Authorization: …\", not both");
        }
        headers.insert(http::header::AUTHORIZATION, value);
    }
    let mut signals = Signals::catch()?;
    let http = connection::http(url, GatewayTrust::Authorities)?;
    let http = http.redirect(reqwest::redirect::Policy::none()).build()?;
    let stop = CancellationToken::new();
    let settings = BridgeSettings {
        http,
        url: url.clone(),
        headers,
        limit_bytes: BRIDGE_LINE_BYTES,
        drain_timeout: BRIDGE_DRAIN,
        stop: stop.clone(),
    };
    let lines = read_lines(BufReader::new(io::stdin()), BRIDGE_LINE_BYTES);
    let (output, written) = write_lines(io::stdout());
    {
        let mut carrying = pin!(run_bridge(settings, lines, output));
        loop {
            tokio::select! {
                () = &mut carrying => break,
                () = signals.next() => stop.cancel(),
            }
        }
    }
    let _ = tokio::time::timeout(FLUSH, written).await;
    Ok(CommandOutcome::Success)
}

/// Serves a gateway of its own, and exports what it does.
async fn export_and_serve(args: &McpArgs) -> anyhow::Result<CommandOutcome> {
    let config = args.config.load()?;
    let mut export = Export::start(&config.telemetry)?;
    let served = serve(args, config, &mut export).await;
    export.end(served.is_ok()).await;
    served
}

async fn serve(
    args: &McpArgs,
    config: Config,
    export: &mut Export,
) -> anyhow::Result<CommandOutcome> {
    let scope = match &args.client {
        None => ToolboxScope::All,
        Some(name) => {
            let known: Vec<_> = config.clients.iter().map(|client| client.name.as_str()).collect();
            let Some(client) = config.clients.iter().find(|client| client.name.as_str() == name)
            else {
                bail!("found --client {name:?}; the configuration has {}", known.join(", "));
            };
            ToolboxScope::Client(ClientName::clone(&client.name))
        }
    };
    let mut signals = Signals::catch()?;
    let lines = read_lines(BufReader::new(io::stdin()), config.server.max_body_bytes);
    let (output, written) = write_lines(io::stdout());
    let settings = config.server.clone();
    let startup_wait = settings.startup_wait;
    let budget = config.budget;
    let gateway = Gateway::builder(config)
        .on_compile(spinner::compiling)
        .open()
        .context("the gateway cannot start")?;
    export.add_metrics(&gateway);
    gateway.watch_plugins();
    let approvals = Some(command_line::approvals(&gateway));
    let service = McpService::new(gateway.catalog().clone(), budget, settings.mcp, approvals);
    let ready = CancellationToken::new();
    let stop = CancellationToken::new();
    let connection = ConnectionSettings {
        selection: Selection { key: None, filter: Filter::of_operator(), scope },
        limit_bytes: settings.max_body_bytes,
        drain_timeout: settings.drain_timeout,
        ready: ready.clone(),
        stop: stop.clone(),
        requests: ConnectionRequests::default(),
    };
    {
        let mut serving = pin!(serve_connection(service, connection, lines, output));
        let mut settling = pin!(gateway.settled(startup_wait, |_| true));
        loop {
            tokio::select! {
                () = &mut serving => break,
                () = &mut settling, if !ready.is_cancelled() => ready.cancel(),
                () = signals.next() => stop.cancel(),
            }
        }
    }
    let _ = tokio::time::timeout(FLUSH, written).await;
    gateway.stop().await;
    Ok(CommandOutcome::Success)
}
