//! `timedelta`.

use std::cmp::Ordering;
use std::fmt;
use std::hash::Hash as _;

use allocative::Allocative;
use starlark::collections::StarlarkHasher;
use starlark::starlark_simple_value;
use starlark::values::{
    Heap, NoSerialize, ProvidesStaticType, StarlarkPagablePanic, StarlarkValue, Value,
    ValueLike as _, starlark_value,
};

use super::super::bound::bound;
use super::super::values::{as_float, as_i64, as_int, misuse, strict_float};
use super::calendar::{MICROS, MICROS_A_DAY};
use super::{Date, DateTime, operands, show};

/// A difference of times.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    ProvidesStaticType,
    NoSerialize,
    Allocative,
    StarlarkPagablePanic,
)]
pub(crate) struct TimeDelta {
    pub(super) micros: i64,
}
starlark_simple_value!(TimeDelta);

#[starlark_value(type = "timedelta")]
impl<'v> StarlarkValue<'v> for TimeDelta {
    fn get_attr(&self, attribute: &str, heap: Heap<'v>) -> Option<Value<'v>> {
        Some(match attribute {
            "days" => heap.alloc(self.micros.div_euclid(MICROS_A_DAY)),
            "seconds" => heap.alloc(self.micros.rem_euclid(MICROS_A_DAY) / MICROS),
            "microseconds" => heap.alloc(self.micros.rem_euclid(MICROS)),
            _ => return bound(*self, attribute, &["total_seconds"], heap),
        })
    }

    fn collect_str(&self, collector: &mut String) {
        collector.push_str(&show::delta(self.micros));
    }

    fn to_bool(&self) -> bool {
        self.micros != 0
    }

    fn minus(&self, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        Ok(heap.alloc(Self { micros: -self.micros }))
    }

    fn add(&self, other: Value<'v>, heap: Heap<'v>) -> Option<starlark::Result<Value<'v>>> {
        if let Some(other) = other.downcast_ref::<Self>() {
            return Some(delta(self.micros.checked_add(other.micros), heap));
        }
        if let Some(date) = other.downcast_ref::<Date>() {
            return Some(date.shifted(self.micros).map(|date| heap.alloc(date)));
        }
        let time = other.downcast_ref::<DateTime>()?;
        Some(time.shifted(self.micros).map(|time| heap.alloc(time)))
    }

    /// `sum` begins with 0.
    fn radd(&self, left: Value<'v>, heap: Heap<'v>) -> Option<starlark::Result<Value<'v>>> {
        (left.unpack_i32() == Some(0)).then(|| Ok(heap.alloc(*self)))
    }

    fn sub(&self, other: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        match other.downcast_ref::<Self>() {
            Some(other) => delta(self.micros.checked_sub(other.micros), heap),
            None => Err(operands("-", "timedelta", other)),
        }
    }

    fn mul(&self, other: Value<'v>, heap: Heap<'v>) -> Option<starlark::Result<Value<'v>>> {
        if let Some(times) = as_int(other) {
            let micros = i64::try_from(times).ok().and_then(|times| self.micros.checked_mul(times));
            return Some(delta(micros, heap));
        }
        let times = strict_float(other)?;
        #[expect(clippy::cast_precision_loss, reason = "a float is asked for")]
        let micros = self.micros as f64 * times;
        Some(delta(rounded(micros), heap))
    }

    fn rmul(&self, left: Value<'v>, heap: Heap<'v>) -> Option<starlark::Result<Value<'v>>> {
        self.mul(left, heap)
    }

    #[expect(clippy::cast_precision_loss, reason = "a float is asked for")]
    fn div(&self, other: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        if let Some(other) = other.downcast_ref::<Self>() {
            return match other.micros {
                0 => Err(misuse("division by zero")),
                below => Ok(heap.alloc(self.micros as f64 / below as f64)),
            };
        }
        match as_float(other) {
            Some(below) if below != 0.0 => delta(rounded(self.micros as f64 / below), heap),
            Some(_) => Err(misuse("division by zero")),
            None => Err(operands("/", "timedelta", other)),
        }
    }

    fn floor_div(&self, other: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        if let Some(below) = other.downcast_ref::<Self>().filter(|delta| delta.micros != 0) {
            return Ok(heap.alloc(floor(self.micros, below.micros)));
        }
        match as_i64(other) {
            Some(below) if below != 0 => delta(Some(floor(self.micros, below)), heap),
            _ => Err(operands("//", "timedelta", other)),
        }
    }

    fn percent(&self, other: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        match other.downcast_ref::<Self>() {
            Some(below) if below.micros != 0 => {
                let whole = floor(self.micros, below.micros);
                delta(Some(self.micros - whole * below.micros), heap)
            }
            _ => Err(operands("%", "timedelta", other)),
        }
    }

    fn equals(&self, other: Value<'v>) -> starlark::Result<bool> {
        Ok(other.downcast_ref::<Self>().is_some_and(|other| other == self))
    }

    fn compare(&self, other: Value<'v>) -> starlark::Result<Ordering> {
        match other.downcast_ref::<Self>() {
            Some(other) => Ok(self.micros.cmp(&other.micros)),
            None => Err(misuse("can't compare a timedelta with that")),
        }
    }

    fn write_hash(&self, hasher: &mut StarlarkHasher) -> starlark::Result<()> {
        self.micros.hash(hasher);
        Ok(())
    }
}

impl fmt::Display for TimeDelta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            ("days", self.micros.div_euclid(MICROS_A_DAY)),
            ("seconds", self.micros.rem_euclid(MICROS_A_DAY) / MICROS),
            ("microseconds", self.micros.rem_euclid(MICROS)),
        ];
        let shown: Vec<_> = parts
            .iter()
            .filter(|(_, value)| *value != 0)
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let shown = if shown.is_empty() { "0".into() } else { shown.join(", ") };
        write!(f, "datetime.timedelta({shown})")
    }
}

fn floor(a: i64, b: i64) -> i64 {
    let quotient = a.wrapping_div(b);
    if a.wrapping_rem(b) != 0 && (a < 0) != (b < 0) { quotient - 1 } else { quotient }
}

/// Rounds microseconds to an integer that a difference can hold.
pub(super) fn rounded(micros: f64) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "the range is tested")]
    (micros.abs() < 9.0e18).then(|| micros.round_ties_even() as i64)
}

pub(super) fn delta(micros: Option<i64>, heap: Heap<'_>) -> starlark::Result<Value<'_>> {
    let most = 999_999_999 * i128::from(MICROS_A_DAY);
    match micros.filter(|micros| i128::from(*micros).abs() <= most) {
        Some(micros) => Ok(heap.alloc(TimeDelta { micros })),
        None => Err(misuse("timedelta out of range")),
    }
}

/// The absolute value of a difference; `None` for other values.
pub(crate) fn absolute<'v>(value: Value<'v>, heap: Heap<'v>) -> Option<Value<'v>> {
    let delta = value.downcast_ref::<TimeDelta>()?;
    Some(heap.alloc(TimeDelta { micros: delta.micros.checked_abs()? }))
}
