//! Methods of texts.

use starlark::collections::SmallMap;
use starlark::values::dict::Dict;
use starlark::values::{Heap, Value};

use super::bound::MethodTable;
use super::format::format_fields;
use super::text;
use super::values::{
    Args, as_dict, as_i64, as_slice, items, list, misuse, required, size, text_of,
};

const NAMES: &[&str] = &[
    "casefold",
    "center",
    "count",
    "encode",
    "endswith",
    "expandtabs",
    "find",
    "format",
    "format_map",
    "index",
    "isascii",
    "isdecimal",
    "isdigit",
    "isidentifier",
    "isnumeric",
    "isprintable",
    "join",
    "ljust",
    "rfind",
    "rjust",
    "rsplit",
    "split",
    "splitlines",
    "startswith",
    "swapcase",
    "title",
    "translate",
    "zfill",
];

pub(crate) const TABLE: MethodTable = &[(NAMES, |this, name, args, eval| {
    method(this.unpack_str().unwrap_or_default(), name, args, eval.heap())
})];

/// Calls a method of a text.
fn method<'v>(
    this: &'v str,
    name: &str,
    args: Args<'v>,
    heap: Heap<'v>,
) -> starlark::Result<Value<'v>> {
    match name {
        "format" => {
            format_fields(this, &args.positional, &args.named, heap).map(|text| heap.alloc(text))
        }
        "format_map" => {
            let [values] = args.bind(["mapping"])?;
            let named = named(required(values, "mapping")?)?;
            format_fields(this, &[], &named, heap).map(|text| heap.alloc(text))
        }
        "join" => {
            let [parts] = args.bind(["iterable"])?;
            join(this, &items(required(parts, "iterable")?, heap)?).map(|text| heap.alloc(text))
        }
        "split" | "rsplit" => split(this, name == "rsplit", args, heap),
        "splitlines" => {
            let [keep] = args.bind(["keepends"])?;
            let lines = lines(this, keep.is_some_and(Value::to_bool));
            Ok(list(heap, lines.into_iter().map(|line| heap.alloc(line))))
        }
        "zfill" => {
            let [width] = args.bind(["width"])?;
            let width = width_of(width)?;
            let (sign, digits) = match this.strip_prefix(['+', '-']) {
                Some(rest) => (&this[..1], rest),
                None => ("", this),
            };
            let zeros = width.saturating_sub(this.chars().count());
            Ok(heap.alloc(format!("{sign}{}{digits}", "0".repeat(zeros))))
        }
        "ljust" | "rjust" | "center" => adjust(this, name, args, heap),
        "startswith" | "endswith" => affix(this, name, args),
        "find" | "rfind" | "index" | "count" => search(this, name, args, heap),
        "translate" => translate(this, args, heap),
        "encode" => Err(misuse("there are no bytes here: `len(text)` counts characters")),
        "expandtabs" => {
            let [size] = args.bind(["tabsize"])?;
            Ok(heap.alloc(expand(this, size.map_or(Ok(8), |size| width_of(Some(size)))?)))
        }
        "casefold" => Ok(heap.alloc(this.to_lowercase().replace('ß', "ss"))),
        "swapcase" => {
            let swapped: String = this
                .chars()
                .flat_map(|c| {
                    if c.is_uppercase() {
                        c.to_lowercase().collect::<Vec<_>>()
                    } else {
                        c.to_uppercase().collect()
                    }
                })
                .collect();
            Ok(heap.alloc(swapped))
        }
        "title" => Ok(heap.alloc(title(this))),
        _ => Ok(Value::new_bool(is(this, name))),
    }
}

fn is(this: &str, name: &str) -> bool {
    match name {
        "isascii" => this.is_ascii(),
        "isdecimal" | "isdigit" => {
            all_are(this, |c| c.is_ascii_digit() || c.is_numeric() && !c.is_alphabetic())
        }
        "isnumeric" => all_are(this, char::is_numeric),
        "isidentifier" => {
            all_are(this, |c| c.is_alphanumeric() || c == '_')
                && this.chars().next().is_some_and(|c| !c.is_numeric())
        }
        _ => this.chars().all(|c| !c.is_control()),
    }
}

fn all_are(text: &str, is_in: fn(char) -> bool) -> bool {
    !text.is_empty() && text.chars().all(is_in)
}

