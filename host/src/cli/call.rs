//! `airlock call`.

use serde::Serialize;
use serde_json::{Map, Value};

use super::{input, runs::next_step};
use airlock_catalog::ToolSource;
use airlock_config::{self as config, Config};
use airlock_core::{
    door::{Caller, Origin},
    tool::{CallError, Content, HostCode, Members, Prefix, ToolOutput},
};
use airlock_gateway::Gateway;
use airlock_scripts::runs::EXECUTE;
use airlock_strings::nearest;
use airlock_terminal::{
    outcome::CommandOutcome,
    output::{self, CommandFailure},
    record::{LedgerReport, NestedCall, millis},
    session::{self, ConfigFile, ExecutorLoad},
    tool_call::{client_of, reachable, show},
};

/// Call one tool and print its result
///
/// The call counts as approved, because you make it yourself.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  airlock call --config airlock.json text-word_count '{\"text\": \"one two\"}'\n  \
                        airlock call --config airlock.json text-word_count - < arguments.json"
)]
pub(super) struct CallArgs {
    #[command(flatten)]
    config: ConfigFile,
    /// The tool's full name, as `airlock tools` lists it.
    name: String,
    /// The arguments: a JSON object, or `-` to read one from standard input.
    #[arg(value_name = "JSON", default_value = "{}")]
    arguments: String,
    /// Print a JSON document: `{name, ok, content, structured, error, duration_ms, fuel, calls}`, and
    /// `meta` and `extra` if the result has them.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct CallReport<'a> {
    name: &'a str,
    ok: bool,
    content: Vec<Content>,
    structured: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    meta: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra: Members,
    error: Option<CommandFailure>,
    duration_ms: f64,
    fuel: Option<u64>,
    calls: Vec<NestedCall>,
}

pub(super) async fn run(args: &CallArgs) -> anyhow::Result<CommandOutcome> {
    let arguments = if args.arguments == "-" { input::stdin()? } else { args.arguments.clone() };
    let config = args.config.load()?;
    session::with_gateway(
        config.clone(),
        executor_load(&args.name),
        |config, client| may_take_part(config, client, &args.name),
        async |gateway, signals| {
            let caller = gateway.caller(Origin::Caller);
            let result = tokio::select! {
                result = call(&caller, &args.name, &arguments) => result,
                () = signals.next() => Err(CallError::cancelled()),
            };
            if args.json {
                output::document(&report(&args.name, &caller, &result))?;
            } else {
                show(&result)?;
                if result.as_ref().is_err_and(|error| error.code() == HostCode::NotFound) {
                    explain(args, &config, gateway).await;
                }
            }
            let suspension = result.as_ref().err().and_then(CallError::suspension);
            if let (Some(suspension), false) = (suspension, args.json) {
                output::hint(&next_step(&args.config.option(), suspension));
            }
            Ok(if suspension.is_some() { CommandOutcome::Waiting } else { result.is_ok().into() })
        },
    )
    .await
}

/// Returns whether a call of `tool` waits for the executor of scripts.
fn executor_load(tool: &str) -> ExecutorLoad {
    if tool == EXECUTE { ExecutorLoad::Awaited } else { ExecutorLoad::OnDemand }
}

/// Returns whether a call of `tool` can reach `client`. For a name without a client or a prefix, all
/// clients without a prefix take part; for one without `-`, which may be a meta-tool, all code-mode
/// clients too.
fn may_take_part(config: &Config, client: &ToolSource, tool: &str) -> bool {
    if let Some(own) = named(config, tool) {
        return reachable(config, own.name.as_str()).contains(client.name.as_str());
    }
    let may_be_meta = client.policy.code_mode && client_of(tool).is_none();
    may_be_meta || client.policy.prefix == Prefix::Off
}

/// Returns the client whose name or prefix begins the name of a tool; `None` if there is none.
fn named<'c>(config: &'c Config, tool: &str) -> Option<&'c config::Client> {
    let prefix = client_of(tool)?;
    let mut clients = config.clients.iter();
    let named = clients.clone().find(|client| client.name.as_str() == prefix);
    named.or_else(|| {
        clients.find(|client| client.policy.prefix.for_client(&client.name).as_str() == prefix)
    })
}

async fn call(caller: &Caller, name: &str, arguments: &str) -> Result<ToolOutput, CallError> {
    caller.admit(name, arguments)?.run().await
}

