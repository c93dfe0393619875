//! `airlock upstream login`.

use std::{
    io::{self, IsTerminal as _},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context as _, anyhow, bail};
use serde_json::json;
use tokio::process::Command;

use airlock_config::{Config, Source};
use airlock_core::tool::{CallError, ClientName};
use airlock_mcp_client::{Settings, login_server};
use airlock_mcp_oauth::{Callback, LoggedIn, LoginError, Logins, PendingLogin};
use airlock_strings::visible_line;
use airlock_terminal::{outcome::CommandOutcome, output, session::ConfigFile, signals::Signals};

/// Time for the operator to log in with the browser.
const PATIENCE: Duration = Duration::from_mins(10);

/// Log in at an MCP server with OAuth
///
/// Prints the URL of the authorization server, opens it in a browser if there is a terminal, and waits
/// up to ten minutes for the browser to come back to this machine. The tokens are stored in the
/// `store` of the configuration. If the server has asked for more rights than the last login has, this
/// login asks for them too. On a remote machine, forward the port: `ssh -L 8765:127.0.0.1:8765 HOST`,
/// with `--port 8765`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  airlock upstream login github\n  airlock upstream login github --no-browser --port 8765"
)]
pub(super) struct LoginArgs {
    /// The client's name in the configuration or its store.
    #[arg(value_name = "NAME", value_parser = ClientName::parse)]
    name: ClientName,
    #[command(flatten)]
    config: ConfigFile,
    /// Print the URL, and open no browser.
    #[arg(long)]
    no_browser: bool,
    /// Port on which the browser's return is awaited. A client that was registered by hand may need a
    /// fixed one: its redirect is `http://127.0.0.1:PORT/callback`.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// Print a JSON document: `{client, issuer, scopes, expires_at, refreshable}`. The URL is printed
    /// to standard error.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: &LoginArgs) -> anyhow::Result<CommandOutcome> {
    let config = args.config.load_merged().await?;
    let settings = settings(&config, &args.name)?;
    let mut signals = Signals::catch()?;
    let logins = Logins::new(config.store_settings()?.into());
    let logged_in = tokio::select! {
        logged_in = log_in(args, settings, &logins) => {
            logged_in.with_context(|| format!("no login at {}", args.name))?
        }
        () = signals.next() => return Err(CallError::cancelled().into()),
    };
    report(args, &logged_in)
}

async fn log_in(
    args: &LoginArgs,
    settings: &Settings,
    logins: &Logins,
) -> anyhow::Result<LoggedIn> {
    let callback = Callback::listen(args.port).await?;
    let server = login_server(settings).ok_or(LoginError::NotConfigured)?;
    let pending = PendingLogin::begin(server, logins, &callback).await?;
    show(args, &pending)?;
    let completing = tokio::time::timeout(PATIENCE, pending.complete(&callback));
    let completed = completing
        .await
        .map_err(|_| anyhow!("the browser did not come back within {PATIENCE:?}"))?;
    Ok(completed?)
}

/// Returns the settings of an MCP server.
fn settings<'c>(config: &'c Config, name: &ClientName) -> anyhow::Result<&'c Settings> {
    let client = config.clients.iter().find(|client| client.name == *name);
    match client.map(|client| &client.source) {
        Some(Source::Upstream(settings)) => Ok(settings),
        Some(Source::Plugin(_)) => bail!("{name} is a plugin, not an MCP server"),
        None => {
            bail!("neither the configuration nor its store has a client {name}, or it is disabled")
        }
    }
}

fn show(args: &LoginArgs, pending: &PendingLogin) -> anyhow::Result<()> {
    // The endpoint and the scopes were chosen by the server.
    let url = pending.url();
    let host = visible_line(&pending.host());
    let scopes = Some(pending.quoted_scopes()).filter(|scopes| !scopes.is_empty());
    let scopes = scopes.map(|scopes| format!(" with the scopes {scopes}")).unwrap_or_default();
    let text = format!(
        "open this URL in a browser to log in at {} through {host}{scopes}:\n{}",
        args.name,
        visible_line(url)
    );
    if args.json {
        eprintln!("{text}");
    } else {
        output::line(&text)?;
    }
    if !args.no_browser && io::stdout().is_terminal() && io::stdin().is_terminal() {
        open_browser(url);
    }
    Ok(())
}

/// Opens a URL that begins with `http`. Without a browser, the operator opens the printed URL.
fn open_browser(url: &str) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut command = Command::new(program);
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // The runtime reaps it.
    let _ = command.spawn();
}

fn report(args: &LoginArgs, logged_in: &LoggedIn) -> anyhow::Result<CommandOutcome> {
    let LoggedIn { issuer, scopes, expires, is_refreshable } = logged_in;
    let expires = expires.map(|at| humantime::format_rfc3339_seconds(at).to_string());
    if args.json {
        output::document(&json!({
            "client": args.name,
            "issuer": issuer,
            "scopes": scopes,
            "expires_at": expires,
            "refreshable": is_refreshable,
        }))?;
        return Ok(CommandOutcome::Success);
    }
    let issuer = issuer.iter().map(|issuer| format!(" through {}", visible_line(issuer)));
    let quoted = Some(logged_in.quoted_scopes()).filter(|scopes| !scopes.is_empty());
    let scopes = quoted.map(|scopes| format!(", with the scopes {scopes}"));
    let end = match (expires, is_refreshable) {
        (_, true) => "; the gateway renews the login".to_owned(),
        (Some(at), false) => format!("; the login expires at {at} and cannot be renewed"),
        (None, false) => String::new(),
    };
    let name = args.name.to_string();
    let parts = ["logged in at ".to_owned(), name].into_iter().chain(issuer).chain(scopes);
    output::line(&parts.chain([end]).collect::<String>())?;
    Ok(CommandOutcome::Success)
}
