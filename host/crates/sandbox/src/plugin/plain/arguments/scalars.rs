//! Conversion of numbers and characters.

use serde_json::{Number, Value};
use wasmtime::component::Val;

use super::super::{schema::MAX_SAFE, shape::Int};

/// Reads an integer: a whole number, or for a 64-bit type also its digits as text. For 64-bit
/// types, numbers beyond the safe integers are refused, because a program on the way may have
/// rounded them already.
pub(super) fn integer(int: Int, value: &Value) -> Option<Val> {
    let (least, most) = int.range();
    let is_wide = most > MAX_SAFE;
    let number = match value {
        Value::Number(number) => {
            whole(number).filter(|number| !is_wide || number.abs() <= MAX_SAFE)?
        }
        Value::String(digits) if is_wide => {
            let (unsigned, room) = if least < 0 {
                (digits.strip_prefix('-').unwrap_or(digits), 19)
            } else {
                (&**digits, 20)
            };
            if !(1..=room).contains(&unsigned.len())
                || !unsigned.bytes().all(|byte| byte.is_ascii_digit())
            {
                return None;
            }
            digits.parse().ok()?
        }
        _ => return None,
    };
    int.val(number)
}

/// Returns a number without a fraction. `3.0` counts, because it is an integer to JSON Schema.
fn whole(number: &Number) -> Option<i128> {
    if let Some(number) = number.as_i64() {
        return Some(number.into());
    }
    if let Some(number) = number.as_u64() {
        return Some(number.into());
    }
    let number = double(number)
        .filter(|number| number.fract() == 0.0 && number.abs() < 9_007_199_254_740_992.0)?;
    #[expect(clippy::cast_possible_truncation, reason = "it is whole and small, as was just seen")]
    Some(number as i128)
}

pub(super) fn double(number: &Number) -> Option<f64> {
    number.as_f64().filter(|number| number.is_finite())
}

pub(super) fn single(number: &Number) -> Option<f32> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "rounding is what a narrower type asks for; overflow is looked at"
    )]
    let single = double(number)? as f32;
    single.is_finite().then_some(single)
}

pub(super) fn single_char(value: &Value) -> Option<char> {
    let mut characters = value.as_str()?.chars();
    characters.next().filter(|_| characters.next().is_none())
}
