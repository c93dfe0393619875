//! Conversion of JSON to the arguments of a call.
//!
//! The schema defines the valid arguments and the gateway may have checked them, but nothing here
//! relies on that. Invalid arguments are refused with the path, the value found there and the
//! values that would be valid, in terms that a model can act on.

mod path;
mod scalars;

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use indexmap::IndexSet;
use serde_json::Value;
use wasmtime::component::Val;

use self::{
    path::ArgumentPath,
    scalars::{double, integer, single, single_char},
};
use super::{
    messages::{excerpt, expected, listed, quoted},
    shape::{Field, Shape},
};

/// Host memory that the arguments of one call may take, in bytes: the default of the memory of the
/// guest, which has to hold them too. Three bytes of JSON, an empty object, may stand for a record
/// of a thousand absent options.
const MAX_BYTES: usize = 64 << 20;
/// Bytes that an allocation takes in addition to its content.
const ALLOCATION: usize = 32;
/// Padding is optional, because models often leave it out.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Reason for which arguments cannot be passed on, with the path.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct BadArguments(String);

/// The arguments of a call.
pub(super) struct UnpackedArguments {
    /// A value for each parameter.
    pub(super) vals: Vec<Val>,
    /// Host memory that they take, in bytes.
    pub(super) bytes: usize,
}

/// Reads the arguments of a function: a JSON object with one member for each parameter.
pub(super) fn read(parameters: &[Field], json: &str) -> Result<UnpackedArguments, BadArguments> {
    let value = serde_json::from_str(json)
        .map_err(|error| BadArguments(format!("the arguments are not JSON: {error}")))?;
    let mut reader = ArgumentReader { bytes_left: MAX_BYTES };
    let fields = reader.fields(value, parameters, &ArgumentPath::Root)?;
    let vals = fields.into_iter().map(|(_, val)| val).collect();
    Ok(UnpackedArguments { vals, bytes: MAX_BYTES - reader.bytes_left })
}

struct ArgumentReader {
    bytes_left: usize,
}

impl ArgumentReader {
    /// Counts host memory before it is allocated. Fails if the arguments take too much.
    fn take(&mut self, bytes: usize) -> Result<(), BadArguments> {
        let left = self.bytes_left.checked_sub(bytes);
        self.bytes_left = left.ok_or_else(|| {
            BadArguments(format!("the arguments take more than {MAX_BYTES} bytes, unpacked"))
        })?;
        Ok(())
    }

    fn val(
        &mut self,
        value: Value,
        shape: &Shape,
        path: &ArgumentPath<'_>,
    ) -> Result<Val, BadArguments> {
        self.take(size_of::<Val>())?;
        Ok(match (shape, value) {
            (Shape::Bool, Value::Bool(flag)) => Val::Bool(flag),
            (Shape::Int(int), value) => {
                integer(*int, &value).ok_or_else(|| path.mismatch(&value, &expected(shape)))?
            }
            (Shape::F32, Value::Number(number)) => Val::Float32(
                single(&number)
                    .ok_or_else(|| path.mismatch(&Value::Number(number), "a number of 32 bits"))?,
            ),
            (Shape::F64, Value::Number(number)) => Val::Float64(
                double(&number)
                    .ok_or_else(|| path.mismatch(&Value::Number(number), "a number of 64 bits"))?,
            ),
            (Shape::Char, value) => Val::Char(
                single_char(&value).ok_or_else(|| path.mismatch(&value, &expected(shape)))?,
            ),
            (Shape::String, Value::String(text)) => Val::String(text),
            (Shape::Bytes, Value::String(text)) => self.bytes(text, path)?,
            (Shape::List(item), Value::Array(values)) => {
                Val::List(self.items(values, |_| Some(item), path)?)
            }
            (Shape::Tuple(shapes), Value::Array(values)) if values.len() == shapes.len() => {
                Val::Tuple(self.items(values, |index| shapes.get(index), path)?)
            }
            (Shape::Tuple(shapes), Value::Array(values)) => {
                return Err(path.error(format_args!(
                    "found {} items, expected {}",
                    values.len(),
                    shapes.len()
                )));
            }
            (Shape::Record(fields), value) => Val::Record(self.fields(value, fields, path)?),
            (Shape::Variant(cases), value) => {
                let (name, payload) = split_case(value, path, shape)?;
                let Some(case) = cases.get(&name) else {
                    return Err(path.mismatch(&Value::String(name), &expected(shape)));
                };
                let payload = self.payload(payload, case.as_ref(), &name, path)?;
                Val::Variant(name, payload)
            }
            (Shape::Enum(names), Value::String(name)) if names.contains(&name) => Val::Enum(name),
            (Shape::Flags(names), Value::Array(values)) => {
                Val::Flags(self.flags(values, names, path)?)
            }
            (Shape::Option(_), Value::Null) => Val::Option(None),
            (Shape::Option(some), value) => {
                Val::Option(Some(Box::new(self.val(value, some, path)?)))
            }
            (Shape::Result { ok, err }, value) => {
                let (name, payload) = split_case(value, path, shape)?;
                match name.as_str() {
                    "ok" => Val::Result(Ok(self.payload(payload, ok.as_deref(), &name, path)?)),
                    "err" => {
                        Val::Result(Err(self.payload(payload, err.as_deref(), &name, path)?))
                    }
                    _ => return Err(path.mismatch(&Value::String(name), &expected(shape))),
                }
            }
            (shape, value) => return Err(path.mismatch(&value, &expected(shape))),
        })
    }

