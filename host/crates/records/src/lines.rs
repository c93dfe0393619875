//! Event → line of the audit log. On the thread of its writer alone.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::event::{
    CallCode, CallEnd, CallFacts, CountedEvents, CountedKind, LostEvents, ModelEnd, RecordEvent,
    RefusedCall, ShortText, TimedAct, logged_party,
};
use airlock_audit::line;
use airlock_core::{
    act::Actor,
    door::Membership,
    tenant::Tenant,
    tool::{ClientName, GuardAct, GuardHook, SourceSet},
    unix_time::unix_milliseconds,
};
use airlock_store::call_log::LoggedParty;
use airlock_strings::{cut, hex};

/// Longest value of an act in a line, in bytes: several have room in [`MAX_ACT_BYTES`].
const MAX_DETAIL_BYTES: usize = 2_048;
/// Longest values of an act together, in bytes. An escape makes six of one, so the event has room in a line.
const MAX_ACT_BYTES: usize = (airlock_audit::MAX_EVENT_BYTES - 4_096) / 6;

/// Members of a line.
type LineMembers = Vec<(&'static str, Value)>;

/// Renders an event.
pub(crate) fn render(event: &RecordEvent) -> String {
    match event {
        RecordEvent::Admitted(facts) => line("call_admitted", admission(facts)),
        RecordEvent::Ended(end) => line("call_ended", ending(end)),
        RecordEvent::Refused(refused) => line("call_refused", refusal(refused)),
        RecordEvent::Model(end) => line("model_ended", model(end)),
        RecordEvent::Act(timed) => line(timed.act.kind.name(), act(timed)),
        RecordEvent::Counted(events) => line("events_counted", counted(events)),
        RecordEvent::Lost(LostEvents { until, count }) => {
            line("events_lost", [("time_ms", milliseconds(*until)), ("count", json!(count))])
        }
    }
}

fn admission(facts: &CallFacts) -> LineMembers {
    let commitment = facts.committed().map(|committed| hex(&committed.arguments));
    let mut members = vec![
        ("time_ms", milliseconds(facts.at)),
        ("call", facts.id.to_string().into()),
        ("parent", facts.parent.map(|parent| parent.to_string()).into()),
        ("origin", facts.origin.into()),
        ("tool", facts.tool.full_name.as_str().into()),
        ("client", facts.tool.client.as_ref().map(ClientName::as_str).into()),
        ("decision", facts.permission.name().into()),
        ("decided_by", text(facts.decided_by.as_ref())),
        ("effects", facts.has_effects.into()),
        ("arguments", commitment.into()),
        ("arguments_bytes", facts.arguments.as_str().len().into()),
    ];
    members.extend(party(&facts.tenant, &facts.membership));
    members.extend(guards(facts.guards.iter()));
    members.extend(sources(&facts.sources));
    members
}

/// Returns the decisions of guards as a member; `None` if there are none.
fn guards<'a>(acts: impl Iterator<Item = &'a GuardAct>) -> Option<(&'static str, Value)> {
    let acts: Vec<_> = acts.collect();
    (!acts.is_empty()).then(|| ("guards", json!(acts)))
}

/// Returns the sources as a member; `None` if there are none.
fn sources(sources: &SourceSet) -> Option<(&'static str, Value)> {
    (!sources.is_empty()).then(|| ("sources", json!(sources)))
}

fn ending(end: &CallEnd) -> LineMembers {
    let result = end.committed_result();
    let mut members = vec![
        ("time_ms", milliseconds(end.at)),
        ("call", end.facts.id.to_string().into()),
        ("tool", end.facts.tool.full_name.as_str().into()),
        ("outcome", end.status.name().into()),
        ("code", end.code.as_ref().map(CallCode::name).into()),
        ("duration_us", microseconds(end.duration).into()),
        ("fuel", end.fuel.into()),
        ("memory_bytes", end.memory_bytes.into()),
        ("run", text(end.run.as_ref())),
        ("cost_microdollars", end.cost.into()),
        ("result", result.map(|result| hex(&result.digest)).into()),
        ("result_bytes", result.map(|result| result.bytes).into()),
    ];
    let after = end.guards.iter().filter(|act| act.hook == GuardHook::After);
    members.extend(guards(after));
    members
}

