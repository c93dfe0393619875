//! Format specifications: `format(x, ".2f")`, f-strings, `str.format` and `%`.

use airlock_executor::floats::{MAX_WIDTH, exponential, general};
use num_bigint::{BigInt, Sign};
use starlark::values::{Heap, Value};

use super::datetime;
use super::text;
use super::values::{as_dict, as_float, as_int, as_slice, misuse, strict_float};

/// `[[fill]align][sign][#][0][width][grouping][.precision][type]`.
#[derive(Clone, Debug, Default)]
struct Spec {
    fill: Option<char>,
    align: Option<char>,
    sign: Option<char>,
    alternate: bool,
    width: usize,
    grouping: Option<char>,
    precision: Option<usize>,
    kind: Option<char>,
}

impl Spec {
    fn parse(text: &str) -> Result<Self, String> {
        let mut spec = Self::default();
        let chars: Vec<char> = text.chars().collect();
        let mut rest = &chars[..];
        if let [fill, align @ ('<' | '>' | '^' | '='), after @ ..] = rest {
            (spec.fill, spec.align, rest) = (Some(*fill), Some(*align), after);
        } else if let [align @ ('<' | '>' | '^' | '='), after @ ..] = rest {
            (spec.align, rest) = (Some(*align), after);
        }
        if let [sign @ ('+' | '-' | ' '), after @ ..] = rest {
            (spec.sign, rest) = (Some(*sign), after);
        }
        if let ['z', after @ ..] = rest {
            rest = after;
        }
        if let ['#', after @ ..] = rest {
            (spec.alternate, rest) = (true, after);
        }
        if let ['0', after @ ..] = rest {
            spec.fill = spec.fill.or(Some('0'));
            spec.align = spec.align.or(Some('='));
            rest = after;
        }
        (spec.width, rest) = digits(rest).ok_or_else(|| invalid(text))?;
        if let [grouping @ (',' | '_'), after @ ..] = rest {
            (spec.grouping, rest) = (Some(*grouping), after);
        }
        if let ['.', after @ ..] = rest {
            let (precision, after_digits) = digits(after).ok_or_else(|| invalid(text))?;
            if after_digits.len() == after.len() {
                return Err("Format specifier missing precision".into());
            }
            (spec.precision, rest) = (Some(precision), after_digits);
        }
        match rest {
            [] => (),
            [kind] => spec.kind = Some(*kind),
            _ => return Err(invalid(text)),
        }
        Ok(spec)
    }

    /// Fills to the width. `prefix` (a sign, `0x`) stays before the zeros of `=`.
    fn pad(&self, prefix: &str, body: &str, align: char) -> String {
        let length = prefix.chars().count() + body.chars().count();
        let missing = self.width.saturating_sub(length);
        let fill = self.fill.unwrap_or(' ').to_string();
        let left = fill.repeat(missing / 2);
        let right = fill.repeat(missing - missing / 2);
        match self.align.unwrap_or(align) {
            '<' => format!("{prefix}{body}{left}{right}"),
            '^' => format!("{left}{prefix}{body}{right}"),
            '=' => format!("{prefix}{left}{right}{body}"),
            _ => format!("{left}{right}{prefix}{body}"),
        }
    }

    fn sign(&self, negative: bool) -> &'static str {
        match (negative, self.sign) {
            (true, _) => "-",
            (false, Some('+')) => "+",
            (false, Some(' ')) => " ",
            _ => "",
        }
    }

    /// Puts the separator between groups of digits before the point. With zeros for fill, they
    /// are grouped, too.
    fn grouped(&self, digits: &str, size: usize, prefix: usize) -> String {
        let Some(separator) = self.grouping else { return digits.into() };
        let end = digits.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(digits.len());
        let end = if size == 3 { digits.find(['.', 'e', 'E', '%']).unwrap_or(end) } else { end };
        let (whole, fraction) = digits.split_at(end);
        let mut whole = whole.to_owned();
        if self.align == Some('=') && self.fill == Some('0') {
            let room = self.width.saturating_sub(prefix + fraction.chars().count());
            while whole.len() + (whole.len().max(1) - 1) / size < room {
                whole.insert(0, '0');
            }
        }
        let mut out = String::new();
        for (at, c) in whole.chars().enumerate() {
            if at > 0 && (whole.len() - at) % size == 0 {
                out.push(separator);
            }
            out.push(c);
        }
        out + fraction
    }
}

