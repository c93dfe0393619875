//! Members of elements with limits, in the forms of Bifrost's bodies.

use serde_json::{Map, Value};

use crate::refusal::{Result, invalid};
use airlock_operator_api::ManagementRefusal;

/// The limits on money.
pub(crate) const BUDGETS: &str = "budgets";
/// The same with one entry.
pub(crate) const BUDGET: &str = "budget";
/// The other limits.
pub(crate) const RATE_LIMIT: &str = "rate_limit";
/// Windows of the calendar.
pub(crate) const CALENDAR_ALIGNED: &str = "calendar_aligned";
/// Member of an update that forgets what was spent.
const RESET: &str = "reset_budget_usage";

/// Writes `budget` of a request as `budgets` with one entry, unless it has both.
pub(crate) fn merge_budget(sent: &mut Map<String, Value>) {
    if sent.contains_key(BUDGETS) || !sent.contains_key(BUDGET) {
        return;
    }
    let budgets = match sent.remove(BUDGET) {
        None | Some(Value::Null) => Value::Null,
        Some(budget) => Value::Array(vec![budget]),
    };
    sent.insert(BUDGETS.to_owned(), budgets);
}

/// Does the same as [`merge_budget`] for a body, if it is an object.
pub(crate) fn with_budgets(mut body: Value) -> Value {
    if let Some(sent) = body.as_object_mut() {
        merge_budget(sent);
    }
    body
}

/// Sets a member with limits. An empty value removes it, and `None` leaves it.
pub(crate) fn set(element: &mut Value, member: &str, value: Option<&Value>) {
    let (Some(element), Some(value)) = (element.as_object_mut(), value) else { return };
    if member == BUDGETS {
        element.remove(BUDGET);
    }
    if is_none(value) {
        element.remove(member);
    } else {
        element.insert(member.to_owned(), value.clone());
    }
}

/// Removes `budget` of an element for which a request has `budgets`.
pub(crate) fn replace_budget(element: &mut Map<String, Value>, sent: &Map<String, Value>) {
    if sent.contains_key(BUDGETS) {
        element.remove(BUDGET);
    }
}

/// Takes the member of an update that forgets what was spent. Returns whether it is true.
pub(crate) fn take_reset(sent: &mut Map<String, Value>) -> Result<bool> {
    match sent.remove(RESET) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(resets)) => Ok(resets),
        Some(_) => Err(invalid(format!("`{RESET}` must be true or false"))),
    }
}

/// Returns the refusal of a reset of an element without budgets.
pub(crate) fn no_budgets(title: &str) -> ManagementRefusal {
    invalid(format!("`{RESET}`: a {title} has no budgets"))
}

/// Returns whether a value of a member with limits stands for no limit.
fn is_none(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(elements) => elements.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn members(value: Value) -> Map<String, Value> {
        match value {
            Value::Object(members) => members,
            _ => Map::new(),
        }
    }

    #[test]
    fn one_budget_is_a_list_of_one_and_replaces_the_one_of_the_element() {
        let mut sent = members(json!({"budget": {"max_limit": 1}}));
        merge_budget(&mut sent);
        assert_eq!(Value::Object(sent.clone()), json!({"budgets": [{"max_limit": 1}]}));
        let mut element = members(json!({"budget": {"max_limit": 2}, "name": "a"}));
        replace_budget(&mut element, &sent);
        assert_eq!(Value::Object(element), json!({"name": "a"}));
        // Both together are refused where elements are checked.
        let both = members(json!({"budget": {}, "budgets": []}));
        let mut sent = both.clone();
        merge_budget(&mut sent);
        assert_eq!(sent, both);
    }

    #[test]
    fn a_reset_is_true_or_false() {
        for (sent, expected) in [
            (json!({}), Some(false)),
            (json!({"reset_budget_usage": true}), Some(true)),
            (json!({"reset_budget_usage": "yes"}), None),
        ] {
            let mut sent = members(sent);
            assert_eq!(take_reset(&mut sent).ok(), expected);
            assert!(sent.is_empty());
        }
    }
}
