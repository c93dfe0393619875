//! Conversion of a function's result to a tool's result.

use airlock_core::{
    secret::Scrubber,
    tool::{Content, ErrorKind, ToolError, ToolOutput},
};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde_json::{Map, Number, Value};
use wasmtime::component::Val;

use super::{
    schema::{MAX_SAFE, NOT_FINITE},
    shape::{Field, Shape},
};
use crate::plugin::tool_guest::{MAX_CODE_BYTES, MAX_DETAILS_BYTES, MAX_ERROR_BYTES};

/// Message of a failure that has no reason.
const NO_REASON: &str = "the tool failed and gave no reason";

/// Reasons for which a returned value cannot be converted.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadResult {
    /// The value would take more bytes of JSON than a result may have.
    #[error("the result is larger than results may be")]
    TooLarge,
    /// The value is of another type than the function declares, which the engine should have
    /// detected.
    #[error("the result is not of the type that the function returns")]
    Type,
}

/// Converts a returned value to a result of at most about `limit` bytes: `{"result": …}` and, for
/// text, also the text itself. An `err` at the top level is the failure of the tool; its secrets are
/// redacted here, because the rest of a secret that was cut cannot be found any more.
pub(super) fn tool_result(
    shape: Option<&Shape>,
    returned: Option<Val>,
    limit: usize,
    scrubber: &Scrubber,
) -> Result<Result<ToolOutput, ToolError>, BadResult> {
    let mut writer = ByteCounter { bytes_left: limit };
    let (shape, val) = match (shape, returned) {
        (Some(Shape::Result { ok, .. }), Some(Val::Result(Ok(payload)))) => {
            (ok.as_deref(), payload.map(|payload| *payload))
        }
        (Some(Shape::Result { err, .. }), Some(Val::Result(Err(payload)))) => {
            let payload = payload.map(|payload| *payload);
            return writer.failure(err.as_deref(), payload, scrubber).map(Err);
        }
        (shape, val) => (shape, val),
    };
    let Some(result) = writer.payload(shape, val)? else { return Ok(Ok(ToolOutput::default())) };
    let content = match &result {
        // Plain text is easier to read than JSON with its escapes.
        Value::String(text) if matches!(shape, Some(Shape::String)) => {
            vec![Content::text(text.clone())]
        }
        _ => Vec::new(),
    };
    let structured = Some(Value::Object(Map::from_iter([("result".to_owned(), result)])));
    Ok(Ok(ToolOutput { content, structured, ..ToolOutput::default() }))
}

/// Counts the least number of bytes that values take as JSON. A JSON document takes many times its
/// text in memory, so a result that is too large is refused while it is converted. The plugin that
/// runs the call checks the exact size.
struct ByteCounter {
    bytes_left: usize,
}

impl ByteCounter {
    fn take(&mut self, bytes: usize) -> Result<(), BadResult> {
        self.bytes_left = self.bytes_left.checked_sub(bytes).ok_or(BadResult::TooLarge)?;
        Ok(())
    }

    fn value(&mut self, val: Val, shape: &Shape) -> Result<Value, BadResult> {
        // The least that a value takes: a digit and a comma.
        self.take(2)?;
        Ok(match (shape, val) {
            (Shape::Bool, Val::Bool(flag)) => Value::Bool(flag),
            (Shape::Int(_), val) => integer(&val).ok_or(BadResult::Type)?,
            (Shape::F32, Val::Float32(number)) => single(number),
            (Shape::F64, Val::Float64(number)) => double(number),
            (Shape::Char, Val::Char(character)) => Value::String(character.into()),
            (Shape::String, Val::String(text)) => self.text(text)?,
            (Shape::Bytes, Val::List(vals)) => self.bytes(vals)?,
            (Shape::List(item), Val::List(vals)) => Value::Array(
                vals.into_iter().map(|val| self.value(val, item)).collect::<Result<_, _>>()?,
            ),
            (Shape::Tuple(shapes), Val::Tuple(vals)) if shapes.len() == vals.len() => Value::Array(
                vals.into_iter()
                    .zip(shapes)
                    .map(|(val, shape)| self.value(val, shape))
                    .collect::<Result<_, _>>()?,
            ),
            (Shape::Record(fields), Val::Record(vals)) if fields.len() == vals.len() => {
                self.record(vals, fields)?
            }
            (Shape::Variant(cases), Val::Variant(name, payload)) => {
                let shape = cases.get(&name).ok_or(BadResult::Type)?.as_ref();
                self.case(name, shape, payload)?
            }
            (Shape::Enum(_), Val::Enum(name)) => self.text(name)?,
            (Shape::Flags(_), Val::Flags(names)) => Value::Array(
                names.into_iter().map(|name| self.text(name)).collect::<Result<_, _>>()?,
            ),
            (Shape::Option(_), Val::Option(None)) => Value::Null,
            (Shape::Option(some), Val::Option(Some(val))) => self.value(*val, some)?,
            (Shape::Result { ok, .. }, Val::Result(Ok(payload))) => {
                self.case("ok".to_owned(), ok.as_deref(), payload)?
            }
            (Shape::Result { err, .. }, Val::Result(Err(payload))) => {
                self.case("err".to_owned(), err.as_deref(), payload)?
            }
            _ => return Err(BadResult::Type),
        })
    }

    /// Converts a value if there is a type for it; `None` if there is neither value nor type.
    fn payload(
        &mut self,
        shape: Option<&Shape>,
        val: Option<Val>,
    ) -> Result<Option<Value>, BadResult> {
        match (shape, val) {
            (Some(shape), Some(val)) => self.value(val, shape).map(Some),
            (None, None) => Ok(None),
            _ => Err(BadResult::Type),
        }
    }

