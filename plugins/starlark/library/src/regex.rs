//! `re`: regular expressions in linear time.
//!
//! A pattern in Python's syntax is translated to that of the crate `regex`, which has no
//! look-around and no back references: such patterns are refused.
//!
//! - `translate`: patterns in the syntax of the crate
//! - `found`: the places where a pattern was found
//! - `template`: replacements of `sub`

mod found;
mod template;
mod translate;

use std::fmt;
use std::sync::{Arc, OnceLock};

use allocative::Allocative;
use regex::{Captures, Regex, RegexBuilder};
use starlark::environment::GlobalsBuilder;
use starlark::eval::Evaluator;
use starlark::starlark_module;
use starlark::starlark_simple_value;
use starlark::values::tuple::{AllocTuple, UnpackTuple};
use starlark::values::{
    Heap, NoSerialize, ProvidesStaticType, StarlarkPagablePanic, StarlarkValue, Value,
    ValueLike as _, starlark_value,
};

use self::found::{Match, optional};
use self::template::Template;
use self::translate::translate;
use super::bound::{MethodTable, bound};
use super::text;
use super::values::{Args, as_i64, call, list, misuse, required, text_of};

const IGNORECASE: i64 = 2;
const MULTILINE: i64 = 8;
const DOTALL: i64 = 16;
const VERBOSE: i64 = 64;

/// Largest compiled pattern, in bytes. A short one such as `\w{1000}` may take megabytes, and a run keeps [`KEPT`] of them:
/// at most 64 MiB, as much as a run has by default.
const MAX_COMPILED: usize = 1 << 20;
/// Levels of nested groups. The parser is recursive, and the sandbox provides 512 KiB of stack.
const MAX_NESTING: u32 = 50;
/// Patterns that a run keeps compiled.
const KEPT: usize = 64;

/// The patterns that a run has compiled, the latest last. Every evaluator needs its own as
/// [`Evaluator::extra_mut`].
#[derive(Default, ProvidesStaticType)]
pub struct Patterns(Vec<Pattern>);

impl Patterns {
    fn from_evaluator<'e>(eval: &'e mut Evaluator<'_, '_, '_>) -> &'e mut Self {
        eval.extra_mut
            .as_mut()
            .and_then(|extra| extra.downcast_mut())
            .expect("the executor gives every evaluator its patterns")
    }
}

/// A compiled pattern.
#[derive(Debug, Clone, ProvidesStaticType, NoSerialize, Allocative, StarlarkPagablePanic)]
pub(crate) struct Pattern {
    #[allocative(skip)]
    compiled: Arc<Compiled>,
}
starlark_simple_value!(Pattern);

#[derive(Debug)]
struct Compiled {
    source: String,
    /// The pattern in the syntax of the crate.
    translated: String,
    flags: i64,
    /// Finds the pattern anywhere.
    anywhere: Regex,
    /// Finds it where the text begins; compiled when it is needed.
    start: OnceLock<Option<Regex>>,
    /// Finds it as the whole text; compiled when it is needed.
    whole: OnceLock<Option<Regex>>,
}

const PATTERN_METHODS: &[&str] =
    &["findall", "finditer", "fullmatch", "match", "search", "split", "sub", "subn"];

pub(crate) const TABLE: MethodTable = &[(PATTERN_METHODS, method), (found::METHODS, method)];

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut quoted = String::new();
        text::quote(&mut quoted, &self.compiled.source);
        write!(f, "re.compile({quoted})")
    }
}

