//! Built-in functions over numbers and sequences.

use num_bigint::BigInt;
use num_traits::{Signed as _, Zero as _};
use starlark::environment::GlobalsBuilder;
use starlark::eval::Evaluator;
use starlark::starlark_module;
use starlark::values::none::NoneOr;
use starlark::values::tuple::{AllocTuple, UnpackTuple};
use starlark::values::{Heap, Value, ValueLike as _};

use super::iterators::Iter;
use super::order::{compare, sort};
use super::text;
use super::values::{
    as_float, as_int, call, float_of, items, list, misuse, number, size, strict_float,
};

/// Most bits of the result of `**`. A larger number would take minutes to print.
const MAX_BITS: u64 = 1 << 20;

/// Numbers.
#[starlark_module]
pub(crate) fn numbers(builder: &mut GlobalsBuilder) {
    /// The sum of a sequence.
    fn sum<'v>(
        #[starlark(require = pos)] values: Value<'v>,
        #[starlark(default = 0)] start: Value<'v>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        if start.unpack_str().is_some() {
            return Err(misuse("sum() can't sum strings [use ''.join(seq) instead]"));
        }
        let values = items(values, heap)?;
        // Python adds floats with the error of each addition carried along.
        if values.iter().any(|value| strict_float(*value).is_some())
            && let Some(total) = float_sum(start, &values)
        {
            return Ok(heap.alloc(total));
        }
        values
            .into_iter()
            .try_fold(number(start, heap), |total, item| total.add(number(item, heap), heap))
    }

    /// A number rounded to the nearest integer, ties to the even one; or to that many digits after
    /// the point.
    fn round<'v>(
        #[starlark(require = pos)] number: Value<'v>,
        #[starlark(default = NoneOr::None)] ndigits: NoneOr<i32>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        let digits = ndigits.into_option();
        if let Some(int) = as_int(number) {
            return Ok(heap.alloc(match digits {
                Some(digits) if digits < 0 => round_int(&int, digits.unsigned_abs()),
                _ => int,
            }));
        }
        let float = strict_float(number).ok_or_else(|| {
            misuse(format!("type {} doesn't define __round__ method", text::type_name(number)))
        })?;
        match digits {
            None if float.is_finite() => Ok(heap.alloc(whole(float.round_ties_even()))),
            None => {
                Err(misuse(format!("cannot convert float {} to integer", text::float_repr(float))))
            }
            Some(digits) => Ok(heap.alloc(rounded(float, digits))),
        }
    }

    /// `base` to the power of `exponent`: exact for integers, a float otherwise; the remainder of
    /// it with `modulus`.
    fn pow<'v>(
        base: Value<'v>,
        exp: Value<'v>,
        r#mod: Option<Value<'v>>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        let Some(modulus) = r#mod else { return power(base, exp, heap) };
        match (as_int(base), as_int(exp), as_int(modulus)) {
            (Some(base), Some(exp), Some(modulus)) if !modulus.is_zero() && !exp.is_negative() => {
                Ok(heap.alloc(base.modpow(&exp, &modulus)))
            }
            _ => Err(misuse(
                "pow() with 3 arguments takes ints, a positive exponent and a modulus that is not 0",
            )),
        }
    }

    /// Quotient and remainder.
    fn divmod<'v>(
        #[starlark(require = pos)] a: Value<'v>,
        #[starlark(require = pos)] b: Value<'v>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        let a = number(a, heap);
        let b = number(b, heap);
        Ok(heap.alloc((a.floor_div(b, heap)?, a.percent(b, heap)?)))
    }

    /// The absolute value.
    fn abs<'v>(
        #[starlark(require = pos)] value: Value<'v>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        match (as_int(value), strict_float(value)) {
            (Some(int), _) => Ok(heap.alloc(int.abs())),
            (_, Some(float)) => Ok(heap.alloc(float.abs())),
            _ => Ok(super::datetime::absolute(value, heap).ok_or_else(|| {
                misuse(format!("bad operand type for abs(): '{}'", text::type_name(value)))
            })?),
        }
    }
}

