//! Sums the model's usage over all responses of a request.

use serde_json::{Map, Number, Value};

/// Maximum number of values in a `usage` object; one with more is not added. Providers send about
/// twenty, and each response could add new members.
const MAX_VALUES: usize = 256;
/// Maximum length of all names and texts in a `usage` object, in bytes: 64 for each of
/// [`MAX_VALUES`].
const MAX_BYTES: usize = 16 << 10;

/// Sum of `usage` objects. Boxed: each stream would have room for it from its beginning, and most streams have none.
#[derive(Debug, Default)]
pub(super) struct UsageSum(Option<Box<Value>>);

impl UsageSum {
    /// Adds the `usage` of a response, if it has one.
    pub(super) fn add(&mut self, usage: Option<Value>) {
        let Some(usage) = usage.filter(|usage| usage.is_object() && is_small(usage)) else {
            return;
        };
        match &mut self.0 {
            Some(sum) => add(sum, &usage),
            None => self.0 = Some(Box::new(usage)),
        }
    }

    /// Returns the sum; `None` if there was no usage.
    pub(super) fn into_value(self) -> Option<Value> {
        self.0.map(|sum| *sum)
    }
}

/// Returns whether a value is within [`MAX_VALUES`] and [`MAX_BYTES`]. Stops reading at the first
/// excess.
fn is_small(value: &Value) -> bool {
    let mut found = 0;
    let mut bytes = 0;
    let mut next = vec![value];
    while let Some(value) = next.pop() {
        found += 1;
        let inner = value.as_array().map_or(0, Vec::len) + value.as_object().map_or(0, Map::len);
        if found + next.len() + inner > MAX_VALUES {
            return false;
        }
        let names =
            value.as_object().into_iter().flat_map(Map::keys).map(String::len).sum::<usize>();
        bytes += names + value.as_str().map_or(0, str::len);
        if bytes > MAX_BYTES {
            return false;
        }
        next.extend(
            value
                .as_array()
                .into_iter()
                .flatten()
                .chain(value.as_object().into_iter().flat_map(Map::values)),
        );
    }
    true
}

/// Adds numbers, member by member. For other types the last value replaces the earlier one.
fn add(sum: &mut Value, more: &Value) {
    match (sum, more) {
        (Value::Object(sum), Value::Object(more)) => add_members(sum, more),
        (Value::Number(sum), Value::Number(more)) => *sum = added(sum, more),
        (_, Value::Null) => {}
        (sum, more) => *sum = more.clone(),
    }
}

fn add_members(sum: &mut Map<String, Value>, more: &Map<String, Value>) {
    for (key, more) in more {
        match sum.get_mut(key) {
            Some(sum) => add(sum, more),
            None => drop(sum.insert(key.clone(), more.clone())),
        }
    }
}

fn added(a: &Number, b: &Number) -> Number {
    if let (Some(a), Some(b)) = (a.as_u64(), b.as_u64()) {
        return a.saturating_add(b).into();
    }
    let sum = a.as_f64().unwrap_or_default() + b.as_f64().unwrap_or_default();
    Number::from_f64(sum).unwrap_or_else(|| a.clone())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_oversized_usage_is_not_added() {
        let mut usage = UsageSum::default();
        for bad in [
            json!(members(MAX_VALUES + 1)),
            json!({"a": vec![members(10); 30]}),
            json!({"a": vec![0; 10_000]}),
            json!({"a": "x".repeat(MAX_BYTES)}),
        ] {
            usage.add(Some(bad));
        }
        assert!(usage.0.is_none());
        usage.add(Some(json!(members(MAX_VALUES - 1))));
        assert!(usage.0.is_some());
    }

    fn members(count: usize) -> Map<String, Value> {
        (0..count).map(|n| (n.to_string(), json!(1))).collect()
    }

    #[test]
    fn numbers_are_summed_at_every_depth() {
        let mut usage = UsageSum::default();
        for answer in [
            json!({"total_tokens": 1, "details": {"cached": 2, "audio": null}, "cost": 0.5, "tier": "a"}),
            json!(null),
            json!({"total_tokens": 10, "details": {"cached": 20, "audio": 3}, "cost": 1, "tier": "b", "new": 1}),
        ] {
            usage.add(Some(answer));
        }
        let expected = json!({"total_tokens": 11, "details": {"cached": 22, "audio": 3}, "cost": 1.5, "tier": "b", "new": 1});
        assert_eq!(usage.into_value(), Some(expected));
    }
}
