//! Small modules: `math`, `string`, `typing`.

use allocative::Allocative;
use num_bigint::BigInt;
use num_traits::{Signed as _, Zero as _};
use starlark::environment::GlobalsBuilder;
use starlark::eval::{Arguments, Evaluator};
use starlark::starlark_module;
use starlark::starlark_simple_value;
use starlark::values::tuple::UnpackTuple;
use starlark::values::{
    Heap, NoSerialize, ProvidesStaticType, StarlarkPagablePanic, StarlarkValue, Value,
    starlark_value,
};

use super::lowered::real;
use super::macros::shown_as;
use super::numbers::{count, whole};
use super::text;
use super::values::{Args, as_int, items, misuse, number, strict_float};

/// Largest argument of `factorial`, and number of items that `comb` and `perm` choose. `factorial(10**9)`
/// would not end, because the number grows with each factor. So many factors of 32 bits make one of 320,000 bits.
const MAX_FACTORIAL: usize = 10_000;

/// The module `math`.
#[starlark_module]
pub(crate) fn math(builder: &mut GlobalsBuilder) {
    const pi: f64 = std::f64::consts::PI;
    const e: f64 = std::f64::consts::E;
    const tau: f64 = std::f64::consts::TAU;
    const inf: f64 = f64::INFINITY;
    const nan: f64 = f64::NAN;

    fn floor<'v>(value: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        integral(value, f64::floor, heap)
    }

    fn ceil<'v>(value: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        integral(value, f64::ceil, heap)
    }

    fn trunc<'v>(value: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        integral(value, f64::trunc, heap)
    }

    fn sqrt<'v>(value: Value<'v>) -> starlark::Result<f64> {
        in_domain(real(value)?.sqrt(), &[value])
    }

    fn isqrt<'v>(value: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        match as_int(value).filter(|int| !int.is_negative()) {
            Some(int) => Ok(heap.alloc(int.sqrt())),
            None => Err(misuse("isqrt() argument must be a nonnegative int")),
        }
    }

    fn pow<'v>(x: Value<'v>, y: Value<'v>) -> starlark::Result<f64> {
        in_domain(real(x)?.powf(real(y)?), &[x, y])
    }

    fn exp<'v>(value: Value<'v>) -> starlark::Result<f64> {
        in_domain(exponential(real(value)?), &[value])
    }

    fn log<'v>(value: Value<'v>, base: Option<Value<'v>>) -> starlark::Result<f64> {
        let float = positive(value)?;
        match base {
            None => Ok(float.ln()),
            Some(base) => Ok(float.ln() / positive(base)?.ln()),
        }
    }

    fn log2<'v>(value: Value<'v>) -> starlark::Result<f64> {
        Ok(positive(value)?.log2())
    }

    fn log10<'v>(value: Value<'v>) -> starlark::Result<f64> {
        Ok(positive(value)?.log10())
    }

    fn log1p<'v>(value: Value<'v>) -> starlark::Result<f64> {
        in_domain(real(value)?.ln_1p(), &[value])
    }

    fn sin<'v>(value: Value<'v>) -> starlark::Result<f64> {
        in_domain(real(value)?.sin(), &[value])
    }

    fn cos<'v>(value: Value<'v>) -> starlark::Result<f64> {
        in_domain(real(value)?.cos(), &[value])
    }

    fn tan<'v>(value: Value<'v>) -> starlark::Result<f64> {
        in_domain(real(value)?.tan(), &[value])
    }

    fn asin<'v>(value: Value<'v>) -> starlark::Result<f64> {
        in_domain(real(value)?.asin(), &[value])
    }

    fn acos<'v>(value: Value<'v>) -> starlark::Result<f64> {
        in_domain(real(value)?.acos(), &[value])
    }

    fn atan<'v>(value: Value<'v>) -> starlark::Result<f64> {
        Ok(real(value)?.atan())
    }

    fn atan2<'v>(y: Value<'v>, x: Value<'v>) -> starlark::Result<f64> {
        Ok(real(y)?.atan2(real(x)?))
    }

    fn radians<'v>(value: Value<'v>) -> starlark::Result<f64> {
        Ok(real(value)? * (std::f64::consts::PI / 180.0))
    }

    fn degrees<'v>(value: Value<'v>) -> starlark::Result<f64> {
        Ok(real(value)? * (180.0 / std::f64::consts::PI))
    }

    fn fabs<'v>(value: Value<'v>) -> starlark::Result<f64> {
        Ok(real(value)?.abs())
    }

    fn fmod<'v>(x: Value<'v>, y: Value<'v>) -> starlark::Result<f64> {
        in_domain(real(x)? % real(y)?, &[x, y])
    }

    fn copysign<'v>(x: Value<'v>, y: Value<'v>) -> starlark::Result<f64> {
        Ok(real(x)?.copysign(real(y)?))
    }

    fn hypot<'v>(#[starlark(args)] values: UnpackTuple<Value<'v>>) -> starlark::Result<f64> {
        match values.items[..] {
            [x, y] => Ok(real(x)?.hypot(real(y)?)),
            _ => Ok(values
                .items
                .iter()
                .map(|value| real(*value).map(|number| number * number))
                .sum::<Result<f64, _>>()?
                .sqrt()),
        }
    }

    fn dist<'v>(p: Value<'v>, q: Value<'v>, heap: Heap<'v>) -> starlark::Result<f64> {
        let mut total = 0.0_f64;
        for (a, b) in items(p, heap)?.into_iter().zip(items(q, heap)?) {
            total = total.hypot(real(a)? - real(b)?);
        }
        Ok(total)
    }

    fn isnan<'v>(value: Value<'v>) -> starlark::Result<bool> {
        Ok(real(value)?.is_nan())
    }

    fn isinf<'v>(value: Value<'v>) -> starlark::Result<bool> {
        Ok(real(value)?.is_infinite())
    }

    fn isfinite<'v>(value: Value<'v>) -> starlark::Result<bool> {
        Ok(real(value)?.is_finite())
    }

    #[expect(clippy::float_cmp, reason = "equal floats are close, infinities too")]
    fn isclose<'v>(
        a: Value<'v>,
        b: Value<'v>,
        #[starlark(require = named)] rel_tol: Option<Value<'v>>,
        #[starlark(require = named)] abs_tol: Option<Value<'v>>,
    ) -> starlark::Result<bool> {
        let a = real(a)?;
        let b = real(b)?;
        let relative = rel_tol.map_or(Ok(1e-9), real)?;
        let absolute = abs_tol.map_or(Ok(0.0), real)?;
        Ok(a == b || (a - b).abs() <= (relative * a.abs().max(b.abs())).max(absolute))
    }

    fn gcd<'v>(
        #[starlark(args)] values: UnpackTuple<Value<'v>>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        let mut total = BigInt::zero();
        for value in values.items {
            total = greatest(&total, &int(value)?);
        }
        Ok(heap.alloc(total))
    }

    fn lcm<'v>(
        #[starlark(args)] values: UnpackTuple<Value<'v>>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        let mut total = BigInt::from(1);
        for value in values.items {
            let value = int(value)?.abs();
            if value.is_zero() {
                return Ok(heap.alloc(0));
            }
            total = &total / greatest(&total, &value) * value;
        }
        Ok(heap.alloc(total))
    }

    fn factorial<'v>(value: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        let n = count(value, "factorial() argument")?;
        if n > MAX_FACTORIAL {
            return Err(misuse(format!("factorial() takes at most {MAX_FACTORIAL}")));
        }
        Ok(heap.alloc((1..=n).fold(BigInt::from(1), |all, factor| all * factor)))
    }

    fn comb<'v>(n: Value<'v>, k: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        let n = count(n, "n")?;
        let k = count(k, "k")?;
        let k = if k > n { return Ok(heap.alloc(0)) } else { k.min(n - k) };
        if k > MAX_FACTORIAL {
            return Err(misuse(format!("comb() chooses at most {MAX_FACTORIAL}")));
        }
        Ok(heap.alloc((0..k).fold(BigInt::from(1), |all, at| all * (n - at) / (at + 1))))
    }

    fn perm<'v>(n: Value<'v>, k: Option<Value<'v>>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        let n = count(n, "n")?;
        let k = k.map_or(Ok(n), |k| count(k, "k"))?;
        if k > n {
            return Ok(heap.alloc(0));
        }
        if k > MAX_FACTORIAL {
            return Err(misuse(format!("perm() chooses at most {MAX_FACTORIAL}")));
        }
        Ok(heap.alloc((0..k).fold(BigInt::from(1), |all, at| all * (n - at))))
    }

    fn prod<'v>(
        values: Value<'v>,
        #[starlark(require = named, default = 1)] start: Value<'v>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        let values = items(values, heap)?.into_iter();
        values.into_iter().try_fold(start, |total, item| {
            let item = number(item, heap);
            total.mul(item, heap)
        })
    }

    fn fsum<'v>(values: Value<'v>, heap: Heap<'v>) -> starlark::Result<f64> {
        let mut partials: Vec<f64> = Vec::new();
        for value in items(values, heap)? {
            add_exactly(&mut partials, real(value)?);
        }
        Ok(partials.iter().rev().sum())
    }

    fn modf<'v>(value: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        let float = real(value)?;
        Ok(heap.alloc((float.fract(), float.trunc())))
    }
}