/// Joins texts. Fails if one of the parts is none.
fn join(separator: &str, parts: &[Value<'_>]) -> starlark::Result<String> {
    let mut out = String::new();
    for (at, part) in parts.iter().enumerate() {
        if at > 0 {
            out.push_str(separator);
        }
        let part = part.unpack_str().ok_or_else(|| {
            let name = text::type_name(*part);
            misuse(format!("sequence item {at}: expected str instance, {name} found"))
        })?;
        out.push_str(part);
    }
    Ok(out)
}

fn split<'v>(
    this: &'v str,
    from_right: bool,
    args: Args<'v>,
    heap: Heap<'v>,
) -> starlark::Result<Value<'v>> {
    let [separator, most] = args.bind(["sep", "maxsplit"])?;
    let most = most.map_or(Ok(-1), |most| size(most, "maxsplit"))?;
    let most = usize::try_from(most).unwrap_or(usize::MAX - 1);
    let parts: Vec<&str> = match separator.filter(|separator| !separator.is_none()) {
        Some(separator) => {
            let separator = text_of(separator, "sep")?;
            if separator.is_empty() {
                return Err(misuse("empty separator"));
            }
            if from_right {
                let mut parts: Vec<_> = this.rsplitn(most + 1, separator).collect();
                parts.reverse();
                parts
            } else {
                this.splitn(most + 1, separator).collect()
            }
        }
        None => words(this, from_right, most),
    };
    Ok(list(heap, parts.into_iter().map(|part| heap.alloc(part))))
}

fn words(this: &str, from_right: bool, most: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = this.trim();
    while !rest.is_empty() {
        let space = if from_right {
            rest.rfind(char::is_whitespace)
        } else {
            rest.find(char::is_whitespace)
        };
        let Some(at) = space.filter(|_| parts.len() < most) else {
            parts.push(rest);
            break;
        };
        if from_right {
            parts.push(rest[at..].trim_start());
            rest = rest[..at].trim_end();
        } else {
            parts.push(&rest[..at]);
            rest = rest[at..].trim_start();
        }
    }
    if from_right {
        parts.reverse();
    }
    parts
}

fn lines(this: &str, keep: bool) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = this;
    while let Some(at) = rest.find(['\n', '\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}'])
    {
        let width = if rest[at..].starts_with("\r\n") {
            2
        } else {
            rest[at..].chars().next().map_or(1, char::len_utf8)
        };
        lines.push(&rest[..if keep { at + width } else { at }]);
        rest = &rest[at + width..];
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    lines
}

fn adjust<'v>(
    this: &str,
    name: &str,
    args: Args<'v>,
    heap: Heap<'v>,
) -> starlark::Result<Value<'v>> {
    let [width, fill] = args.bind(["width", "fillchar"])?;
    let width = width_of(width)?;
    let fill = fill.map_or(Ok(" "), |fill| text_of(fill, "fillchar"))?;
    if fill.chars().count() != 1 {
        return Err(misuse("the fill character must be exactly one character long"));
    }
    let missing = width.saturating_sub(this.chars().count());
    let left = match name {
        "ljust" => 0,
        "rjust" => missing,
        // As CPython does: the odd one goes left if the width is odd.
        _ => missing / 2 + (missing & width & 1),
    };
    Ok(heap.alloc(format!("{}{this}{}", fill.repeat(left), fill.repeat(missing - left))))
}

/// Largest width of a padded text, in characters: a short script could fill the memory of its run, 64 MiB by default, with
/// one.
const MAX_WIDTH: i64 = 1 << 20;

fn width_of(width: Option<Value<'_>>) -> starlark::Result<usize> {
    let width = size(required(width, "width")?, "width")?;
    if width > MAX_WIDTH {
        return Err(misuse(format!("width {width} is larger than {MAX_WIDTH}")));
    }
    Ok(usize::try_from(width).unwrap_or_default())
}

/// Cuts a text to the characters of `start..end`; positions below 0 count from the end.
fn window<'a>(
    this: &'a str,
    start: Option<Value<'_>>,
    end: Option<Value<'_>>,
) -> starlark::Result<Option<(&'a str, usize)>> {
    if start.is_none() && end.is_none() {
        return Ok(Some((this, 0)));
    }
    let length = i64::try_from(this.chars().count()).unwrap_or(i64::MAX);
    let from = position(start, 0, length)?;
    let to = position(end, length, length)?.min(length);
    if from > to {
        return Ok(None);
    }
    let from = usize::try_from(from).unwrap_or_default();
    let to = usize::try_from(to).unwrap_or_default();
    Ok(Some((&this[byte_at(this, from)..byte_at(this, to)], from)))
}

/// Returns the position that an argument stands for in a text of this length.
fn position(value: Option<Value<'_>>, default: i64, length: i64) -> starlark::Result<i64> {
    let Some(value) = value.filter(|value| !value.is_none()) else { return Ok(default) };
    let at = size(value, "position")?;
    Ok(if at < 0 { (at + length).max(0) } else { at })
}

/// Returns the first byte of a character.
fn byte_at(text: &str, character: usize) -> usize {
    text.char_indices().nth(character).map_or(text.len(), |(byte, _)| byte)
}

