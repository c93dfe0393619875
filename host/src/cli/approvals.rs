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
/// Digits of the identifier of a call.
const ID_DIGITS: usize = 32;

/// Show the calls that wait for an approval, and approve or deny them
///
/// A call of an MCP client waits here if its tool needs an approval and the client cannot ask its
/// user, or shall not (`mcp_server.approval` is `wait`). So does such a call of a model, if the approval
/// of its request is `wait`. The calls of all callers are shown. An approval is valid for one call, with exactly these arguments: the one that
/// waits, or the same one when the client repeats it within an hour.
///
/// These commands talk to the running gateway of the configuration through its Unix socket, to the one at
/// --url with the token in `AIRLOCK_OPERATOR_TOKEN`, or, if no gateway listens there, to its store.
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

    /// Returns the undecided calls whose identifier begins with a text. A whole identifier is not searched for
    /// in the list, however long that is.
    async fn undecided(&self, first: ListedCalls, name: &str) -> anyhow::Result<Vec<Value>> {
        let mut found: Vec<Value> = Vec::new();
        if let Some(id) = whole_id(name) {
            found.extend(self.call(&id).await?.filter(is_undecided));
            return Ok(found);
        }
        self.for_each(first, |call| {
            let is_known = found.iter().any(|known| known["id"] == call["id"]);
            if !is_known && is_undecided(&call) && is_meant(text(&call["id"]), name) {
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
        output::visible_document(&json!({"ok": true, "approvals": calls}))?;
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
    let mut calls = place.undecided(first, &args.call).await?;
    let name = output::one_line(&args.call, 64);
    let mut call = match &mut calls[..] {
        [one] => one.take(),
        [] => {
            let option = args.gateway.config().option();
            let message = format!(
                "no call {name} waits at the gateway; `airlock approvals list{option}` shows those that do"
            );
            return Err(CodedFailure::new("approval_not_found", message).into());
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
        output::visible_document(&call)?;
    } else {
        output::line(&output::for_stdout(&format!("{word}:\n{}", shown(&call))))?;
    }
    Ok(CommandOutcome::Success)
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
    let since = Duration::from_millis(call["created_at_ms"].as_u64().unwrap_or_default());
    let asked = humantime::format_rfc3339_seconds(UNIX_EPOCH + since);
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
mod tests {
    use airlock_store::approvals::WaitingCall;

    use super::*;

    #[test]
    fn a_call_is_shown_with_its_arguments_and_without_hidden_characters() {
        let text = r#"{"tool":"fs-write","key":"key \"ann\"","client":"a\u200bgent","arguments":{"path":"/x","size":1.10}}"#;
        let call = WaitingCall {
            id: "call_1".into(),
            asked_ms: 0,
            expires_ms: 3_600_000,
            approved: None,
            decided_by: None,
            reason: None,
            text: text.into(),
        };
        let mut call = document(&call);
        let all = shown(&call);
        let first = "call_1  pending  fs-write  1970-01-01T00:00:00Z  key \"ann\", client a";
        assert!(all.starts_with(first), "{all}");
        assert!(!all.contains('\u{200b}') && all.contains("1.10"), "{all}");
        call.as_object_mut().expect("an object").remove("arguments");
        assert!(shown(&call).contains("sees no arguments"), "nothing is made up");
        call["asked_by"] =
            json!([{"guard": "mail", "reason": "to\u{200b} others"}, {"guard": "spend"}]);
        let asked = "\n  (the guard \"mail\" asks: to\u{27e8}U+200B\u{27e9} others)\n  (the guard \"spend\" asks)\n";
        assert!(shown(&call).contains(asked), "{}", shown(&call));
        call["sources"] = json!(["crm\u{200b}", "web"]);
        call["argument_sources"] = json!({"to": ["crm\u{200b}"]});
        let read = "\n  (made after reading untrusted content from crm\u{27e8}U+200B\u{27e9}, web)\n  (the argument \"to\" may come from crm\u{27e8}U+200B\u{27e9})\n";
        assert!(shown(&call).contains(read), "{}", shown(&call));
    }

    #[test]
    fn no_argument_is_hidden_from_the_person_who_decides() {
        let long = format!("{}rm -rf /{}", "a".repeat(30_000), "b".repeat(30_000));
        let members: Vec<_> = (0..40).map(|n| format!(r#""k{n}":{n}"#)).collect();
        let arguments = format!(r#"{{"long":"{long}",{}}}"#, members.join(","));
        let all = shown(&json!({"id": "call_1", "arguments": arguments}));
        assert!(all.contains(&long) && all.contains("  k39: 39"), "{}", all.len());
    }

    #[test]
    fn a_whole_identifier_is_told_from_a_part_of_one() {
        let digits = "0123456789abcdef0123456789abcdef";
        let id = format!("call_{digits}");
        assert_eq!(whole_id(&id).as_deref(), Some(&*id));
        assert_eq!(whole_id(digits).as_deref(), Some(&*id));
        for part in ["", "call_", &id[..36], "call_0123456789abcdef0123456789abcd/x"] {
            assert_eq!(whole_id(part), None, "{part}");
        }
    }

    #[tokio::test]
    async fn a_command_on_the_store_is_none_of_two_operators() {
        let directory = tempfile::tempdir().expect("a directory");
        let settings = airlock_store::Settings::new(directory.path().join("airlock.db"));
        let database = Database::open(settings).await.expect("it is made");
        for (number, required) in [(1_u8, 1), (2, 2)] {
            let text =
                format!(r#"{{"tool":"t","approvals_required":{required},"arguments":{{}}}}"#);
            let id = format!("call_{number}");
            let life = Duration::from_hours(1);
            let asked = database.ask_approval([0; 32], [number; 32], id, text, life);
            asked.await.expect("it waits");
        }
        let place = WaitingCalls::Stored(database.all_approvals());
        let one = place.decide(&json!({"id": "call_1"}), true).await.expect("it is approved");
        assert_eq!(one, "approved");
        let two = json!({"id": "call_2"});
        let refused = place.decide(&two, true).await.expect_err("it is that of no person");
        assert!(refused.to_string().contains("two operators"), "{refused}");
        let call = place.call("call_2").await.expect("read").expect("a call");
        assert_eq!((&call["state"], &call["approved_by"]), (&json!("pending"), &json!([])));
        assert_eq!(place.decide(&two, false).await.expect("it is denied"), "denied");
    }

    #[tokio::test]
    async fn a_call_is_found_on_a_later_page_and_by_its_identifier() {
        let directory = tempfile::tempdir().expect("a directory");
        let settings = airlock_store::Settings::new(directory.path().join("airlock.db"));
        let database = Database::open(settings).await.expect("it is made");
        let text = format!(r#"{{"tool":"t","arguments":{{"a":"{}"}}}}"#, "x".repeat(64_000));
        for owner in 0..4 {
            for call in 0..64 {
                let id = format!("call_{owner:02x}{call:02x}{:028}", 0);
                let life = Duration::from_hours(1);
                let asked = database.ask_approval([owner; 32], [call; 32], id, text.clone(), life);
                asked.await.expect("it waits");
            }
        }
        let place = WaitingCalls::Stored(database.all_approvals());
        let first = place.page(0).await.expect("a page");
        assert!(first.has_more && first.calls.len() < 200);
        let mut count = 0;
        let counting = place.for_each(first, |_| {
            count += 1;
            Ok(())
        });
        counting.await.expect("all pages");
        assert_eq!(count, 256);
        let last = format!("033f{:028}", 0);
        for name in ["033f", &last] {
            let first = place.page(0).await.expect("a page");
            let found = place.undecided(first, name).await.expect("read");
            assert_eq!(found.len(), 1, "{name}");
            assert_eq!(found[0]["id"], format!("call_{last}"));
        }
    }
}
