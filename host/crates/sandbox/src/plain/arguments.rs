//! Conversion of JSON to the arguments of a call.
//!
//! The schema defines the valid arguments and the gateway may have checked them, but nothing here
//! relies on that. Invalid arguments are refused with the path, the value found there and the
//! values that would be valid, in terms that a model can act on.

mod place;
mod scalars;

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use serde_json::Value;
use wasmtime::component::Val;

use self::{
    place::Place,
    scalars::{double, integer, only_character, single},
};
use super::{
    shape::{Field, Shape},
    words::{excerpt, expected, listed, quoted},
};

/// Host memory that the arguments of one call may take. Three bytes of JSON, an empty object, may
/// stand for a record of a thousand absent options.
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

/// Reads the arguments of a function: a JSON object with one member for each parameter.
pub(super) fn read(parameters: &[Field], json: &str) -> Result<Vec<Val>, BadArguments> {
    let value = serde_json::from_str(json)
        .map_err(|error| BadArguments(format!("the arguments are not JSON: {error}")))?;
    let mut reader = Reader { bytes_left: MAX_BYTES };
    Ok(reader.fields(value, parameters, &Place::Root)?.into_iter().map(|(_, val)| val).collect())
}

struct Reader {
    bytes_left: usize,
}

impl Reader {
    /// Counts host memory before it is allocated. Fails if the arguments take too much.
    fn take(&mut self, bytes: usize) -> Result<(), BadArguments> {
        let left = self.bytes_left.checked_sub(bytes);
        self.bytes_left = left.ok_or_else(|| {
            BadArguments(format!("the arguments take more than {MAX_BYTES} bytes, unpacked"))
        })?;
        Ok(())
    }

    fn val(&mut self, value: Value, shape: &Shape, place: &Place<'_>) -> Result<Val, BadArguments> {
        self.take(size_of::<Val>())?;
        Ok(match (shape, value) {
            (Shape::Bool, Value::Bool(it)) => Val::Bool(it),
            (Shape::Int(int), value) => {
                integer(*int, &value).ok_or_else(|| place.found(&value, &expected(shape)))?
            }
            (Shape::F32, Value::Number(number)) => Val::Float32(
                single(&number)
                    .ok_or_else(|| place.found(&Value::Number(number), "a number of 32 bits"))?,
            ),
            (Shape::F64, Value::Number(number)) => Val::Float64(
                double(&number)
                    .ok_or_else(|| place.found(&Value::Number(number), "a number of 64 bits"))?,
            ),
            (Shape::Char, value) => Val::Char(
                only_character(&value).ok_or_else(|| place.found(&value, &expected(shape)))?,
            ),
            (Shape::String, Value::String(text)) => Val::String(text),
            (Shape::Bytes, Value::String(text)) => self.bytes(text, place)?,
            (Shape::List(item), Value::Array(values)) => {
                Val::List(self.items(values, |_| Some(item), place)?)
            }
            (Shape::Tuple(shapes), Value::Array(values)) if values.len() == shapes.len() => {
                Val::Tuple(self.items(values, |index| shapes.get(index), place)?)
            }
            (Shape::Tuple(shapes), Value::Array(values)) => {
                return Err(place.is(format_args!(
                    "found {} items, expected {}",
                    values.len(),
                    shapes.len()
                )));
            }
            (Shape::Record(fields), value) => Val::Record(self.fields(value, fields, place)?),
            (Shape::Variant(cases), value) => {
                let (name, payload) = split(value, place, shape)?;
                let Some(case) = cases.get(&name) else {
                    return Err(place.found(&Value::String(name), &expected(shape)));
                };
                let payload = self.payload(payload, case.as_ref(), &name, place)?;
                Val::Variant(name, payload)
            }
            (Shape::Enum(cases), Value::String(name)) if cases.get(&name).is_some() => {
                Val::Enum(name)
            }
            (Shape::Flags(names), Value::Array(values)) => {
                Val::Flags(self.flags(values, names, place)?)
            }
            (Shape::Option(_), Value::Null) => Val::Option(None),
            (Shape::Option(some), value) => {
                Val::Option(Some(Box::new(self.val(value, some, place)?)))
            }
            (Shape::Result { ok, err }, value) => {
                let (name, payload) = split(value, place, shape)?;
                match name.as_str() {
                    "ok" => Val::Result(Ok(self.payload(payload, ok.as_deref(), &name, place)?)),
                    "err" => {
                        Val::Result(Err(self.payload(payload, err.as_deref(), &name, place)?))
                    }
                    _ => return Err(place.found(&Value::String(name), &expected(shape))),
                }
            }
            (shape, value) => return Err(place.found(&value, &expected(shape))),
        })
    }

