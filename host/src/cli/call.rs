//! `airlock call`.

use serde::Serialize;
use serde_json::Value;

use super::{
    Done, input,
    output::{self, Failure},
    record::{Account, NestedCall, millis},
    session::{self, ConfigFile},
};
use crate::{
    catalog::Client,
    config::{Config, Source},
    door::{Caller, Origin},
    gateway::Gateway,
    tool::{CallError, Content, ToolOutput},
};

/// Call one tool and print its result
///
/// The call counts as approved, because you make it yourself.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  airlock call --config airlock.json text-word_count '{\"text\": \"one two\"}'\n  \
                        airlock call --config airlock.json text-word_count - < arguments.json"
)]
pub(super) struct Args {
    #[command(flatten)]
    config: ConfigFile,
    /// The tool's full name, as `airlock tools` lists it.
    name: String,
    /// The arguments: a JSON object, or `-` to read one from standard input.
    #[arg(value_name = "JSON", default_value = "{}")]
    arguments: String,
    /// Print a JSON document: `{name, ok, content, structured, error, duration_ms, fuel, calls}`.
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    name: &'a str,
    ok: bool,
    content: Vec<Content>,
    structured: Option<Value>,
    error: Option<Failure>,
    duration_ms: f64,
    fuel: Option<u64>,
    calls: Vec<NestedCall>,
}

pub(super) async fn run(args: &Args) -> anyhow::Result<Done> {
    let arguments = if args.arguments == "-" { input::stdin()? } else { args.arguments.clone() };
    args.config
        .with_gateway(
            |config, client| may_take_part(config, client, &args.name),
            async |gateway, signals| {
                let caller = gateway.caller(Origin::Caller);
                let result = tokio::select! {
                    result = call(&caller, &args.name, &arguments) => result,
                    () = signals.next() => Err(CallError::Cancelled),
                };
                if args.json {
                    output::document(&report(&args.name, &caller, &result))?;
                } else {
                    show(&result, gateway)?;
                }
                Ok(result.is_ok().into())
            },
        )
        .await
}

/// Returns whether a call of `tool` can reach `client`. These are the tool's own client and the
/// clients of the tools that its plugin was granted. For a tool name without a client, a meta-tool,
/// they are all code-mode clients.
fn may_take_part(config: &Config, client: &Client, tool: &str) -> bool {
    let client_of = |tool: &str| tool.split_once('-').map(|(client, _)| client.to_owned());
    let Some(own) = client_of(tool) else { return client.policy.code_mode };
    let granted =
        config.clients.iter().filter(|other| other.name.as_str() == own).flat_map(|plugin| {
            match &plugin.source {
                Source::Plugin(plugin) => plugin.grant.tools.as_slice(),
                Source::Upstream(_) => &[],
            }
        });
    client.name.as_str() == own
        || granted.filter_map(|tool| client_of(tool)).any(|granted| granted == client.name.as_str())
}

async fn call(caller: &Caller, name: &str, arguments: &str) -> Result<ToolOutput, CallError> {
    caller.admit(name, arguments)?.run().await
}

fn report<'a>(
    name: &'a str,
    caller: &Caller,
    result: &Result<ToolOutput, CallError>,
) -> Report<'a> {
    let account = Account::of(caller.ledger());
    let output = result.as_ref().ok();
    Report {
        name,
        ok: result.is_ok(),
        content: output.map(|output| output.content.clone()).unwrap_or_default(),
        structured: output.and_then(|output| output.structured.clone()),
        error: result.as_ref().err().map(Failure::from),
        duration_ms: millis(account.duration),
        fuel: account.fuel,
        calls: account.nested,
    }
}

/// Prints a result, or a failure with the sources that are absent.
pub(super) fn show(
    result: &Result<ToolOutput, CallError>,
    gateway: &Gateway,
) -> anyhow::Result<()> {
    match result {
        Ok(answer) => output::line(&output::for_stdout(&answer.to_text())),
        Err(error) => {
            let mut failure = Failure::from(error);
            if matches!(error, CallError::NotFound { .. }) {
                failure.causes.extend(session::absent_sources(gateway));
            }
            output::complain(&failure);
            Ok(())
        }
    }
}
