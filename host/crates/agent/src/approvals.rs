//! Calls that wait for the decision of a person who is not at the client that made them.
//!
//! The list is in the database, so that it survives a restart and the command line decides about the
//! calls of a running gateway. A call is known by its tool, the definition of that tool and its exact
//! arguments: a client that repeats the call finds the decision about it. This module decides
//! nothing, and runs no calls.

use std::{convert::Infallible, time::Duration};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{error, info, warn};

use crate::{ApprovalList, ApprovalVerdict};
use airlock_core::{
    act::{Act, ActKind, Actor, Acts},
    tenant::Tenant,
    tool::Tool,
};
use airlock_json::raw;
use airlock_store::{
    Database, LazyDatabase, Unavailable,
    approvals::{AskedApproval, CallDigest, CallVerdict, UsedDecision, WaitingCall},
};
use airlock_strings::{visible_line, with_causes};

/// Interval at which a decision is looked for. It may be made by another process.
const LOOK: Duration = Duration::from_millis(250);
/// Time for which a call stays in the list after its last request, and an approval is valid.
const LIFE: Duration = Duration::from_hours(1);
/// Longest arguments that wait, in bytes: a person has to read them, and 64 KiB are a thousand
/// lines.
const MAX_ARGUMENTS_BYTES: usize = 64 << 10;
/// Member of the text of a call that says who decides about it; absent if its caller may.
const DECIDED_BY: &str = "decided_by";
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
    pub tool: &'c Tool,
    /// JSON text of an object.
    pub arguments: &'c str,
    /// Tenant whose call it is.
    pub tenant: &'c Tenant,
    /// Name that the client of the call gave itself.
    pub client: Option<&'c str>,
    /// True if only operators decide about it, and its caller does not.
    pub is_for_operators: bool,
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

    /// Records and logs a decision about a call, without the arguments. `actor` has made it; `reason` is for the
    /// records, if one was given.
    pub fn record_decision(
        &self,
        call: &WaitingCall,
        actor: &Actor,
        is_approved: bool,
        reason: Option<&str>,
    ) {
        log_decision(call, actor, is_approved);
        let kind = if is_approved { ActKind::ApprovalGranted } else { ActKind::ApprovalDenied };
        self.acts.record(|| {
            let act = Act::new(kind, actor.clone(), &call.id).with("tool", tool_of(call));
            match reason {
                Some(reason) => act.with("reason", reason),
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

    /// Records that a decision is used, which may have been made by another process, and returns it.
    fn used(&self, call: &Call<'_>, used: &UsedDecision, is_approved: bool) -> ApprovalVerdict {
        let tool = call.tool.name.as_str();
        let tenant = call.tenant;
        info!(tool, %tenant, is_approved, "the decision about a call that waited is used");
        self.acts.record(|| {
            let decision = if is_approved { "approved" } else { "denied" };
            let act = Act::new(ActKind::ApprovalUsed, tenant, &used.id)
                .with("tool", tool)
                .with("decision", decision);
            match &used.decided_by {
                Some(actor) => act.with("decided_by", actor),
                None => act,
            }
        });
        if is_approved { ApprovalVerdict::Approved } else { ApprovalVerdict::Denied }
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
        if call.arguments.len() > MAX_ARGUMENTS_BYTES {
            return ApprovalVerdict::Refused("its arguments are too long to be shown to a person");
        }
        self.wait(call, Instant::now() + limit).await.unwrap_or_else(|error| match error {
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
            if is_first {
                let tool = call.tool.name.as_str();
                let tenant = call.tenant;
                info!(tool, %tenant, call = id, "a call waits for an approval");
                self.acts
                    .record(|| Act::new(ActKind::ApprovalAsked, tenant, &id).with("tool", tool));
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
        tool: &'a Tool,
        arguments: &'a str,
        tenant: &'a Tenant,
        limit: Duration,
    ) -> BoxFuture<'a, ApprovalVerdict> {
        Box::pin(async move {
            self.decision(
                &Call { tool, arguments, tenant, client: None, is_for_operators: false },
                limit,
            )
            .await
        })
    }
}

impl Call<'_> {
    /// Returns a digest of what would run. That of a call for operators is another one, so that it does not
    /// use the decision of its caller about the same call.
    fn digest(&self) -> CallDigest {
        let mut hasher = blake3::Hasher::new();
        for part in [self.tool.name.as_str(), self.tool.digest().as_str(), self.arguments] {
            hasher.update(&part.len().to_be_bytes()).update(part.as_bytes());
        }
        if self.is_for_operators {
            hasher.update(OPERATORS.as_bytes());
        }
        hasher.finalize().into()
    }

    /// Returns the text that the list has of the call. Arguments stay as they were sent: a number
    /// that was read would not be exact.
    fn text(&self) -> String {
        let mut known = json!({
            "tool": self.tool.name.as_str(),
            "key": self.tenant.to_string(),
            "client": self.client,
        });
        if self.is_for_operators {
            known[DECIDED_BY] = OPERATORS.into();
        }
        let known = known.to_string();
        format!("{},\"arguments\":{}}}", &known[..known.len() - 1], self.arguments)
    }
}

/// Logs a decision about a call, without the arguments. `actor` has made it.
pub fn log_decision(call: &WaitingCall, actor: &Actor, is_approved: bool) {
    let WaitingCall { id, .. } = call;
    let tool = visible_line(&tool_of(call));
    info!(%actor, tool, call = id, is_approved, "a call that waits was decided about");
}

/// Returns the name of a tool in the text of a call.
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
        "created_at_ms": call.asked_ms,
        "expires_at_ms": call.expires_ms,
    })
}

fn visible_member(call: &WaitingCall, name: &str) -> Option<String> {
    raw::member(&call.text, name).and_then(raw::string).map(|text| visible_line(&text))
}