fn refusal(refused: &RefusedCall) -> LineMembers {
    let mut members = vec![
        ("time_ms", milliseconds(refused.at)),
        ("call", refused.id.to_string().into()),
        ("parent", refused.parent.map(|parent| parent.to_string()).into()),
        ("origin", refused.origin.into()),
        ("tool", refused.name.as_str().into()),
        ("client", text(refused.client.as_ref())),
        ("code", refused.code.name().into()),
    ];
    members.extend(party(&refused.tenant, &refused.membership));
    members.extend(guards(refused.guards.iter()));
    members.extend(sources(&refused.sources));
    members
}

fn model(end: &ModelEnd) -> LineMembers {
    let usage = end.usage.as_ref();
    let mut members = vec![
        ("time_ms", milliseconds(end.at)),
        ("request", end.id.to_string().into()),
        ("model", end.model.as_str().into()),
        ("provider", text(end.provider.as_ref())),
        ("served_model", text(end.served_model.as_ref())),
        ("streamed", end.is_streamed.into()),
        ("outcome", end.status.name().into()),
        ("code", text(end.code.as_ref())),
        ("duration_us", microseconds(end.duration).into()),
        ("input_tokens", usage.map(|usage| usage.input).into()),
        ("cached_input_tokens", usage.map(|usage| usage.cached_input).into()),
        ("output_tokens", usage.map(|usage| usage.output).into()),
        ("reasoning_tokens", usage.map(|usage| usage.reasoning).into()),
        ("cost_microdollars", end.cost.into()),
    ];
    members.extend(party(&end.tenant, &end.membership));
    members.extend(guards(end.guards.iter()));
    members
}

fn act(timed: &TimedAct) -> LineMembers {
    let act = &timed.act;
    let most = (MAX_ACT_BYTES / (act.details.len() + 4)).min(MAX_DETAIL_BYTES);
    let mut members = vec![
        ("time_ms", milliseconds(timed.at)),
        ("actor", cut(act.actor.to_string(), most).into()),
        ("object", cut(act.object.clone(), most).into()),
    ];
    if let Actor::User { user, .. } = &act.actor {
        members.push(("user_issuer", cut(user.issuer.clone(), most).into()));
        members.push(("user_subject", cut(user.subject.clone(), most).into()));
    }
    let details = act.details.iter();
    members.extend(details.map(|(name, value)| (*name, cut(value.clone(), most).into())));
    members
}

fn counted(events: &CountedEvents) -> LineMembers {
    let CountedEvents { until, kind, count, party } = events;
    let mut members = vec![
        ("time_ms", milliseconds(*until)),
        ("events", kind.map(CountedKind::name).into()),
        ("count", json!(count)),
    ];
    members.extend(party.clone().into_iter().flat_map(of_party));
    members
}

fn party(tenant: &Tenant, membership: &Membership) -> LineMembers {
    of_party(logged_party(tenant, membership))
}

fn of_party(party: LoggedParty) -> LineMembers {
    let LoggedParty { key_id, key_name, team, customer, user_issuer, user_subject } = party;
    vec![
        ("key", key_id.into()),
        ("key_name", key_name.into()),
        ("team", team.into()),
        ("customer", customer.into()),
        ("user_issuer", user_issuer.into()),
        ("user_subject", user_subject.into()),
    ]
}

fn text(text: Option<&ShortText>) -> Value {
    text.map(ShortText::as_str).into()
}

fn milliseconds(time: SystemTime) -> Value {
    unix_milliseconds(time).into()
}

pub(crate) fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
