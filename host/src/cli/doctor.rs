//! `airlock doctor`: finds what is wrong with the machine, the configuration, the store, the certificates and the servers
//! of a gateway. Nothing is changed, and no MCP server that is a process is started.
//!
//! | module | purpose |
//! |---|---|
//! | `finding` | the result of a check |
//! | `checkup` | runs all checks at the same time, each for a limited time |
//! | `configuration` | the file, the files that it names, the lock file |
//! | `modes` | who may read and change the gateway's files |
//! | `resources` | disk, memory, open files |
//! | `machine` | kernel, processor, cache of compiled code, clock, proxies |
//! | `store` | the database and its key |
//! | `audit` | the key of the audit log, and its checkpoints |
//! | `certificates` | validity, names and chain of certificates |
//! | `listener` | the address, and a gateway that runs |
//! | `servers`, `providers` | MCP servers and providers of models |
//!
//! Each rule is that of the crate to which it belongs: a check asks and reports.

mod audit;
mod certificates;
mod checkup;
mod configuration;
mod finding;
mod listener;
mod machine;
mod modes;
mod providers;
mod resources;
mod servers;
mod store;

use std::sync::Arc;

use serde_json::json;

use self::{
    checkup::Check,
    finding::{DoctorFinding, Status},
};
use airlock_config::Config;
use airlock_terminal::{outcome::CommandOutcome, output, session::ConfigFile};

/// Longest part of a finding that is shown to people, in characters.
const WIDTH: usize = 1_000;

/// Find faults of the machine, the configuration, the store and the servers
///
/// Checks the configuration and the files that it names, the lock file, the modes of secrets, disk, memory, open files,
/// kernel and processor, the store, the audit log, certificates, the address of the gateway, MCP servers and providers.
/// The command changes nothing. It connects to MCP servers over HTTP, and starts none that are processes. It sends no keys
/// to providers, and never shows secrets. Each check has 5 seconds, and all run at the same time.
///
/// The exit code is 1 if there is an error, else 0. A warning is not an error. Servers and other elements that
/// operators keep in the store are not checked; a running gateway shows their state.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  airlock doctor --config airlock.json\n  airlock doctor --offline --json"
)]
pub(super) struct DoctorArgs {
    #[command(flatten)]
    config: ConfigFile,
    /// Leave out checks that need the network: MCP servers over HTTP, providers, and a store on a server.
    #[arg(long)]
    offline: bool,
    /// Print a JSON document: `{ok, file, findings: [{code, subject, status, found, valid, fix}]}`, where `status` is
    /// `ok`, `warning` or `error`.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: &DoctorArgs) -> anyhow::Result<CommandOutcome> {
    let (config, mut findings) = configuration::read(&args.config).await;
    findings.extend(checkup::run(checks(config, args)).await);
    let is_good = findings.iter().all(|finding| finding.status != Status::Error);
    if args.json {
        let file = args.config.path.display().to_string();
        let document = json!({"ok": is_good, "file": file, "findings": findings});
        output::document(&document)?;
    } else {
        for line in findings.iter().flat_map(lines) {
            output::line(&line)?;
        }
        output::line(&summary(&findings))?;
    }
    Ok(is_good.into())
}

/// Returns all checks; without a configuration, those of the machine.
fn checks(config: Option<Config>, args: &DoctorArgs) -> Vec<Check> {
    let config = config.map(Arc::new);
    let mut checks = machine::checks(config.as_ref());
    let Some(config) = &config else { return checks };
    checks.extend(configuration::checks(config, &args.config));
    checks.push(modes::check(config, &args.config));
    checks.extend(resources::checks(config));
    checks.push(store::check(config, &args.config, args.offline));
    checks.extend(audit::checks(config));
    checks.extend(certificates::checks(config));
    checks.push(listener::check(config));
    checks.extend(servers::checks(config, args.offline));
    checks.extend(providers::checks(config, args.offline));
    checks
}

/// Returns the lines of a finding for people.
fn lines(finding: &DoctorFinding) -> Vec<String> {
    let DoctorFinding { code, status, subject, found, valid, fix } = finding;
    let [subject, found] = [subject, found].map(|text| output::one_line(text, WIDTH));
    let name = status.name();
    let mut lines = vec![format!("{name:<8} {code:<18} {subject}: {found}")];
    let more = [("valid", valid), ("fix", fix)];
    let more = more.iter().filter_map(|(label, text)| Some((label, text.as_deref()?)));
    lines.extend(
        more.map(|(label, text)| format!("{:<8} {label}: {}", "", output::one_line(text, WIDTH))),
    );
    lines
}

fn summary(findings: &[DoctorFinding]) -> String {
    let [errors, warnings] = [Status::Error, Status::Warning].map(|status| {
        let count = findings.iter().filter(|finding| finding.status == status).count();
        let end = if count == 1 { "" } else { "s" };
        format!("{count} {}{end}", status.name())
    });
    format!("{errors}, {warnings}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_shown_with_what_would_be_valid_and_the_fix_and_no_hidden_characters() {
        let finding = DoctorFinding::error("server", "git\u{1b}[2Jhub", "it does not\nrespond")
            .valid("a server that responds")
            .fix("`connection_string`");
        insta::assert_snapshot!(lines(&finding).join("\n"), @r"
        error    server             git⟨U+001B⟩[2Jhub: it does not respond
                 valid: a server that responds
                 fix: `connection_string`
        ");
        let good = DoctorFinding::ok("server", "a", "it responds");
        assert_eq!(summary(&[finding, good]), "1 error, 0 warnings");
    }
}