#[starlark_value(type = "Pattern")]
impl<'v> StarlarkValue<'v> for Pattern {
    fn get_attr(&self, attribute: &str, heap: Heap<'v>) -> Option<Value<'v>> {
        match attribute {
            "pattern" => Some(heap.alloc(&*self.compiled.source)),
            "flags" => Some(heap.alloc(self.compiled.flags)),
            "groups" => Some(heap.alloc(self.compiled.anywhere.captures_len() - 1)),
            _ => bound(self.clone(), attribute, PATTERN_METHODS, heap),
        }
    }
}

/// The module `re`.
#[starlark_module]
pub(crate) fn module(builder: &mut GlobalsBuilder) {
    const IGNORECASE: i32 = 2;
    const I: i32 = 2;
    const MULTILINE: i32 = 8;
    const M: i32 = 8;
    const DOTALL: i32 = 16;
    const S: i32 = 16;
    const VERBOSE: i32 = 64;
    const X: i32 = 64;
    const ASCII: i32 = 256;
    const A: i32 = 256;
    const UNICODE: i32 = 32;
    const U: i32 = 32;

    fn compile<'v>(
        pattern: Value<'v>,
        flags: Option<Value<'v>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let compiled = pattern_of(pattern, flags, eval)?;
        Ok(eval.heap().alloc(compiled))
    }

    fn escape<'v>(pattern: &str) -> anyhow::Result<String> {
        let mut out = String::new();
        for c in pattern.chars() {
            if "()[]{}?*+-|^$\\.&~# \t\n\r\u{b}\u{c}".contains(c) {
                out.push('\\');
            }
            out.push(c);
        }
        Ok(out)
    }

    fn search<'v>(
        pattern: Value<'v>,
        string: Value<'v>,
        flags: Option<Value<'v>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        run("search", pattern, flags, vec![string], vec![], eval)
    }

    fn r#match<'v>(
        pattern: Value<'v>,
        string: Value<'v>,
        flags: Option<Value<'v>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        run("match", pattern, flags, vec![string], vec![], eval)
    }

    fn fullmatch<'v>(
        pattern: Value<'v>,
        string: Value<'v>,
        flags: Option<Value<'v>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        run("fullmatch", pattern, flags, vec![string], vec![], eval)
    }

    fn findall<'v>(
        pattern: Value<'v>,
        string: Value<'v>,
        flags: Option<Value<'v>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        run("findall", pattern, flags, vec![string], vec![], eval)
    }

    fn finditer<'v>(
        pattern: Value<'v>,
        string: Value<'v>,
        flags: Option<Value<'v>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        run("finditer", pattern, flags, vec![string], vec![], eval)
    }

    fn split<'v>(
        pattern: Value<'v>,
        string: Value<'v>,
        maxsplit: Option<Value<'v>>,
        flags: Option<Value<'v>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let named = maxsplit.map(|most| ("maxsplit", most)).into_iter().collect();
        run("split", pattern, flags, vec![string], named, eval)
    }

    fn sub<'v>(
        pattern: Value<'v>,
        repl: Value<'v>,
        string: Value<'v>,
        count: Option<Value<'v>>,
        flags: Option<Value<'v>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let named = count.map(|most| ("count", most)).into_iter().collect();
        run("sub", pattern, flags, vec![repl, string], named, eval)
    }

    fn subn<'v>(
        #[starlark(args)] arguments: UnpackTuple<Value<'v>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let [pattern, rest @ ..] = &arguments.items[..] else {
            return Err(misuse("subn() needs a pattern, a replacement and a text"));
        };
        run("subn", *pattern, None, rest.to_vec(), vec![], eval)
    }
}

fn run<'v>(
    name: &'static str,
    pattern: Value<'v>,
    flags: Option<Value<'v>>,
    positional: Vec<Value<'v>>,
    named: Vec<(&'v str, Value<'v>)>,
    eval: &mut Evaluator<'v, '_, '_>,
) -> starlark::Result<Value<'v>> {
    pattern_of(pattern, flags, eval)?.method(name, Args::new(name, positional, named), eval)
}

/// Calls a method of a pattern or a match.
fn method<'v>(
    this: Value<'v>,
    name: &str,
    args: Args<'v>,
    eval: &mut Evaluator<'v, '_, '_>,
) -> starlark::Result<Value<'v>> {
    match (this.downcast_ref::<Pattern>(), this.downcast_ref::<Match>()) {
        (Some(pattern), _) => pattern.method(name, args, eval),
        (_, Some(found)) => found.method(name, args, eval.heap()),
        _ => Err(misuse(format!("no method {name}"))),
    }
}

