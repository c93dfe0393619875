//! Event → line of the audit log, and rows of the call log. On the writer's thread alone.

use std::{
    collections::HashSet,
    time::{Duration, SystemTime},
};

use serde_json::{Value, json};

use crate::{
    event::{
        CallCode, CallEnd, CallFacts, CallResult, Event, LostEvents, MAX_TEXT_BYTES, ModelEnd,
        RefusedCall, TimedAct,
    },
    recorder::ToolPrices,
};
use airlock_audit::line;
use airlock_core::{
    door::{Membership, Permission},
    tenant::Tenant,
    tool::ClientName,
};
use airlock_store::call_log::{
    CallContents, CallStatus, LogBatch, LoggedModelCall, LoggedParty, LoggedTokens, LoggedToolCall,
    MAX_CONTENT_BYTES,
};
use airlock_strings::{cut, hex};

/// Longest value of an act in a line, in bytes.
const MAX_DETAIL_BYTES: usize = 2_048;
/// Longest values of an act together, in bytes. An escape makes six of one, so the event has room in a line.
const MAX_ACT_BYTES: usize = (airlock_audit::MAX_EVENT_BYTES - 4_096) / 6;

/// Members of a line.
type Members = Vec<(&'static str, Value)>;

/// Renders events. Of each, what a log needs.
pub(crate) struct Renderer<'r> {
    /// True if there is an audit log.
    pub(crate) has_audit: bool,
    /// True if there is a call log.
    pub(crate) has_call_log: bool,
    /// True if the call log has contents.
    pub(crate) keeps_contents: bool,
    /// Prices of calls; `None` if there are none.
    pub(crate) prices: Option<&'r dyn ToolPrices>,
}

/// What a batch of events becomes.
#[derive(Default)]
pub(crate) struct Rendered {
    pub(crate) lines: Vec<String>,
    pub(crate) rows: LogBatch,
}

impl Renderer<'_> {
    /// Renders a batch.
    pub(crate) fn batch<'e>(&self, events: impl Iterator<Item = &'e Event> + Clone) -> Rendered {
        let mut rendered = Rendered::default();
        // The row of a call that has ended in the same batch has all that the row of its admission has.
        let ended: HashSet<String> = events
            .clone()
            .filter_map(|event| match event {
                Event::Ended(end) => Some(end.facts.id.to_string()),
                _ => None,
            })
            .collect();
        for event in events {
            self.event(event, &ended, &mut rendered);
        }
        rendered
    }

    fn event(&self, event: &Event, ended: &HashSet<String>, rendered: &mut Rendered) {
        let Rendered { lines, rows } = rendered;
        match event {
            Event::Admitted(facts) => {
                if self.has_audit {
                    lines.push(line("call_admitted", admission(facts)));
                }
                if self.has_call_log && !ended.contains(&facts.id.to_string()) {
                    rows.tools.push(admitted_row(facts));
                }
            }
            Event::Ended(end) => self.ended(end, rendered),
            Event::Refused(refused) => {
                if self.has_audit {
                    lines.push(line("call_refused", refusal(refused)));
                }
                if self.has_call_log {
                    rows.tools.push(refused_row(refused));
                }
            }
            Event::Model(end) => {
                if self.has_audit {
                    lines.push(line("model_ended", model(end)));
                }
                if self.has_call_log {
                    rows.models.push(model_row(end));
                }
            }
            Event::Act(timed) => {
                if self.has_audit {
                    lines.push(line(timed.act.kind.name(), act(timed)));
                }
            }
            Event::Lost(LostEvents { until, count }) => {
                if self.has_audit {
                    let members = [("time_ms", milliseconds(*until)), ("count", json!(count))];
                    lines.push(line("events_lost", members));
                }
            }
        }
    }

    fn ended(&self, end: &CallEnd, rendered: &mut Rendered) {
        let result = end.result.as_ref().and_then(result_text);
        let digest = match (&result, end.facts.committed()) {
            (Some(result), Some(committed)) => Some(committed.salts.of_result(result)),
            _ => None,
        };
        let cost = self.tool_cost(end);
        if self.has_audit {
            let members = ending(end, digest, result.as_ref().map(String::len), cost);
            rendered.lines.push(line("call_ended", members));
        }
        if !self.has_call_log {
            return;
        }
        let row = ended_row(end, digest, cost);
        if self.keeps_contents {
            let arguments = end.facts.arguments.as_str().to_owned();
            let contents = CallContents {
                arguments: Some(arguments).filter(|text| text.len() <= MAX_CONTENT_BYTES),
                result: result.filter(|text| text.len() <= MAX_CONTENT_BYTES),
            };
            rendered.rows.contents.push((row.id.clone(), contents));
        }
        rendered.rows.tools.push(row);
    }

    /// Returns the cost of a call of a tool, in millionths of a US dollar, as limits count it: one that ran costs
    /// its price whatever its result, and one that continues another costs nothing more.
    fn tool_cost(&self, end: &CallEnd) -> Option<u64> {
        let CallFacts { tool, permission, .. } = &*end.facts;
        let is_paid = end.has_begun && *permission != Permission::Continuation;
        if !is_paid || tool.client.is_none() {
            return None;
        }
        self.prices?.of_tool(tool.full_name.as_str())
    }
}