    fn text(&mut self, text: String) -> Result<Value, BadResult> {
        self.take(text.len())?;
        Ok(Value::String(text))
    }

    fn bytes(&mut self, vals: Vec<Val>) -> Result<Value, BadResult> {
        self.take(vals.len().div_ceil(3) * 4)?;
        let bytes: Vec<u8> = vals
            .into_iter()
            .map(|val| if let Val::U8(byte) = val { Ok(byte) } else { Err(BadResult::Type) })
            .collect::<Result<_, _>>()?;
        Ok(Value::String(BASE64.encode(bytes)))
    }

    /// Converts a record. Absent options are left out.
    fn record(&mut self, vals: Vec<(String, Val)>, fields: &[Field]) -> Result<Value, BadResult> {
        let mut members = Map::new();
        for ((_, val), field) in vals.into_iter().zip(fields) {
            let val = match val {
                Val::Option(None) if field.is_optional => continue,
                Val::Option(Some(val)) if field.is_optional => *val,
                _ if field.is_optional => return Err(BadResult::Type),
                val => val,
            };
            self.take(field.key.len() + 3)?;
            members.insert(field.key.clone(), self.value(val, &field.shape)?);
        }
        Ok(Value::Object(members))
    }

    /// Converts a case to `"name"`, or to `{"name": payload}`.
    fn case(
        &mut self,
        name: String,
        shape: Option<&Shape>,
        payload: Option<Box<Val>>,
    ) -> Result<Value, BadResult> {
        self.take(name.len())?;
        match self.payload(shape, payload.map(|payload| *payload))? {
            None => Ok(Value::String(name)),
            Some(payload) => Ok(Value::Object(Map::from_iter([(name, payload)]))),
        }
    }

    /// Converts the payload of an `err` to a failure: its case is the code, its text the message.
    /// Anything else is also the data.
    fn failure(
        &mut self,
        shape: Option<&Shape>,
        payload: Option<Val>,
        scrubber: &Scrubber,
    ) -> Result<ToolError, BadResult> {
        let code = match &payload {
            Some(Val::Enum(name) | Val::Variant(name, _)) => {
                Some(scrubber.cut(name, MAX_CODE_BYTES))
            }
            _ => None,
        };
        let details = self.payload(shape, payload)?;
        let (message, details) = match details {
            None => (String::new(), None),
            Some(Value::String(text)) => (text, None),
            // Only the payload of a variant, because its case is the code.
            Some(Value::Object(members)) if code.is_some() => match members.into_iter().next() {
                Some((_, Value::String(text))) => (text, None),
                Some((name, payload)) => (format!("{name}: {payload}"), Some(payload)),
                None => (String::new(), None),
            },
            Some(details) => (details.to_string(), Some(details)),
        };
        let details = details.filter(|details| details.to_string().len() <= MAX_DETAILS_BYTES);
        let message = if message.trim().is_empty() {
            NO_REASON.to_owned()
        } else {
            scrubber.cut(&message, MAX_ERROR_BYTES)
        };
        Ok(ToolError { code, details, ..ToolError::new(ErrorKind::Internal, message) })
    }
}

/// Converts an integer to a number, or to its digits as text if some JSON readers would round it.
fn integer(val: &Val) -> Option<Value> {
    let number = match val {
        Val::S8(number) => i128::from(*number),
        Val::U8(number) => i128::from(*number),
        Val::S16(number) => i128::from(*number),
        Val::U16(number) => i128::from(*number),
        Val::S32(number) => i128::from(*number),
        Val::U32(number) => i128::from(*number),
        Val::S64(number) => i128::from(*number),
        Val::U64(number) => i128::from(*number),
        _ => return None,
    };
    match i64::try_from(number) {
        Ok(safe) if number.abs() <= MAX_SAFE => Some(Value::from(safe)),
        _ => Some(Value::String(number.to_string())),
    }
}

/// Converts a 32-bit float to the shortest number that reads back as the same float: 0.1 and not
/// 0.10000000149011612.
fn single(number: f32) -> Value {
    double(number.to_string().parse().unwrap_or_else(|_| f64::from(number)))
}

fn double(number: f64) -> Value {
    let [not_a_number, infinity, negative] = NOT_FINITE;
    match Number::from_f64(number) {
        Some(number) => Value::Number(number),
        None if number.is_nan() => Value::from(not_a_number),
        None if number > 0.0 => Value::from(infinity),
        None => Value::from(negative),
    }
}

#[cfg(test)]
mod tests {
    use airlock_core::secret::Secret;

    use super::*;

    #[test]
    fn a_secret_across_the_cut_of_a_failure_is_redacted() {
        let secret = Secret::new("hunter2hunter2hunter2");
        let scrubber = Scrubber::new([("token", &secret)]).expect("a good secret");
        for overlap in [1, 8, 20] {
            let message = "x".repeat(MAX_ERROR_BYTES - overlap) + secret.expose();
            let shape = Shape::Result { ok: None, err: Some(Box::new(Shape::String)) };
            let returned = Val::Result(Err(Some(Box::new(Val::String(message)))));
            let failed = tool_result(Some(&shape), Some(returned), 1 << 20, &scrubber)
                .expect("it fits")
                .expect_err("a failure");
            assert!(failed.message.len() <= MAX_ERROR_BYTES);
            assert!(!failed.message.contains('h'), "{}", &failed.message[MAX_ERROR_BYTES - 40..]);
        }
    }
}
