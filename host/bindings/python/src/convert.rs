//! Python values to JSON and back.
//!
//! The types of JSON are converted here. All others are asked about in `airlock/_values.py`, level by
//! level, so that they are bounded like the rest: it returns iterators, whose items are charged one by one,
//! because code of the program may make them without end.

use airlock_binding::{BadValue, ValueBudget};
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    sync::PyOnceLock,
    types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple},
};
use serde_json::{Map, Number, Value};

/// Values between two checks for signals: a large value takes a second.
const SIGNALS: u32 = 4096;
/// Forms in which `airlock/_values.py` returns a value: an iterator of items.
const ITEMS: u8 = 1;
/// An iterator of names and values.
const MEMBERS: u8 = 2;
/// Items without an order of their own.
const UNORDERED: u8 = 3;

/// Converts a Python value to JSON. Fails if it has no JSON form, is too deep, or too large.
pub(crate) fn to_json(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    Encoder::default().value(value)
}

/// Converts a mapping of names to JSON.
pub(crate) fn to_object(mapping: &Bound<'_, PyAny>) -> PyResult<Map<String, Value>> {
    match to_json(mapping)? {
        Value::Object(members) => Ok(members),
        _ => Err(PyTypeError::new_err("a mapping of names to values is needed")),
    }
}

/// Converts JSON to a Python value. The nesting of JSON is bounded where it is read.
pub(crate) fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(truth) => PyBool::new(py, *truth).to_owned().into_any(),
        Value::Number(number) => number_to_python(py, number)?,
        Value::String(text) => PyString::new(py, text).into_any(),
        Value::Array(items) => {
            let list = PyList::empty(py);
            for item in items {
                list.append(to_python(py, item)?)?;
            }
            list.into_any()
        }
        Value::Object(members) => to_dict(py, members)?.into_any(),
    })
}

/// Converts an object to a dict.
pub(crate) fn to_dict<'py>(
    py: Python<'py>,
    members: &Map<String, Value>,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, value) in members {
        dict.set_item(name, to_python(py, value)?)?;
    }
    Ok(dict)
}

fn number_to_python<'py>(py: Python<'py>, number: &Number) -> PyResult<Bound<'py, PyAny>> {
    if let Some(integer) = number.as_i64() {
        return Ok(integer.into_pyobject(py)?.into_any());
    }
    if let Some(integer) = number.as_u64() {
        return Ok(integer.into_pyobject(py)?.into_any());
    }
    // Every other number is one: integers of more than 64 bits arrive as text.
    Ok(PyFloat::new(py, number.as_f64().unwrap_or(f64::NAN)).into_any())
}

/// Converts one value, within the bounds that are left for it.
#[derive(Default)]
struct Encoder {
    budget: ValueBudget,
    /// Values so far.
    values: u32,
}

impl Encoder {
    fn value(&mut self, value: &Bound<'_, PyAny>) -> PyResult<Value> {
        self.values = self.values.wrapping_add(1);
        if self.values.is_multiple_of(SIGNALS) {
            value.py().check_signals()?;
        }
        if let Ok(text) = value.cast_exact::<PyString>() {
            return self.text(text);
        }
        self.budget.item(0).map_err(refused)?;
        if value.is_none() {
            Ok(Value::Null)
        } else if let Ok(truth) = value.cast_exact::<PyBool>() {
            Ok(Value::Bool(truth.is_true()))
        } else if let Ok(integer) = value.cast_exact::<PyInt>() {
            number_to_json(integer)
        } else if let Ok(float) = value.cast_exact::<PyFloat>() {
            let number = Number::from_f64(float.value());
            number.map(Value::Number).ok_or_else(|| refused(BadValue::NotFinite))
        } else {
            self.budget.enter().map_err(refused)?;
            let converted = self.container(value);
            self.budget.leave();
            converted
        }
    }

    /// Converts a value that may have others in it.
    fn container(&mut self, value: &Bound<'_, PyAny>) -> PyResult<Value> {
        if let Ok(list) = value.cast_exact::<PyList>() {
            list.iter().map(|item| self.value(&item)).collect::<PyResult<_>>().map(Value::Array)
        } else if let Ok(tuple) = value.cast_exact::<PyTuple>() {
            tuple.iter().map(|item| self.value(&item)).collect::<PyResult<_>>().map(Value::Array)
        } else if let Ok(dict) = value.cast_exact::<PyDict>() {
            self.object(dict)
        } else {
            self.encoded(value)
        }
    }

    /// Converts a value of a type that JSON does not have.
    fn encoded(&mut self, value: &Bound<'_, PyAny>) -> PyResult<Value> {
        static ENCODE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let encode = ENCODE.import(value.py(), "airlock._values", "encode")?;
        let answer = encode.call1((value,))?;
        let (form, encoded): (u8, Bound<'_, PyAny>) = answer.extract()?;
        match form {
            ITEMS => self.items(&encoded).map(Value::Array),
            UNORDERED => {
                let mut items = self.items(&encoded)?;
                items.sort_by_cached_key(Value::to_string);
                Ok(Value::Array(items))
            }
            MEMBERS => {
                let mut members = Map::new();
                for member in encoded.try_iter()? {
                    self.member(&mut members, &member?)?;
                }
                Ok(Value::Object(members))
            }
            _ => self.value(&encoded),
        }
    }

    /// Converts the items of an iterator, which may have no end.
    fn items(&mut self, iterator: &Bound<'_, PyAny>) -> PyResult<Vec<Value>> {
        let mut items = Vec::new();
        for item in iterator.try_iter()? {
            items.push(self.value(&item?)?);
        }
        Ok(items)
    }

    fn object(&mut self, dict: &Bound<'_, PyDict>) -> PyResult<Value> {
        self.budget.fits_members(dict.len()).map_err(refused)?;
        let mut members = Map::new();
        // A copy of its members: converting one may run code that changes the dict.
        for member in dict.items() {
            self.member(&mut members, &member)?;
        }
        Ok(Value::Object(members))
    }

    /// Converts a member, a tuple of its name and its value.
    fn member(
        &mut self,
        members: &mut Map<String, Value>,
        member: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = member.extract()?;
        let Ok(name) = name.cast::<PyString>() else {
            let found = name.get_type().name()?;
            let message = format!("the keys of a dict must be texts, found one of type {found}");
            return Err(PyTypeError::new_err(message));
        };
        self.budget.fits_text(name.len()?).map_err(refused)?;
        let name = name.to_str()?;
        self.budget.name(name.len()).map_err(refused)?;
        members.insert(name.to_owned(), self.value(&value)?);
        Ok(())
    }

    fn text(&mut self, text: &Bound<'_, PyString>) -> PyResult<Value> {
        // Python keeps the bytes of a text once they are made.
        self.budget.fits_text(text.len()?).map_err(refused)?;
        // Fails for surrogates, which UTF-8 does not have.
        let text = text.to_str()?;
        self.budget.item(text.len()).map_err(refused)?;
        Ok(Value::String(text.to_owned()))
    }
}

fn number_to_json(integer: &Bound<'_, PyInt>) -> PyResult<Value> {
    if let Ok(signed) = integer.extract::<i64>() {
        return Ok(signed.into());
    }
    integer.extract::<u64>().map(Value::from).map_err(|_| refused(BadValue::TooWide))
}

fn refused(problem: BadValue) -> PyErr {
    PyValueError::new_err(problem.to_string())
}