fn report<'a>(
    name: &'a str,
    caller: &Caller,
    result: &Result<ToolOutput, CallError>,
) -> CallReport<'a> {
    let account = LedgerReport::read(caller.ledger());
    let output = result.as_ref().ok();
    CallReport {
        name,
        ok: result.is_ok(),
        content: output.map(|output| output.content.clone()).unwrap_or_default(),
        structured: output.and_then(|output| output.structured.clone()),
        meta: output.and_then(|output| output.meta.clone()),
        extra: output.and_then(|output| output.extra.clone()),
        error: result.as_ref().err().map(CommandFailure::from),
        duration_ms: millis(account.duration),
        fuel: account.fuel,
        calls: account.nested,
    }
}

/// Prints possible reasons that there is no such tool: tools of other clients with the name, sources that
/// could have it and are not connected or withhold tools, else that the tool is unknown or not
/// permitted.
async fn explain(args: &CallArgs, config: &Config, gateway: &Gateway) {
    if client_of(&args.name).is_none() {
        gateway.settled(session::SETTLE, |_| true).await;
        let meant = session::with_own_name(&gateway.caller(Origin::Caller), &args.name);
        if !meant.is_empty() {
            return output::hint(&format!(
                "a tool is called by its full name: {}",
                meant
                    .iter()
                    .map(|name| format!("`airlock call{} {name} …`", args.config.option()))
                    .collect::<Vec<_>>()
                    .join(" or ")
            ));
        }
    }
    let mut reasons = session::absent_sources(gateway, |client: &ToolSource| {
        may_take_part(config, client, &args.name)
    });
    reasons.extend(session::held_sources(gateway, &args.config, |client: &ToolSource| {
        may_take_part(config, client, &args.name)
    }));
    if reasons.is_empty() {
        let caller = gateway.caller(Origin::Caller);
        let near = nearest(&args.name, caller.list().map(|entry| entry.tool.name.as_str()));
        let client = named(config, &args.name).map(|client| client.name.as_str());
        reasons.push(unknown(client, near, &args.config.option()));
    }
    for reason in reasons {
        output::hint(&reason);
    }
}

/// Explains that no tool has a name. `client` is the client that the name begins with, `near` a similar name, and
/// `option` names the configuration.
fn unknown(client: Option<&str>, near: Option<&str>, option: &str) -> String {
    let meant = near.map(|near| format!("did you mean {near:?}? ")).unwrap_or_default();
    match client {
        Some(client) => format!(
            "the client {client} has no tool of this name that may be called; {meant}`airlock tools{option}` lists those that may"
        ),
        None => format!("{meant}`airlock tools{option}` lists the tools that may be called"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_unknown_name_is_explained_with_a_similar_one() {
        let shown = unknown(Some("fs"), Some("fs-read"), " --config a.json");
        insta::assert_snapshot!(shown, @r#"the client fs has no tool of this name that may be called; did you mean "fs-read"? `airlock tools --config a.json` lists those that may"#);
        insta::assert_snapshot!(unknown(None, None, ""), @"`airlock tools` lists the tools that may be called");
    }

    #[test]
    fn the_clients_that_may_have_a_tool_take_part_whatever_its_prefix() {
        let servers = [
            server("a", None, false),
            server("b", Some("files"), false),
            server("c", Some(""), false),
            server("d", None, true),
        ];
        let text = json!({"mcp": {"client_configs": servers}}).to_string();
        let config = Config::parse(&text, "test", &|_| None).expect("a configuration");
        let catalog = airlock_catalog::Catalog::new();
        for client in &config.clients {
            catalog.add_client(
                &client.name,
                airlock_catalog::SourceKind::Server("http"),
                client.policy.clone(),
            );
        }
        let snapshot = catalog.snapshot();
        let taking_part = |tool: &str| {
            let clients = snapshot.clients().filter(|client| may_take_part(&config, client, tool));
            clients.map(|client| client.name.as_str()).collect::<String>()
        };
        assert_eq!(["a-x", "b-x", "files-x", "c-x"].map(taking_part), ["a", "b", "b", "c"]);
        assert_eq!(["search", "web-search"].map(taking_part), ["cd", "c"]);
    }

    fn server(name: &str, prefix: Option<&str>, code_mode: bool) -> Value {
        json!({"name": name, "connection_type": "http", "connection_string": "http://127.0.0.1:9/mcp",
            "prefix": prefix, "is_code_mode_client": code_mode})
    }
}