fn pattern_of<'v>(
    pattern: Value<'v>,
    flags: Option<Value<'v>>,
    eval: &mut Evaluator<'v, '_, '_>,
) -> starlark::Result<Pattern> {
    if let Some(pattern) = pattern.downcast_ref::<Pattern>() {
        return Ok(pattern.clone());
    }
    let source = text_of(pattern, "pattern")?;
    let flags = flags
        .map_or(Some(0), as_i64)
        .ok_or_else(|| misuse("flags are `re.IGNORECASE` and the like"))?;
    let Patterns(kept) = Patterns::from_evaluator(eval);
    let known =
        kept.iter().find(|known| known.compiled.source == source && known.compiled.flags == flags);
    if let Some(known) = known {
        return Ok(known.clone());
    }
    let compiled = compile(source, flags)
        .map_err(|why| misuse(format!("re: {why}: {}", text::repr(pattern))))?;
    if kept.len() == KEPT {
        kept.remove(0);
    }
    kept.push(compiled.clone());
    Ok(compiled)
}

fn compile(source: &str, flags: i64) -> Result<Pattern, String> {
    let translated = translate(source, flags & VERBOSE != 0)?;
    let compiled = Compiled {
        anywhere: build(&translated, flags)?,
        start: OnceLock::new(),
        whole: OnceLock::new(),
        translated,
        source: source.into(),
        flags,
    };
    Ok(Pattern { compiled: Arc::new(compiled) })
}

fn build(pattern: &str, flags: i64) -> Result<Regex, String> {
    RegexBuilder::new(pattern)
        .case_insensitive(flags & IGNORECASE != 0)
        .multi_line(flags & MULTILINE != 0)
        .dot_matches_new_line(flags & DOTALL != 0)
        .ignore_whitespace(flags & VERBOSE != 0)
        .size_limit(MAX_COMPILED)
        .nest_limit(MAX_NESTING)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => "the pattern is too large".to_owned(),
            other => other.to_string().lines().last().unwrap_or_default().trim().to_owned(),
        })
}

impl Compiled {
    /// Returns the pattern with `before` and `after` around it; `None` if it is then too large.
    fn around<'a>(
        &self,
        slot: &'a OnceLock<Option<Regex>>,
        before: &str,
        after: &str,
    ) -> Option<&'a Regex> {
        let regex = slot.get_or_init(|| {
            // A comment at the end of a verbose pattern must not hide the bracket.
            let end = if self.flags & VERBOSE == 0 { "" } else { "\n" };
            build(&format!("{before}(?:{}{end}){after}", self.translated), self.flags).ok()
        });
        regex.as_ref()
    }
}

/// Allocates the text of a group, which is empty if the group took no part in the match.
fn text_at<'v>(at: usize, captures: &Captures<'_>, heap: Heap<'v>) -> Value<'v> {
    heap.alloc(captures.get(at).map_or("", |group| group.as_str()))
}

/// Finds a pattern again and again as Python does: an empty place counts right after one that is not
/// empty, too.
fn every<'r, 't>(
    regex: &'r Regex,
    text: &'t str,
) -> impl Iterator<Item = Captures<'t>> + use<'r, 't> {
    let mut from = 0;
    let mut empty = false;
    std::iter::from_fn(move || {
        // After an empty place, the search goes on a character later.
        if empty {
            from += text.get(from..)?.chars().next()?.len_utf8();
        }
        let captures = regex.captures_at(text, from)?;
        let found = captures.get(0)?;
        (from, empty) = (found.end(), found.is_empty());
        Some(captures)
    })
}

