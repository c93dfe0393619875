//! `airlock operator`: the people and programs that may manage a gateway.

use http::Method;
use serde_json::{Value, json};

use super::running::{ApiRequest, NamedElement, RunningGateway, segment};
use airlock_core::operator::Role;
use airlock_terminal::{outcome::CommandOutcome, output, session::ConfigOfGroup};

/// Add, list and revoke operators of a gateway
///
/// An operator manages a gateway by its management API, with a token that is shown once. Its role determines
/// its rights: a `viewer` reads settings and states, an `approver` also decides about calls that wait, an
/// `operator` also changes virtual keys and the tools of clients, and an `admin` does everything.
///
/// These commands talk to the running gateway of the configuration through its Unix socket, or to the one at --url
/// with the token in `AIRLOCK_OPERATOR_TOKEN`. If no gateway listens on the socket, they use its store.
#[derive(Debug, clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:\n  airlock operator add ann --role admin --sees-payloads\n  airlock operator list\n  airlock operator revoke ann"
)]
pub(super) struct OperatorArgs {
    #[command(flatten)]
    _config: ConfigOfGroup,
    #[command(subcommand)]
    command: OperatorCommand,
}

#[derive(Debug, clap::Subcommand)]
enum OperatorCommand {
    /// Add an operator, and print its token
    Add(AddArgs),
    /// List the operators
    List(ListArgs),
    /// Remove an operator; its token is refused at once
    Revoke(RevokeArgs),
}

#[derive(Debug, clap::Args)]
struct AddArgs {
    #[command(flatten)]
    gateway: RunningGateway,
    /// Name of the operator, which appears in the record of changes.
    name: String,
    /// Role, which determines its rights: viewer, approver, operator or admin.
    #[arg(long, value_name = "ROLE")]
    role: Role,
    /// Permit it to read arguments and results of calls.
    #[arg(long)]
    sees_payloads: bool,
    /// Time from which its token is refused, such as 2027-01-31T00:00:00Z.
    #[arg(long, value_name = "TIME")]
    expires_at: Option<String>,
    /// Print a JSON document: `{message, operator, token}`.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct ListArgs {
    #[command(flatten)]
    gateway: RunningGateway,
    /// Print a JSON document: `{count, operators: [{name, role, sees_payloads, source, …}]}`.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct RevokeArgs {
    #[command(flatten)]
    gateway: RunningGateway,
    /// Name of the operator.
    name: String,
    /// Print a JSON document: `{message}`.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: &OperatorArgs) -> anyhow::Result<CommandOutcome> {
    match &args.command {
        OperatorCommand::Add(args) => add(args).await,
        OperatorCommand::List(args) => list(args).await,
        OperatorCommand::Revoke(args) => revoke(args).await,
    }
}

async fn add(args: &AddArgs) -> anyhow::Result<CommandOutcome> {
    let mut body = json!({
        "name": args.name,
        "role": args.role.name(),
        "sees_payloads": args.sees_payloads,
    });
    if let Some(time) = &args.expires_at {
        body["expires_at"] = time.as_str().into();
    }
    let request = ApiRequest { body: Some(body), ..ApiRequest::post("/api/operators") };
    let added = args.gateway.manage(request).await?;
    if let Some(hint) = payload_hint(args.role, args.sees_payloads) {
        output::hint(hint);
    }
    let hint = "the token is shown only now; send it as `Authorization: Bearer …`, or set AIRLOCK_OPERATOR_TOKEN";
    output::credential(&added, args.json, hint, "/token")
}

/// Returns the hint about a role that decides about calls which the operator cannot read; `None` if there is
/// nothing to say.
fn payload_hint(role: Role, sees_payloads: bool) -> Option<&'static str> {
    let decides = matches!(role, Role::Approver | Role::Admin) && !sees_payloads;
    decides.then_some(
        "without --sees-payloads, this operator sees no arguments: it may deny calls but not approve them",
    )
}

async fn list(args: &ListArgs) -> anyhow::Result<CommandOutcome> {
    let listed = args.gateway.manage(ApiRequest::get("/api/operators")).await?;
    let none = "there is no operator; `airlock operator add NAME --role admin` adds one";
    output::list(&listed, args.json, "operators", none, shown)
}

fn shown(operator: &Value) -> String {
    let payloads = if operator["sees_payloads"] == true { ", sees payloads" } else { "" };
    let expires = output::optional(", until ", &operator["expires_at"]);
    let [name, role, source] = ["name", "role", "source"]
        .map(|member| output::one_line(operator[member].as_str().unwrap_or_default(), 128));
    format!("{name}  {role}{payloads}{expires}  ({source})")
}

async fn revoke(args: &RevokeArgs) -> anyhow::Result<CommandOutcome> {
    let path = format!("/api/operators/{}", segment(&args.name));
    let request = ApiRequest { method: Method::DELETE, path: &path, body: None };
    let named = NamedElement { kind: "operator", name: &args.name, list: "airlock operator list" };
    let revoked = args.gateway.manage_named(request, named).await?;
    let line = format!("{} is not an operator any more", output::one_line(&args.name, 128));
    output::response(&revoked, args.json, &line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_that_decides_about_calls_without_reading_arguments_gets_a_hint() {
        for (role, sees_payloads, has_hint) in [
            (Role::Approver, false, true),
            (Role::Admin, false, true),
            (Role::Approver, true, false),
            (Role::Admin, true, false),
            (Role::Operator, false, false),
            (Role::Viewer, false, false),
        ] {
            assert_eq!(payload_hint(role, sees_payloads).is_some(), has_hint, "{role:?}");
        }
    }

    #[test]
    fn an_operator_is_one_line_without_invisible_characters() {
        let operator = json!({
            "name": "ann\u{202e}", "role": "viewer", "sees_payloads": true, "source": "store",
            "expires_at": "2027-01-31T00:00:00Z",
        });
        assert_eq!(
            shown(&operator),
            "ann⟨U+202E⟩  viewer, sees payloads, until 2027-01-31T00:00:00Z  (store)"
        );
    }
}
