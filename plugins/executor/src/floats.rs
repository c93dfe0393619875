//! Floats as Python formats them.

/// Widest field of a formatted value, and most digits after the point. More is no text for a reader, and a format such as
/// `'%999999999d'` would fill the memory of the run.
pub const MAX_WIDTH: usize = 10_000;

/// Formats with an exponent of at least two digits and its sign, and so many digits after the point.
pub fn exponential(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$e}");
    let Some((mantissa, exponent)) = text.split_once('e') else { return text };
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    format!("{mantissa}e{sign}{exponent:0>2}")
}

/// Formats with so many significant digits, with an exponent if the number is very large or small, and
/// without zeros at the end unless they are kept.
pub fn general(value: f64, digits: usize, keep_zeros: bool) -> String {
    let digits = digits.max(1);
    let scientific = exponential(value, digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "+00"));
    let power: i64 = exponent.parse().unwrap_or_default();
    let most = i64::try_from(digits).unwrap_or(i64::MAX);
    if (-4..most).contains(&power) {
        let after = usize::try_from(most - 1 - power).unwrap_or_default();
        without_zeros(&format!("{value:.after$}"), keep_zeros).to_owned()
    } else {
        format!("{}e{exponent}", without_zeros(mantissa, keep_zeros))
    }
}

/// Returns digits without zeros behind the point, unless they are kept.
fn without_zeros(digits: &str, keep: bool) -> &str {
    if digits.contains('.') && !keep {
        digits.trim_end_matches('0').trim_end_matches('.')
    } else {
        digits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_formatted_as_in_python() {
        assert_eq!(exponential(12345.678, 6), "1.234568e+04");
        assert_eq!(exponential(f64::INFINITY, 6), "inf");
        for (value, digits, keep_zeros, text) in [
            (0.0001, 6, false, "0.0001"),
            (0.00001, 6, false, "1e-05"),
            (1e20, 6, false, "1e+20"),
            (100.0, 0, false, "1e+02"),
            (1.5, 4, true, "1.500"),
            (f64::NAN, 6, false, "NaN"),
        ] {
            assert_eq!(general(value, digits, keep_zeros), text);
        }
    }
}
