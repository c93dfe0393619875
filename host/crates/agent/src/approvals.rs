//! Calls that wait for the decision of a person who is not at the client that made them.
//!
//! The list is in the database, so that it survives a restart and the command line decides about the
//! calls of a running gateway. A call is known by its tool, the definition of that tool and its exact
//! arguments: a client that repeats the call finds the decision about it. This module decides
//! nothing, and runs no calls.

use std::{borrow::Cow, convert::Infallible, time::Duration};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{error, info, warn};

use crate::{ApprovalList, ApprovalVerdict};
use airlock_core::{
    act::{Act, ActKind, Actor, Acts},
    door::{Arguments, Entry, Origin},
    tenant::Tenant,
    tool::{Annotations, GuardQuestions, SourceSet, Tool},
};
use airlock_json::raw;
use airlock_store::{
    Database, LazyDatabase, Unavailable,
    approvals::{
        self as stored, AskedApproval, CallDigest, CallVerdict, DecisionOutcome, NewDecision,
        UsedDecision, WaitingCall,
    },
};
use airlock_strings::{hex, visible_line, with_causes};

/// Interval at which a decision is looked for. It may be made by another process.
const LOOK: Duration = Duration::from_millis(250);
/// Time for which a call stays in the list after its last request, and an approval is valid.
const LIFE: Duration = Duration::from_hours(1);
/// Longest arguments that wait, in bytes: a person has to read them, and 64 KiB are a thousand
/// lines.
const MAX_ARGUMENTS_BYTES: usize = 64 << 10;
/// Member of the text of a call that says who decides about it; absent if its caller may.
const DECIDED_BY: &str = "decided_by";
/// Member of the text of a call with the digest of the definition of its tool.
const DEFINITION: &str = "definition";
/// Member of the text of a call with the number of operators who have to approve it; absent for one.
const REQUIRED: &str = "approvals_required";
/// Member of the text of a call with the sources that its author had read; absent for none.
const SOURCES: &str = "sources";
/// Member of the text of a call with the reasons for which guards require an approval; absent for none.
const ASKED_BY: &str = "asked_by";
/// Value of [`DECIDED_BY`] for a call about which only operators decide.
const OPERATORS: &str = "operators";

/// Interval at which calls that have expired are looked for.
const SWEEP: Duration = Duration::from_mins(1);

/// The waiting calls of all tenants. Cheap to clone. The database is opened when it is first needed.
#[derive(Clone)]
pub struct Approvals {
    database: LazyDatabase,
    /// Record of requests, decisions and their uses.
    acts: Acts,
}

/// A call that needs a decision.
pub struct Call<'c> {
    /// Tool that is called.
    pub entry: &'c Entry,
    /// JSON text of an object.
    pub arguments: &'c str,
    /// Tenant whose call it is.
    pub tenant: &'c Tenant,
    /// Name that the client of the call gave itself.
    pub client: Option<&'c str>,
    /// Name of the origin of the call.
    pub origin: &'c str,
    /// True if only operators decide about it, and its caller does not.
    pub is_for_operators: bool,
    /// Sources of untrusted content that its author had read before.
    pub sources: &'c SourceSet,
    /// Reasons for which guards require an approval of it.
    pub asked_by: &'c GuardQuestions,
}

impl Approvals {
    /// Creates the list that is kept in this database.
    pub fn new(database: LazyDatabase) -> Self {
        Self { database, acts: Acts::default() }
    }

    /// Sets the record of requests, decisions and their uses.
    #[must_use]
    pub fn with_acts(self, acts: Acts) -> Self {
        Self { acts, ..self }
    }

    /// Returns the database. Fails if it cannot be opened; the next call tries again.
    pub async fn database(&self) -> Result<&Database, Unavailable> {
        self.database.available().await
    }

    /// The record of requests, decisions and their uses.
    pub fn acts(&self) -> &Acts {
        &self.acts
    }

    /// Decides about a call of `list`, records it, and logs it without the arguments. Fails if the database cannot
    /// be used.
    pub async fn decide_and_record(
        &self,
        list: &stored::Approvals,
        call: &WaitingCall,
        decision: &Decision<'_>,
    ) -> Result<DecisionOutcome, Unavailable> {
        let outcome = decide(list, call, decision).await?;
        if matches!(outcome, DecisionOutcome::Decided | DecisionOutcome::First) {
            self.record_decision(call, decision, outcome);
        }
        Ok(outcome)
    }

