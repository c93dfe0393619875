//! `datetime`: dates, times, differences and fixed time zones. No clock: `now` and `today` are
//! refused before a script runs.
//!
//! - `calendar`: days and dates
//! - `delta`: differences
//! - `make`, `methods`: constructors, methods of classes, methods of values
//! - `parse`, `show`: dates from text and as text

mod calendar;
mod delta;
mod make;
mod methods;
mod parse;
mod show;

use std::cmp::Ordering;
use std::fmt;
use std::hash::Hash as _;

use allocative::Allocative;
use starlark::collections::StarlarkHasher;
use starlark::environment::GlobalsBuilder;
use starlark::starlark_module;
use starlark::starlark_simple_value;
use starlark::values::{
    Heap, NoSerialize, ProvidesStaticType, StarlarkPagablePanic, StarlarkValue, Value,
    ValueLike as _, starlark_value,
};

use self::calendar::{Day, MICROS, MICROS_A_DAY};
pub(crate) use self::delta::{TimeDelta, absolute};
pub(crate) use self::make::{class_method, construct};
pub(crate) use self::methods::TABLE;
use super::bound::bound;
use super::class::Type;
use super::text;
use super::values::misuse;

/// A day.
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
pub(crate) struct Date {
    /// Days since 1 January 1970.
    #[allocative(skip)]
    day: Day,
}
starlark_simple_value!(Date);

/// A day and time, with or without the distance from UTC.
#[derive(Debug, Clone, Copy, ProvidesStaticType, NoSerialize, Allocative, StarlarkPagablePanic)]
pub(crate) struct DateTime {
    /// Microseconds since 1970, as its clock shows them.
    local: i64,
    /// Seconds that its clock is ahead of UTC.
    offset: Option<i32>,
}
starlark_simple_value!(DateTime);

/// A fixed distance from UTC.
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
pub(crate) struct TimeZone {
    offset: i32,
}
starlark_simple_value!(TimeZone);

const DATE_METHODS: &[&str] =
    &["isocalendar", "isoformat", "isoweekday", "replace", "strftime", "toordinal", "weekday"];
const DATETIME_METHODS: &[&str] = &[
    "astimezone",
    "date",
    "isocalendar",
    "isoformat",
    "isoweekday",
    "replace",
    "strftime",
    "timestamp",
    "toordinal",
    "utcoffset",
    "weekday",
];
const CLASS_METHODS: &[&str] =
    &["fromisoformat", "fromordinal", "fromtimestamp", "strptime", "utcfromtimestamp"];

/// Returns whether [`class_method`] has this method.
pub(crate) fn is_class_method(name: &str) -> bool {
    CLASS_METHODS.contains(&name)
}

/// The module `datetime`.
#[starlark_module]
pub(crate) fn module(builder: &mut GlobalsBuilder) {
    const date: Type = Type { name: "date" };
    const datetime: Type = Type { name: "datetime" };
    const timedelta: Type = Type { name: "timedelta" };
    const timezone: Type = Type { name: "timezone" };
    const UTC: TimeZone = TimeZone { offset: 0 };
}