fn invalid(spec: &str) -> String {
    format!("Invalid format specifier '{spec}'")
}

fn digits(chars: &[char]) -> Option<(usize, &[char])> {
    let end = chars.iter().position(|c| !c.is_ascii_digit()).unwrap_or(chars.len());
    let text: String = chars[..end].iter().collect();
    let number = if text.is_empty() { 0 } else { text.parse().ok()? };
    (number <= MAX_WIDTH).then_some((number, &chars[end..]))
}

/// Formats a value like `format(value, spec)`.
pub(crate) fn format<'v>(value: Value<'v>, spec: &str, heap: Heap<'v>) -> starlark::Result<String> {
    if spec.is_empty() {
        return Ok(text::str(value, heap));
    }
    if let Some(formatted) = datetime::format(value, spec) {
        return formatted.map_err(misuse);
    }
    let parsed = Spec::parse(spec).map_err(misuse)?;
    let kind = text::type_name(value);
    let formatted = match kind {
        "str" => of_text(value.unpack_str().unwrap_or_default(), &parsed),
        "int" | "bool" => {
            as_int(value).map_or_else(|| Err(String::new()), |int| of_int(&int, &parsed))
        }
        "float" => of_float(strict_float(value).unwrap_or_default(), &parsed),
        _ => return Err(misuse(format!("unsupported format string passed to {kind}.__format__"))),
    };
    formatted.map_err(|unknown| match unknown.as_str() {
        "" => misuse(format!("Invalid format specifier '{spec}' for object of type '{kind}'")),
        code => misuse(format!("Unknown format code '{code}' for object of type '{kind}'")),
    })
}

fn of_text(value: &str, spec: &Spec) -> Result<String, String> {
    match spec.kind {
        None | Some('s') if spec.align != Some('=') || spec.fill == Some('0') => {
            let cut: String = match spec.precision {
                Some(precision) => value.chars().take(precision).collect(),
                None => value.into(),
            };
            let spec = Spec { align: spec.align.filter(|align| *align != '='), ..spec.clone() };
            Ok(spec.pad("", &cut, '<'))
        }
        None | Some('s') => Err(String::new()),
        Some(kind) => Err(kind.into()),
    }
}

fn of_int(value: &BigInt, spec: &Spec) -> Result<String, String> {
    let radix = match spec.kind {
        None | Some('d' | 'n') => 10,
        Some('b') => 2,
        Some('o') => 8,
        Some('x' | 'X') => 16,
        Some('c') => {
            let code = u32::try_from(value.clone()).ok().and_then(char::from_u32);
            return Ok(spec.pad("", &code.ok_or_else(String::new)?.to_string(), '<'));
        }
        Some('e' | 'E' | 'f' | 'F' | 'g' | 'G' | '%') => {
            return of_float(super::values::float_of(value), spec);
        }
        Some(kind) => return Err(kind.into()),
    };
    let mut body = value.magnitude().to_str_radix(radix);
    if spec.kind == Some('X') {
        body = body.to_uppercase();
    }
    let mut prefix = spec.sign(value.sign() == Sign::Minus).to_owned();
    if spec.alternate && radix != 10 {
        prefix.push('0');
        prefix.extend(spec.kind);
    }
    let body = spec.grouped(&body, if radix == 10 { 3 } else { 4 }, prefix.len());
    Ok(spec.pad(&prefix, &body, '>'))
}

fn of_float(value: f64, spec: &Spec) -> Result<String, String> {
    let magnitude = value.abs();
    let prefix = spec.sign(value.is_sign_negative() && !value.is_nan());
    let precision = spec.precision;
    let mut body = match spec.kind {
        _ if !value.is_finite() => {
            text::float_repr(magnitude) + if spec.kind == Some('%') { "%" } else { "" }
        }
        Some('f' | 'F') => format!("{magnitude:.*}", precision.unwrap_or(6)),
        Some('%') => format!("{:.*}%", precision.unwrap_or(6), magnitude * 100.0),
        Some('e' | 'E') => exponential(magnitude, precision.unwrap_or(6)),
        Some('g' | 'G' | 'n') => general(magnitude, precision.unwrap_or(6), spec.alternate),
        None => match precision {
            None => text::float_repr(magnitude),
            Some(precision) => {
                let digits = general(magnitude, precision, false);
                let whole = digits.bytes().all(|c| c.is_ascii_digit());
                if whole { digits + ".0" } else { digits }
            }
        },
        Some(kind) => return Err(kind.into()),
    };
    if matches!(spec.kind, Some('E' | 'F' | 'G')) {
        body = body.to_uppercase();
    }
    let body = spec.grouped(&body, 3, prefix.len());
    Ok(spec.pad(prefix, &body, '>'))
}

