//! `airlock approvals`: shows the calls that wait for an approval, and decides about them.

use std::time::{Duration, UNIX_EPOCH};

use anyhow::Context as _;
use serde_json::json;

use super::{
    outcome::Done,
    output::{self, Coded},
    session::{ConfigFile, ConfigOfGroup},
};
use airlock_agent::approvals::{LISTED, arguments_of, document, tool_of};
use airlock_core::tool::argument_lines;
use airlock_store::{
    Database,
    approvals::{Approvals, WaitingCall},
};
use airlock_strings::visible_line;

/// Show the calls that wait for an approval, and approve or deny them
///
/// A call of an MCP client waits here if its tool needs an approval and the client cannot ask its
/// user. So does such a call of a model, if the approval of its request is `wait`. The calls of all
/// callers are shown. An approval is valid for one call, with exactly these arguments: the one that
/// waits, or the same one when the client repeats it within an hour.
///
/// The calls of scripts are in `airlock runs`.
#[derive(Debug, clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:\n  airlock approvals list\n  airlock approvals approve call_0190…\n  airlock approvals deny call_0190…"
)]
pub(super) struct ApprovalsArgs {
    #[command(flatten)]
    _config: ConfigOfGroup,
    #[command(subcommand)]
    command: ApprovalsCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ApprovalsCommand {
    /// List the calls that wait, and approvals that no call has used yet
    List(ApprovalListArgs),
    /// Approve a call
    Approve(OneApprovalArgs),
    /// Deny a call
    Deny(OneApprovalArgs),
}

#[derive(Debug, clap::Args)]
struct ApprovalListArgs {
    #[command(flatten)]
    config: ConfigFile,
    /// Print a JSON document: `{ok, approvals: [{id, state, tool, arguments, key, client}]}`.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct OneApprovalArgs {
    #[command(flatten)]
    config: ConfigFile,
    /// The call: its identifier, or a prefix that no other call has.
    call: String,
    /// Print a JSON document: the call.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: &ApprovalsArgs) -> anyhow::Result<Done> {
    match &args.command {
        ApprovalsCommand::List(args) => list(args).await,
        ApprovalsCommand::Approve(args) => decide(args, true).await,
        ApprovalsCommand::Deny(args) => decide(args, false).await,
    }
}

/// Returns the calls of all callers that the gateway of a configuration keeps.
async fn kept(config: &ConfigFile) -> anyhow::Result<Approvals> {
    let config = config.load_of_gateway()?;
    Ok(Database::open(config.store_settings()?).await?.all_approvals())
}

async fn list(args: &ApprovalListArgs) -> anyhow::Result<Done> {
    let calls = kept(&args.config).await?.list(LISTED).await?;
    if args.json {
        let calls: Vec<_> = calls.iter().map(document).collect();
        output::visible_document(&json!({"ok": true, "approvals": calls}))?;
        return Ok(Done::Yes);
    }
    if calls.is_empty() {
        output::hint("no call waits for an approval");
    }
    for call in &calls {
        output::line(&output::for_stdout(&shown(call)))?;
    }
    Ok(Done::Yes)
}

async fn decide(args: &OneApprovalArgs, approves: bool) -> anyhow::Result<Done> {
    let kept = kept(&args.config).await?;
    let mut calls = kept.list(LISTED).await?;
    calls.retain(|call| call.approved.is_none() && is_meant(call, &args.call));
    let name = output::one_line(&args.call, 64);
    let call = match &calls[..] {
        [one] => one,
        [] => {
            let message = format!(
                "no call {name} waits at the gateway of {}; `airlock approvals list{}` shows those that do",
                args.config.path.display(),
                args.config.option()
            );
            return Err(Coded::new("approval_not_found", message).into());
        }
        several => {
            let count = several.len();
            let message = format!("{count} calls begin with {name}; give more of the identifier");
            return Err(Coded::new("approval_ambiguous", message).into());
        }
    };
    let is_decided = kept.decide(&call.id, approves).await?;
    is_decided.then_some(()).with_context(|| format!("{} was decided about meanwhile", call.id))?;
    let call = WaitingCall { approved: Some(approves), ..call.clone() };
    if args.json {
        output::visible_document(&document(&call))?;
    } else {
        let word = if approves { "approved" } else { "denied" };
        output::line(&output::for_stdout(&format!("{word}:\n{}", shown(&call))))?;
    }
    Ok(Done::Yes)
}

fn is_meant(call: &WaitingCall, name: &str) -> bool {
    let short = call.id.strip_prefix("call_").unwrap_or(&call.id);
    !name.is_empty() && (call.id.starts_with(name) || short.starts_with(name))
}

/// Returns a call with all of its arguments: a person decides about them.
fn shown(call: &WaitingCall) -> String {
    let described = document(call);
    let client = match text(&described["client"]) {
        "" => String::new(),
        client => format!(", client {client}"),
    };
    let since = Duration::from_millis(u64::try_from(call.asked_ms).unwrap_or_default());
    let asked = humantime::format_rfc3339_seconds(UNIX_EPOCH + since);
    let head = format!(
        "{}  {}  {}  {asked}  {}{client}",
        call.id,
        text(&described["state"]),
        visible_line(&tool_of(call)),
        text(&described["key"]),
    );
    let lines = argument_lines(arguments_of(call)).into_iter().map(|line| format!("  {line}"));
    [head].into_iter().chain(lines).collect::<Vec<_>>().join("\n")
}

fn text(value: &serde_json::Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_shown_with_its_arguments_and_without_hidden_characters() {
        let text = r#"{"tool":"fs-write","key":"key \"ann\"","client":"a\u200bgent","arguments":{"path":"/x","size":1.10}}"#;
        let call = WaitingCall {
            id: "call_1".into(),
            asked_ms: 0,
            expires_ms: 3_600_000,
            approved: None,
            text: text.into(),
        };
        let shown = shown(&call);
        let first = "call_1  pending  fs-write  1970-01-01T00:00:00Z  key \"ann\", client a";
        assert!(shown.starts_with(first), "{shown}");
        assert!(!shown.contains('\u{200b}') && shown.contains("1.10"), "{shown}");
    }
}
