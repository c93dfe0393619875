//! The methods of dates, times and differences.

use starlark::values::tuple::AllocTuple;
use starlark::values::{Heap, Value, ValueLike as _};

use super::super::bound::MethodTable;
use super::super::values::{Args, misuse, required, size, text_of};
use super::calendar::{EPOCH_ORDINAL, MICROS, MICROS_A_DAY};
use super::make::{clock, zone_of};
use super::{DATETIME_METHODS, Date, DateTime, TimeDelta, as_time, show};

/// The methods of dates, times and differences. Times have all methods of dates.
pub(crate) const TABLE: MethodTable = &[
    (DATETIME_METHODS, |this, name, args, eval| method(this, name, args, eval.heap())),
    (&["total_seconds"], |this, name, args, eval| method(this, name, args, eval.heap())),
];

/// Calls a method of a date, time or difference.
fn method<'v>(
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
            let separator = separator.map_or(Ok("T"), |separator| text_of(separator, "sep"))?;
            let precision =
                precision.map(|precision| text_of(precision, "timespec")).transpose()?;
            show::iso(time, separator, precision).map(|text| heap.alloc(text)).map_err(misuse)
        }
        "strftime" => {
            let [format] = args.bind(["format"])?;
            let format = text_of(required(format, "format")?, "format")?;
            show::strftime(time, format).map(|text| heap.alloc(text)).map_err(misuse)
        }
        "weekday" => Ok(heap.alloc(day.weekday())),
        "isoweekday" => Ok(heap.alloc(day.weekday() + 1)),
        "toordinal" => Ok(heap.alloc(day.0 + EPOCH_ORDINAL)),
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
    let date =
        Date::new(part_or(year, old_year)?, part_or(month, old_month)?, part_or(day, old_day)?)?;
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

fn part_or(value: Option<Value<'_>>, old: i64) -> starlark::Result<i64> {
    value.map_or(Ok(old), |value| size(value, "replace()"))
}
