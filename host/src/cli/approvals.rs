//! `airlock approvals`: shows the calls that wait for an approval, and decides about them.

use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use super::running::{ApiRequest, COMMAND_LINE, GatewayRefusal, RunningGateway};
use airlock_agent::approvals::{self, Decision, document};
use airlock_core::{
    act::Actor,
    tool::{SourcesByPath, whole_argument_lines},
};
use airlock_store::{
    Database,
    approvals::{Approvals, DecisionOutcome},
};
use airlock_strings::visible_line;
use airlock_terminal::{
    outcome::CommandOutcome,
    output::{self, CodedFailure},
    session::ConfigOfGroup,
};

/// Path of the calls in the API of a gateway.
const PATH: &str = "/v1/approvals";
/// Most calls of a page. A page of large calls has fewer.
const PAGE_CALLS: u32 = 1_000;
/// The last second of the year 9999, since 1970.
const LAST_TIME: Duration = Duration::from_secs(253_402_300_799);
/// Digits of the identifier of a call.
const ID_DIGITS: usize = 32;

/// Show the calls that wait for an approval, and approve or deny them
///
/// A call of an MCP client waits here if its tool needs an approval and the client cannot ask its
/// user, or shall not (`mcp_server.approval` is `wait`). So does such a call of a model, if the approval
/// of its request is `wait`. The calls of all callers are shown. An approval is valid for one call, with exactly these arguments: the one that
/// waits, or the same one when the client repeats it within an hour.
///
/// These commands talk to the running gateway of the configuration through its Unix socket, or to the one at --url
/// with the token in `AIRLOCK_OPERATOR_TOKEN`. If no gateway listens on the socket, they use its store.
///
/// The calls of scripts are in `airlock runs`; a running gateway lists them here too, for operators, and their callers
/// resume them.
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
    gateway: RunningGateway,
    /// Print a JSON document: `{ok, approvals: [{id, state, tool, arguments, key, client}]}`.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct OneApprovalArgs {
    #[command(flatten)]
    gateway: RunningGateway,
    /// The call: its identifier, or a prefix that no other call has.
    call: String,
    /// Print a JSON document: the call.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: &ApprovalsArgs) -> anyhow::Result<CommandOutcome> {
    match &args.command {
        ApprovalsCommand::List(args) => list(args).await,
        ApprovalsCommand::Approve(args) => decide(args, true).await,
        ApprovalsCommand::Deny(args) => decide(args, false).await,
    }
}

/// The calls that wait at a gateway.
enum WaitingCalls<'a> {
    /// At a running gateway, which keeps the rights of the caller of this command.
    Running(&'a RunningGateway),
    /// In the store of a configuration, with the calls of all callers.
    Stored(Approvals),
}

/// A part of the list of calls.
struct ListedCalls {
    calls: Vec<Value>,
    /// True if the list goes on after them.
    has_more: bool,
}

impl ListedCalls {
    /// Reads the response of a gateway.
    fn read(mut listed: Value) -> anyhow::Result<Self> {
        let has_more = listed["has_more"] == true;
        let Value::Array(calls) = listed["data"].take() else {
            bail!("the gateway's response has no list of calls");
        };
        Ok(Self { calls, has_more })
    }
}

impl<'a> WaitingCalls<'a> {
    /// Returns the place of the calls, the gateway if one listens, else its store, and the first page of them.
    async fn open(gateway: &'a RunningGateway) -> anyhow::Result<(Self, ListedCalls)> {
        if let Some(listed) = gateway.send_or_absent(&ApiRequest::get(&page_path(0))).await? {
            return Ok((Self::Running(gateway), ListedCalls::read(listed)?));
        }
        let config = gateway.config().load_of_gateway()?;
        let stored = Database::open(config.store_settings()?).await?.all_approvals();
        let place = Self::Stored(stored);
        let first = place.page(0).await?;
        Ok((place, first))
    }

    /// Returns the page of calls after the first `offset`.
    async fn page(&self, offset: u32) -> anyhow::Result<ListedCalls> {
        match self {
            Self::Running(gateway) => ListedCalls::read(gateway.get(&page_path(offset)).await?),
            Self::Stored(calls) => {
                let page = calls.list(PAGE_CALLS, offset).await?;
                let calls = page.calls.iter().map(document).collect();
                Ok(ListedCalls { calls, has_more: page.has_more })
            }
        }
    }

    /// Passes all calls to a function, page by page from the first one on. A call that is added or decided
    /// about meanwhile may be left out or passed twice.
    async fn for_each(
        &self,
        first: ListedCalls,
        mut take: impl FnMut(Value) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut page = first;
        let mut offset = 0;
        loop {
            offset += u32::try_from(page.calls.len())?;
            let is_last = !page.has_more || page.calls.is_empty();
            page.calls.into_iter().try_for_each(&mut take)?;
            if is_last {
                return Ok(());
            }
            page = self.page(offset).await?;
        }
    }

