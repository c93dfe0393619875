//! The constructors and the methods of the classes.

use starlark::values::{Heap, Value, ValueLike as _};

use super::super::text;
use super::super::values::{Args, as_float, as_i64, as_int, misuse, required, size, text_of};
use super::calendar::{Day, EPOCH_ORDINAL, MICROS, MICROS_A_DAY};
use super::delta::{delta, rounded};
use super::{Date, DateTime, TimeDelta, TimeZone, operands, out_of_range, parse};

/// Calls `date`, `datetime`, `timedelta` or `timezone`.
pub(crate) fn construct<'v>(
    name: &str,
    args: Args<'v>,
    heap: Heap<'v>,
) -> starlark::Result<Value<'v>> {
    match name {
        "date" => {
            let [year, month, day] = args.bind(["year", "month", "day"])?;
            Ok(heap.alloc(date(year, month, day)?))
        }
        "datetime" => {
            let names =
                ["year", "month", "day", "hour", "minute", "second", "microsecond", "tzinfo"];
            let [year, month, day, hour, minute, second, micro, zone] = args.bind(names)?;
            let date = date(year, month, day)?;
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
            let mut whole = 0_i64;
            let mut fraction = 0.0;
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
pub(super) fn clock(parts: [Option<Value<'_>>; 4], default: [i64; 4]) -> starlark::Result<i64> {
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

pub(super) fn zone_of(zone: Option<Value<'_>>) -> starlark::Result<Option<i32>> {
    match zone.filter(|zone| !zone.is_none()) {
        None => Ok(None),
        Some(zone) => match zone.downcast_ref::<TimeZone>() {
            Some(zone) => Ok(Some(zone.offset)),
            None => Err(misuse("tzinfo must be a timezone")),
        },
    }
}

fn date(
    year: Option<Value<'_>>,
    month: Option<Value<'_>>,
    day: Option<Value<'_>>,
) -> starlark::Result<Date> {
    let year = size(required(year, "year")?, "year")?;
    let month = size(required(month, "month")?, "month")?;
    let day = size(required(day, "day")?, "day")?;
    Date::new(year, month, day)
}

/// Calls a method of the types `date` and `datetime`.
pub(crate) fn class_method<'v>(
    class: &str,
    name: &str,
    args: Args<'v>,
    heap: Heap<'v>,
) -> starlark::Result<Value<'v>> {
    match name {
        "strptime" => {
            let [text, format] = args.bind(["date_string", "format"])?;
            let text = text_of(required(text, "date_string")?, "strptime() argument 1")?;
            let format = text_of(required(format, "format")?, "strptime() argument 2")?;
            parse::strptime(text, format).map(|time| instance(class, time, heap)).map_err(misuse)
        }
        "fromisoformat" => {
            let [text] = args.bind(["date_string"])?;
            let text = text_of(required(text, "date_string")?, "fromisoformat: argument")?;
            let parsed = parse::iso(text, class == "date").ok_or_else(|| {
                let mut quoted = String::new();
                text::quote(&mut quoted, text);
                misuse(format!("Invalid isoformat string: {quoted}"))
            })?;
            Ok(instance(class, parsed, heap))
        }
        "fromordinal" => {
            let [ordinal] = args.bind(["ordinal"])?;
            let day = size(required(ordinal, "ordinal")?, "ordinal")? - EPOCH_ORDINAL;
            let day = Day::checked(Some(day)).ok_or_else(out_of_range)?;
            Ok(instance(class, DateTime::new(day.0 * MICROS_A_DAY, None)?, heap))
        }
        _ => {
            let [seconds, zone] = args.bind(["timestamp", "tz"])?;
            let seconds = required(seconds, "timestamp")?;
            let zone = zone_of(zone)?;
            let micros = match as_i64(seconds) {
                Some(seconds) => seconds.checked_mul(MICROS),
                None => as_float(seconds).and_then(|seconds| rounded(seconds * 1e6)),
            };
            let ahead = i64::from(zone.unwrap_or_default()) * MICROS;
            let local = micros.and_then(|micros| micros.checked_add(ahead));
            let time = DateTime::new(local.ok_or_else(out_of_range)?, zone)?;
            Ok(instance(class, time, heap))
        }
    }
}

/// Allocates a time as an instance of `date` or `datetime`.
fn instance<'v>(class: &str, time: DateTime, heap: Heap<'v>) -> Value<'v> {
    match class {
        "date" => heap.alloc(Date { day: time.day() }),
        _ => heap.alloc(time),
    }
}
