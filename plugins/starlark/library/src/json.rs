//! `json`: Python's names, and Starlark's `encode` and `decode`.

use std::fmt::Write as _;

use airlock_executor::json::MAX_DEPTH;
use starlark::environment::GlobalsBuilder;
use starlark::eval::Evaluator;
use starlark::starlark_module;
use starlark::values::none::NoneOr;
use starlark::values::{Heap, Value};

use super::order::sort;
use super::text;
use super::values::{as_dict, as_slice, call, items, misuse, strict_float};
use crate::convert;

/// Replaces Starlark's own `json`, which panics at numbers beyond a float and rounds big integers.
#[starlark_module]
pub(crate) fn module(builder: &mut GlobalsBuilder) {
    /// A value as JSON text.
    fn encode<'v>(
        #[starlark(require = pos)] value: Value<'v>,
        heap: Heap<'v>,
    ) -> anyhow::Result<String> {
        convert::to_json(value, heap).map_err(|unfit| anyhow::anyhow!("json.encode: {unfit}"))
    }

    /// JSON text as a value.
    fn decode<'v>(
        #[starlark(require = pos)] text: &str,
        heap: Heap<'v>,
    ) -> anyhow::Result<Value<'v>> {
        convert::from_json(text, heap).map_err(|error| anyhow::anyhow!("json.decode: {error}"))
    }

    /// JSON text as a value.
    fn loads<'v>(
        #[starlark(require = pos)] text: Value<'v>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        let text = text.unpack_str().ok_or_else(|| {
            let name = super::text::type_name(text);
            misuse(format!("json.loads: the JSON object must be str, not {name}: a tool's result is data already"))
        })?;
        convert::from_json(text, heap).map_err(|error| misuse(format!("json.loads: {error}")))
    }

    /// A value as JSON text, as Python writes it.
    #[expect(clippy::too_many_arguments, reason = "Python's function has them")]
    fn dumps<'v>(
        #[starlark(require = pos)] value: Value<'v>,
        #[starlark(require = named)] indent: Option<NoneOr<Value<'v>>>,
        #[starlark(require = named, default = false)] sort_keys: bool,
        #[starlark(require = named)] separators: Option<NoneOr<Value<'v>>>,
        #[starlark(require = named, default = true)] ensure_ascii: bool,
        #[starlark(require = named)] default: Option<NoneOr<Value<'v>>>,
        #[starlark(require = named)] allow_nan: Option<Value<'v>>,
        #[starlark(require = named)] skipkeys: Option<Value<'v>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<String> {
        let _ = (allow_nan, skipkeys);
        let indent = match indent.and_then(NoneOr::into_option) {
            None => None,
            Some(indent) => Some(match indent.unpack_str() {
                Some(text) => text.to_owned(),
                None => " ".repeat(super::numbers::count(indent, "indent")?.min(64)),
            }),
        };
        let (item, key) = match separators.and_then(NoneOr::into_option).and_then(as_slice) {
            Some([item, key]) => {
                let heap = eval.heap();
                (text::str(*item, heap), text::str(*key, heap))
            }
            _ => ((if indent.is_some() { "," } else { ", " }).into(), ": ".into()),
        };
        let default = default.and_then(NoneOr::into_option);
        let mut writer = JsonTextWriter {
            out: String::new(),
            indent,
            item,
            key,
            sort_keys,
            ensure_ascii,
            default,
            replaced: 0,
            eval,
        };
        writer.value(value, 0)?;
        Ok(writer.out)
    }
}

struct JsonTextWriter<'a, 'v, 'x, 'y> {
    out: String,
    indent: Option<String>,
    item: String,
    key: String,
    sort_keys: bool,
    ensure_ascii: bool,
    default: Option<Value<'v>>,
    /// Values around this one that `default` returned. They count as levels, and indent nothing.
    replaced: usize,
    eval: &'a mut Evaluator<'v, 'x, 'y>,
}