    /// Returns the calls whose identifier begins with a text, decided or not. A whole identifier is not searched for
    /// in the list, however long that is.
    async fn named(&self, first: ListedCalls, name: &str) -> anyhow::Result<Vec<Value>> {
        let mut found: Vec<Value> = Vec::new();
        if let Some(id) = whole_id(name) {
            found.extend(self.call(&id).await?);
            return Ok(found);
        }
        self.for_each(first, |call| {
            let is_known = found.iter().any(|known| known["id"] == call["id"]);
            if !is_known && is_meant(text(&call["id"]), name) {
                found.push(call);
            }
            Ok(())
        })
        .await?;
        Ok(found)
    }

    /// Returns the call with an identifier; `None` if there is none.
    async fn call(&self, id: &str) -> anyhow::Result<Option<Value>> {
        match self {
            Self::Running(gateway) => match gateway.get(&format!("{PATH}/{id}")).await {
                Ok(call) => Ok(Some(call)),
                Err(error) if is_not_found(&error) => Ok(None),
                Err(error) => Err(error),
            },
            Self::Stored(calls) => Ok(calls.find(id).await?.as_ref().map(document)),
        }
    }

    /// Decides about a call as it was read, and returns its state. Fails if it does not wait any more, or if two
    /// operators approve it and no person is known.
    async fn decide(&self, call: &Value, approves: bool) -> anyhow::Result<Value> {
        let id = text(&call["id"]);
        match self {
            Self::Running(gateway) => {
                let act = if approves { "approve" } else { "deny" };
                let path = format!("{PATH}/{id}/{act}");
                let body = approves.then(|| json!({"shown": call["shown"]}));
                let decided = gateway.send(&ApiRequest { body, ..ApiRequest::post(&path) }).await?;
                Ok(decided["state"].clone())
            }
            Self::Stored(calls) => {
                let waiting = calls.find(id).await?;
                let call = waiting.with_context(|| format!("{id} was decided about meanwhile"))?;
                if approves && approvals::required(&call) > 1 {
                    return Err(two_operators(id).into());
                }
                let actor = Actor::Operator(COMMAND_LINE.to_owned());
                let decision = Decision { approves, actor: &actor, reason: None };
                match approvals::decide(calls, &call, &decision).await? {
                    DecisionOutcome::Decided if approves => Ok("approved".into()),
                    DecisionOutcome::Decided => Ok("denied".into()),
                    DecisionOutcome::First => Ok("pending".into()),
                    DecisionOutcome::SameActor => {
                        bail!(
                            "{id} was approved by {actor}, and another operator has to approve it"
                        )
                    }
                    DecisionOutcome::NotWaiting => bail!("{id} was decided about meanwhile"),
                }
            }
        }
    }
}

async fn list(args: &ApprovalListArgs) -> anyhow::Result<CommandOutcome> {
    let (place, first) = WaitingCalls::open(&args.gateway).await?;
    if args.json {
        let mut calls = Vec::new();
        place
            .for_each(first, |call| {
                calls.push(call);
                Ok(())
            })
            .await?;
        output::document(&json!({"ok": true, "approvals": calls}))?;
        return Ok(CommandOutcome::Success);
    }
    if first.calls.is_empty() {
        output::hint("no call waits for an approval");
    }
    place.for_each(first, |call| output::line(&output::for_stdout(&shown(&call)))).await?;
    Ok(CommandOutcome::Success)
}

async fn decide(args: &OneApprovalArgs, approves: bool) -> anyhow::Result<CommandOutcome> {
    let (place, first) = WaitingCalls::open(&args.gateway).await?;
    let named = place.named(first, &args.call).await?;
    let (mut undecided, decided): (Vec<_>, Vec<_>) = named.into_iter().partition(is_undecided);
    let name = output::one_line(&args.call, 64);
    let mut call = match &mut undecided[..] {
        [one] => one.take(),
        [] => {
            let option = args.gateway.config().option();
            return Err(not_waiting(&name, &decided, &option).into());
        }
        several => {
            let count = several.len();
            let message = format!("{count} calls begin with {name}; give more of the identifier");
            return Err(CodedFailure::new("approval_ambiguous", message).into());
        }
    };
    call["state"] = place.decide(&call, approves).await?;
    let word = match text(&call["state"]) {
        "pending" => "approved; another operator has to approve it too",
        state => state,
    }
    .to_owned();
    if args.json {
        output::document(&call)?;
    } else {
        output::line(&output::for_stdout(&format!("{word}:\n{}", shown(&call))))?;
    }
    Ok(CommandOutcome::Success)
}