    /// Reads the members of an object in the order of the fields. An optional field is either
    /// absent or has the inner value; `null` is valid only if the inner type is itself an option.
    fn fields(
        &mut self,
        value: Value,
        fields: &[Field],
        path: &ArgumentPath<'_>,
    ) -> Result<Vec<(String, Val)>, BadArguments> {
        let Value::Object(mut members) = value else {
            return Err(path.mismatch(&value, "an object"));
        };
        let mut read = Vec::with_capacity(fields.len());
        for field in fields {
            self.take(size_of::<(String, Val)>() + field.name.len() + ALLOCATION)?;
            let path = ArgumentPath::Member(path, &field.key);
            let val = match members.remove(&field.key) {
                None if field.is_optional => Val::Option(None),
                None => {
                    return Err(
                        path.error(format_args!("missing, expected {}", expected(&field.shape)))
                    );
                }
                Some(value) if field.is_optional => {
                    Val::Option(Some(Box::new(self.val(value, &field.shape, &path)?)))
                }
                Some(value) => self.val(value, &field.shape, &path)?,
            };
            read.push((field.name.clone(), val));
        }
        match members.keys().next() {
            None => Ok(read),
            Some(name) => {
                let name = excerpt(name);
                let known = listed(fields.iter().map(|field| field.key.as_str()));
                let known = if known.is_empty() { "nothing".to_owned() } else { known };
                Err(ArgumentPath::Member(path, &name)
                    .error(format_args!("unknown, expected {known}")))
            }
        }
    }

    fn items<'a>(
        &mut self,
        values: Vec<Value>,
        shape: impl Fn(usize) -> Option<&'a Shape>,
        path: &ArgumentPath<'_>,
    ) -> Result<Vec<Val>, BadArguments> {
        let mut read = Vec::with_capacity(values.len());
        for (index, value) in values.into_iter().enumerate() {
            let path = ArgumentPath::Item(path, index);
            let shape = shape(index).ok_or_else(|| path.mismatch(&value, "nothing"))?;
            read.push(self.val(value, shape, &path)?);
        }
        Ok(read)
    }

    fn bytes(&mut self, text: String, path: &ArgumentPath<'_>) -> Result<Val, BadArguments> {
        let Ok(bytes) = BASE64.decode(&text) else {
            return Err(path.mismatch(&Value::String(text), &expected(&Shape::Bytes)));
        };
        self.take(bytes.len() * size_of::<Val>())?;
        Ok(Val::List(bytes.into_iter().map(Val::U8).collect()))
    }

    fn payload(
        &mut self,
        payload: Option<Value>,
        shape: Option<&Shape>,
        case: &str,
        path: &ArgumentPath<'_>,
    ) -> Result<Option<Box<Val>>, BadArguments> {
        match (payload, shape) {
            (None, None) => Ok(None),
            (Some(value), Some(shape)) => {
                Ok(Some(Box::new(self.val(value, shape, &ArgumentPath::Member(path, case))?)))
            }
            (None, Some(shape)) => Err(path.error(format_args!(
                "found {case:?}, expected an object with {case:?}: {}",
                expected(shape)
            ))),
            (Some(_), None) => Err(path.error(format_args!(
                "found an object with {case:?}, expected the text {case:?} alone"
            ))),
        }
    }

    fn flags(
        &mut self,
        values: Vec<Value>,
        names: &IndexSet<String>,
        path: &ArgumentPath<'_>,
    ) -> Result<Vec<String>, BadArguments> {
        let mut read: Vec<String> = Vec::new();
        for (index, value) in values.into_iter().enumerate() {
            let path = ArgumentPath::Item(path, index);
            match value {
                Value::String(name) if read.contains(&name) => {
                    return Err(path.error(format_args!("{name:?} for the second time")));
                }
                Value::String(name) if names.contains(&name) => {
                    self.take(size_of::<String>() + name.len() + ALLOCATION)?;
                    read.push(name);
                }
                value => {
                    return Err(path.mismatch(&value, &format!("one of {}", quoted(names))));
                }
            }
        }
        Ok(read)
    }
}

/// Splits a case from its payload: `"circle"` or `{"circle": 1.5}`.
fn split_case(
    value: Value,
    path: &ArgumentPath<'_>,
    shape: &Shape,
) -> Result<(String, Option<Value>), BadArguments> {
    match value {
        Value::String(name) => Ok((name, None)),
        Value::Object(members) if members.len() == 1 => {
            let (name, payload) = members.into_iter().next().expect("it has one member");
            Ok((name, Some(payload)))
        }
        value => Err(path.mismatch(&value, &expected(shape))),
    }
}