    /// Reads the members of an object in the order of the fields. An optional field is either
    /// absent or has the inner value; `null` is valid only if the inner type is itself an option.
    fn fields(
        &mut self,
        value: Value,
        fields: &[Field],
        place: &Place<'_>,
    ) -> Result<Vec<(String, Val)>, BadArguments> {
        let Value::Object(mut members) = value else {
            return Err(place.found(&value, "an object"));
        };
        let mut read = Vec::with_capacity(fields.len());
        for field in fields {
            self.take(size_of::<(String, Val)>() + field.name.len() + ALLOCATION)?;
            let place = Place::Member(place, &field.key);
            let val = match members.remove(&field.key) {
                None if field.is_optional => Val::Option(None),
                None => {
                    return Err(
                        place.is(format_args!("missing, expected {}", expected(&field.shape)))
                    );
                }
                Some(value) if field.is_optional => {
                    Val::Option(Some(Box::new(self.val(value, &field.shape, &place)?)))
                }
                Some(value) => self.val(value, &field.shape, &place)?,
            };
            read.push((field.name.clone(), val));
        }
        match members.keys().next() {
            None => Ok(read),
            Some(name) => {
                let name = excerpt(name);
                let known = listed(fields.iter().map(|field| field.key.as_str()));
                let known = if known.is_empty() { "nothing".to_owned() } else { known };
                Err(Place::Member(place, &name).is(format_args!("unknown, expected {known}")))
            }
        }
    }

    fn items<'a>(
        &mut self,
        values: Vec<Value>,
        shape: impl Fn(usize) -> Option<&'a Shape>,
        place: &Place<'_>,
    ) -> Result<Vec<Val>, BadArguments> {
        let mut read = Vec::with_capacity(values.len());
        for (index, value) in values.into_iter().enumerate() {
            let place = Place::Item(place, index);
            let shape = shape(index).ok_or_else(|| place.found(&value, "nothing"))?;
            read.push(self.val(value, shape, &place)?);
        }
        Ok(read)
    }

    fn bytes(&mut self, text: String, place: &Place<'_>) -> Result<Val, BadArguments> {
        let Ok(bytes) = BASE64.decode(&text) else {
            return Err(place.found(&Value::String(text), &expected(&Shape::Bytes)));
        };
        self.take(bytes.len() * size_of::<Val>())?;
        Ok(Val::List(bytes.into_iter().map(Val::U8).collect()))
    }

    fn payload(
        &mut self,
        payload: Option<Value>,
        shape: Option<&Shape>,
        case: &str,
        place: &Place<'_>,
    ) -> Result<Option<Box<Val>>, BadArguments> {
        match (payload, shape) {
            (None, None) => Ok(None),
            (Some(value), Some(shape)) => {
                Ok(Some(Box::new(self.val(value, shape, &Place::Member(place, case))?)))
            }
            (None, Some(shape)) => Err(place.is(format_args!(
                "found {case:?}, expected an object with {case:?}: {}",
                expected(shape)
            ))),
            (Some(_), None) => Err(place.is(format_args!(
                "found an object with {case:?}, expected the text {case:?} alone"
            ))),
        }
    }

    fn flags(
        &mut self,
        values: Vec<Value>,
        names: &[String],
        place: &Place<'_>,
    ) -> Result<Vec<String>, BadArguments> {
        let mut read: Vec<String> = Vec::new();
        for (index, value) in values.into_iter().enumerate() {
            let place = Place::Item(place, index);
            match value {
                Value::String(name) if read.contains(&name) => {
                    return Err(place.is(format_args!("{name:?} for the second time")));
                }
                Value::String(name) if names.contains(&name) => {
                    self.take(size_of::<String>() + name.len() + ALLOCATION)?;
                    read.push(name);
                }
                value => {
                    return Err(place.found(
                        &value,
                        &format!("one of {}", quoted(names.iter().map(String::as_str))),
                    ));
                }
            }
        }
        Ok(read)
    }
}

/// Splits a case from its payload: `"circle"` or `{"circle": 1.5}`.
fn split(
    value: Value,
    place: &Place<'_>,
    shape: &Shape,
) -> Result<(String, Option<Value>), BadArguments> {
    match value {
        Value::String(name) => Ok((name, None)),
        Value::Object(members) if members.len() == 1 => {
            let (name, payload) = members.into_iter().next().expect("it has one member");
            Ok((name, Some(payload)))
        }
        value => Err(place.found(&value, &expected(shape))),
    }
}