    fn record_decision(
        &self,
        call: &WaitingCall,
        Decision { approves, actor, reason }: &Decision<'_>,
        outcome: DecisionOutcome,
    ) {
        let kind = if *approves { ActKind::ApprovalGranted } else { ActKind::ApprovalDenied };
        self.acts.record(|| {
            let mut act = Act::new(kind, (*actor).clone(), &call.id).with("tool", tool_of(call));
            if outcome == DecisionOutcome::First {
                act = act.with("approval", "first of two");
            }
            match reason {
                Some(reason) => act.with("reason", *reason),
                None => act,
            }
        });
    }

    /// Removes calls that have expired, and records it. Never returns; dropping the future ends it.
    pub async fn sweep(&self) -> Infallible {
        loop {
            sleep(SWEEP).await;
            // A store that does not exist has none.
            if self.database.location().is_missing_file() {
                continue;
            }
            let Ok(database) = self.database().await else { continue };
            match database.remove_expired_approvals().await {
                Ok(expired) => self.record_expired(&expired),
                Err(error) => {
                    warn!(%error, "expired calls cannot be removed; the gateway tries again");
                }
            }
        }
    }

    fn record_asked(&self, call: &Call<'_>, id: &str) {
        let tool = call.entry.tool.full_name.as_str();
        let tenant = call.tenant;
        info!(tool, %tenant, call = id, "a call waits for an approval");
        self.acts.record(|| Act::new(ActKind::ApprovalAsked, tenant, id).with("tool", tool));
    }

    /// Records that a decision is used, which may have been made by another process, and returns it.
    fn used(&self, call: &Call<'_>, used: &UsedDecision, is_approved: bool) -> ApprovalVerdict {
        let tool = call.entry.tool.full_name.as_str();
        let tenant = call.tenant;
        info!(tool, %tenant, is_approved, "the decision about a call that waited is used");
        let decided_by = used.decided_by.as_ref().map(|actors| actors.replace('\n', ", "));
        self.acts.record(|| {
            let decision = if is_approved { "approved" } else { "denied" };
            let act = Act::new(ActKind::ApprovalUsed, tenant, &used.id)
                .with("tool", tool)
                .with("decision", decision);
            match &decided_by {
                Some(actors) => act.with("decided_by", actors),
                None => act,
            }
        });
        if is_approved {
            ApprovalVerdict::Approved(decided_by)
        } else {
            ApprovalVerdict::Denied(used.reason.clone())
        }
    }

    fn record_expired(&self, expired: &[WaitingCall]) {
        for call in expired {
            self.acts.record(|| {
                let decision = match call.approved {
                    None => "none",
                    Some(true) => "approved",
                    Some(false) => "denied",
                };
                Act::new(ActKind::ApprovalExpired, Actor::Gateway, &call.id)
                    .with("tool", tool_of(call))
                    .with("decision", decision)
            });
        }
    }

    /// Waits for a decision about a call, at most `limit`. An approval that is returned is used.
    pub async fn decision(&self, call: &Call<'_>, limit: Duration) -> ApprovalVerdict {
        self.decision_reported(call, limit, &|| {}).await
    }

    /// Waits for a decision as [`Self::decision`]. Calls `on_wait` first, unless there is a decision already.
    pub async fn decision_reported(
        &self,
        call: &Call<'_>,
        limit: Duration,
        on_wait: &(dyn Fn() + Sync),
    ) -> ApprovalVerdict {
        if call.arguments.len() > MAX_ARGUMENTS_BYTES {
            return ApprovalVerdict::Refused("its arguments are too long to be shown to a person");
        }
        let waited = self.wait(call, Instant::now() + limit, on_wait).await;
        waited.unwrap_or_else(|error| match error {
            Unavailable::Busy => ApprovalVerdict::Refused("the list of pending approvals is busy; try again"),
            error => {
                error!(error = %with_causes(&error), "a call that needs an approval cannot wait for it");
                ApprovalVerdict::Refused("the list of pending approvals cannot be used")
            }
        })
    }

