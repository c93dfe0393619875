//! `datetime`: dates, times, differences and fixed time zones. No clock: `now` and `today` are
//! refused before a script runs.

mod calendar;
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
use starlark::values::tuple::AllocTuple;
use starlark::values::{
    Heap, NoSerialize, ProvidesStaticType, StarlarkPagablePanic, StarlarkValue, Value,
    ValueLike as _, starlark_value,
};

use self::calendar::{Day, MICROS, MICROS_A_DAY};
use super::methods::bound;
use super::text;
use super::types::Type;
use super::values::{Args, as_float, as_int, misuse, required, size, strict_float, text_of};

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
    micros: i64,
}
starlark_simple_value!(TimeDelta);

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

/// Returns whether [`method`] has this method.
pub(crate) fn has(name: &str) -> bool {
    DATE_METHODS.contains(&name) || DATETIME_METHODS.contains(&name) || name == "total_seconds"
}

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
    fn of(year: i64, month: i64, day: i64) -> starlark::Result<Self> {
        Day::of(year, month, day).map(|day| Self { day }).map_err(misuse)
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
        if let Some(below) = other.downcast_ref::<Self>().filter(|it| it.micros != 0) {
            return Ok(heap.alloc(floor(self.micros, below.micros)));
        }
        match super::values::as_i64(other) {
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
        let (hour, minute) = (self.field(3600 * MICROS, 24), self.field(60 * MICROS, 60));
        write!(f, "datetime.datetime({year}, {month}, {day}, {hour}, {minute}")?;
        let (second, micros) = (self.field(MICROS, 60), self.field(1, MICROS));
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

fn floor(a: i64, b: i64) -> i64 {
    let quotient = a.wrapping_div(b);
    if a.wrapping_rem(b) != 0 && (a < 0) != (b < 0) { quotient - 1 } else { quotient }
}

/// Rounds microseconds to an integer that a difference can hold.
fn rounded(micros: f64) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "the range is tested")]
    (micros.abs() < 9.0e18).then(|| micros.round_ties_even() as i64)
}

fn delta(micros: Option<i64>, heap: Heap<'_>) -> starlark::Result<Value<'_>> {
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

/// Calls `date`, `datetime`, `timedelta` or `timezone`.
pub(crate) fn construct<'v>(
    name: &str,
    args: Args<'v>,
    heap: Heap<'v>,
) -> starlark::Result<Value<'v>> {
    match name {
        "date" => {
            let [year, month, day] = args.bind(["year", "month", "day"])?;
            let part = |value, name| size(required(value, name)?, name);
            Ok(heap.alloc(Date::of(part(year, "year")?, part(month, "month")?, part(day, "day")?)?))
        }
        "datetime" => {
            let names =
                ["year", "month", "day", "hour", "minute", "second", "microsecond", "tzinfo"];
            let [year, month, day, hour, minute, second, micro, zone] = args.bind(names)?;
            let part = |value, name| size(required(value, name)?, name);
            let date = Date::of(part(year, "year")?, part(month, "month")?, part(day, "day")?)?;
            let clock = clock([hour, minute, second, micro], [0; 4])?;
            let offset = zone_of(zone)?;
            Ok(heap.alloc(DateTime::new(date.day.0 * MICROS_A_DAY + clock, offset)?))
        }
        "timezone" => {
            let [offset, _name] = args.bind(["offset", "name"])?;
            let offset = required(offset, "offset")?.downcast_ref::<TimeDelta>();
            let offset = offset.ok_or_else(|| misuse("timezone() takes a timedelta"))?;
            if offset.micros.abs() >= MICROS_A_DAY {
                return Err(misuse("a timezone is less than a day from UTC"));
            }
            let offset = i32::try_from(offset.micros / MICROS).unwrap_or_default();
            Ok(heap.alloc(TimeZone { offset }))
        }
        _ => {
            let units =
                [MICROS_A_DAY, MICROS, 1, 1_000, 60 * MICROS, 3_600 * MICROS, 7 * MICROS_A_DAY];
            let names =
                ["days", "seconds", "microseconds", "milliseconds", "minutes", "hours", "weeks"];
            let parts = args.bind(names)?;
            let (mut whole, mut fraction) = (0_i64, 0.0);
            for (part, unit) in parts.into_iter().zip(units) {
                let Some(part) = part else { continue };
                if let Some(int) = as_int(part) {
                    let micros = i64::try_from(int).ok().and_then(|int| int.checked_mul(unit));
                    let sum = micros.and_then(|micros| whole.checked_add(micros));
                    whole = sum.ok_or_else(|| misuse("timedelta out of range"))?;
                } else {
                    let float = as_float(part).ok_or_else(|| operands("*", "timedelta", part))?;
                    #[expect(clippy::cast_precision_loss, reason = "units are exact in a float")]
                    let micros = float * unit as f64;
                    fraction += micros;
                }
            }
            delta(rounded(fraction).and_then(|more| whole.checked_add(more)), heap)
        }
    }
}

