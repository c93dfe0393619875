//! Limits of a new key, as the command line has them.

use anyhow::{Context as _, ensure};
use serde_json::{Map, Value, json};

/// Limits of a key.
#[derive(Debug, clap::Args)]
pub(super) struct LimitArgs {
    /// Money that may be spent in a time, in US dollars: 50/1M, 2.5/daily, or 100/never for a prepaid amount. May
    /// be given several times, each with another time.
    #[arg(long = "budget", value_name = "DOLLARS/TIME")]
    budgets: Vec<String>,
    /// Limit on calls of tools, bytes of their arguments, requests to models, or tokens in a time, such as
    /// calls=100/1m or bytes=1000000/1h; or on those that run at the same time: concurrent=4. May be given several
    /// times.
    #[arg(long = "limit", value_name = "WHAT=NUMBER[/TIME]")]
    limits: Vec<String>,
}

impl LimitArgs {
    /// Returns the members of the key. Fails if a value is not in its form; the gateway checks the rest.
    pub(super) fn members(&self) -> anyhow::Result<Map<String, Value>> {
        let mut members = Map::new();
        let budgets = self.budgets.iter().map(|text| budget(text));
        let budgets = budgets.collect::<anyhow::Result<Vec<_>>>()?;
        if !budgets.is_empty() {
            members.insert("budgets".to_owned(), budgets.into());
        }
        let mut rates = Map::new();
        for text in &self.limits {
            for (member, value) in limit(text)? {
                let earlier = rates.insert(member, value);
                ensure!(earlier.is_none(), "--limit {text:?}: this limit is given twice");
            }
        }
        if !rates.is_empty() {
            members.insert("rate_limit".to_owned(), rates.into());
        }
        Ok(members)
    }
}

/// Returns the budget for `DOLLARS/TIME`.
fn budget(text: &str) -> anyhow::Result<Value> {
    let parts = text.split_once('/');
    let parts = parts.and_then(|(amount, time)| Some((amount.parse::<f64>().ok()?, time)));
    let (amount, time) =
        parts.filter(|(amount, time)| amount.is_finite() && !time.is_empty()).with_context(
            || format!("--budget {text:?} is not DOLLARS/TIME, such as 50/1M or 100/never"),
        )?;
    Ok(json!({"max_limit": amount, "reset_duration": time}))
}

/// Returns the members of `rate_limit` for `WHAT=NUMBER/TIME` or `concurrent=NUMBER`.
fn limit(text: &str) -> anyhow::Result<Vec<(String, Value)>> {
    let (what, rest) = text.split_once('=').with_context(|| wrong(text))?;
    if what == "concurrent" {
        let number: u64 = rest.parse().ok().with_context(|| wrong(text))?;
        return Ok(vec![("max_concurrent".to_owned(), number.into())]);
    }
    let measure = match what {
        "calls" => "tool_call",
        "bytes" => "argument_byte",
        "requests" => "request",
        "tokens" => "token",
        _ => anyhow::bail!(wrong(text)),
    };
    let (number, time) = rest.split_once('/').with_context(|| wrong(text))?;
    let number: u64 = number.parse().ok().with_context(|| wrong(text))?;
    Ok(vec![
        (format!("{measure}_max_limit"), number.into()),
        (format!("{measure}_reset_duration"), time.into()),
    ])
}

/// Returns the message about a limit in another form.
fn wrong(text: &str) -> String {
    format!(
        "--limit {text:?} is none of calls=NUMBER/TIME, bytes=NUMBER/TIME, requests=NUMBER/TIME, tokens=NUMBER/TIME and concurrent=NUMBER"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(budgets: &[&str], limits: &[&str]) -> Option<Value> {
        let [budgets, limits] =
            [budgets, limits].map(|texts| texts.iter().map(|text| (*text).to_owned()).collect());
        let args = LimitArgs { budgets, limits };
        args.members().ok().map(Value::Object)
    }

    #[test]
    fn limits_are_amounts_in_a_time() {
        assert_eq!(members(&[], &[]), Some(json!({})));
        assert_eq!(
            members(&["50/1M", "2.5/daily"], &["calls=100/1m", "bytes=1000000/1h", "concurrent=4"]),
            Some(json!({
                "budgets": [
                    {"max_limit": 50.0, "reset_duration": "1M"},
                    {"max_limit": 2.5, "reset_duration": "daily"},
                ],
                "rate_limit": {
                    "tool_call_max_limit": 100, "tool_call_reset_duration": "1m",
                    "argument_byte_max_limit": 1_000_000, "argument_byte_reset_duration": "1h",
                    "max_concurrent": 4,
                },
            }))
        );
    }

    #[test]
    fn other_forms_are_refused() {
        for text in ["50", "/1M", "50/", "x/1M", "inf/1M", "NaN/1d"] {
            assert_eq!(members(&[text], &[]), None, "{text}");
        }
        for text in [
            "calls",
            "calls=1",
            "calls=x/1m",
            "calls=-1/1m",
            "bytes=1MiB/1h",
            "cost=1/1d",
            "concurrent=1/1m",
        ] {
            assert_eq!(members(&[], &[text]), None, "{text}");
        }
        assert_eq!(members(&[], &["calls=1/1m", "calls=2/1h"]), None);
    }
}
