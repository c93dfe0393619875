//! Formatting with `%`, which the interpreter lacks.

use std::fmt::Write as _;

use airlock_executor::floats::{MAX_WIDTH, exponential, general};
use monty_types::MontyObject;

const INCOMPLETE: &str = "incomplete format";

/// Formats like `format % value`. Fails with a message like Python's.
pub(crate) fn format(format: &str, value: &MontyObject) -> Result<String, String> {
    let mut values = match value {
        MontyObject::Tuple(items) => items.iter(),
        other => std::slice::from_ref(other).iter(),
    };
    let is_plain = !matches!(value, MontyObject::Tuple(_) | MontyObject::Dict(_));
    let mut out = String::new();
    let mut rest = format;
    let mut used = 0;
    while let Some((text, after)) = rest.split_once('%') {
        out.push_str(text);
        let (spec, after) = FormatSpec::parse(after)?;
        rest = after;
        if spec.kind == '%' {
            out.push('%');
            continue;
        }
        let item = if let Some(key) = &spec.key {
            named(value, key)?
        } else {
            used += 1;
            values.next().ok_or("not enough arguments for format string")?
        };
        spec.write(&mut out, item)?;
    }
    out.push_str(rest);
    let is_left = matches!(value, MontyObject::Tuple(_)) && values.next().is_some();
    if is_left || (is_plain && used == 0) {
        return Err("not all arguments converted during string formatting".to_owned());
    }
    Ok(out)
}

fn named<'v>(value: &'v MontyObject, key: &str) -> Result<&'v MontyObject, String> {
    let MontyObject::Dict(pairs) = value else {
        return Err("format requires a mapping".to_owned());
    };
    let mut pairs = pairs.iter();
    let found = pairs.find(|(name, _)| matches!(name, MontyObject::String(name) if name == key));
    found.map(|(_, value)| value).ok_or_else(|| format!("there is no key '{key}' to format"))
}

/// One `%…` of a format.
struct FormatSpec {
    key: Option<String>,
    left: bool,
    plus: bool,
    zero: bool,
    width: usize,
    digits: Option<usize>,
    kind: char,
}

impl FormatSpec {
    /// Reads what follows a `%`. Returns the rest, too.
    fn parse(text: &str) -> Result<(Self, &str), String> {
        let (key, text) = match text.strip_prefix('(') {
            Some(text) => {
                let (key, text) = text.split_once(')').ok_or(INCOMPLETE)?;
                (Some(key.to_owned()), text)
            }
            None => (None, text),
        };
        let flags = text.len() - text.trim_start_matches(['-', '+', ' ', '0', '#']).len();
        let (flags, text) = text.split_at(flags);
        let (width, text) = number(text)?;
        let (digits, text) = match text.strip_prefix('.') {
            Some(text) => number(text).map(|(digits, text)| (Some(digits), text))?,
            None => (None, text),
        };
        let text = text.trim_start_matches(['h', 'l', 'L']);
        let kind = text.chars().next().ok_or(INCOMPLETE)?;
        let spec = Self {
            key,
            left: flags.contains('-'),
            plus: flags.contains('+'),
            zero: flags.contains('0'),
            width,
            digits,
            kind,
        };
        Ok((spec, &text[kind.len_utf8()..]))
    }

    fn write(&self, out: &mut String, value: &MontyObject) -> Result<(), String> {
        let mut text = match self.kind {
            's' => self.cut(value.to_string()),
            'r' | 'a' => self.cut(value.py_repr()),
            'c' => match value {
                MontyObject::Int(code) => u32::try_from(*code)
                    .ok()
                    .and_then(char::from_u32)
                    .ok_or("%c arg not in range")?
                    .to_string(),
                other => other.to_string(),
            },
            'd' | 'i' | 'u' => whole(value)?,
            'x' | 'X' | 'o' => self.based(value)?,
            'f' | 'F' | 'e' | 'E' | 'g' | 'G' => self.float(value)?,
            other => return Err(format!("unsupported format character '{other}'")),
        };
        let is_number = !matches!(self.kind, 's' | 'r' | 'a' | 'c');
        if is_number && self.plus && !text.starts_with('-') {
            text.insert(0, '+');
        }
        let missing = self.width.saturating_sub(text.chars().count());
        let sign = usize::from(text.starts_with(['-', '+']));
        if self.left {
            let _ = write!(out, "{text}{}", " ".repeat(missing));
        } else if self.zero && is_number {
            let _ = write!(out, "{}{}{}", &text[..sign], "0".repeat(missing), &text[sign..]);
        } else {
            let _ = write!(out, "{}{text}", " ".repeat(missing));
        }
        Ok(())
    }