/// `str.format`: fields by position or name, with indexes, conversions and specifications.
pub(crate) fn format_fields<'v>(
    template: &str,
    positional: &[Value<'v>],
    named: &[(&'v str, Value<'v>)],
    heap: Heap<'v>,
) -> starlark::Result<String> {
    let mut fields = ReplacementFields { positional, named, heap, next: 0 };
    fields.fill(template, 0)
}

struct ReplacementFields<'a, 'v> {
    positional: &'a [Value<'v>],
    named: &'a [(&'v str, Value<'v>)],
    heap: Heap<'v>,
    next: usize,
}

impl<'v> ReplacementFields<'_, 'v> {
    fn fill(&mut self, template: &str, depth: usize) -> starlark::Result<String> {
        let mut out = String::new();
        let mut rest = template;
        while let Some(at) = rest.find(['{', '}']) {
            out.push_str(&rest[..at]);
            let brace = &rest[at..=at];
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix(brace) {
                out.push_str(brace);
                rest = after;
                continue;
            }
            let end = (brace == "{").then(|| closing(rest)).flatten();
            let Some(end) = end else {
                return Err(misuse(format!("Single '{brace}' encountered in format string")));
            };
            out.push_str(&self.field(&rest[..end], depth)?);
            rest = &rest[end + 1..];
        }
        out.push_str(rest);
        Ok(out)
    }

    fn field(&mut self, field: &str, depth: usize) -> starlark::Result<String> {
        let bracket =
            field.find('[').map_or(0, |at| field[at..].find(']').map_or(0, |end| at + end));
        let colon = field[bracket..].find(':').map(|at| bracket + at);
        let (head, spec) = colon.map_or((field, ""), |at| (&field[..at], &field[at + 1..]));
        let (name, conversion) = head.split_once('!').unwrap_or((head, ""));
        let value = self.value(name)?;
        let spec = if spec.contains('{') && depth == 0 {
            self.fill(spec, depth + 1)?
        } else {
            spec.to_owned()
        };
        match conversion {
            "" => format(value, &spec, self.heap),
            "r" => format(self.heap.alloc(text::repr_in(value, self.heap)), &spec, self.heap),
            "s" => format(self.heap.alloc(text::str(value, self.heap)), &spec, self.heap),
            "a" => {
                let ascii = text::ascii(&text::repr_in(value, self.heap));
                format(self.heap.alloc(ascii), &spec, self.heap)
            }
            other => Err(misuse(format!("Unknown conversion specifier '{other}'"))),
        }
    }

    fn value(&mut self, path: &str) -> starlark::Result<Value<'v>> {
        let end = path.find(['.', '[']).unwrap_or(path.len());
        let (name, mut path) = path.split_at(end);
        let at = if name.is_empty() {
            self.next += 1;
            Some(self.next - 1)
        } else {
            name.parse().ok()
        };
        let mut value = if let Some(at) = at {
            self.positional.get(at).copied().ok_or_else(|| {
                misuse(format!("Replacement index {at} out of range for positional args tuple"))
            })?
        } else {
            let found = self.named.iter().find(|(known, _)| *known == name);
            found.ok_or_else(|| misuse(format!("KeyError: '{name}'")))?.1
        };
        while let Some(step) = path.chars().next() {
            path = &path[1..];
            if step == '[' {
                let end = path.find(']').ok_or_else(|| misuse("Missing ']' in format string"))?;
                let key = match path[..end].parse::<i32>() {
                    Ok(index) => self.heap.alloc(index),
                    Err(_) => self.heap.alloc(&path[..end]),
                };
                value = value.at(key, self.heap)?;
                path = &path[end + 1..];
            } else {
                let end = path.find(['.', '[']).unwrap_or(path.len());
                value = value.get_attr_error(&path[..end], self.heap)?;
                path = &path[end..];
            }
        }
        Ok(value)
    }
}

