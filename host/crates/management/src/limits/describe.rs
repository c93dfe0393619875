//! Limits in responses, in the form of Bifrost's budgets and rate limits.

use std::time::{Duration, SystemTime};

use serde_json::{Map, Value, json};

use airlock_core::money::Money;
use airlock_limits::{
    LimitState,
    limit::{Limit, Measure, Owner, Scope, Window},
};

/// Describes a limit on money.
pub(super) fn budget(limit: &Limit, state: Option<&LimitState>) -> Value {
    let mut shown = owned(limit);
    let amount = state.and_then(|state| state.raise).map_or(0, |raise| raise.amount);
    shown.extend(members(json!({
        "id": limit.id,
        "max_limit": dollars(limit.most),
        "reset_duration": limit.window.to_string(),
        "calendar_aligned": matches!(limit.window, Window::Calendar(_)),
        "current_usage": state.map(|state| dollars(state.used)),
        "reserved": state.map(|state| dollars(state.reserved)),
        "last_reset": state.and_then(|state| state.window_start).map(time),
        "next_reset": state.and_then(|state| state.window_end).map(time),
        "effective_max_limit": dollars(limit.most.saturating_add(amount)),
    })));
    if let Some(raise) = state.and_then(|state| state.raise) {
        let mode = if raise.until.is_some() { "cycles" } else { "forever" };
        shown.extend(members(json!({
            "override_amount": dollars(raise.amount),
            "override_mode": mode,
            "override_until": raise.until.map(time),
        })));
    }
    Value::Object(shown)
}

/// Describes the other limits of one owner on the same requests and calls.
pub(super) fn rate_limit(limits: &[(&Limit, Option<LimitState>)]) -> Option<Value> {
    let (first, _) = limits.first()?;
    let mut shown = owned(first);
    for (limit, state) in limits {
        let measure = match limit.measure {
            Measure::Tokens => "token",
            Measure::Requests => "request",
            Measure::ToolCalls => "tool_call",
            Measure::ArgumentBytes => "argument_byte",
            Measure::Concurrency => {
                shown.insert("max_concurrent".to_owned(), limit.most.into());
                let running = state.as_ref().map(|state| state.used);
                shown.insert("current_concurrent".to_owned(), running.into());
                continue;
            }
            Measure::Cost => continue,
        };
        let state = state.as_ref();
        let own: [(&str, Value); 6] = [
            ("max_limit", limit.most.into()),
            ("reset_duration", limit.window.to_string().into()),
            ("current_usage", state.map(|state| state.used).into()),
            ("reserved", state.map(|state| state.reserved).into()),
            ("last_reset", state.and_then(|state| state.window_start).map(time).into()),
            ("next_reset", state.and_then(|state| state.window_end).map(time).into()),
        ];
        shown.extend(own.map(|(name, value)| (format!("{measure}_{name}"), value)));
    }
    Some(Value::Object(shown))
}

/// Describes whose limit it is and what it counts.
fn owned(limit: &Limit) -> Map<String, Value> {
    let mut shown = Map::new();
    let member = match &limit.owner {
        Owner::Everyone => None,
        Owner::Key(id) => Some(("virtual_key_id", id)),
        Owner::Team(id) => Some(("team_id", id)),
        Owner::Customer(id) => Some(("customer_id", id)),
    };
    if let Some((member, id)) = member {
        shown.insert(member.to_owned(), id.as_str().into());
        shown.insert("owner_name".to_owned(), limit.owner_name.clone().into());
    }
    match &limit.scope {
        Scope::All => {}
        Scope::Model { provider, model } => {
            shown.insert("model_name".to_owned(), model.as_str().into());
            shown.insert("provider".to_owned(), provider.clone().into());
        }
        Scope::Client(client) => {
            shown.insert("mcp_client_name".to_owned(), client.as_str().into());
        }
        Scope::Tool(tool) => drop(shown.insert("tool".to_owned(), tool.as_str().into())),
    }
    shown
}

fn members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

/// Returns an amount of money in US dollars.
fn dollars(amount: u64) -> f64 {
    Money::from_millionths(amount).dollars()
}

/// Returns a time as text, rounded up to a second: at the end of a window that is shown, it has ended.
fn time(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let seconds = since.as_secs().saturating_add(u64::from(since.subsec_nanos() > 0));
    let rounded = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
    humantime::format_rfc3339_seconds(rounded.unwrap_or(time)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_limits::{LimitRaise, limit::Period};

    fn limit(measure: Measure, window: Window) -> Limit {
        Limit {
            id: "7".to_owned(),
            owner: Owner::Key("k".to_owned()),
            owner_name: Some("ann".to_owned()),
            scope: Scope::All,
            measure,
            most: 2_500_000,
            window,
        }
    }

    fn state() -> LimitState {
        LimitState {
            id: "7".to_owned(),
            used: 1_000_000,
            reserved: 250_000,
            most: 3_000_000,
            window_start: Some(SystemTime::UNIX_EPOCH),
            window_end: Some(SystemTime::UNIX_EPOCH + Duration::from_millis(86_399_001)),
            raise: Some(LimitRaise { amount: 500_000, until: None }),
        }
    }

    #[test]
    fn a_budget_is_shown_in_dollars_with_its_window_and_its_override() {
        let limit = limit(Measure::Cost, Window::Calendar(Period::Day));
        let expected = json!({
            "id": "7", "virtual_key_id": "k", "owner_name": "ann", "max_limit": 2.5,
            "reset_duration": "1d", "calendar_aligned": true, "current_usage": 1.0, "reserved": 0.25,
            "last_reset": "1970-01-01T00:00:00Z", "next_reset": "1970-01-02T00:00:00Z",
            "effective_max_limit": 3.0, "override_amount": 0.5, "override_mode": "forever",
            "override_until": null,
        });
        assert_eq!(budget(&limit, Some(&state())), expected);
        let unknown = budget(&limit, None);
        assert_eq!(
            (&unknown["current_usage"], &unknown["effective_max_limit"]),
            (&Value::Null, &json!(2.5))
        );
    }

    #[test]
    fn the_rates_of_one_owner_are_one_element() {
        let tokens = limit(Measure::Tokens, Window::Rolling(Duration::from_mins(90)));
        let running = limit(Measure::Concurrency, Window::Never);
        let bytes = limit(Measure::ArgumentBytes, Window::Never);
        let shown =
            rate_limit(&[(&tokens, None), (&bytes, Some(state())), (&running, Some(state()))]);
        let shown = shown.expect("limits");
        assert_eq!(shown["token_max_limit"], 2_500_000);
        assert_eq!(shown["token_reset_duration"], "90m");
        assert_eq!(shown["argument_byte_max_limit"], 2_500_000);
        assert_eq!(shown["argument_byte_current_usage"], 1_000_000);
        assert_eq!(shown["max_concurrent"], 2_500_000);
        assert_eq!(shown["current_concurrent"], 1_000_000);
        assert_eq!(rate_limit(&[]), None);
    }
}
