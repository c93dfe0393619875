//! The guards of the lab, two of those that are shipped, as an operator configures them who knows the servers and no attack.

use serde_json::{Value, json};

use crate::guests;

/// Settings of the guard `policy`, whose rules are listed in `docs/attack-lab.md`.
const POLICY: &str = include_str!("../../benches/lab/policy.json");
/// Time of one hook. A machine that also runs the servers of other cases takes longer than the default permits, and a
/// guard that reaches its limit fails the case.
const TIME: &str = "1s";

/// Returns the guards as the configuration has them, for all calls and both hooks. Panics if the settings of `policy` are
/// not JSON.
pub fn guards() -> Vec<Value> {
    let rules: Value = serde_json::from_str(POLICY).expect("JSON");
    [("policy", guests::POLICY, rules), ("secrets", guests::SECRETS, json!({}))]
        .map(|(name, component, settings)| {
            let limits = json!({"time": TIME});
            json!({"name": name, "component": component, "settings": settings, "limits": limits})
        })
        .into()
}