/// Returns the text of a result that is committed to and kept: the JSON of MCP's `CallToolResult`.
fn result_text(result: &CallResult) -> Option<String> {
    match result {
        CallResult::Output(output) => serde_json::to_string(output).ok(),
        CallResult::Error(text) => {
            Some(json!({"content": [{"type": "text", "text": text}], "isError": true}).to_string())
        }
    }
}

fn admission(facts: &CallFacts) -> Members {
    let commitment = facts.committed().map(|committed| hex(&committed.arguments));
    let mut members = vec![
        ("time_ms", milliseconds(facts.at)),
        ("call", facts.id.to_string().into()),
        ("parent", facts.parent.map(|parent| parent.to_string()).into()),
        ("origin", facts.origin.name().into()),
        ("tool", facts.tool.full_name.as_str().into()),
        ("client", facts.tool.client.as_ref().map(ClientName::as_str).into()),
        ("decision", facts.permission.name().into()),
        ("effects", facts.has_effects.into()),
        ("arguments", commitment.into()),
        ("arguments_bytes", facts.arguments.as_str().len().into()),
    ];
    members.extend(party(&facts.tenant, &facts.membership));
    members
}

fn ending(
    end: &CallEnd,
    result: Option<[u8; 32]>,
    result_bytes: Option<usize>,
    cost: Option<u64>,
) -> Members {
    vec![
        ("time_ms", milliseconds(end.at)),
        ("call", end.facts.id.to_string().into()),
        ("tool", end.facts.tool.full_name.as_str().into()),
        ("outcome", end.status.name().into()),
        ("code", end.code.as_ref().map(code).into()),
        ("duration_us", microseconds(end.duration).into()),
        ("fuel", end.fuel.into()),
        ("run", end.run.as_deref().map(bounded).into()),
        ("cost_microdollars", cost.into()),
        ("result", result.map(|digest| hex(&digest)).into()),
        ("result_bytes", result_bytes.into()),
    ]
}

fn refusal(refused: &RefusedCall) -> Members {
    let mut members = vec![
        ("time_ms", milliseconds(refused.at)),
        ("call", refused.id.to_string().into()),
        ("parent", refused.parent.map(|parent| parent.to_string()).into()),
        ("origin", refused.origin.name().into()),
        ("tool", bounded(&refused.name).into()),
        ("client", refused.client.as_deref().into()),
        ("code", code(&refused.code).into()),
    ];
    members.extend(party(&refused.tenant, &refused.membership));
    members
}

fn model(end: &ModelEnd) -> Members {
    let usage = end.usage.as_ref();
    let mut members = vec![
        ("time_ms", milliseconds(end.begun)),
        ("request", end.id.to_string().into()),
        ("model", bounded(&end.model).into()),
        ("provider", end.provider.as_deref().map(bounded).into()),
        ("served_model", end.served_model.as_deref().map(bounded).into()),
        ("streamed", end.is_streamed.into()),
        ("outcome", end.status.name().into()),
        ("code", end.code.as_deref().map(bounded).into()),
        ("duration_us", microseconds(end.duration).into()),
        ("input_tokens", usage.map(|usage| usage.input).into()),
        ("cached_input_tokens", usage.map(|usage| usage.cached_input).into()),
        ("output_tokens", usage.map(|usage| usage.output).into()),
        ("reasoning_tokens", usage.map(|usage| usage.reasoning).into()),
        ("cost_microdollars", end.cost.into()),
    ];
    members.extend(party(&end.tenant, &end.membership));
    members
}

fn act(timed: &TimedAct) -> Members {
    let act = &timed.act;
    let most = (MAX_ACT_BYTES / (act.details.len() + 2)).min(MAX_DETAIL_BYTES);
    let mut members = vec![
        ("time_ms", milliseconds(timed.at)),
        ("actor", cut(act.actor.clone(), most).into()),
        ("object", cut(act.object.clone(), most).into()),
    ];
    let details = act.details.iter();
    members.extend(details.map(|(name, value)| (*name, cut(value.clone(), most).into())));
    members
}