/// Keeps a sum as floats that do not overlap (Shewchuk).
fn add_exactly(partials: &mut Vec<f64>, mut x: f64) {
    let mut kept = 0;
    for at in 0..partials.len() {
        let mut y = partials[at];
        if x.abs() < y.abs() {
            std::mem::swap(&mut x, &mut y);
        }
        let high = x + y;
        let low = y - (high - x);
        if low != 0.0 {
            partials[kept] = low;
            kept += 1;
        }
        x = high;
    }
    partials.truncate(kept);
    partials.push(x);
}

fn int(value: Value<'_>) -> starlark::Result<BigInt> {
    as_int(value).ok_or_else(|| {
        misuse(format!("'{}' object cannot be interpreted as an integer", text::type_name(value)))
    })
}

fn greatest(a: &BigInt, b: &BigInt) -> BigInt {
    let mut a = a.abs();
    let mut b = b.abs();
    while !b.is_zero() {
        (a, b) = (b.clone(), a % b);
    }
    a
}

fn integral<'v>(
    value: Value<'v>,
    by: fn(f64) -> f64,
    heap: Heap<'v>,
) -> starlark::Result<Value<'v>> {
    match (as_int(value), strict_float(value)) {
        (Some(int), _) => Ok(heap.alloc(int)),
        (_, Some(float)) if float.is_finite() => Ok(heap.alloc(whole(by(float)))),
        (_, Some(float)) => {
            Err(misuse(format!("cannot convert float {} to integer", text::float_repr(float))))
        }
        _ => real(value).map(|float| heap.alloc(float)),
    }
}

