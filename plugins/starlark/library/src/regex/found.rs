//! Places where a pattern was found.

use std::fmt;
use std::sync::Arc;

use allocative::Allocative;
use regex::Captures;
use starlark::starlark_simple_value;
use starlark::values::dict::AllocDict;
use starlark::values::tuple::AllocTuple;
use starlark::values::{
    Heap, NoSerialize, ProvidesStaticType, StarlarkPagablePanic, StarlarkValue, Value,
    starlark_value,
};

use super::super::bound::bound;
use super::super::text;
use super::super::values::{Args, as_i64, misuse, required, text_of};
use super::Pattern;
use super::template::{Part, Template};

/// A place where a pattern was found.
#[derive(Debug, Clone, ProvidesStaticType, NoSerialize, Allocative, StarlarkPagablePanic)]
pub(crate) struct Match {
    #[allocative(skip)]
    found: Arc<RegexMatch>,
}
starlark_simple_value!(Match);

#[derive(Debug)]
struct RegexMatch {
    pattern: Pattern,
    text: String,
    /// Each group's first byte and end.
    groups: Vec<Option<(usize, usize)>>,
}

pub(super) const METHODS: &[&str] =
    &["end", "expand", "group", "groupdict", "groups", "span", "start"];

impl fmt::Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut quoted = String::new();
        text::quote(&mut quoted, self.text(0).unwrap_or_default());
        let start = self.position(0, true);
        let end = self.position(0, false);
        write!(f, "<re.Match object; span=({start}, {end}), match={quoted}>")
    }
}

#[starlark_value(type = "Match")]
impl<'v> StarlarkValue<'v> for Match {
    fn get_attr(&self, attribute: &str, heap: Heap<'v>) -> Option<Value<'v>> {
        match attribute {
            "string" => Some(heap.alloc(&*self.found.text)),
            "re" => Some(heap.alloc(self.found.pattern.clone())),
            "lastindex" => {
                let last = self.found.groups.iter().skip(1).rposition(Option::is_some);
                Some(last.map_or(Value::new_none(), |at| heap.alloc(at + 1)))
            }
            _ => bound(self.clone(), attribute, METHODS, heap),
        }
    }

    fn at(&self, index: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        self.group(index, heap)
    }
}

impl Match {
    pub(super) fn new(pattern: &Pattern, text: &str, captures: &Captures<'_>) -> Self {
        let groups = captures.iter().map(|group| group.map(|group| (group.start(), group.end())));
        let groups = groups.collect();
        Self { found: Arc::new(RegexMatch { pattern: pattern.clone(), text: text.into(), groups }) }
    }

    fn text(&self, at: usize) -> Option<&str> {
        let (start, end) = (*self.found.groups.get(at)?)?;
        self.found.text.get(start..end)
    }

    /// Returns the number of characters before a group, or before its end; -1 without the group.
    fn position(&self, at: usize, start: bool) -> i64 {
        let Some(Some((from, to))) = self.found.groups.get(at) else { return -1 };
        let byte = if start { *from } else { *to };
        i64::try_from(self.found.text[..byte].chars().count()).unwrap_or(i64::MAX)
    }

    fn index(&self, group: Value<'_>) -> starlark::Result<usize> {
        let at = match group.unpack_str() {
            Some(name) => self
                .found
                .pattern
                .compiled
                .anywhere
                .capture_names()
                .position(|known| known == Some(name)),
            None => as_i64(group).and_then(|at| usize::try_from(at).ok()),
        };
        at.filter(|at| *at < self.found.groups.len()).ok_or_else(|| misuse("no such group"))
    }

    fn group<'v>(&self, group: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        Ok(optional(self.text(self.index(group)?), heap))
    }

    pub(super) fn method<'v>(
        &self,
        name: &str,
        args: Args<'v>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        let count = self.found.groups.len();
        match name {
            "group" => match args.only_positional()? {
                [] => Ok(optional(self.text(0), heap)),
                [only] => self.group(*only, heap),
                several => {
                    let groups: Vec<_> = several
                        .iter()
                        .map(|group| self.group(*group, heap))
                        .collect::<Result<_, _>>()?;
                    Ok(heap.alloc(AllocTuple(groups)))
                }
            },
            "groups" => {
                let [default] = args.bind(["default"])?;
                let missing = default.unwrap_or(Value::new_none());
                let groups =
                    (1..count).map(|at| self.text(at).map_or(missing, |text| heap.alloc(text)));
                Ok(heap.alloc(AllocTuple(groups)))
            }
            "groupdict" => {
                let groups = self.found.pattern.compiled.anywhere.capture_names().enumerate();
                let named =
                    groups.filter_map(|(at, name)| Some((name?, optional(self.text(at), heap))));
                Ok(heap.alloc(AllocDict(named)))
            }
            "expand" => {
                let [template] = args.bind(["template"])?;
                let template = text_of(required(template, "template")?, "template")?;
                Ok(heap.alloc(self.expand(&Template::parse(template)?)?))
            }
            _ => {
                let [group] = args.bind(["group"])?;
                let at = group.map_or(Ok(0), |group| self.index(group))?;
                let start = self.position(at, true);
                let end = self.position(at, false);
                Ok(match name {
                    "start" => heap.alloc(start),
                    "end" => heap.alloc(end),
                    _ => heap.alloc((start, end)),
                })
            }
        }
    }

    pub(super) fn expand(&self, template: &Template) -> starlark::Result<String> {
        let mut out = String::new();
        for part in &template.0 {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Group(at) if *at < self.found.groups.len() => {
                    out.push_str(self.text(*at).unwrap_or_default());
                }
                Part::Group(at) => return Err(misuse(format!("invalid group reference {at}"))),
                Part::Named(name) => {
                    let mut names = self.found.pattern.compiled.anywhere.capture_names();
                    let at = names.position(|known| known == Some(name));
                    let at = at.ok_or_else(|| misuse(format!("unknown group name '{name}'")))?;
                    out.push_str(self.text(at).unwrap_or_default());
                }
            }
        }
        Ok(out)
    }
}

pub(super) fn optional<'v>(text: Option<&str>, heap: Heap<'v>) -> Value<'v> {
    text.map_or(Value::new_none(), |text| heap.alloc(text))
}
