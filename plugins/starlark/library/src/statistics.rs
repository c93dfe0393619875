//! `statistics`.

use num_bigint::BigInt;
use starlark::environment::GlobalsBuilder;
use starlark::starlark_module;
use starlark::values::{Heap, Value};

use super::lowered::real;
use super::numbers::{count, ratio};
use super::order::{compare, sort_by};
use super::values::{as_int, items, list, misuse};

/// The module `statistics`.
#[starlark_module]
pub(crate) fn module(builder: &mut GlobalsBuilder) {
    fn mean<'v>(data: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        let data = some(data, "mean", heap)?;
        // The mean of ints is an int if it is whole, and exact before it becomes a float.
        if let Some(ints) = data.iter().map(|number| as_int(*number)).collect::<Option<Vec<_>>>() {
            let total = ints.iter().sum::<BigInt>();
            let length = BigInt::from(ints.len());
            return Ok(if &total % &length == BigInt::ZERO {
                heap.alloc(total / length)
            } else {
                heap.alloc(ratio(&total, &length))
            });
        }
        Ok(heap.alloc(average(&floats(&data)?)))
    }

    fn fmean<'v>(data: Value<'v>, heap: Heap<'v>) -> starlark::Result<f64> {
        Ok(average(&floats(&some(data, "fmean", heap)?)?))
    }

    fn median<'v>(data: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        let data = ordered(data, "median", heap)?;
        let middle = data.len() / 2;
        if data.len() % 2 == 1 {
            return Ok(data[middle]);
        }
        data[middle - 1].add(data[middle], heap)?.div(heap.alloc(2), heap)
    }

    fn median_low<'v>(data: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        let data = ordered(data, "median_low", heap)?;
        Ok(data[(data.len() - 1) / 2])
    }

    fn median_high<'v>(data: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        let data = ordered(data, "median_high", heap)?;
        Ok(data[data.len() / 2])
    }

    /// The points that divide the data into `n` parts of equal size.
    fn quantiles<'v>(
        data: Value<'v>,
        #[starlark(require = named)] n: Option<Value<'v>>,
        #[starlark(require = named, default = "exclusive")] method: &str,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        let data = ordered(data, "quantiles", heap)?;
        let parts = n.map_or(Ok(4), |n| count(n, "n"))?;
        if data.len() < 2 || parts < 1 {
            return Err(misuse("quantiles() takes at least two data points, and `n` from 1"));
        }
        let parts = i64::try_from(parts).unwrap_or(i64::MAX);
        let points = (1..parts).map(|at| quantile(&data, at, parts, method == "inclusive", heap));
        Ok(list(heap, points.collect::<starlark::Result<Vec<_>>>()?))
    }

    fn mode<'v>(data: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        Ok(modes(&some(data, "mode", heap)?)?[0])
    }

    fn multimode<'v>(data: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        Ok(list(heap, modes(&items(data, heap)?)?))
    }

    fn variance<'v>(data: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        spread(data, "variance", 1, heap).map(|value| shown(value, heap))
    }

    fn pvariance<'v>(data: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        spread(data, "pvariance", 0, heap).map(|value| shown(value, heap))
    }

    fn stdev<'v>(data: Value<'v>, heap: Heap<'v>) -> starlark::Result<f64> {
        Ok(spread(data, "stdev", 1, heap)?.0.sqrt())
    }

    fn pstdev<'v>(data: Value<'v>, heap: Heap<'v>) -> starlark::Result<f64> {
        Ok(spread(data, "pstdev", 0, heap)?.0.sqrt())
    }
}

fn some<'v>(data: Value<'v>, name: &str, heap: Heap<'v>) -> starlark::Result<Vec<Value<'v>>> {
    let data = items(data, heap)?;
    if data.is_empty() {
        return Err(misuse(format!("{name} requires at least one data point")));
    }
    Ok(data)
}