    async fn wait(
        &self,
        call: &Call<'_>,
        deadline: Instant,
        on_wait: &(dyn Fn() + Sync),
    ) -> Result<ApprovalVerdict, Unavailable> {
        let database = self.database().await?;
        let scope = call.tenant.scope();
        let own = database.approvals(scope);
        let mut is_first = true;
        loop {
            let new = format!("call_{}", uuid::Uuid::new_v4().simple());
            let asked = database.ask_approval(scope, call.digest(), new.clone(), call.text(), LIFE);
            let AskedApproval { verdict, expired } = asked.await?;
            self.record_expired(&expired);
            let id = match verdict {
                CallVerdict::Waiting(id) => id,
                CallVerdict::Approved(decision) => return Ok(self.used(call, &decision, true)),
                CallVerdict::Denied(decision) => return Ok(self.used(call, &decision, false)),
                CallVerdict::Full => {
                    let reason = "too many calls of this caller wait for approvals";
                    return Ok(ApprovalVerdict::Refused(reason));
                }
            };
            // A caller may send a call that waits again and again.
            if id == new {
                self.record_asked(call, &id);
            }
            if is_first {
                on_wait();
                is_first = false;
            }
            while own.is_waiting(&id).await? {
                let now = Instant::now();
                if now >= deadline {
                    return Ok(ApprovalVerdict::Waiting(id));
                }
                sleep_until(deadline.min(now + LOOK)).await;
            }
            // Decided, or its decision was used by an equal call.
        }
    }
}

impl ApprovalList for Approvals {
    fn decide<'a>(
        &'a self,
        entry: &'a Entry,
        arguments: &'a Arguments,
        sources: &'a SourceSet,
        tenant: &'a Tenant,
        limit: Duration,
    ) -> BoxFuture<'a, ApprovalVerdict> {
        Box::pin(async move {
            let call = Call {
                entry,
                arguments: arguments.as_str(),
                tenant,
                client: None,
                origin: Origin::Model.name(),
                is_for_operators: false,
                sources,
                asked_by: arguments.questions(),
            };
            self.decision(&call, limit).await
        })
    }
}

impl Call<'_> {
    /// Returns a digest of what a person is shown, the origin and the client included: an approval is used by no equal
    /// call of another one. That of a call for operators is another one, so that it does not use the decision of its
    /// caller about the same call.
    fn digest(&self) -> CallDigest {
        let mut hasher = blake3::Hasher::new();
        let tool = &self.entry.tool;
        let client = self.client.unwrap_or_default();
        let definition = tool.digest();
        for part in [tool.full_name.as_str(), &*definition, self.arguments, self.origin, client] {
            hasher.update(&part.len().to_be_bytes()).update(part.as_bytes());
        }
        // With other sources, the same call is another one.
        for source in self.sources.names() {
            hasher.update(&source.len().to_be_bytes()).update(source.as_bytes());
        }
        // So it is with other reasons of guards.
        if let Some(asked_by) = self.asked_by.to_json() {
            hasher.update(ASKED_BY.as_bytes()).update(asked_by.as_bytes());
        }
        if self.entry.needs_two {
            hasher.update(REQUIRED.as_bytes());
        } else if self.is_for_operators {
            hasher.update(OPERATORS.as_bytes());
        }
        hasher.finalize().into()
    }

    /// Returns the text that the list has of the call. The tool has its full name, which tells its client. Arguments stay
    /// as they were sent: a number that was read would not be exact.
    fn text(&self) -> String {
        let tool = &self.entry.tool;
        let mut known = json!({
            "tool": tool.full_name.as_str(),
            "key": self.tenant.to_string(),
            "client": self.client,
            "origin": self.origin,
            "effects": effects(tool),
            DEFINITION: tool.digest().as_str(),
        });
        if self.is_for_operators || self.entry.needs_two {
            known[DECIDED_BY] = OPERATORS.into();
        }
        if self.entry.needs_two {
            known[REQUIRED] = 2.into();
        }
        if !self.sources.is_empty() {
            known[SOURCES] = json!(self.sources);
        }
        if !self.asked_by.is_empty() {
            known[ASKED_BY] = json!(self.asked_by);
        }
        let known = known.to_string();
        format!("{},\"arguments\":{}}}", &known[..known.len() - 1], self.arguments)
    }
}

/// A decision about a call that waits.
#[derive(Debug, Clone, Copy)]
pub struct Decision<'d> {
    /// True to approve the call.
    pub approves: bool,
    /// The party that decides.
    pub actor: &'d Actor,
    /// Reason of a denial, which the model reads; `None` if none is given.
    pub reason: Option<&'d str>,
}

/// Decides about a call of `list`, and logs it without the arguments. Fails if the database cannot be used.
pub async fn decide(
    list: &stored::Approvals,
    call: &WaitingCall,
    Decision { approves, actor, reason }: &Decision<'_>,
) -> Result<DecisionOutcome, Unavailable> {
    let decision = NewDecision {
        approves: *approves,
        actor: actor.to_string(),
        reason: reason.map(str::to_owned).filter(|_| !approves),
        needs_two: required(call) > 1,
    };
    let outcome = list.decide(&call.id, decision).await?;
    if matches!(outcome, DecisionOutcome::Decided | DecisionOutcome::First) {
        let tool = visible_line(&tool_of(call));
        let call = &call.id;
        info!(%actor, tool, call, is_approved = approves, ?outcome, "a call that waits was decided about");
    }
    Ok(outcome)
}

