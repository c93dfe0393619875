//! `airlock client`: the clients of a gateway, which are its MCP servers and plugins.

use std::path::Path;

use anyhow::{Context as _, ensure};
use http::Method;
use serde_json::{Map, Value, json};

use super::{
    input,
    running::{ApiRequest, NamedElement, RunningGateway, segment},
};
use airlock_terminal::{outcome::CommandOutcome, output, session::ConfigOfGroup};

/// Path of one client in the management API, with a slash and its name after it.
const PATH: &str = "/api/mcp/client";

/// Add, enable, disable and remove MCP servers of a gateway while it runs
///
/// A client that is added here is kept in the store beside those of the configuration file. Running gateways that
/// use the same store connect to it within a second. `airlock upstream list` shows the servers with their states.
///
/// These commands talk to the running gateway of the configuration through its Unix socket, or to the one at --url
/// with the token in `AIRLOCK_OPERATOR_TOKEN`. If no gateway listens on the socket, they use its store.
#[derive(Debug, clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:\n  airlock client add time --tools '*' -- uvx mcp-server-time\n  airlock client add docs --tools search --http https://example.com/mcp\n  airlock client add --file client.json\n  airlock client disable time\n  airlock client remove time"
)]
pub(super) struct ClientArgs {
    #[command(flatten)]
    _config: ConfigOfGroup,
    #[command(subcommand)]
    command: ClientCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ClientCommand {
    /// Add a client; if a gateway listens, wait until it is connected or needs a login
    Add(AddArgs),
    /// Connect a client that is disabled
    Enable(OneArgs),
    /// Disconnect a client and keep its settings
    Disable(OneArgs),
    /// Remove a client, also one of the configuration file
    Remove(OneArgs),
}

#[derive(Debug, clap::Args)]
struct AddArgs {
    #[command(flatten)]
    gateway: RunningGateway,
    /// Name of the client, the prefix of its tools.
    #[arg(required_unless_present = "file")]
    name: Option<String>,
    /// Tools that may be called, by the server's own names, separated by commas; `*` for all. Default: none.
    #[arg(long, value_name = "TOOLS", value_delimiter = ',')]
    tools: Vec<String>,
    /// URL of the server, for streamable HTTP.
    #[arg(long, value_name = "URL", conflicts_with = "command")]
    http: Option<String>,
    /// A file with the client as an element of `mcp.client_configs`; `-` for standard input.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["name", "tools", "http", "command"])]
    file: Option<String>,
    /// Program of the server and its arguments, for stdio.
    #[arg(last = true, value_name = "PROGRAM")]
    command: Vec<String>,
    /// Print a JSON document: `{status, message}`.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct OneArgs {
    #[command(flatten)]
    gateway: RunningGateway,
    /// Name of the client.
    name: String,
    /// Print a JSON document: `{status, message}`.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: &ClientArgs) -> anyhow::Result<CommandOutcome> {
    match &args.command {
        ClientCommand::Add(args) => add(args).await,
        ClientCommand::Enable(args) => set_disabled(args, false).await,
        ClientCommand::Disable(args) => set_disabled(args, true).await,
        ClientCommand::Remove(args) => remove(args).await,
    }
}

async fn add(args: &AddArgs) -> anyhow::Result<CommandOutcome> {
    let element = match &args.file {
        Some(file) => {
            let text = input::file(Path::new(file))?;
            serde_json::from_str(&text).with_context(|| format!("{file} is not JSON"))?
        }
        None => element(args)?,
    };
    let name = element["name"].as_str().unwrap_or_default().to_owned();
    let is_closed = permits_none(&element);
    let request = ApiRequest { body: Some(element), ..ApiRequest::post(PATH) };
    let added = args.gateway.manage(request).await?;
    let line = format!("{} is added", output::one_line(&name, 64));
    if added["status"] == "pending_oauth" && !args.json {
        output::hint(&output::one_line(added["message"].as_str().unwrap_or_default(), usize::MAX));
    }
    if is_closed {
        output::hint(
            "none of its tools can be called; remove it, and add it with --tools NAME or --tools '*'",
        );
    }
    output::response(&added, args.json, &line)
}

/// Returns whether a client permits no tool.
fn permits_none(element: &Value) -> bool {
    element["tools_to_execute"].as_array().is_none_or(Vec::is_empty)
}

/// Returns the element of the options.
fn element(args: &AddArgs) -> anyhow::Result<Value> {
    ensure!(
        args.http.is_some() || !args.command.is_empty(),
        "name the server: --http URL, or `-- PROGRAM ARGUMENTS`"
    );
    let mut element = Map::from_iter([
        ("name".to_owned(), json!(args.name)),
        ("tools_to_execute".to_owned(), json!(args.tools)),
    ]);
    match (&args.http, args.command.split_first()) {
        (Some(url), _) => element.extend([
            ("connection_type".to_owned(), json!("http")),
            ("connection_string".to_owned(), json!(url)),
        ]),
        (None, Some((program, arguments))) => element.extend([
            ("connection_type".to_owned(), json!("stdio")),
            ("stdio_config".to_owned(), json!({"command": program, "args": arguments})),
        ]),
        (None, None) => {}
    }
    Ok(element.into())
}

async fn set_disabled(args: &OneArgs, is_disabled: bool) -> anyhow::Result<CommandOutcome> {
    let path = format!("{PATH}/{}", segment(&args.name));
    let body = Some(json!({"disabled": is_disabled}));
    let request = ApiRequest { method: Method::PUT, path: &path, body };
    let changed = args.gateway.manage_named(request, named(&args.name)).await?;
    let state = if is_disabled { "disabled" } else { "enabled" };
    output::response(
        &changed,
        args.json,
        &format!("{} is {state}", output::one_line(&args.name, 64)),
    )
}

async fn remove(args: &OneArgs) -> anyhow::Result<CommandOutcome> {
    let path = format!("{PATH}/{}", segment(&args.name));
    let request = ApiRequest { method: Method::DELETE, path: &path, body: None };
    let removed = args.gateway.manage_named(request, named(&args.name)).await?;
    output::response(
        &removed,
        args.json,
        &format!("{} is removed", output::one_line(&args.name, 64)),
    )
}

fn named(name: &str) -> NamedElement<'_> {
    NamedElement { kind: "client", name, list: "airlock upstream list" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_without_tools_that_may_be_called_permits_none() {
        for (element, expected) in [
            (json!({"tools_to_execute": ["*"]}), false),
            (json!({"tools_to_execute": []}), true),
            (json!({}), true),
        ] {
            assert_eq!(permits_none(&element), expected, "{element}");
        }
    }
}