fn ordered<'v>(data: Value<'v>, name: &str, heap: Heap<'v>) -> starlark::Result<Vec<Value<'v>>> {
    let mut data = some(data, name, heap)?;
    sort_by(&mut data, &mut |a, b| compare(a, b, heap))?;
    Ok(data)
}

fn floats(data: &[Value<'_>]) -> starlark::Result<Vec<f64>> {
    data.iter().map(|number| real(*number)).collect()
}

fn average(data: &[f64]) -> f64 {
    let mut total = 0.0_f64;
    let mut lost = 0.0_f64;
    for term in data {
        let next = total + term;
        lost +=
            if total.abs() >= term.abs() { (total - next) + term } else { (term - next) + total };
        total = next;
    }
    #[expect(
        clippy::cast_precision_loss,
        reason = "a list has fewer items than a float has digits"
    )]
    let length = data.len() as f64;
    (total + lost) / length
}

/// Returns the sum of squares about the mean over `n - lost`, and whether all data are ints.
fn spread<'v>(
    data: Value<'v>,
    name: &str,
    lost: usize,
    heap: Heap<'v>,
) -> starlark::Result<(f64, bool)> {
    let data = items(data, heap)?;
    if data.len() <= lost {
        return Err(misuse(format!("{name} requires at least {} data points", lost + 1)));
    }
    // Ints: n * sum(x²) - sum(x)² is exact.
    if let Some(ints) = data.iter().map(|number| as_int(*number)).collect::<Option<Vec<_>>>() {
        let length = BigInt::from(ints.len());
        let squares: BigInt = ints.iter().map(|int| int * int).sum();
        let total: BigInt = ints.iter().sum();
        let below = &length * BigInt::from(data.len() - lost);
        return Ok((ratio(&(length * squares - &total * &total), &below), true));
    }
    let values = floats(&data)?;
    let mean = average(&values);
    let squares: Vec<f64> = values.iter().map(|value| (value - mean) * (value - mean)).collect();
    #[expect(
        clippy::cast_precision_loss,
        reason = "a list has fewer items than a float has digits"
    )]
    let scale = values.len() as f64 / (values.len() - lost) as f64;
    Ok((average(&squares) * scale, false))
}

/// The variance of ints is an int if it is whole.
fn shown<'v>((value, ints): (f64, bool), heap: Heap<'v>) -> Value<'v> {
    if ints && value.fract() == 0.0 {
        return heap.alloc(super::numbers::whole(value));
    }
    heap.alloc(value)
}

fn modes<'v>(data: &[Value<'v>]) -> starlark::Result<Vec<Value<'v>>> {
    let mut counts: starlark::collections::SmallMap<Value<'v>, usize> =
        starlark::collections::SmallMap::new();
    for item in data {
        let key = item.get_hashed()?;
        let count = counts.get_hashed(key.as_ref()).copied().unwrap_or_default();
        counts.insert_hashed(key, count + 1);
    }
    let most = counts.values().copied().max().unwrap_or_default();
    Ok(counts.into_iter().filter(|(_, count)| *count == most).map(|(item, _)| item).collect())
}
/// Returns the point below which are `at` of so many equal parts of the sorted data.
fn quantile<'v>(
    data: &[Value<'v>],
    at: i64,
    parts: i64,
    is_inclusive: bool,
    heap: Heap<'v>,
) -> starlark::Result<Value<'v>> {
    let last = i64::try_from(data.len() - 1).unwrap_or(i64::MAX);
    let (before, more) = if is_inclusive {
        (at * last / parts, at * last % parts)
    } else {
        let place = at * (last + 2);
        let before = (place / parts).clamp(1, last);
        (before - 1, place - before * parts)
    };
    let before = usize::try_from(before).unwrap_or_default();
    let less = heap.alloc(parts - more).mul(data[before], heap)?;
    let sum = less.add(heap.alloc(more).mul(data[before + 1], heap)?, heap)?;
    sum.div(heap.alloc(parts), heap)
}
