//! JSON to Python values and back.
//!
//! From JSON, nothing is lost: integers of any size stay integers, and keys keep their order. To
//! JSON, a value either can be represented or the script fails with an explanation; a value without
//! a JSON form becomes its `repr`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use airlock_executor::json::{self, Unfit, Writer, written};
use jiter::{JsonError, JsonValue};
use monty_types::{MontyDateTime, MontyObject};

/// Parses JSON text as a value. A number beyond the range of a float is infinite, as in Python.
pub(crate) fn from_json(json: &str) -> Result<MontyObject, JsonError> {
    JsonValue::parse(json.as_bytes(), false).map(value)
}

/// Parses the inputs of a script, a JSON object, as values by their names. Fails with the reason.
pub(crate) fn inputs(json: &str) -> Result<BTreeMap<String, MontyObject>, String> {
    match JsonValue::parse(json.as_bytes(), false) {
        Ok(JsonValue::Object(fields)) => {
            let fields = Arc::unwrap_or_clone(fields).into_iter();
            Ok(fields.map(|(name, item)| (name.into_owned(), value(item))).collect())
        }
        Ok(_) => Err("they are not a JSON object".into()),
        Err(error) => Err(error.to_string()),
    }
}

fn value(json: JsonValue<'_>) -> MontyObject {
    match json {
        JsonValue::Null => MontyObject::None,
        JsonValue::Bool(value) => MontyObject::Bool(value),
        JsonValue::Int(number) => MontyObject::Int(number),
        JsonValue::BigInt(number) => MontyObject::BigInt(number),
        JsonValue::Float(number) => MontyObject::Float(number),
        JsonValue::Str(text) => MontyObject::String(text.into_owned()),
        JsonValue::Array(items) => {
            // Nothing else holds what was just parsed, so that this does not clone.
            let items = Arc::unwrap_or_clone(items);
            MontyObject::List(items.into_iter().map(value).collect())
        }
        JsonValue::Object(fields) => {
            let fields = Arc::unwrap_or_clone(fields).into_iter();
            let fields =
                fields.map(|(key, item)| (MontyObject::String(key.into_owned()), value(item)));
            MontyObject::dict(fields.collect::<Vec<_>>())
        }
    }
}

/// Serializes a value as JSON text.
pub(crate) fn to_json(value: &MontyObject) -> Result<String, Unfit> {
    written(|out| write(out, value))
}

/// Serializes the arguments of a call as a JSON object: those by position with their names, and those by
/// name. The names are distinct.
pub(crate) fn to_object<'v>(
    by_position: impl Iterator<Item = (&'v str, &'v MontyObject)>,
    by_name: &'v [(MontyObject, MontyObject)],
) -> Result<String, Unfit> {
    let by_position = by_position.map(|(name, item)| (Cow::from(name), item));
    let by_name = by_name.iter().map(|(name, item)| (text(name), item));
    written(|out| out.object(by_position.chain(by_name), write))
}

fn write(out: &mut Writer, value: &MontyObject) -> Result<(), Unfit> {
    match value {
        MontyObject::None => out.verbatim("null"),
        MontyObject::Bool(value) => out.scalar(value),
        MontyObject::Int(number) => out.scalar(number),
        MontyObject::BigInt(number) => out.integer(&number.to_string()),
        MontyObject::Float(number) if number.is_finite() => out.scalar(number),
        MontyObject::Float(_) => return Err(Unfit::NotFinite),
        MontyObject::Repr(repr) if repr.starts_with("<function ") => {
            return Err(Unfit::Function(repr.split('\'').nth(1).unwrap_or_default().to_owned()));
        }
        MontyObject::String(text) | MontyObject::Path(text) | MontyObject::Repr(text) => {
            out.scalar(text);
        }
        MontyObject::List(items)
        | MontyObject::Tuple(items)
        | MontyObject::Set(items)
        | MontyObject::FrozenSet(items)
        | MontyObject::NamedTuple { values: items, .. } => return out.array(items, write),
        MontyObject::Dict(pairs) => return write_dict(out, pairs.into_iter()),
        MontyObject::ClassInstance(object) => {
            return write_dict(out, (&object.attrs).into_iter());
        }
        MontyObject::Cycle(..) => return Err(Unfit::Deep),
        MontyObject::Function { name, .. } => return Err(Unfit::uncalled(name.clone())),
        MontyObject::BuiltinFunction(function) => {
            return Err(Unfit::Function(function.to_string()));
        }
        other => out.scalar(&text(other)),
    }
    Ok(())
}

fn write_dict<'v>(
    out: &mut Writer,
    fields: impl Iterator<Item = &'v (MontyObject, MontyObject)> + Clone,
) -> Result<(), Unfit> {
    // String keys are distinct already; `1` and "1" become equal when both are text.
    if fields.clone().any(|(key, _)| !matches!(key, MontyObject::String(_))) {
        let keys: Vec<_> = fields.clone().map(|(key, _)| text(key)).collect();
        json::check_distinct(keys.iter().map(|key| &**key))?;
    }
    out.object(fields.map(|(key, item)| (text(key), item)), write)
}

/// Converts a value that is no JSON, or a key, to text: keys like Python's `json.dumps`, dates in
/// ISO 8601, and anything else as its `repr`.
fn text(value: &MontyObject) -> Cow<'_, str> {
    match value {
        MontyObject::String(text) | MontyObject::Path(text) | MontyObject::Repr(text) => {
            text.into()
        }
        MontyObject::Bool(true) => "true".into(),
        MontyObject::Bool(false) => "false".into(),
        MontyObject::None => "null".into(),
        MontyObject::Date(date) => {
            format!("{:04}-{:02}-{:02}", date.year, date.month, date.day).into()
        }
        MontyObject::DateTime(time) => moment(time).into(),
        other => other.py_repr().into(),
    }
}

/// Formats a date and time like `isoformat`.
fn moment(time: &MontyDateTime) -> String {
    let mut text = format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
        time.year, time.month, time.day, time.hour, time.minute, time.second
    );
    if time.microsecond > 0 {
        let _ = write!(text, ".{:06}", time.microsecond);
    }
    if let Some(offset) = time.offset_seconds {
        let sign = if offset < 0 { '-' } else { '+' };
        let minutes = offset.unsigned_abs() / 60;
        let _ = write!(text, "{sign}{:02}:{:02}", minutes / 60, minutes % 60);
    }
    text
}

#[cfg(test)]
mod tests {
    use airlock_test_executors::check_values;

    use crate::Python;
    use crate::run::tests::result;

    #[test]
    fn sets_and_types_are_returned_as_data() {
        check_values::<Python>(&[
            ("[{2}, 1e3, int]", r#"[[2],1000.0,"<class 'int'>"]"#),
            ("-(1 << 64)", r#""-18446744073709551616""#),
        ]);
    }

    #[test]
    fn dates_and_instances_are_returned_as_data() {
        let source = "
from datetime import date, datetime, timezone, timedelta
from dataclasses import dataclass
@dataclass
class Point:
    x: int
    y: int = 2
result = [date(2024, 2, 3), datetime(2024, 2, 3, 4, 5, 6), datetime(2024, 2, 3, 4, 5, 6, 7, timezone.utc), Point(1)]
";
        assert_eq!(
            result(source).as_deref(),
            Some(
                r#"["2024-02-03","2024-02-03T04:05:06","2024-02-03T04:05:06.000007+00:00",{"x":1,"y":2}]"#
            )
        );
    }
}