impl Pattern {
    fn method<'v>(
        &self,
        name: &str,
        args: Args<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let heap = eval.heap();
        match name {
            "sub" | "subn" => {
                let [replacement, string, count] = args.bind(["repl", "string", "count"])?;
                let string = text_of(required(string, "string")?, "string")?;
                let (text, count) =
                    self.replace(required(replacement, "repl")?, string, count, eval)?;
                let text = heap.alloc(text);
                Ok(if name == "sub" { text } else { heap.alloc((text, heap.alloc(count))) })
            }
            "split" => {
                let [string, most] = args.bind(["string", "maxsplit"])?;
                let string = text_of(required(string, "string")?, "string")?;
                let most = most.and_then(as_i64).filter(|most| *most > 0);
                Ok(self.split(string, most, heap))
            }
            _ => {
                let [string] = args.bind(["string"])?;
                let string = text_of(
                    required(string, "string")?,
                    "expected string or bytes-like object: string",
                )?;
                Ok(self.find(name, string, heap))
            }
        }
    }

    fn find_one<'v>(&self, regex: Option<&Regex>, string: &str, heap: Heap<'v>) -> Value<'v> {
        match regex.and_then(|regex| regex.captures(string)) {
            Some(captures) => heap.alloc(Match::new(self, string, &captures)),
            None => Value::new_none(),
        }
    }

    fn find<'v>(&self, name: &str, string: &str, heap: Heap<'v>) -> Value<'v> {
        let Compiled { anywhere, start, whole, .. } = &*self.compiled;
        match name {
            "search" => self.find_one(Some(anywhere), string, heap),
            "match" => self.find_one(self.compiled.around(start, "\\A", ""), string, heap),
            "fullmatch" => self.find_one(self.compiled.around(whole, "\\A", "\\z"), string, heap),
            "finditer" => {
                let all = every(anywhere, string);
                let all = all.map(|captures| heap.alloc(Match::new(self, string, &captures)));
                heap.alloc(super::iterators::Iter::new(all.collect()))
            }
            _ => {
                let all = every(anywhere, string).map(|captures| match captures.len() {
                    1 => text_at(0, &captures, heap),
                    2 => text_at(1, &captures, heap),
                    count => {
                        let groups = (1..count).map(|at| text_at(at, &captures, heap));
                        heap.alloc(AllocTuple(groups))
                    }
                });
                list(heap, all)
            }
        }
    }

    fn replace<'v>(
        &self,
        replacement: Value<'v>,
        string: &str,
        count: Option<Value<'v>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<(String, usize)> {
        let most = count.and_then(as_i64).filter(|most| *most > 0);
        let most = most.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
        let template = replacement.unpack_str().map(Template::parse).transpose()?;
        let mut out = String::new();
        let mut last = 0;
        let mut done = 0;
        for captures in every(&self.compiled.anywhere, string).take(most) {
            let found = Match::new(self, string, &captures);
            let Some((start, end)) = captures.get(0).map(|whole| (whole.start(), whole.end()))
            else {
                continue;
            };
            out.push_str(&string[last..start]);
            if let Some(template) = &template {
                out.push_str(&found.expand(template)?);
            } else {
                let found = eval.heap().alloc(found);
                let text = call(replacement, &[found], eval)?;
                out.push_str(text_of(text, "the result of the replacement")?);
            }
            (last, done) = (end, done + 1);
        }
        out.push_str(&string[last..]);
        Ok((out, done))
    }

    fn split<'v>(&self, string: &str, most: Option<i64>, heap: Heap<'v>) -> Value<'v> {
        let most = most.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
        let mut parts = Vec::new();
        let mut last = 0;
        for captures in every(&self.compiled.anywhere, string).take(most) {
            let Some(found) = captures.get(0) else { continue };
            parts.push(heap.alloc(&string[last..found.start()]));
            let groups = (1..captures.len()).map(|at| captures.get(at).map(|group| group.as_str()));
            parts.extend(groups.map(|group| optional(group, heap)));
            last = found.end();
        }
        parts.push(heap.alloc(&string[last..]));
        list(heap, parts)
    }
}