/// Sequences.
#[starlark_module]
pub(crate) fn sequences(builder: &mut GlobalsBuilder) {
    /// The smallest item.
    fn min<'v>(
        #[starlark(args)] values: UnpackTuple<Value<'v>>,
        #[starlark(require = named)] key: Option<NoneOr<Value<'v>>>,
        #[starlark(require = named)] default: Option<Value<'v>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        extreme("min", &values.items, key, default, eval)
    }

    /// The largest item.
    fn max<'v>(
        #[starlark(args)] values: UnpackTuple<Value<'v>>,
        #[starlark(require = named)] key: Option<NoneOr<Value<'v>>>,
        #[starlark(require = named)] default: Option<Value<'v>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        extreme("max", &values.items, key, default, eval)
    }

    /// A sorted list of the items.
    fn sorted<'v>(
        #[starlark(require = pos)] values: Value<'v>,
        #[starlark(require = named)] key: Option<NoneOr<Value<'v>>>,
        #[starlark(require = named, default = false)] reverse: Value<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let values = items(values, eval.heap())?;
        let key = key.and_then(NoneOr::into_option);
        Ok(list(eval.heap(), sort(&values, key, reverse.to_bool(), eval)?))
    }

    /// Whether an item is true.
    fn any<'v>(
        #[starlark(require = pos)] values: Value<'v>,
        heap: Heap<'v>,
    ) -> starlark::Result<bool> {
        Ok(items(values, heap)?.into_iter().any(Value::to_bool))
    }

    /// Whether all items are true.
    fn all<'v>(
        #[starlark(require = pos)] values: Value<'v>,
        heap: Heap<'v>,
    ) -> starlark::Result<bool> {
        Ok(items(values, heap)?.into_iter().all(Value::to_bool))
    }

    /// The items in reverse order.
    fn reversed<'v>(
        #[starlark(require = pos)] values: Value<'v>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        Ok(list(heap, items(values, heap)?.into_iter().rev()))
    }

    /// Pairs of a number and an item.
    fn enumerate<'v>(
        #[starlark(require = pos)] values: Value<'v>,
        #[starlark(default = 0)] start: i32,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        let pairs = (i64::from(start)..).zip(items(values, heap)?);
        Ok(list(heap, pairs.map(|pair| heap.alloc(pair))))
    }

    /// Tuples of one item of each sequence.
    fn zip<'v>(
        #[starlark(args)] sequences: UnpackTuple<Value<'v>>,
        #[starlark(require = named, default = false)] strict: bool,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        let rows = if strict {
            sequences
                .items
                .iter()
                .map(|sequence| items(*sequence, heap))
                .collect::<starlark::Result<Vec<_>>>()?
        } else {
            columns(&sequences.items, heap)?
        };
        let shortest = rows.iter().map(Vec::len).min().unwrap_or_default();
        if strict && rows.iter().any(|row| row.len() != shortest) {
            return Err(misuse("zip() arguments have different lengths"));
        }
        let tuples = (0..shortest).map(|at| heap.alloc(AllocTuple(rows.iter().map(|row| row[at]))));
        Ok(list(heap, tuples))
    }

    /// The results of a function for the items of one sequence or several.
    fn map<'v>(
        #[starlark(require = pos)] function: Value<'v>,
        #[starlark(args)] sequences: UnpackTuple<Value<'v>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let rows = columns(&sequences.items, eval.heap())?;
        let shortest = rows.iter().map(Vec::len).min().unwrap_or_default();
        let mut results = Vec::with_capacity(shortest);
        for at in 0..shortest {
            let row: Vec<_> = rows.iter().map(|row| row[at]).collect();
            results.push(call(function, &row, eval)?);
        }
        Ok(list(eval.heap(), results))
    }

    /// The items for which a function is true; with `None`, those that are true.
    fn filter<'v>(
        #[starlark(require = pos)] function: Value<'v>,
        #[starlark(require = pos)] values: Value<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        filtered(function, values, true, eval)
    }
}

/// Returns the items whose test has this truth value; with `None` as the test, an item is its own.
pub(crate) fn filtered<'v>(
    test: Value<'v>,
    values: Value<'v>,
    wanted: bool,
    eval: &mut Evaluator<'v, '_, '_>,
) -> starlark::Result<Value<'v>> {
    let mut kept = Vec::new();
    for item in items(values, eval.heap())? {
        let tested = if test.is_none() { item } else { call(test, &[item], eval)? };
        if tested.to_bool() == wanted {
            kept.push(item);
        }
    }
    Ok(list(eval.heap(), kept))
}

fn columns<'v>(sequences: &[Value<'v>], heap: Heap<'v>) -> starlark::Result<Vec<Vec<Value<'v>>>> {
    let iterators = sequences.iter().any(|sequence| sequence.downcast_ref::<Iter>().is_some());
    if iterators && sequences.len() > 1 {
        return in_turn(sequences, heap);
    }
    sequences.iter().map(|sequence| items(*sequence, heap)).collect()
}

/// Takes an item of each sequence in turn, until one has none. An iterator keeps what is left, and
/// may be there more than once.
fn in_turn<'v>(sequences: &[Value<'v>], heap: Heap<'v>) -> starlark::Result<Vec<Vec<Value<'v>>>> {
    let sources = sequences.iter().map(|sequence| match sequence.downcast_ref::<Iter>() {
        Some(iter) => Ok((Some(iter), Vec::new())),
        None => Ok((None, items(*sequence, heap)?)),
    });
    let sources = sources.collect::<starlark::Result<Vec<_>>>()?;
    let mut columns = vec![Vec::new(); sources.len()];
    for at in 0.. {
        for ((iter, all), column) in sources.iter().zip(&mut columns) {
            let next = iter.map_or_else(|| all.get(at).copied(), Iter::take);
            let Some(next) = next else {
                for column in &mut columns {
                    column.truncate(at);
                }
                return Ok(columns);
            };
            column.push(next);
        }
    }
    Ok(columns)
}