fn affix<'v>(this: &str, name: &str, args: Args<'v>) -> starlark::Result<Value<'v>> {
    let [affix, start, end] = args.bind(["prefix", "start", "end"])?;
    let affix = required(affix, "prefix")?;
    let single = [affix];
    let affixes =
        if affix.get_type() == "tuple" { as_slice(affix).unwrap_or_default() } else { &single };
    let within = window(this, start, end)?;
    for affix in affixes {
        let affix = text_of(*affix, &format!("{name} first arg"))?;
        let fits = within.is_some_and(|(text, _)| match name {
            "startswith" => text.starts_with(affix),
            _ => text.ends_with(affix),
        });
        if fits {
            return Ok(Value::new_bool(true));
        }
    }
    Ok(Value::new_bool(false))
}

fn search<'v>(
    this: &str,
    name: &str,
    args: Args<'v>,
    heap: Heap<'v>,
) -> starlark::Result<Value<'v>> {
    let [wanted, start, end] = args.bind(["sub", "start", "end"])?;
    let wanted = text_of(required(wanted, "sub")?, "sub")?;
    let Some((within, offset)) = window(this, start, end)? else {
        return match name {
            "index" => Err(misuse("substring not found")),
            "count" => Ok(heap.alloc(0)),
            _ => Ok(heap.alloc(-1)),
        };
    };
    if name == "count" {
        let count = match wanted {
            "" => within.chars().count() + 1,
            wanted => within.matches(wanted).count(),
        };
        return Ok(heap.alloc(count));
    }
    let found = if name == "rfind" { within.rfind(wanted) } else { within.find(wanted) };
    match found {
        Some(byte) => Ok(heap.alloc(offset + within[..byte].chars().count())),
        None if name == "index" => Err(misuse("substring not found")),
        None => Ok(heap.alloc(-1)),
    }
}

fn translate<'v>(this: &str, args: Args<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
    let [table] = args.bind(["table"])?;
    let table =
        as_dict(required(table, "table")?).ok_or_else(|| misuse("translate() needs a dict"))?;
    let mut out = String::new();
    for c in this.chars() {
        match table.get(heap.alloc(u32::from(c)))? {
            None => out.push(c),
            Some(to) if to.is_none() => (),
            Some(to) => match as_i64(to) {
                Some(code) => out.extend(u32::try_from(code).ok().and_then(char::from_u32)),
                None => out.push_str(text_of(to, "translation")?),
            },
        }
    }
    Ok(heap.alloc(out))
}

/// `str.maketrans`: a dict from code points to texts, or to `None`.
pub(crate) fn maketrans<'v>(args: &Args<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
    let entries = match args.only_positional()? {
        [table] => table_entries(*table)?,
        [from, to, rest @ ..] => {
            let from = text_of(*from, "x")?;
            let to = text_of(*to, "y")?;
            if from.chars().count() != to.chars().count() {
                return Err(misuse("the first two maketrans arguments must have equal length"));
            }
            let removed = rest.first().and_then(|removed| removed.unpack_str()).unwrap_or_default();
            let replaced = from.chars().zip(to.chars().map(|c| heap.alloc(c)));
            replaced.chain(removed.chars().map(|c| (c, Value::new_none()))).collect()
        }
        [] => return Err(misuse("maketrans() needs an argument")),
    };
    let mut map = SmallMap::new();
    for (key, value) in entries {
        map.insert_hashed(heap.alloc(u32::from(key)).get_hashed()?, value);
    }
    Ok(heap.alloc(Dict::new(map)))
}

/// Returns the entries of a dict whose keys are characters or code points.
fn table_entries(table: Value<'_>) -> starlark::Result<Vec<(char, Value<'_>)>> {
    let dict = as_dict(table).ok_or_else(|| misuse("maketrans() needs a dict"))?;
    let entries = dict.iter().map(|(key, value)| {
        let character = match key.unpack_str() {
            Some(text) => text.chars().next(),
            None => as_i64(key).and_then(|code| char::from_u32(u32::try_from(code).ok()?)),
        };
        let character =
            character.ok_or_else(|| misuse("maketrans() keys are single characters"))?;
        Ok((character, value))
    });
    entries.collect()
}

fn expand(this: &str, size: usize) -> String {
    let mut out = String::new();
    let mut column = 0;
    for c in this.chars() {
        match c {
            '\t' if size > 0 => {
                let width = size - column % size;
                out.push_str(&" ".repeat(width));
                column += width;
            }
            '\t' => (),
            '\n' | '\r' => {
                out.push(c);
                column = 0;
            }
            c => {
                out.push(c);
                column += 1;
            }
        }
    }
    out
}

/// Makes each letter after something else upper case, and the others lower case.
fn title(this: &str) -> String {
    let mut out = String::new();
    let mut inside = false;
    for c in this.chars() {
        if inside {
            out.extend(c.to_lowercase());
        } else {
            out.extend(c.to_uppercase());
        }
        inside = c.is_alphabetic();
    }
    out
}

fn named<'v>(mapping: Value<'v>) -> starlark::Result<Vec<(&'v str, Value<'v>)>> {
    let dict = as_dict(mapping).ok_or_else(|| misuse("format_map() needs a dict"))?;
    Ok(dict.iter().filter_map(|(key, value)| Some((key.unpack_str()?, value))).collect())
}
