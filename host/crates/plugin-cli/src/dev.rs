//! `airlock plugin dev`: builds a plugin after every change of its sources, checks it, and calls it
//! or reloads it in a running gateway.

mod build_uses;
mod call;
mod config;
mod gateway;
mod uses;
mod watch;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::error::ErrorKind;
use serde_json::{Map, Value};

use self::{build_uses::BuildUses, config::FreshBuild, watch::PluginSources};
use super::{build::Transcript, check, install::parse_setting};
use airlock_authoring::{BuildProfile, BuiltComponent, build, install::GrantOption};
use airlock_core::door::Arguments;
use airlock_terminal::{
    outcome::CommandOutcome,
    output::{self, CommandFailure},
    session::ConfigFile,
    signals::Signals,
    spinner,
};

/// Default filter of the log: failures, and everything that the plugin writes.
pub(super) const FILTER: &str =
    "warn,rmcp=off,airlock_sandbox::plugin::log=info,airlock_sandbox::plugin::wasi::stdio=debug";

/// Build and try a plugin after every change
///
/// Watches the files in a directory that a build reads: the sources, `plugin.toml`, and the files of
/// the language's package manager. After a change it builds the plugin and
/// checks it. With `--call` it then calls a tool in this process, and prints its log, progress, parts
/// and result. It also prints which requests of `plugin.toml` the calls of this build have used, and
/// the smaller tables with which they still succeed. With `--gateway` it installs the component into that
/// gateway's configuration and reloads it. A failed build leaves the last component in place. Ctrl-C
/// ends the command. A plugin in Rust is built in a short time rather than to run fast. The component
/// is written to `ID.dev.wasm`; the one to install is `ID.wasm`, which `airlock plugin build` writes.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  airlock plugin dev --call get_weather '{\"city\": \"Oslo\"}'\n  \
                  airlock plugin dev weather --gateway http://127.0.0.1:8080"
)]
pub(super) struct DevArgs {
    /// The plugin's directory.
    #[arg(default_value = ".")]
    directory: PathBuf,
    /// Call a tool with these arguments after each build; may be repeated. The tool has the name that
    /// the plugin gives it.
    #[arg(long, num_args = 2, value_names = ["NAME", "JSON"])]
    call: Vec<String>,
    /// Grant a request that needs a value: `files.NAME=PATH` (with `:rw` for writing),
    /// `secret.NAME=env:VARIABLE` or `secret.NAME=file:PATH`, `http=URL` or `http=URL:GET,POST`, and
    /// `slot.NAME=TOOL` with a tool of the plugin itself, or with the full name of a tool of a client in `--config`. For
    /// `--call`, every other request is granted. For `--gateway`, the options are those of `airlock plugin install`:
    /// every request that is to be granted is named, such as `http.api` or `kv.NAME`, and a grant holds from the first
    /// installation on, so that it need not be given again.
    #[arg(long = "grant", value_name = "WHAT")]
    grants: Vec<GrantOption>,
    /// Set a value of the plugin's own configuration for `--call`; text, or JSON.
    #[arg(long = "set", value_name = "KEY=VALUE", requires = "call")]
    set: Vec<String>,
    /// Reload the plugin in the gateway at this URL.
    #[arg(long, value_name = "URL")]
    gateway: Option<url::Url>,
    #[command(flatten)]
    config: ConfigFile,
}

pub(super) async fn run(args: &DevArgs) -> anyhow::Result<CommandOutcome> {
    check_calls(&args.call)?;
    let mut signals = Signals::catch()?;
    let settings = args.set.iter().map(|setting| parse_setting(setting));
    let settings: Map<_, _> =
        settings.collect::<Result<_, String>>().map_err(anyhow::Error::msg)?;
    // Stores of the plugin live as long as the command.
    let state = tempfile::tempdir().context("no temporary directory can be created")?;
    let mut sources = PluginSources::read(&args.directory)?;
    // A grant is the operator's consent to what the plugin requests now, and not to what a later
    // change of plugin.toml requests under the same name.
    let mut grants = &args.grants[..];
    let mut calls = BuildUses::default();
    loop {
        tokio::select! {
            installed = round(args, &settings, grants, state.path(), &mut calls) => {
                if installed {
                    grants = &[];
                }
            }
            () = signals.next() => return Ok(CommandOutcome::Success),
        }
        output::hint(&format!("waiting for a change in {}", args.directory.display()));
        tokio::select! {
            () = sources.changed() => {}
            () = signals.next() => return Ok(CommandOutcome::Success),
        }
    }
}

/// Builds once and tries the outcome. A failure is printed, because the next change may fix it.
/// Returns whether it succeeded.
async fn round(
    args: &DevArgs,
    settings: &Map<String, Value>,
    grants: &[GrantOption],
    state: &Path,
    calls: &mut BuildUses,
) -> bool {
    let done = attempt(args, settings, grants, state, calls).await;
    done.inspect_err(|error| output::complain(&CommandFailure::from(error))).is_ok()
}

async fn attempt(
    args: &DevArgs,
    settings: &Map<String, Value>,
    grants: &[GrantOption],
    state: &Path,
    calls: &mut BuildUses,
) -> anyhow::Result<()> {
    let mut transcript = Transcript::new(false);
    let profile = BuildProfile::Development;
    let finished =
        build(&args.directory, None, profile, &mut transcript, &spinner::compiling).await?;
    let BuiltComponent { file, .. } = &finished;
    output::line(&format!("built {}", file.display()))?;
    for line in check::faults(file).await? {
        output::line(&line)?;
    }
    if let Some(url) = &args.gateway {
        gateway::reload(url, file, &args.config, grants).await?;
    }
    if args.call.is_empty() {
        return Ok(());
    }
    let metadata = &finished.metadata;
    calls.load(&metadata.digest);
    let grants = &args.grants;
    let build =
        FreshBuild { component: file, metadata, grants, settings, state, file: &args.config };
    call::run(&build, &args.call, calls).await?;
    for line in uses::report(&build, calls) {
        output::line(&output::for_stdout(&line))?;
    }
    Ok(())
}

/// Fails if the arguments of a call cannot be those of a tool. They stay the same after every build.
fn check_calls(calls: &[String]) -> Result<(), clap::Error> {
    for call in calls.chunks_exact(2) {
        Arguments::parse(&call[0], &call[1]).map_err(|error| {
            clap::Error::raw(ErrorKind::ValueValidation, format!("--call: {error}\n"))
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_whose_arguments_are_no_json_object_is_invalid_usage() {
        assert!(checked("{\"city\": \"Oslo\"}").is_ok() && checked("").is_ok());
        for bad in ["{\"city\": Oslo}", "[1]", "{\"a\": 1, \"a\": 2}"] {
            let error = checked(bad).expect_err("refused");
            let text = error.to_string();
            assert!(
                error.exit_code() == 2
                    && text.contains("--call: the arguments of tool 'get_weather'"),
                "{text}"
            );
        }
    }

    fn checked(arguments: &str) -> Result<(), clap::Error> {
        check_calls(&["first", "{}", "get_weather", arguments].map(str::to_owned))
    }
}