fn extreme<'v>(
    name: &str,
    values: &[Value<'v>],
    key: Option<NoneOr<Value<'v>>>,
    default: Option<Value<'v>>,
    eval: &mut Evaluator<'v, '_, '_>,
) -> starlark::Result<Value<'v>> {
    let all = match values {
        [only] => items(*only, eval.heap())?,
        several => several.to_vec(),
    };
    let key = key.and_then(NoneOr::into_option);
    let mut best: Option<(Value<'v>, Value<'v>)> = None;
    for item in all {
        let rank = key.map_or(Ok(item), |key| call(key, &[item], eval))?;
        let better = match best {
            None => true,
            Some((than, _)) if name == "min" => compare(rank, than, eval.heap())?.is_lt(),
            Some((than, _)) => compare(rank, than, eval.heap())?.is_gt(),
        };
        if better {
            best = Some((rank, item));
        }
    }
    best.map(|(_, item)| item)
        .or(default)
        .ok_or_else(|| misuse(format!("{name}() iterable argument is empty")))
}

/// Adds numbers of which some are floats, as `CPython` does since 3.12: with compensation.
fn float_sum(start: Value<'_>, values: &[Value<'_>]) -> Option<f64> {
    let mut total = as_float(start)?;
    let mut lost = 0.0;
    for value in values {
        let term = as_float(*value)?;
        if strict_float(*value).is_none() {
            total += term;
            continue;
        }
        let next: f64 = total + term;
        lost +=
            if total.abs() >= term.abs() { (total - next) + term } else { (term - next) + total };
        total = next;
    }
    Some(if lost != 0.0 && lost.is_finite() { total + lost } else { total })
}

/// Raises to a power.
pub(crate) fn power<'v>(
    base: Value<'v>,
    exponent: Value<'v>,
    heap: Heap<'v>,
) -> starlark::Result<Value<'v>> {
    if let (Some(base), Some(times)) = (as_int(base), as_int(exponent))
        && !times.is_negative()
    {
        let bits = u64::try_from(&times).unwrap_or(u64::MAX).saturating_mul(base.bits());
        if base.bits() > 1 && bits > MAX_BITS {
            return Err(misuse(format!(
                "the power would have {bits} bits; at most {MAX_BITS} are computed"
            )));
        }
        // The remainder only concerns 0, 1 and -1, whose powers repeat.
        let times = u32::try_from(&times).unwrap_or(2 + u32::from(times.bit(0)));
        return Ok(heap.alloc(base.pow(times)));
    }
    let (Some(a), Some(b)) = (as_float(base), as_float(exponent)) else {
        let a = text::type_name(base);
        let b = text::type_name(exponent);
        return Err(misuse(format!(
            "unsupported operand type(s) for ** or pow(): '{a}' and '{b}'"
        )));
    };
    if a == 0.0 && b < 0.0 {
        return Err(misuse("0.0 cannot be raised to a negative power"));
    }
    let result = a.powf(b);
    if result.is_infinite() && a.is_finite() && b.is_finite() {
        return Err(misuse("the power is too large for a float"));
    }
    if result.is_nan() && !a.is_nan() && !b.is_nan() {
        return Err(misuse("the power is a complex number"));
    }
    Ok(heap.alloc(result))
}

/// Converts a float without fraction to an integer.
pub(crate) fn whole(float: f64) -> BigInt {
    // Printing is exact; a cast would saturate at 64 bits.
    format!("{float:.0}").parse().unwrap_or_default()
}

/// Rounds to digits after the point, or before it if there are fewer than 0.
fn rounded(float: f64, digits: i32) -> f64 {
    if !float.is_finite() {
        return float;
    }
    match usize::try_from(digits) {
        // No float has more digits after the point.
        Ok(digits) => format!("{float:.*}", digits.min(1_074)).parse().unwrap_or(float),
        Err(_) if digits < -308 => 0.0,
        Err(_) => {
            // Half to even on the exact decimal value.
            let scale = 10_f64.powi(-digits);
            (float / scale).round_ties_even() * scale
        }
    }
}

/// Rounds an integer to a power of ten, ties to the even multiple.
fn round_int(int: &BigInt, zeros: u32) -> BigInt {
    if u64::from(zeros) > int.bits() {
        return BigInt::zero();
    }
    let unit = BigInt::from(10).pow(zeros);
    let down = num_integer_floor(int, &unit);
    let twice = (int - &down * &unit) * 2;
    let up = twice > unit || twice == unit && down.bit(0);
    (down + BigInt::from(u8::from(up))) * unit
}

fn num_integer_floor(int: &BigInt, unit: &BigInt) -> BigInt {
    let quotient = int / unit;
    if int.is_negative() && !(int % unit).is_zero() { quotient - 1 } else { quotient }
}

/// Returns a number of items or steps that is not negative.
pub(crate) fn count(value: Value<'_>, what: &str) -> starlark::Result<usize> {
    usize::try_from(size(value, what)?).map_err(|_| misuse(format!("{what} must not be negative")))
}

/// Returns the exact quotient of two integers as a float.
pub(crate) fn ratio(a: &BigInt, b: &BigInt) -> f64 {
    float_of(a) / float_of(b)
}