impl<'v> JsonTextWriter<'_, 'v, '_, '_> {
    /// Fails if lists and dicts that nest this deep are beyond [`MAX_DEPTH`].
    fn check_depth(&self, depth: usize) -> starlark::Result<()> {
        if depth + self.replaced > MAX_DEPTH {
            return Err(misuse(format!(
                "json.dumps: more than {MAX_DEPTH} levels, or it contains itself"
            )));
        }
        Ok(())
    }

    fn value(&mut self, value: Value<'v>, depth: usize) -> starlark::Result<()> {
        self.check_depth(depth)?;
        if let Some(text) = value.unpack_str() {
            self.string(text);
        } else if let Some(float) = strict_float(value) {
            self.out.push_str(&float_text(float));
        } else if let Some(entries) = as_dict(value).map(|dict| dict.iter().collect::<Vec<_>>()) {
            return self.object(entries, depth);
        } else if let Some(items) = as_slice(value) {
            return self.array(items, depth);
        } else {
            match value.get_type() {
                "NoneType" => self.out.push_str("null"),
                "bool" => self.out.push_str(if value.to_bool() { "true" } else { "false" }),
                "int" => self.out.push_str(&value.to_str()),
                "struct" => {
                    let fields = starlark::values::structs::StructRef::from_value(value);
                    let heap = self.eval.heap();
                    let entries = fields
                        .iter()
                        .flat_map(starlark::values::structs::StructRef::iter)
                        .map(|(name, item)| (heap.alloc(name.as_str()), item))
                        .collect();
                    return self.object(entries, depth);
                }
                "range" => {
                    let all = items(value, self.eval.heap())?;
                    return self.array(&all, depth);
                }
                _ => return self.other(value, depth),
            }
        }
        Ok(())
    }

    fn other(&mut self, value: Value<'v>, depth: usize) -> starlark::Result<()> {
        if let Some(default) = self.default {
            let replaced = call(default, &[value], self.eval)?;
            self.replaced += 1;
            self.value(replaced, depth)?;
            self.replaced -= 1;
            Ok(())
        } else {
            let name = text::type_name(value);
            Err(misuse(format!("Object of type {name} is not JSON serializable")))
        }
    }

    fn array(&mut self, items: &[Value<'v>], depth: usize) -> starlark::Result<()> {
        // An empty one is a level too.
        self.check_depth(depth + 1)?;
        self.out.push('[');
        for (at, item) in items.iter().enumerate() {
            self.separate(at, depth + 1);
            self.value(*item, depth + 1)?;
        }
        self.close(items.is_empty(), depth, ']');
        Ok(())
    }

    fn object(
        &mut self,
        mut entries: Vec<(Value<'v>, Value<'v>)>,
        depth: usize,
    ) -> starlark::Result<()> {
        self.check_depth(depth + 1)?;
        if self.sort_keys {
            let keys: Vec<_> = entries.iter().map(|(key, _)| *key).collect();
            let sorted = sort(&keys, None, false, self.eval)?;
            entries
                .sort_by_cached_key(|(key, _)| sorted.iter().position(|other| other.ptr_eq(*key)));
        }
        self.out.push('{');
        for (at, (key, item)) in entries.iter().enumerate() {
            self.separate(at, depth + 1);
            let name = match (key.unpack_str(), key.get_type()) {
                (Some(text), _) => text.to_owned(),
                (_, "bool") => (if key.to_bool() { "true" } else { "false" }).into(),
                (_, "NoneType") => "null".into(),
                (_, "int" | "float") => text::repr(*key),
                (_, name) => {
                    return Err(misuse(format!(
                        "keys must be str, int, float, bool or None, not {name}"
                    )));
                }
            };
            self.string(&name);
            self.out.push_str(&self.key.clone());
            self.value(*item, depth + 1)?;
        }
        self.close(entries.is_empty(), depth, '}');
        Ok(())
    }

    fn separate(&mut self, at: usize, depth: usize) {
        if at > 0 {
            self.out.push_str(&self.item.clone());
        }
        self.newline(depth);
    }

    fn close(&mut self, empty: bool, depth: usize, bracket: char) {
        if !empty {
            self.newline(depth);
        }
        self.out.push(bracket);
    }

    fn newline(&mut self, depth: usize) {
        if let Some(indent) = &self.indent {
            self.out.push('\n');
            self.out.push_str(&indent.repeat(depth));
        }
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\u{8}' => self.out.push_str("\\b"),
                '\u{c}' => self.out.push_str("\\f"),
                c if c < ' ' || self.ensure_ascii && c > '~' => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        write!(self.out, "\\u{unit:04x}").expect("a String takes text");
                    }
                }
                c => self.out.push(c),
            }
        }
        self.out.push('"');
    }
}

fn float_text(float: f64) -> String {
    match text::float_repr(float).as_str() {
        "nan" => "NaN".into(),
        "inf" => "Infinity".into(),
        "-inf" => "-Infinity".into(),
        finite => finite.into(),
    }
}