/// Returns the number of operators who have to approve a call.
pub fn required(call: &WaitingCall) -> u32 {
    let required = raw::member(&call.text, REQUIRED).and_then(|number| number.parse().ok());
    required.unwrap_or(1)
}

/// Returns the digest of the definition of the tool of a call, as it was when the call was made; `None` if a gateway
/// of an earlier version has stored the call.
pub fn definition_of(call: &WaitingCall) -> Option<String> {
    raw::member(&call.text, DEFINITION).and_then(raw::string).map(Cow::into_owned)
}

/// Returns the digest of all that is shown of a call, by which an approval names it.
pub fn shown(call: &WaitingCall) -> String {
    shown_digest([call.id.as_str(), call.text.as_str()])
}

/// Returns the digest of parts that are shown, by which an approval names them.
pub fn shown_digest<'p>(parts: impl IntoIterator<Item = &'p str>) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part.len().to_be_bytes());
        hasher.update(part.as_bytes());
    }
    format!("sha256:{}", hex(&hasher.finalize()))
}

/// Describes the effects of a tool, as its source declares them.
pub fn effects(tool: &Tool) -> Value {
    let Annotations { read_only, destructive, idempotent, open_world, .. } = &tool.annotations;
    json!({
        "read_only": read_only,
        "destructive": destructive,
        "idempotent": idempotent,
        "open_world": open_world,
    })
}

/// Returns the full name of the tool in the text of a call.
pub fn tool_of(call: &WaitingCall) -> String {
    raw::member(&call.text, "tool").and_then(raw::string).unwrap_or_default().into_owned()
}

/// Returns the tenant in the text of a call, as people read it.
pub fn caller_of(call: &WaitingCall) -> String {
    visible_member(call, "key").unwrap_or_default()
}

/// Returns whether only operators decide about a call.
pub fn is_for_operators(call: &WaitingCall) -> bool {
    raw::member(&call.text, DECIDED_BY).is_some()
}

/// Returns the arguments in the text of a call, as they were sent.
pub fn arguments_of(call: &WaitingCall) -> &str {
    raw::member(&call.text, "arguments").unwrap_or("{}")
}

/// Describes a call for the person who decides.
pub fn document(call: &WaitingCall) -> Value {
    json!({
        "id": call.id,
        "object": "airlock.approval",
        "state": match call.approved {
            None => "pending",
            Some(true) => "approved",
            Some(false) => "denied",
        },
        "tool": tool_of(call),
        "arguments": arguments_of(call),
        "key": visible_member(call, "key"),
        "client": visible_member(call, "client"),
        "decided_by": visible_member(call, DECIDED_BY),
        "origin": visible_member(call, "origin"),
        "effects": effects_of(call),
        "sources": sources_of(call),
        "asked_by": asked_by(call),
        "approvals_required": required(call),
        "approved_by": approved_by(call),
        "denied_by": call.decided_by.as_deref().filter(|_| call.approved == Some(false)),
        "reason": call.reason,
        "shown": shown(call),
        "created_at_ms": call.asked_ms,
        "expires_at_ms": call.expires_ms,
    })
}

/// Returns the effects of the tool of a call; `None` if a gateway of an earlier version has stored the call.
fn effects_of(call: &WaitingCall) -> Option<Value> {
    raw::member(&call.text, "effects").and_then(|effects| serde_json::from_str(effects).ok())
}

/// Returns the sources of untrusted content that the author of a call had read before.
pub fn sources_of(call: &WaitingCall) -> SourceSet {
    SourceSet::from_json(raw::member(&call.text, SOURCES))
}

/// Returns the reasons for which guards require an approval of a call.
pub fn asked_by(call: &WaitingCall) -> GuardQuestions {
    GuardQuestions::from_json(raw::member(&call.text, ASKED_BY))
}

/// Returns the operators who have approved a call; for one that is denied, there is none.
fn approved_by(call: &WaitingCall) -> Vec<&str> {
    let actors = call.decided_by.as_deref().filter(|_| call.approved != Some(false));
    actors.into_iter().flat_map(str::lines).collect()
}

fn visible_member(call: &WaitingCall, name: &str) -> Option<String> {
    raw::member(&call.text, name).and_then(raw::string).map(|text| visible_line(&text))
}
