//! `airlock key`: virtual keys, the credentials of callers.

mod limits;

use anyhow::ensure;
use http::Method;
use serde_json::{Map, Value, json};

use self::limits::LimitArgs;
use super::running::{ApiRequest, NamedElement, RunningGateway, segment};
use airlock_terminal::{outcome::CommandOutcome, output, session::ConfigOfGroup};

/// Path of the keys in the management API.
const PATH: &str = "/api/governance/virtual-keys";

/// Create, list, rotate and revoke virtual keys
///
/// A virtual key is the credential of a caller, and permits the tools that it names. Its value is shown once. Running
/// gateways that use the same store accept a new key, and refuse a revoked one, within a second.
///
/// These commands talk to the running gateway of the configuration through its Unix socket, or to the one at --url
/// with the token in `AIRLOCK_OPERATOR_TOKEN`. If no gateway listens on the socket, they use its store.
#[derive(Debug, clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:\n  airlock key new ann --tools github --tools files=read_file,list_directory\n  airlock key new bob --role reader --environment production --team platform\n  airlock key new ci --tools github --budget 50/1M --limit calls=100/1m\n  airlock key list\n  airlock key rotate ann --cooldown 1d\n  airlock key revoke ann"
)]
pub(super) struct KeyArgs {
    #[command(flatten)]
    _config: ConfigOfGroup,
    #[command(subcommand)]
    command: KeyCommand,
}

#[derive(Debug, clap::Subcommand)]
enum KeyCommand {
    /// Make a key, and print its value
    New(NewArgs),
    /// List the keys, without their values
    List(ListArgs),
    /// Give a key a new value, and print it
    Rotate(RotateArgs),
    /// Remove a key; its value is refused at once
    Revoke(RevokeArgs),
}

#[derive(Debug, clap::Args)]
struct NewArgs {
    #[command(flatten)]
    gateway: RunningGateway,
    /// Name of the key, which appears in the log.
    name: String,
    /// Tools that it permits: a client, with all its tools or with those named. May be given several times.
    #[arg(long, value_name = "CLIENT[=TOOL,…]")]
    tools: Vec<String>,
    /// Role whose tools it permits too. May be given several times.
    #[arg(long = "role", value_name = "NAME")]
    roles: Vec<String>,
    /// Environment that it is bound to.
    #[arg(long, value_name = "NAME")]
    environment: Option<String>,
    /// Team that it belongs to.
    #[arg(long, value_name = "NAME")]
    team: Option<String>,
    #[command(flatten)]
    limits: LimitArgs,
    /// Time from which it is refused, such as 2027-01-31T00:00:00Z.
    #[arg(long, value_name = "TIME")]
    expires_at: Option<String>,
    /// A note for people.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Print a JSON document: `{message, virtual_key}`.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct ListArgs {
    #[command(flatten)]
    gateway: RunningGateway,
    /// Print a JSON document: `{virtual_keys: [{id, name, is_active, mcp_configs, …}], count, total_count}`.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct RotateArgs {
    #[command(flatten)]
    gateway: RunningGateway,
    /// Name or identifier of the key.
    key: String,
    /// Time for which the old value stays valid, such as 90m or 7d. Default: it is refused at once.
    #[arg(long, value_name = "TIME")]
    cooldown: Option<String>,
    /// Print a JSON document: `{message, virtual_key}`.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct RevokeArgs {
    #[command(flatten)]
    gateway: RunningGateway,
    /// Name or identifier of the key.
    key: String,
    /// Print a JSON document: `{message}`.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: &KeyArgs) -> anyhow::Result<CommandOutcome> {
    match &args.command {
        KeyCommand::New(args) => new(args).await,
        KeyCommand::List(args) => list(args).await,
        KeyCommand::Rotate(args) => rotate(args).await,
        KeyCommand::Revoke(args) => revoke(args).await,
    }
}

