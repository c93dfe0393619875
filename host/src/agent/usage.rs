//! What the model used, summed over every time it was asked.

use serde_json::{Map, Number, Value};

use crate::model::Object;

/// A sum of `usage` objects.
#[derive(Debug, Default)]
pub(super) struct Usage(Option<Value>);

impl Usage {
    /// Adds what an answer says it used.
    pub(super) fn add(&mut self, answer: &Object) {
        if let Some(usage @ Value::Object(_)) = answer.get("usage") {
            match &mut self.0 {
                Some(sum) => add(sum, usage),
                None => self.0 = Some(usage.clone()),
            }
        }
    }

    /// Replaces an answer's own figures by the sum.
    pub(super) fn put_into(self, answer: &mut Object) {
        if let Some(sum) = self.0 {
            answer.insert("usage".to_owned(), sum);
        }
    }
}

/// Adds numbers, member by member. Of anything else the last one stays.
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
    use crate::model::object;

    #[test]
    fn every_number_is_summed_however_deep() {
        let mut usage = Usage::default();
        for answer in [
            json!({"usage": {"total_tokens": 1, "details": {"cached": 2, "audio": null}, "cost": 0.5, "tier": "a"}}),
            json!({"usage": null}),
            json!({"usage": {"total_tokens": 10, "details": {"cached": 20, "audio": 3}, "cost": 1, "tier": "b", "new": 1}}),
        ] {
            usage.add(&object(answer));
        }
        let mut answer = object(json!({"id": "x", "usage": {"total_tokens": 10}}));
        usage.put_into(&mut answer);
        let expected = json!({"total_tokens": 11, "details": {"cached": 22, "audio": 3}, "cost": 1.5, "tier": "b", "new": 1});
        assert_eq!(answer["usage"], expected);
    }
}