/// Returns the time zone of UTC.
pub(crate) fn utc(heap: Heap<'_>) -> Value<'_> {
    heap.alloc(TimeZone { offset: 0 })
}

impl Date {
    fn new(year: i64, month: i64, day: i64) -> starlark::Result<Self> {
        Day::new(year, month, day).map(|day| Self { day }).map_err(misuse)
    }

    fn shifted(self, micros: i64) -> starlark::Result<Self> {
        let day = self.day.0.checked_add(micros.div_euclid(MICROS_A_DAY));
        Day::checked(day).map(|day| Self { day }).ok_or_else(out_of_range)
    }
}

impl DateTime {
    fn new(local: i64, offset: Option<i32>) -> starlark::Result<Self> {
        Day::checked(Some(local.div_euclid(MICROS_A_DAY))).ok_or_else(out_of_range)?;
        Ok(Self { local, offset })
    }

    fn day(self) -> Day {
        Day(self.local.div_euclid(MICROS_A_DAY))
    }

    fn time(self) -> i64 {
        self.local.rem_euclid(MICROS_A_DAY)
    }

    /// Returns microseconds since 1970 in UTC; those without a time zone count as UTC.
    fn instant(self) -> i64 {
        self.local - i64::from(self.offset.unwrap_or_default()) * MICROS
    }

    fn shifted(self, micros: i64) -> starlark::Result<Self> {
        Self::new(self.local.checked_add(micros).ok_or_else(out_of_range)?, self.offset)
    }

    fn field(self, unit: i64, of: i64) -> i64 {
        self.time() / unit % of
    }
}

fn out_of_range() -> starlark::Error {
    misuse("date value out of range")
}

#[starlark_value(type = "date")]
impl<'v> StarlarkValue<'v> for Date {
    fn get_attr(&self, attribute: &str, heap: Heap<'v>) -> Option<Value<'v>> {
        let (year, month, day) = self.day.civil();
        match attribute {
            "year" => Some(heap.alloc(year)),
            "month" => Some(heap.alloc(month)),
            "day" => Some(heap.alloc(day)),
            _ => bound(*self, attribute, DATE_METHODS, heap),
        }
    }

    fn collect_str(&self, collector: &mut String) {
        collector.push_str(&show::date(self.day));
    }

    fn add(&self, other: Value<'v>, heap: Heap<'v>) -> Option<starlark::Result<Value<'v>>> {
        let delta = other.downcast_ref::<TimeDelta>()?;
        Some(self.shifted(delta.micros).map(|date| heap.alloc(date)))
    }

    fn sub(&self, other: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        if let Some(delta) = other.downcast_ref::<TimeDelta>() {
            // Parts of a day do not count: floor of the whole difference, not of its negation.
            let days = delta.micros.div_euclid(MICROS_A_DAY);
            return self.shifted(-days * MICROS_A_DAY).map(|date| heap.alloc(date));
        }
        match other.downcast_ref::<Self>() {
            Some(other) => {
                Ok(heap.alloc(TimeDelta { micros: (self.day.0 - other.day.0) * MICROS_A_DAY }))
            }
            None => Err(operands("-", "date", other)),
        }
    }

    fn equals(&self, other: Value<'v>) -> starlark::Result<bool> {
        Ok(other.downcast_ref::<Self>().is_some_and(|other| other == self))
    }

    fn compare(&self, other: Value<'v>) -> starlark::Result<Ordering> {
        match other.downcast_ref::<Self>() {
            Some(other) => Ok(self.day.0.cmp(&other.day.0)),
            None => Err(misuse("can't compare a date with that")),
        }
    }

    fn write_hash(&self, hasher: &mut StarlarkHasher) -> starlark::Result<()> {
        self.day.0.hash(hasher);
        Ok(())
    }
}

#[starlark_value(type = "datetime")]
impl<'v> StarlarkValue<'v> for DateTime {
    fn get_attr(&self, attribute: &str, heap: Heap<'v>) -> Option<Value<'v>> {
        let (year, month, day) = self.day().civil();
        Some(match attribute {
            "year" => heap.alloc(year),
            "month" => heap.alloc(month),
            "day" => heap.alloc(day),
            "hour" => heap.alloc(self.field(3600 * MICROS, 24)),
            "minute" => heap.alloc(self.field(60 * MICROS, 60)),
            "second" => heap.alloc(self.field(MICROS, 60)),
            "microsecond" => heap.alloc(self.field(1, MICROS)),
            "tzinfo" => {
                self.offset.map_or(Value::new_none(), |offset| heap.alloc(TimeZone { offset }))
            }
            _ => return bound(*self, attribute, DATETIME_METHODS, heap),
        })
    }

    fn collect_str(&self, collector: &mut String) {
        collector.push_str(&show::iso(*self, " ", None).unwrap_or_default());
    }

    fn add(&self, other: Value<'v>, heap: Heap<'v>) -> Option<starlark::Result<Value<'v>>> {
        let delta = other.downcast_ref::<TimeDelta>()?;
        Some(self.shifted(delta.micros).map(|time| heap.alloc(time)))
    }

    fn sub(&self, other: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        if let Some(delta) = other.downcast_ref::<TimeDelta>() {
            return self.shifted(-delta.micros).map(|time| heap.alloc(time));
        }
        match other.downcast_ref::<Self>() {
            Some(other) if other.offset.is_some() == self.offset.is_some() => {
                Ok(heap.alloc(TimeDelta { micros: self.instant() - other.instant() }))
            }
            Some(_) => Err(misuse("can't subtract offset-naive and offset-aware datetimes")),
            None => Err(operands("-", "datetime", other)),
        }
    }

    fn equals(&self, other: Value<'v>) -> starlark::Result<bool> {
        Ok(other.downcast_ref::<Self>().is_some_and(|other| {
            other.offset.is_some() == self.offset.is_some() && other.instant() == self.instant()
        }))
    }

    fn compare(&self, other: Value<'v>) -> starlark::Result<Ordering> {
        match other.downcast_ref::<Self>() {
            Some(other) if other.offset.is_some() == self.offset.is_some() => {
                Ok(self.instant().cmp(&other.instant()))
            }
            Some(_) => Err(misuse("can't compare offset-naive and offset-aware datetimes")),
            None => Err(misuse("can't compare a datetime with that")),
        }
    }

    fn write_hash(&self, hasher: &mut StarlarkHasher) -> starlark::Result<()> {
        self.instant().hash(hasher);
        Ok(())
    }
}

#[starlark_value(type = "timezone")]
impl<'v> StarlarkValue<'v> for TimeZone {
    fn collect_str(&self, collector: &mut String) {
        collector.push_str(&show::zone_name(self.offset));
    }

    fn equals(&self, other: Value<'v>) -> starlark::Result<bool> {
        Ok(other.downcast_ref::<Self>().is_some_and(|other| other == self))
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.day.civil();
        write!(f, "datetime.date({year}, {month}, {day})")
    }
}

impl fmt::Display for DateTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.day().civil();
        let hour = self.field(3600 * MICROS, 24);
        let minute = self.field(60 * MICROS, 60);
        write!(f, "datetime.datetime({year}, {month}, {day}, {hour}, {minute}")?;
        let second = self.field(MICROS, 60);
        let micros = self.field(1, MICROS);
        if second != 0 || micros != 0 {
            write!(f, ", {second}")?;
        }
        if micros != 0 {
            write!(f, ", {micros}")?;
        }
        match self.offset {
            Some(offset) => write!(f, ", tzinfo={})", TimeZone { offset }),
            None => f.write_str(")"),
        }
    }
}