/// Returns where the field that begins here ends, fields in its specification included.
fn closing(rest: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, c) in rest.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => return Some(at),
            '}' => depth -= 1,
            _ => (),
        }
    }
    None
}

/// The `%` of a text.
pub(crate) fn percent<'v>(
    template: &str,
    value: Value<'v>,
    heap: Heap<'v>,
) -> starlark::Result<String> {
    let is_tuple = value.get_type() == "tuple";
    let arguments = if is_tuple { as_slice(value).unwrap_or_default() } else { &[] };
    let mut out = String::new();
    let mut used = 0;
    let mut rest = template;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let mut name = None;
        if let Some(after) = rest.strip_prefix('(') {
            let end = after.find(')').ok_or_else(|| misuse("incomplete format key"))?;
            (name, rest) = (Some(&after[..end]), &after[end + 1..]);
        }
        let end = rest
            .find(|c: char| c.is_ascii_alphabetic() || c == '%')
            .ok_or_else(|| misuse("incomplete format"))?;
        let flags = &rest[..end];
        let kind = &rest[end..=end];
        rest = &rest[end + 1..];
        if kind == "%" {
            out.push('%');
            continue;
        }
        let item = match name {
            Some(name) => {
                let dict = as_dict(value).ok_or_else(|| misuse("format requires a mapping"))?;
                dict.get_str(name).ok_or_else(|| misuse(format!("KeyError: '{name}'")))?
            }
            None if !is_tuple && used == 0 => value,
            None => *arguments
                .get(used)
                .ok_or_else(|| misuse("not enough arguments for format string"))?,
        };
        used += usize::from(name.is_none());
        out.push_str(&percent_field(flags, kind, item, heap)?);
    }
    if is_tuple && used < arguments.len() || !is_tuple && used == 0 && as_dict(value).is_none() {
        return Err(misuse("not all arguments converted during string formatting"));
    }
    out.push_str(rest);
    Ok(out)
}

fn percent_field<'v>(
    flags: &str,
    kind: &str,
    item: Value<'v>,
    heap: Heap<'v>,
) -> starlark::Result<String> {
    let left = flags.contains('-');
    let start =
        flags.find(|c: char| !matches!(c, '-' | '+' | ' ' | '#' | '0')).unwrap_or(flags.len());
    let (signs, size) = flags.split_at(start);
    let zero = if signs.contains('0') && !left { "0" } else { "" };
    let sign = ["+", " "].into_iter().find(|sign| signs.contains(sign)).unwrap_or_default();
    let hash = if signs.contains('#') { "#" } else { "" };
    let align = if left {
        "<"
    } else if zero.is_empty() {
        ">"
    } else {
        ""
    };
    match kind {
        "s" | "r" | "a" => {
            let shown = match kind {
                "s" => text::str(item, heap),
                "r" => text::repr_in(item, heap),
                _ => text::ascii(&text::repr_in(item, heap)),
            };
            format(heap.alloc(shown), &format!("{align}{size}").replace("0<", "<"), heap)
        }
        "d" | "i" | "u" => {
            let whole = as_float(item).ok_or_else(|| {
                misuse(format!(
                    "%d format: a real number is required, not {}",
                    text::type_name(item)
                ))
            })?;
            let int = match as_int(item) {
                Some(int) => int,
                None => super::numbers::whole(whole.trunc()),
            };
            format(heap.alloc(int), &format!("{align}{sign}{zero}{size}d"), heap)
        }
        "c" => format(item, "c", heap).or_else(|_| Ok(text::str(item, heap))),
        "f" | "F" | "e" | "E" | "g" | "G" => {
            let float = as_float(item).ok_or_else(|| {
                misuse(format!("must be real number, not {}", text::type_name(item)))
            })?;
            format(heap.alloc(float), &format!("{align}{sign}{hash}{zero}{size}{kind}"), heap)
        }
        "x" | "X" | "o" => format(item, &format!("{align}{sign}{hash}{zero}{size}{kind}"), heap),
        other => Err(misuse(format!("unsupported format character '{other}'"))),
    }
}