fn positive(value: Value<'_>) -> starlark::Result<f64> {
    let float = real(value)?;
    if float > 0.0 || float.is_nan() { Ok(float) } else { Err(misuse("math domain error")) }
}

fn in_domain(result: f64, arguments: &[Value<'_>]) -> starlark::Result<f64> {
    let usual = arguments.iter().all(|argument| real(*argument).is_ok_and(f64::is_finite));
    match result {
        _ if !usual || result.is_finite() => Ok(result),
        _ if result.is_nan() => Err(misuse("math domain error")),
        _ => Err(misuse("math range error")),
    }
}

/// The module `string`.
pub(crate) fn string(builder: &mut GlobalsBuilder) {
    let lower = "abcdefghijklmnopqrstuvwxyz";
    let upper = lower.to_uppercase();
    let punctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
    let digits = "0123456789";
    let space = " \t\n\r\u{b}\u{c}";
    builder.set("ascii_lowercase", lower);
    builder.set("ascii_uppercase", &*upper);
    builder.set("ascii_letters", &*format!("{lower}{upper}"));
    builder.set("digits", digits);
    builder.set("hexdigits", "0123456789abcdefABCDEF");
    builder.set("octdigits", "01234567");
    builder.set("punctuation", punctuation);
    builder.set("whitespace", space);
    builder.set("printable", &*format!("{digits}{lower}{upper}{punctuation}{space}"));
    words(builder);
}

#[starlark_module]
fn words(builder: &mut GlobalsBuilder) {
    /// Capitalizes each word.
    fn capwords(text: &str) -> anyhow::Result<String> {
        Ok(text.split_whitespace().map(capitalized).collect::<Vec<_>>().join(" "))
    }
}

fn capitalized(word: &str) -> String {
    let mut chars = word.chars();
    let first: String = chars.next().into_iter().flat_map(char::to_uppercase).collect();
    first + &chars.as_str().to_lowercase()
}

/// Returns the exponential of a number, rounded correctly but for rare ties. That of the component's
/// own library is off in the last digit, for `exp(1)` as well.
fn exponential(x: f64) -> f64 {
    const LN_2: Double = Double(std::f64::consts::LN_2, 2.319_046_813_846_299_6e-17);
    // Close to the ends, a factor could not be represented.
    if x.is_nan() || x.abs() > 700.0 {
        return x.exp();
    }
    let factor = (x / LN_2.0).round();
    // x = factor * ln 2 + 256 * rest, with |rest| below 0.0014.
    let rest = Double(x, 0.0).plus(LN_2.times(Double(-factor, 0.0)));
    let rest = Double(rest.0 / 256.0, rest.1 / 256.0);
    let one = Double(1.0, 0.0);
    let series = (1..10).rev().fold(one, |sum, n| {
        let term = rest.times(sum);
        let n = f64::from(n);
        // A quotient with its remainder.
        let quotient = term.0 / n;
        let lost = (-quotient).mul_add(n, term.0) + term.1;
        one.plus(Double(quotient, lost / n))
    });
    let power = (0..8).fold(series, |power, _| power.times(power));
    (power.0 + power.1) * factor.exp2()
}

/// The sum of two floats, of which the second is below the precision of the first.
#[derive(Clone, Copy)]
struct Double(f64, f64);

impl Double {
    fn plus(self, other: Self) -> Self {
        let sum = self.0 + other.0;
        let part = sum - self.0;
        let lost = (self.0 - (sum - part)) + (other.0 - part);
        Self::new(sum, lost + self.1 + other.1)
    }

    fn times(self, other: Self) -> Self {
        let product = self.0 * other.0;
        let lost = self.0.mul_add(other.0, -product);
        Self::new(product, lost + self.0 * other.1 + self.1 * other.0)
    }

    fn new(large: f64, small: f64) -> Self {
        let sum = large + small;
        Self(sum, small - (sum - large))
    }
}

/// Stands for everything in `typing`: it is called, indexed and combined, and checks nothing.
#[derive(Debug, ProvidesStaticType, NoSerialize, Allocative, StarlarkPagablePanic)]
pub(crate) struct Typing;
starlark_simple_value!(Typing);

shown_as!(Typing => "typing.Any");

#[starlark_value(type = "typing")]
impl<'v> StarlarkValue<'v> for Typing {
    fn get_attr(&self, _attribute: &str, heap: Heap<'v>) -> Option<Value<'v>> {
        Some(heap.alloc(Self))
    }

    fn at(&self, _index: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        Ok(heap.alloc(Self))
    }

    fn bit_or(&self, _other: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        Ok(heap.alloc(Self))
    }

    /// `cast(type, value)` is the value; any other call is of no use.
    fn invoke(
        &self,
        _me: Value<'v>,
        arguments: &Arguments<'v, '_>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let args = Args::unpack("typing", arguments, eval.heap())?;
        Ok(args.positional.last().copied().unwrap_or(Value::new_none()))
    }
}

#[cfg(test)]
mod tests {
    use super::exponential;

    #[test]
    fn exponentials_are_those_of_the_native_library() {
        let exact = [0.0, 1.0, -1.0, 0.5, 2.0, 10.0, 100.5, -699.9, 700.0, 1e-300, -0.0];
        for x in exact.into_iter().chain([701.0, -745.0, 1e9, f64::INFINITY, f64::NEG_INFINITY]) {
            assert_eq!(exponential(x).to_bits(), x.exp().to_bits(), "{x}");
        }
        assert!(exponential(f64::NAN).is_nan());
        // The native library itself rounds wrongly in one case of some hundred.
        let points = (-5_000..5_000).map(|at| f64::from(at) * 0.013_7);
        let wrong = points.filter(|x| exponential(*x).to_bits() != x.exp().to_bits()).count();
        assert!(wrong < 100, "{wrong} of 10,000 differ");
    }
}