impl fmt::Display for TimeZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.offset {
            0 => f.write_str("datetime.timezone.utc"),
            offset => {
                write!(f, "datetime.timezone({})", TimeDelta { micros: i64::from(offset) * MICROS })
            }
        }
    }
}

fn operands(op: &str, left: &str, right: Value<'_>) -> starlark::Error {
    let right = text::type_name(right);
    misuse(format!("unsupported operand type(s) for {op}: '{left}' and '{right}'"))
}

/// Formats a date by a specification like that of `strftime`; `None` for other values.
pub(crate) fn format(value: Value<'_>, spec: &str) -> Option<Result<String, String>> {
    let time = as_time(value)?;
    Some(show::strftime(time, spec))
}

/// Returns a date as the midnight of that day.
fn as_time(value: Value<'_>) -> Option<DateTime> {
    if let Some(date) = value.downcast_ref::<Date>() {
        return Some(DateTime { local: date.day.0 * MICROS_A_DAY, offset: None });
    }
    value.downcast_ref::<DateTime>().copied()
}

/// Returns the text of a date in JSON; `None` for other values.
pub(crate) fn json_text(value: Value<'_>) -> Option<String> {
    if let Some(date) = value.downcast_ref::<Date>() {
        return Some(show::date(date.day));
    }
    show::iso(*value.downcast_ref::<DateTime>()?, "T", None).ok()
}
