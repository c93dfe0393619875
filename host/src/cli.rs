//! The command line: flags → configuration → telemetry → gateway. One file a command.
//!
//! Results go to standard output, everything else to standard error. With `--json` a command prints
//! one JSON document, whether it succeeds or not.

mod approvals;
mod audit;
mod call;
mod check;
mod client;
mod compile;
mod credential;
mod demo;
mod diff;
mod doctor;
mod health;
mod import;
mod inherited;
mod input;
mod key;
mod manager;
mod mcp;
mod operator;
mod plan;
mod precompile;
mod purge;
mod replay;
mod run;
mod running;
mod runs;
mod schema;
mod serve;
mod store;
mod tips;
mod tools;
mod top;
mod upstream;

use std::{ffi::OsString, process::ExitCode, time::Duration};

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::telemetry::{self, LogFormat};
use airlock_compile::COMPILE_COMMAND;
use airlock_config::environment;
use airlock_plugin_cli as plugin;
use airlock_terminal::{outcome::CommandOutcome, output};

/// Longest time at the end for operations that cannot be stopped. One on the store takes less.
const LAST_BLOCKING: Duration = Duration::from_secs(10);

/// Everything that can be said on the command line.
#[derive(Parser)]
#[command(
    name = "airlock",
    version,
    about = "A hardened gateway between language models and tools",
    long_about = "A hardened gateway between language models and tools.\n\nAirlock gathers the tools of MCP servers and of \
                  sandboxed plugins under one policy and offers them to models and scripts.",
    after_help = "Start with `airlock demo`, or write a configuration and try `airlock check --config airlock.json`.\n\
                  The environment variable AIRLOCK_LOG sets what is logged to standard error, for example \
                  AIRLOCK_LOG=airlock=debug.",
    arg_required_else_help = true
)]
struct Cli {
    /// Format of the log lines on standard error.
    #[arg(long, global = true, value_enum, default_value_t, value_name = "FORMAT")]
    log_format: LogFormat,
    #[command(subcommand)]
    command: AirlockCommand,
}

#[derive(Subcommand)]
enum AirlockCommand {
    Serve(serve::ServeArgs),
    Mcp(mcp::McpArgs),
    Demo(demo::DemoArgs),
    /// The MCP server that the demo starts.
    #[command(hide = true)]
    DemoMcpServer,
    /// The compiler that the gateway starts for a component.
    #[command(name = COMPILE_COMMAND, hide = true)]
    CompileComponent(compile::CompileArgs),
    Tools(tools::ToolsArgs),
    Call(call::CallArgs),
    Run(run::RunArgs),
    Plan(plan::PlanArgs),
    Runs(runs::RunsArgs),
    Approvals(approvals::ApprovalsArgs),
    Audit(audit::AuditArgs),
    Replay(replay::ReplayArgs),
    Check(check::CheckArgs),
    Doctor(doctor::DoctorArgs),
    Health(health::HealthArgs),
    Top(top::TopArgs),
    Diff(diff::DiffArgs),
    Import(import::ImportArgs),
    Plugin(plugin::PluginArgs),
    Precompile(precompile::PrecompileArgs),
    Store(store::StoreArgs),
    Upstream(upstream::UpstreamArgs),
    Client(client::ClientArgs),
    Key(key::KeyArgs),
    Operator(operator::OperatorArgs),
    Schema(schema::SchemaArgs),
}

/// Runs the command that the arguments name. The exit code is 0 on success, 2 for invalid
/// arguments, 3 if a run waits for a decision about its calls, else 1.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let (cli, as_json) = match parse(arguments) {
        Ok(parsed) => parsed,
        Err(usage) => return misused(&usage),
    };
    match run(cli) {
        Ok(done) => done.into(),
        // The reader has all that it wanted, as in `airlock runs list | head -1`.
        Err(error) if error.is::<output::StdoutClosed>() => ExitCode::FAILURE,
        // Of arguments that only the command can check.
        Err(error) if error.is::<clap::Error>() => {
            error.downcast_ref().map_or(ExitCode::FAILURE, misused)
        }
        Err(error) => {
            output::failure(&error, as_json);
            ExitCode::FAILURE
        }
    }
}