fn party(tenant: &Tenant, membership: &Membership) -> Members {
    let LoggedParty { key_id, key_name, team, customer, user_issuer, user_subject } =
        logged_party(tenant, membership);
    vec![
        ("key", key_id.into()),
        ("key_name", key_name.into()),
        ("team", team.into()),
        ("customer", customer.into()),
        ("user_issuer", user_issuer.into()),
        ("user_subject", user_subject.into()),
    ]
}

fn logged_party(tenant: &Tenant, membership: &Membership) -> LoggedParty {
    let Membership { key, key_name, team, customer } = membership;
    let identity = tenant.identity();
    let user = identity.and_then(|identity| identity.user);
    // A key that no element of the configuration describes has its name alone.
    let own_name = identity.map(|identity| identity.key_name);
    LoggedParty {
        key_id: key.as_deref().or(own_name).map(bounded),
        key_name: key_name.as_deref().or(own_name).map(bounded),
        team: team.as_deref().map(bounded),
        customer: customer.as_deref().map(bounded),
        user_issuer: user.map(|user| bounded(&user.issuer)),
        user_subject: user.map(|user| bounded(&user.subject)),
    }
}

fn admitted_row(facts: &CallFacts) -> LoggedToolCall {
    let committed = facts.committed();
    LoggedToolCall {
        id: facts.id.to_string(),
        at_ms: since_1970(facts.at),
        status: CallStatus::Processing,
        tool: facts.tool.full_name.as_str().to_owned(),
        client: facts.tool.client.as_ref().map(|client| client.as_str().to_owned()),
        origin: facts.origin.name().to_owned(),
        decision: facts.permission.name().to_owned(),
        party: logged_party(&facts.tenant, &facts.membership),
        parent: facts.parent.map(|parent| parent.to_string()),
        run: None,
        code: None,
        duration_us: None,
        cost: None,
        fuel: None,
        arguments_digest: committed.map(|committed| committed.arguments),
        result_digest: None,
        salt: committed.map(|committed| *committed.salts.bytes()),
        erased_ms: None,
    }
}

fn ended_row(end: &CallEnd, digest: Option<[u8; 32]>, cost: Option<u64>) -> LoggedToolCall {
    LoggedToolCall {
        status: end.status,
        run: end.run.as_deref().map(bounded),
        code: end.code.as_ref().map(code),
        duration_us: Some(signed(microseconds(end.duration))),
        cost: cost.map(signed),
        fuel: end.fuel.map(signed),
        result_digest: digest,
        ..admitted_row(&end.facts)
    }
}

fn refused_row(refused: &RefusedCall) -> LoggedToolCall {
    LoggedToolCall {
        id: refused.id.to_string(),
        at_ms: since_1970(refused.at),
        status: CallStatus::Refused,
        tool: bounded(&refused.name),
        client: refused.client.as_deref().map(bounded),
        origin: refused.origin.name().to_owned(),
        decision: "refused".to_owned(),
        party: logged_party(&refused.tenant, &refused.membership),
        parent: refused.parent.map(|parent| parent.to_string()),
        run: None,
        code: Some(code(&refused.code)),
        duration_us: None,
        cost: None,
        fuel: None,
        arguments_digest: None,
        result_digest: None,
        salt: None,
        erased_ms: None,
    }
}

fn model_row(end: &ModelEnd) -> LoggedModelCall {
    LoggedModelCall {
        id: end.id.to_string(),
        at_ms: since_1970(end.begun),
        status: end.status,
        model: bounded(&end.model),
        provider: end.provider.as_deref().map(bounded),
        served_model: end.served_model.as_deref().map(bounded),
        party: logged_party(&end.tenant, &end.membership),
        is_streamed: end.is_streamed,
        code: end.code.as_deref().map(bounded),
        duration_us: Some(signed(microseconds(end.duration))),
        cost: end.cost.map(signed),
        tokens: end.usage.map(|usage| LoggedTokens {
            input: signed(usage.input),
            cached: signed(usage.cached_input),
            output: signed(usage.output),
            reasoning: signed(usage.reasoning),
        }),
    }
}

fn code(code: &CallCode) -> String {
    match code {
        CallCode::Host(code) => code.prefixed(),
        CallCode::Tool(code) => bounded(code),
    }
}

fn bounded(text: &str) -> String {
    cut(text.to_owned(), MAX_TEXT_BYTES)
}

fn milliseconds(time: SystemTime) -> Value {
    since_1970(time).into()
}

fn since_1970(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Converts a number, which a provider or a tool may have made up: sums of as many rows as a query reads must
/// not overflow, and 2^43 is more than any real one.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX).min(i64::MAX >> 20)
}

#[cfg(test)]
mod tests;