/// Returns the reason that no call is decided about: the decision that the named one has already, or that none waits.
fn not_waiting(name: &str, decided: &[Value], option: &str) -> CodedFailure {
    let message = match decided {
        [one] => decision(one),
        _ => format!(
            "no call {name} waits at the gateway; `airlock approvals list{option}` shows those that do"
        ),
    };
    CodedFailure::new("approval_not_found", message)
}

/// Describes the decision about a call, as far as it is known: its time is not stored.
fn decision(call: &Value) -> String {
    let [id, state] = ["id", "state"].map(|member| visible_line(text(&call[member])));
    let approved_by = call["approved_by"].as_array().into_iter().flatten().map(text);
    let actors: Vec<_> = approved_by.chain(call["denied_by"].as_str()).collect();
    let by = match visible_line(&actors.join(" and ")) {
        actors if actors.is_empty() => actors,
        actors => format!(" by {actors}"),
    };
    let end = time(&call["expires_at_ms"]);
    format!(
        "{id} was {state} already{by}; the decision is for one call with these arguments, until {end}"
    )
}

/// Returns the refusal of an approval in the store of a call that two operators approve.
fn two_operators(id: &str) -> CodedFailure {
    let message = format!(
        "two operators approve {id}, each at the running gateway with a token or a login of its own: a command on the store is that of no person"
    );
    CodedFailure::new("operator_required", message)
}

/// Returns the path of a page of calls, after the first `offset`.
fn page_path(offset: u32) -> String {
    format!("{PATH}?limit={PAGE_CALLS}&offset={offset}")
}

/// Returns the identifier that a text is, with or without its prefix; `None` if it is only a part of one.
fn whole_id(name: &str) -> Option<String> {
    let digits = name.strip_prefix("call_").unwrap_or(name);
    let is_whole = digits.len() == ID_DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_whole.then(|| format!("call_{digits}"))
}

fn is_undecided(call: &Value) -> bool {
    call["state"] == "pending"
}

/// Returns whether the gateway has refused a request because the call does not exist.
fn is_not_found(error: &anyhow::Error) -> bool {
    let refused = error.downcast_ref::<GatewayRefusal>();
    refused.is_some_and(|refused| refused.code == "approval_not_found")
}

fn is_meant(id: &str, name: &str) -> bool {
    let short = id.strip_prefix("call_").unwrap_or(id);
    !name.is_empty() && (id.starts_with(name) || short.starts_with(name))
}

/// Returns a call with all of its arguments: a person decides about them.
fn shown(call: &Value) -> String {
    let client = match text(&call["client"]) {
        "" => String::new(),
        client => format!(", client {}", visible_line(client)),
    };
    let asked = time(&call["created_at_ms"]);
    let [id, state, tool, key] =
        ["id", "state", "tool", "key"].map(|member| visible_line(text(&call[member])));
    let head = format!("{id}  {state}  {tool}  {asked}  {key}{client}");
    let manifest = call["manifest"].as_array().map(|lines| lines.iter().map(text));
    let arguments = match (manifest, call["arguments"].as_str()) {
        (Some(lines), _) => lines.map(visible_line).collect(),
        (None, Some(arguments)) => whole_argument_lines(arguments),
        (None, None) => vec![
            "(this operator sees no arguments, so it may deny the call and not approve it)"
                .to_owned(),
        ],
    };
    let lines = arguments.into_iter().map(|line| format!("  {line}"));
    let sources: Vec<_> = call["sources"].as_array().into_iter().flatten().map(text).collect();
    let read = visible_line(&sources.join(", "));
    let read =
        (!read.is_empty()).then(|| format!("  (made after reading untrusted content from {read})"));
    let known = serde_json::from_value::<SourcesByPath>(call["argument_sources"].clone()).ok();
    let of_arguments = known.iter().flat_map(SourcesByPath::lines);
    let of_arguments = of_arguments.map(|line| format!("  ({})", visible_line(&line)));
    let guards = call["asked_by"].as_array().into_iter().flatten().map(asking);
    let about = read.into_iter().chain(of_arguments).chain(guards);
    [head].into_iter().chain(about).chain(lines).collect::<Vec<_>>().join("\n")
}

/// Returns a time in milliseconds since 1970 as people read it. One after the year 9999 is not shown as it is: a
/// gateway at a wrong address may send any number.
fn time(milliseconds: &Value) -> String {
    let since = Duration::from_millis(milliseconds.as_u64().unwrap_or_default()).min(LAST_TIME);
    humantime::format_rfc3339_seconds(UNIX_EPOCH + since).to_string()
}

/// Returns the line of a guard that requires an approval; its reason may be hidden from this operator.
fn asking(asked: &Value) -> String {
    let guard = visible_line(text(&asked["guard"]));
    match visible_line(text(&asked["reason"])) {
        reason if reason.is_empty() => format!("  (the guard {guard:?} asks)"),
        reason => format!("  (the guard {guard:?} asks: {reason})"),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests;