async fn new(args: &NewArgs) -> anyhow::Result<CommandOutcome> {
    let rows: Vec<Value> = args.tools.iter().map(|text| row(text)).collect::<Result<_, _>>()?;
    let mut body = Map::from_iter([
        ("name".to_owned(), json!(args.name)),
        ("mcp_configs".to_owned(), json!(rows)),
        ("roles".to_owned(), json!(args.roles)),
    ]);
    let optional = [
        ("expires_at", &args.expires_at),
        ("description", &args.description),
        ("environment", &args.environment),
        ("team_id", &args.team),
    ];
    for (member, text) in optional {
        body.extend(text.as_ref().map(|text| (member.to_owned(), json!(text))));
    }
    body.extend(args.limits.members()?);
    let request = ApiRequest { body: Some(body.into()), ..ApiRequest::post(PATH) };
    let made = args.gateway.manage(request).await?;
    for warning in made["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        output::warning(&output::one_line(warning, usize::MAX));
    }
    if args.tools.is_empty() && args.roles.is_empty() {
        output::hint(
            "the key opens only clients with `allow_on_all_virtual_keys`; --tools CLIENT or --role NAME opens others",
        );
    }
    show_value(&made, args.json)
}

/// Returns the row of a key for `CLIENT` or `CLIENT=TOOL,…`.
fn row(text: &str) -> anyhow::Result<Value> {
    let (client, tools) = text.split_once('=').unwrap_or((text, "*"));
    let tools: Vec<&str> = tools.split(',').map(str::trim).collect();
    ensure!(
        !client.is_empty() && tools.iter().all(|tool| !tool.is_empty()),
        "--tools {text:?} is neither CLIENT nor CLIENT=TOOL,TOOL"
    );
    Ok(json!({"mcp_client_name": client, "tools_to_execute": tools}))
}

async fn list(args: &ListArgs) -> anyhow::Result<CommandOutcome> {
    let listed = args.gateway.manage_list(PATH, "virtual_keys").await?;
    let none = "there is no virtual key; `airlock key new NAME --tools CLIENT` makes one";
    output::list(&listed, args.json, "virtual_keys", none, shown)
}

fn shown(key: &Value) -> String {
    let name = output::one_line(key["name"].as_str().unwrap_or_default(), 128);
    let state = if key["is_active"] == false { ", inactive" } else { "" };
    let expires = output::optional(", until ", &key["expires_at"]);
    let rows = key["mcp_configs"].as_array().map(Vec::as_slice).unwrap_or_default();
    let clients = rows.iter().filter_map(|row| row["mcp_client_name"].as_str());
    let clients: Vec<_> = clients.map(|client| output::one_line(client, 64)).collect();
    let opens = if clients.is_empty() { "no client".to_owned() } else { clients.join(", ") };
    format!("{name}  opens {opens}{state}{expires}")
}

async fn rotate(args: &RotateArgs) -> anyhow::Result<CommandOutcome> {
    let path = format!("{PATH}/{}/rotate", segment(&args.key));
    let body = args.cooldown.as_ref().map(|time| json!({"cooldown": time}));
    let request = ApiRequest { body, ..ApiRequest::post(&path) };
    let rotated = args.gateway.manage_named(request, named(&args.key)).await?;
    show_value(&rotated, args.json)
}

/// Prints a key with its value.
fn show_value(shown: &Value, as_json: bool) -> anyhow::Result<CommandOutcome> {
    output::credential(shown, as_json, "the value is shown only now", "/virtual_key/value")
}

async fn revoke(args: &RevokeArgs) -> anyhow::Result<CommandOutcome> {
    let path = format!("{PATH}/{}", segment(&args.key));
    let request = ApiRequest { method: Method::DELETE, path: &path, body: None };
    let revoked = args.gateway.manage_named(request, named(&args.key)).await?;
    let line = format!("{} is revoked", output::one_line(&args.key, 128));
    output::response(&revoked, args.json, &line)
}

fn named(name: &str) -> NamedElement<'_> {
    NamedElement { kind: "virtual key", name, list: "airlock key list" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tools_of_a_key_are_a_client_or_some_of_its_tools() {
        let row = |text| row(text).ok();
        assert_eq!(
            row("github"),
            Some(json!({"mcp_client_name": "github", "tools_to_execute": ["*"]}))
        );
        assert_eq!(
            row("files=read, list"),
            Some(json!({"mcp_client_name": "files", "tools_to_execute": ["read", "list"]}))
        );
        for text in ["", "=read", "files=", "files=a,,b"] {
            assert_eq!(row(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_key_is_one_line() {
        let key =
            json!({"name": "ann", "is_active": false, "mcp_configs": [{"mcp_client_name": "a"}]});
        assert_eq!(shown(&key), "ann  opens a, inactive");
        assert_eq!(shown(&json!({"name": "bob"})), "bob  opens no client");
    }
}