    fn cut(&self, text: String) -> String {
        match self.digits {
            Some(digits) => text.chars().take(digits).collect(),
            None => text,
        }
    }

    fn based(&self, value: &MontyObject) -> Result<String, String> {
        let MontyObject::Int(number) = value else {
            return Err(format!("%{} format: an integer is required", self.kind));
        };
        let sign = if *number < 0 { "-" } else { "" };
        let number = number.unsigned_abs();
        Ok(match self.kind {
            'x' => format!("{sign}{number:x}"),
            'X' => format!("{sign}{number:X}"),
            _ => format!("{sign}{number:o}"),
        })
    }

    fn float(&self, value: &MontyObject) -> Result<String, String> {
        let number = match value {
            MontyObject::Float(number) => *number,
            #[expect(clippy::cast_precision_loss, reason = "as Python does")]
            MontyObject::Int(number) => *number as f64,
            MontyObject::Bool(value) => f64::from(u8::from(*value)),
            other => other
                .to_string()
                .parse()
                .map_err(|_| format!("must be real number, not {}", other.type_name()))?,
        };
        let digits = self.digits.unwrap_or(6);
        Ok(match self.kind {
            'f' | 'F' => format!("{number:.digits$}"),
            'e' | 'E' => {
                let text = exponential(number, digits);
                if self.kind == 'E' { text.to_uppercase() } else { text }
            }
            _ => general(number, digits, false),
        })
    }
}

/// Returns the digits of a number without its fraction.
fn whole(value: &MontyObject) -> Result<String, String> {
    match value {
        MontyObject::Int(_) | MontyObject::BigInt(_) => Ok(value.to_string()),
        MontyObject::Bool(value) => Ok(u8::from(*value).to_string()),
        MontyObject::Float(number) if number.is_finite() => Ok(format!("{:.0}", number.trunc())),
        other => Err(format!("%d format: a real number is required, not {}", other.type_name())),
    }
}

/// Reads a number, which is 0 if there is none.
fn number(text: &str) -> Result<(usize, &str), String> {
    let end = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (digits, rest) = text.split_at(end);
    let number = if digits.is_empty() { Some(0) } else { digits.parse().ok() };
    let number = number.filter(|number| *number <= MAX_WIDTH);
    number.map(|number| (number, rest)).ok_or_else(|| "a width is too large".to_owned())
}

#[cfg(test)]
mod tests {
    use crate::run::tests::{fail, result};

    #[test]
    fn values_are_formatted_as_in_python() {
        for (expression, text) in [
            ("'%d/%d (%.1f%%)' % (1, 3, 33.333)", "1/3 (33.3%)"),
            ("'%5s|%-5s|%05.1f|%+d' % ('ab', 'cd', 2.55, 3)", "   ab|cd   |002.5|+3"),
            ("'%s and %r' % ([1, 'a'], 'b')", "[1, 'a'] and 'b'"),
            ("'%(x)s-%(y)02d' % {'x': 1, 'y': 2}", "1-02"),
            (
                "'%x %X %o %c %e %g %g' % (255, 255, 8, 'q', 12345.678, 0.0001, 1e20)",
                "ff FF 10 q 1.234568e+04 0.0001 1e+20",
            ),
            ("'%s' % None", "None"),
            ("'%.3s|%d' % ('abcdef', 3.9)", "abc|3"),
            ("('a%s' 'b') % 1", "a1b"),
        ] {
            let json = serde_json::to_string(text).expect("a text");
            assert_eq!(result(&format!("result = {expression}")), Some(json), "{expression}");
        }
        for (expression, message) in [
            ("'%d' % 'a'", "TypeError: %d format: a real number is required, not str"),
            ("'%s %s' % (1,)", "TypeError: not enough arguments for format string"),
            ("'a' % 1", "TypeError: not all arguments converted during string formatting"),
            ("'%99999999d' % 1", "TypeError: a width is too large"),
        ] {
            assert_eq!(fail(expression).message, message, "{expression}");
        }
        assert_eq!(result("x = 7\nresult = [x % 4, 2.5 % 2]").as_deref(), Some("[3,0.5]"));
    }
}