/// Returns microseconds since midnight. Parts that are missing have their value in `default`.
fn clock(parts: [Option<Value<'_>>; 4], default: [i64; 4]) -> starlark::Result<i64> {
    let limits = [
        ("hour", 24, 3600 * MICROS),
        ("minute", 60, 60 * MICROS),
        ("second", 60, MICROS),
        ("microsecond", MICROS, 1),
    ];
    let mut total = 0;
    for ((part, default), (name, limit, unit)) in parts.into_iter().zip(default).zip(limits) {
        let value = part.map_or(Ok(default), |part| size(part, name))?;
        if !(0..limit).contains(&value) {
            return Err(misuse(format!("{name} must be in 0..{}", limit - 1)));
        }
        total += value * unit;
    }
    Ok(total)
}

fn zone_of(zone: Option<Value<'_>>) -> starlark::Result<Option<i32>> {
    match zone.filter(|zone| !zone.is_none()) {
        None => Ok(None),
        Some(zone) => match zone.downcast_ref::<TimeZone>() {
            Some(zone) => Ok(Some(zone.offset)),
            None => Err(misuse("tzinfo must be a timezone")),
        },
    }
}

/// Calls a method of the types `date` and `datetime`.
pub(crate) fn class_method<'v>(
    class: &str,
    name: &str,
    args: Args<'v>,
    heap: Heap<'v>,
) -> starlark::Result<Value<'v>> {
    let made = |time: DateTime| match class {
        "date" => heap.alloc(Date { day: time.day() }),
        _ => heap.alloc(time),
    };
    match name {
        "strptime" => {
            let [text, format] = args.bind(["date_string", "format"])?;
            let text = text_of(required(text, "date_string")?, "strptime() argument 1")?;
            let format = text_of(required(format, "format")?, "strptime() argument 2")?;
            parse::strptime(text, format).map(made).map_err(misuse)
        }
        "fromisoformat" => {
            let [text] = args.bind(["date_string"])?;
            let text = text_of(required(text, "date_string")?, "fromisoformat: argument")?;
            let parsed = parse::iso(text, class == "date").ok_or_else(|| {
                let mut quoted = String::new();
                text::quote(&mut quoted, text);
                misuse(format!("Invalid isoformat string: {quoted}"))
            })?;
            Ok(made(parsed))
        }
        "fromordinal" => {
            let [ordinal] = args.bind(["ordinal"])?;
            let day = size(required(ordinal, "ordinal")?, "ordinal")? - calendar::EPOCH_ORDINAL;
            let day = Day::checked(Some(day)).ok_or_else(out_of_range)?;
            Ok(made(DateTime::new(day.0 * MICROS_A_DAY, None)?))
        }
        _ => {
            let [seconds, zone] = args.bind(["timestamp", "tz"])?;
            let seconds = required(seconds, "timestamp")?;
            let zone = zone_of(zone)?;
            let micros = match super::values::as_i64(seconds) {
                Some(seconds) => seconds.checked_mul(MICROS),
                None => as_float(seconds).and_then(|seconds| rounded(seconds * 1e6)),
            };
            let ahead = i64::from(zone.unwrap_or_default()) * MICROS;
            let local = micros.and_then(|micros| micros.checked_add(ahead));
            Ok(made(DateTime::new(local.ok_or_else(out_of_range)?, zone)?))
        }
    }
}

