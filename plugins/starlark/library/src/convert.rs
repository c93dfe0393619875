//! JSON to Starlark values and back.
//!
//! From JSON, nothing is lost: integers of any size stay integers, and keys keep their order. To
//! JSON, a value either can be represented or the script fails with an explanation; a value without
//! a JSON form becomes its `repr`.

use std::borrow::Cow;

use airlock_executor::ToolError;
use airlock_executor::json::{self, Unfit, Writer, written};
use num_bigint::BigInt;
use serde_json::{Number, Value as Json};
use starlark::values::dict::AllocDict;
use starlark::values::list::AllocList;
use starlark::values::none::NoneType;
use starlark::values::structs::StructRef;
use starlark::values::{Heap, Value};

use crate::values::{as_dict, strict_float};
use crate::{datetime, text};

/// Parses JSON text as a value.
pub fn from_json<'v>(json: &str, heap: Heap<'v>) -> serde_json::Result<Value<'v>> {
    serde_json::from_str(json).map(|json| value(&json, heap))
}

/// Converts parsed JSON to a value.
pub fn value<'v>(json: &Json, heap: Heap<'v>) -> Value<'v> {
    match json {
        Json::Null => heap.alloc(NoneType),
        Json::Bool(it) => heap.alloc(*it),
        Json::Number(it) => number(it, heap),
        Json::String(it) => heap.alloc(it.as_str()),
        Json::Array(items) => heap.alloc(AllocList(items.iter().map(|item| value(item, heap)))),
        Json::Object(fields) => heap
            .alloc(AllocDict(fields.iter().map(|(key, item)| (key.as_str(), value(item, heap))))),
    }
}

/// Converts a number. Starlark's own conversion panics at `1e999` and rounds integers beyond 64
/// bits. Here the first becomes infinite, as in Python, and the second stays exact.
fn number<'v>(number: &Number, heap: Heap<'v>) -> Value<'v> {
    if let Some(small) = number.as_i64() {
        return heap.alloc(small);
    }
    let text = number.to_string();
    match text.parse::<BigInt>() {
        Ok(big) => heap.alloc(big),
        Err(_) => heap.alloc(text.parse::<f64>().unwrap_or(f64::NAN)),
    }
}

/// Serializes a value as JSON text.
pub fn to_json<'v>(value: Value<'v>, heap: Heap<'v>) -> Result<String, Unfit> {
    written(|out| write(out, value, heap))
}

/// Serializes named values as a JSON object.
pub fn to_object<'v, 'k>(
    fields: impl Iterator<Item = (&'k str, Value<'v>)>,
    heap: Heap<'v>,
) -> Result<String, Unfit> {
    written(|out| out.object(fields, |out, item| write(out, item, heap)))
}

fn write<'v>(out: &mut Writer, value: Value<'v>, heap: Heap<'v>) -> Result<(), Unfit> {
    match value.get_type() {
        "NoneType" => out.verbatim("null"),
        "bool" => out.scalar(&value.to_bool()),
        "string" => out.scalar(value.unpack_str().unwrap_or_default()),
        "int" => match value.unpack_i32() {
            Some(small) => out.scalar(&small),
            None => out.integer(&value.to_str()),
        },
        "float" => {
            let float =
                strict_float(value).filter(|float| float.is_finite()).ok_or(Unfit::NotFinite)?;
            out.verbatim(&text::float_repr(float));
        }
        "list" | "tuple" | "set" | "range" | "deque" | "generator" => {
            if let Ok(items) = value.iterate(heap) {
                return out.array(items, |out, item| write(out, item, heap));
            }
            out.scalar(&value.to_repr());
        }
        "dict" | "defaultdict" => return write_dict(out, value, heap),
        "struct" => {
            let fields = StructRef::from_value(value).expect("what is of type struct is one");
            let fields = fields.iter().map(|(name, item)| (name.as_str(), item));
            return out.object(fields, |out, item| write(out, item, heap));
        }
        "tool" => return Err(Unfit::uncalled(value.to_str())),
        "function" | "native_function" => return Err(Unfit::Function(function_name(value))),
        "error" => {
            let names = ToolError::ATTRIBUTES.into_iter();
            let fields = names.filter_map(|name| Some((name, value.get_attr(name, heap).ok()??)));
            return out.object(fields, |out, item| write(out, item, heap));
        }
        _ => match datetime::json_text(value) {
            Some(date) => out.scalar(&date),
            None => out.scalar(&text::str(value, heap)),
        },
    }
    Ok(())
}

/// Returns the name of a function without the file in which it is.
pub(crate) fn function_name(function: Value<'_>) -> String {
    let shown = function.to_str();
    let name = shown.rsplit('.').next().unwrap_or_default();
    let plain = name.chars().all(|c| c.is_alphanumeric() || c == '_');
    if plain { name.to_owned() } else { shown }
}

fn write_dict<'v>(out: &mut Writer, value: Value<'v>, heap: Heap<'v>) -> Result<(), Unfit> {
    let dict = as_dict(value).expect("what is of type dict is one");
    let keys: Vec<_> = dict.keys().map(|key| key_text(key, heap)).collect();
    // String keys are distinct already; `1` and "1" become equal when both are text.
    if dict.keys().any(|key| key.unpack_str().is_none()) {
        json::check_distinct(keys.iter().map(|key| &**key))?;
    }
    out.object(keys.iter().zip(dict.values()), |out, item| write(out, item, heap))
}

/// Converts a key to text like Python's `json.dumps`.
fn key_text<'v>(key: Value<'v>, heap: Heap<'v>) -> Cow<'v, str> {
    if let Some(text) = key.unpack_str() {
        return text.into();
    }
    match key.unpack_bool() {
        Some(true) => "true".into(),
        Some(false) => "false".into(),
        None if key.is_none() => "null".into(),
        None => text::str(key, heap).into(),
    }
}