/// Parses the command line. Returns whether it asks for JSON too.
fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<(Cli, bool), clap::Error> {
    let arguments: Vec<_> = arguments.into_iter().collect();
    let parsed = Cli::command().try_get_matches_from(&arguments);
    let matches = parsed.map_err(|error| tips::with_tip(error, &arguments))?;
    let cli = Cli::from_arg_matches(&matches)?;
    let mut command = &matches;
    while let Some((_, subcommand)) = command.subcommand() {
        command = subcommand;
    }
    // A command without the option has no such match.
    let as_json = command.try_get_one("json").ok().flatten().copied().unwrap_or(false);
    Ok((cli, as_json))
}

/// Prints a problem with the arguments, or the text of `--help`. Returns the exit code.
fn misused(usage: &clap::Error) -> ExitCode {
    // A failure to print is ignored: no other stream is left to report it on.
    let _ = usage.print();
    u8::try_from(usage.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
}

fn run(cli: Cli) -> anyhow::Result<CommandOutcome> {
    // Before any thread is started: the command limits the resources of the whole process.
    if let AirlockCommand::CompileComponent(args) = &cli.command {
        return Ok(compile::run(args));
    }
    if !matches!(cli.command, AirlockCommand::DemoMcpServer) {
        // Children of the gateway run as its user, and its environment has the keys of providers.
        airlock_process::protect_self();
    }
    raise_descriptor_limit();
    let log = telemetry::init(
        cli.log_format,
        environment(telemetry::FILTER_VARIABLE).as_deref(),
        cli.command.log_filter(),
    )?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let done = runtime.block_on(cli.command.run());
    // Otherwise a thread that reads a file system which does not respond would keep the process for ever.
    runtime.shutdown_timeout(LAST_BLOCKING);
    log.flush();
    done
}

/// Raises the soft limit of open descriptors to the hard limit. Connections, child processes and
/// the files of guests take a descriptor each, and the default soft limit of most systems dates
/// from the days of `select`. If the limit cannot be raised it stays as it is.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

impl AirlockCommand {
    async fn run(self) -> anyhow::Result<CommandOutcome> {
        match self {
            Self::Serve(args) => serve::run(&args).await,
            Self::Mcp(args) => mcp::run(&args).await,
            Self::Demo(args) => demo::run(&args).await,
            Self::DemoMcpServer => demo::mcp_server().await,
            Self::CompileComponent(args) => Ok(compile::run(&args)),
            Self::Tools(args) => tools::run(&args).await,
            Self::Call(args) => Box::pin(call::run(&args)).await,
            Self::Run(args) => run::run(&args).await,
            Self::Plan(args) => Box::pin(plan::run(&args)).await,
            Self::Runs(args) => Box::pin(runs::run(&args)).await,
            Self::Approvals(args) => approvals::run(&args).await,
            Self::Audit(args) => audit::run(&args),
            Self::Replay(args) => Box::pin(replay::run(&args)).await,
            Self::Diff(args) => diff::run(&args).await,
            Self::Check(args) => check::run(&args).await,
            Self::Doctor(args) => Box::pin(doctor::run(&args)).await,
            Self::Health(args) => health::run(&args).await,
            Self::Top(args) => Box::pin(top::run(&args)).await,
            Self::Import(args) => import::run(&args),
            Self::Plugin(args) => plugin::run(&args).await,
            Self::Precompile(args) => precompile::run(&args).await,
            Self::Store(args) => store::run(&args).await,
            Self::Upstream(args) => upstream::run(&args).await,
            Self::Client(args) => client::run(&args).await,
            Self::Key(args) => key::run(&args).await,
            Self::Operator(args) => operator::run(&args).await,
            Self::Schema(args) => schema::run(&args),
        }
    }

    /// Log filter that applies unless the operator sets one.
    fn log_filter(&self) -> &'static str {
        match self {
            Self::Serve(_) | Self::Mcp(_) => telemetry::SERVICE_FILTER,
            Self::Demo(_) | Self::DemoMcpServer => telemetry::DEMO_FILTER,
            Self::Plugin(args) => args.log_filter().unwrap_or(telemetry::COMMAND_FILTER),
            Self::Tools(_) => tools::FILTER,
            _ => telemetry::COMMAND_FILTER,
        }
    }
}

#[cfg(test)]
mod tests;
