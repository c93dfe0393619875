//! `repr` and `str` as in Python.

use std::fmt::Write as _;

use starlark::values::dict::DictRef;
use starlark::values::{Heap, Value, ValueLike as _};

use super::containers::{DictLike, NamedTuple};
use super::values::{as_slice, strict_float};

/// Levels of containers that are shown; deeper ones, and cycles, become `...`. The function is recursive, and the sandbox
/// provides 512 KiB of stack.
pub(crate) const MAX_DEPTH: usize = 100;

/// Returns the value as `str` and `print` show it.
pub fn str<'v>(value: Value<'v>, heap: Heap<'v>) -> String {
    match value.unpack_str() {
        Some(text) => text.to_owned(),
        None if is_plain(value) => repr_in(value, heap),
        None => value.to_str(),
    }
}

/// Returns the value as `repr` shows it.
pub(crate) fn repr_in<'v>(value: Value<'v>, heap: Heap<'v>) -> String {
    let mut out = String::new();
    write_repr(&mut out, value, Some(heap), 0);
    out
}

/// Returns the value as messages show it: like [`repr_in`], except for the items of sets.
pub(crate) fn repr(value: Value<'_>) -> String {
    let mut out = String::new();
    write_repr(&mut out, value, None, 0);
    out
}

/// Returns the name of the value's type in Python.
pub fn type_name(value: Value<'_>) -> &'static str {
    match value.get_type() {
        "string" => "str",
        "defaultdict" => {
            value.downcast_ref::<DictLike>().map_or("defaultdict", DictLike::type_name)
        }
        name => name,
    }
}

fn is_plain(value: Value<'_>) -> bool {
    matches!(
        value.get_type(),
        "float" | "list" | "tuple" | "dict" | "set" | "NoneType" | "bool" | "int" | "range"
    )
}

fn write_repr<'v>(out: &mut String, value: Value<'v>, heap: Option<Heap<'v>>, depth: usize) {
    if depth > MAX_DEPTH {
        return out.push_str("...");
    }
    if let Some(text) = value.unpack_str() {
        return quote(out, text);
    }
    if let Some(float) = strict_float(value) {
        return out.push_str(&float_repr(float));
    }
    let depth = depth + 1;
    let slice = as_slice(value).unwrap_or_default().iter().copied();
    match value.get_type() {
        "list" => write_items(out, ["[", "]"], slice, heap, depth),
        "tuple" if value.downcast_ref::<NamedTuple>().is_some() => out.push_str(&value.to_repr()),
        "tuple" if slice.len() == 1 => write_items(out, ["(", ",)"], slice, heap, depth),
        "tuple" => write_items(out, ["(", ")"], slice, heap, depth),
        "dict" => {
            let Some(dict) = DictRef::from_value(value) else { return out.push_str("{...}") };
            enclosed(out, "{", "}", dict.iter(), |out, (key, item)| {
                write_repr(out, key, heap, depth);
                out.push_str(": ");
                write_repr(out, item, heap, depth);
            });
        }
        "set" if !value.to_bool() => out.push_str("set()"),
        // Only a heap gives access to the items of a set.
        "set" => match heap.and_then(|heap| value.iterate(heap).ok()) {
            Some(items) => write_items(out, ["{", "}"], items, heap, depth),
            None => out.push_str(&value.to_repr().replace("set([", "{").replace("])", "}")),
        },
        _ => out.push_str(&value.to_repr()),
    }
}

fn write_items<'v>(
    out: &mut String,
    [open, close]: [&str; 2],
    items: impl IntoIterator<Item = Value<'v>>,
    heap: Option<Heap<'v>>,
    depth: usize,
) {
    enclosed(out, open, close, items, |out, item| write_repr(out, item, heap, depth));
}

/// Writes items between brackets.
pub(crate) fn enclosed<T>(
    out: &mut String,
    open: &str,
    close: &str,
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut String, T),
) {
    out.push_str(open);
    for (at, item) in items.into_iter().enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        write(out, item);
    }
    out.push_str(close);
}

/// Writes a text in quotes: single ones, unless only those are in it.
pub(crate) fn quote(out: &mut String, text: &str) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if u32::from(c) < 0x20 || u32::from(c) == 0x7f => push_hex(out, c),
            c if !c.is_ascii() && c.is_control() => push_hex(out, c),
            c => out.push(c),
        }
    }
    out.push(quote);
}

fn push_hex(out: &mut String, c: char) {
    write!(out, "\\x{:02x}", u32::from(c)).expect("a String takes text");
}

/// Escapes what is not ASCII in a `repr`.
pub(crate) fn ascii(repr: &str) -> String {
    let mut out = String::with_capacity(repr.len());
    for c in repr.chars() {
        let code = u32::from(c);
        match code {
            0..0x80 => out.write_char(c),
            0x80..0x100 => write!(out, "\\x{code:02x}"),
            0x100..0x1_0000 => write!(out, "\\u{code:04x}"),
            _ => write!(out, "\\U{code:08x}"),
        }
        .expect("a String takes text");
    }
    out
}

/// Returns the shortest digits that read back as the same float, as Python writes them.
pub(crate) fn float_repr(float: f64) -> String {
    if !float.is_finite() {
        return match float {
            _ if float.is_nan() => "nan".into(),
            _ if float > 0.0 => "inf".into(),
            _ => "-inf".into(),
        };
    }
    let scientific = format!("{float:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..16).contains(&exponent) {
        let plain = format!("{float}");
        return if plain.contains('.') { plain } else { plain + ".0" };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}