/// Calls a method of a date, time or difference.
pub(crate) fn method<'v>(
    this: Value<'v>,
    name: &str,
    args: Args<'v>,
    heap: Heap<'v>,
) -> starlark::Result<Value<'v>> {
    if let Some(delta) = this.downcast_ref::<TimeDelta>() {
        #[expect(clippy::cast_precision_loss, reason = "a float is asked for")]
        return Ok(heap.alloc(delta.micros as f64 / 1e6));
    }
    let time = as_time(this).ok_or_else(|| misuse(format!("no method {name}")))?;
    let is_date = this.downcast_ref::<Date>().is_some();
    let day = time.day();
    match name {
        "isoformat" if is_date => Ok(heap.alloc(show::date(day))),
        "isoformat" => {
            let [separator, precision] = args.bind(["sep", "timespec"])?;
            let separator = separator.map_or(Ok("T"), |it| text_of(it, "sep"))?;
            let precision = precision.map(|it| text_of(it, "timespec")).transpose()?;
            show::iso(time, separator, precision).map(|text| heap.alloc(text)).map_err(misuse)
        }
        "strftime" => {
            let [format] = args.bind(["format"])?;
            let format = text_of(required(format, "format")?, "format")?;
            show::strftime(time, format).map(|text| heap.alloc(text)).map_err(misuse)
        }
        "weekday" => Ok(heap.alloc(day.weekday())),
        "isoweekday" => Ok(heap.alloc(day.weekday() + 1)),
        "toordinal" => Ok(heap.alloc(day.0 + calendar::EPOCH_ORDINAL)),
        "isocalendar" => {
            let (year, week) = day.iso_week();
            let parts = [year, week, day.weekday() + 1];
            Ok(heap.alloc(AllocTuple(parts.map(|part| heap.alloc(part)))))
        }
        "date" => Ok(heap.alloc(Date { day })),
        #[expect(clippy::cast_precision_loss, reason = "a float is asked for")]
        "timestamp" => Ok(heap.alloc(time.instant() as f64 / 1e6)),
        "utcoffset" => Ok(time.offset.map_or(Value::new_none(), |offset| {
            heap.alloc(TimeDelta { micros: i64::from(offset) * MICROS })
        })),
        "astimezone" => {
            let [zone] = args.bind(["tz"])?;
            let zone = zone_of(zone)?
                .ok_or_else(|| misuse("astimezone() needs a timezone: a run has no local one"))?;
            let local = time.instant() + i64::from(zone) * MICROS;
            Ok(heap.alloc(DateTime::new(local, Some(zone))?))
        }
        _ => replaced(time, is_date, args, heap),
    }
}

fn replaced<'v>(
    time: DateTime,
    is_date: bool,
    args: Args<'v>,
    heap: Heap<'v>,
) -> starlark::Result<Value<'v>> {
    let names = ["year", "month", "day", "hour", "minute", "second", "microsecond", "tzinfo"];
    let [year, month, day, hour, minute, second, micro, zone] = args.bind(names)?;
    let (old_year, old_month, old_day) = time.day().civil();
    let part =
        |value: Option<Value<'v>>, old| value.map_or(Ok(old), |value| size(value, "replace()"));
    let date = Date::of(part(year, old_year)?, part(month, old_month)?, part(day, old_day)?)?;
    if is_date {
        return Ok(heap.alloc(date));
    }
    let old = [
        time.field(3600 * MICROS, 24),
        time.field(60 * MICROS, 60),
        time.field(MICROS, 60),
        time.field(1, MICROS),
    ];
    let clock = clock([hour, minute, second, micro], old)?;
    let offset = if zone.is_some() { zone_of(zone)? } else { time.offset };
    Ok(heap.alloc(DateTime::new(date.day.0 * MICROS_A_DAY + clock, offset)?))
}
