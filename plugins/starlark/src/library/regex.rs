//! `re`: regular expressions in linear time.
//!
//! A pattern in Python's syntax is translated to that of the crate `regex`, which has no
//! look-around and no back references: such patterns are refused.

use std::fmt;
use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};

use allocative::Allocative;
use regex::{Captures, Regex, RegexBuilder};
use starlark::environment::GlobalsBuilder;
use starlark::eval::Evaluator;
use starlark::starlark_module;
use starlark::starlark_simple_value;
use starlark::values::dict::AllocDict;
use starlark::values::tuple::{AllocTuple, UnpackTuple};
use starlark::values::{
    Heap, NoSerialize, ProvidesStaticType, StarlarkPagablePanic, StarlarkValue, Value,
    ValueLike as _, starlark_value,
};

use super::methods::bound;
use super::text;
use super::values::{Args, as_i64, call, list, misuse, required, text_of};
use crate::tool::Session;

const IGNORECASE: i64 = 2;
const MULTILINE: i64 = 8;
const DOTALL: i64 = 16;
const VERBOSE: i64 = 64;

/// Largest compiled pattern, in bytes.
const MAX_COMPILED: usize = 1 << 20;
/// Levels of nested groups.
const MAX_NESTING: u32 = 50;
/// Patterns that a run keeps compiled.
const KEPT: usize = 64;

/// The patterns that a run has compiled, the latest last.
#[derive(Default)]
pub(crate) struct Patterns(Vec<Pattern>);

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

/// A place where a pattern was found.
#[derive(Debug, Clone, ProvidesStaticType, NoSerialize, Allocative, StarlarkPagablePanic)]
pub(crate) struct Match {
    #[allocative(skip)]
    found: Arc<Found>,
}
starlark_simple_value!(Match);

#[derive(Debug)]
struct Found {
    pattern: Pattern,
    text: String,
    /// Each group's first byte and end.
    groups: Vec<Option<(usize, usize)>>,
}

const PATTERN_METHODS: &[&str] =
    &["findall", "finditer", "fullmatch", "match", "search", "split", "sub", "subn"];
const MATCH_METHODS: &[&str] = &["end", "expand", "group", "groupdict", "groups", "span", "start"];

/// Returns whether [`method`] has this method.
pub(crate) fn has(name: &str) -> bool {
    PATTERN_METHODS.contains(&name) || MATCH_METHODS.contains(&name)
}

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

impl fmt::Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut quoted = String::new();
        text::quote(&mut quoted, self.text(0).unwrap_or_default());
        let (start, end) = (self.position(0, true), self.position(0, false));
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
            _ => bound(self.clone(), attribute, MATCH_METHODS, heap),
        }
    }

    fn at(&self, index: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        self.group(index, heap)
    }
}

impl Match {
    fn new(pattern: &Pattern, text: &str, captures: &Captures<'_>) -> Self {
        let span = |at: usize| captures.get(at).map(|it| (it.start(), it.end()));
        let groups = (0..captures.len()).map(span).collect();
        Self { found: Arc::new(Found { pattern: pattern.clone(), text: text.into(), groups }) }
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
            Some(name) => {
                self.found.pattern.compiled.anywhere.capture_names().position(|it| it == Some(name))
            }
            None => as_i64(group).and_then(|at| usize::try_from(at).ok()),
        };
        at.filter(|at| *at < self.found.groups.len()).ok_or_else(|| misuse("no such group"))
    }

    fn group<'v>(&self, group: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        Ok(optional(self.text(self.index(group)?), heap))
    }

    fn method<'v>(
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
                    let groups: Vec<_> =
                        several.iter().map(|it| self.group(*it, heap)).collect::<Result<_, _>>()?;
                    Ok(heap.alloc(AllocTuple(groups)))
                }
            },
            "groups" => {
                let [default] = args.bind(["default"])?;
                let missing = default.unwrap_or(Value::new_none());
                let group = |at| self.text(at).map_or(missing, |text| heap.alloc(text));
                Ok(heap.alloc(AllocTuple((1..count).map(group))))
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
                let (start, end) = (self.position(at, true), self.position(at, false));
                Ok(match name {
                    "start" => heap.alloc(start),
                    "end" => heap.alloc(end),
                    _ => heap.alloc((start, end)),
                })
            }
        }
    }

    fn expand(&self, template: &Template) -> starlark::Result<String> {
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
                    let at = names.position(|it| it == Some(name));
                    let at = at.ok_or_else(|| misuse(format!("unknown group name '{name}'")))?;
                    out.push_str(self.text(at).unwrap_or_default());
                }
            }
        }
        Ok(out)
    }
}

fn optional<'v>(text: Option<&str>, heap: Heap<'v>) -> Value<'v> {
    text.map_or(Value::new_none(), |text| heap.alloc(text))
}

/// The replacement of `sub`.
struct Template(Vec<Part>);

enum Part {
    Text(String),
    Group(usize),
    Named(String),
}

impl Template {
    fn parse(template: &str) -> starlark::Result<Self> {
        let (mut parts, mut text) = (Vec::new(), String::new());
        let mut rest = template;
        while let Some(at) = rest.find('\\') {
            text.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            let mut chars = rest.chars();
            let next = chars.next().ok_or_else(|| misuse("bad escape (end of pattern)"))?;
            let after = chars.as_str();
            match next {
                'g' if after.starts_with('<') => {
                    let end =
                        after.find('>').ok_or_else(|| misuse("missing >, unterminated name"))?;
                    parts.push(Part::Text(std::mem::take(&mut text)));
                    let name = &after[1..end];
                    parts.push(name.parse().map_or_else(|_| Part::Named(name.into()), Part::Group));
                    rest = &after[end + 1..];
                }
                '1'..='9' => {
                    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()).min(2);
                    parts.push(Part::Text(std::mem::take(&mut text)));
                    parts.push(Part::Group(rest[..end].parse().unwrap_or_default()));
                    rest = &rest[end..];
                }
                'n' | 't' | 'r' | '\\' | '0' => {
                    text.push(match next {
                        'n' => '\n',
                        't' => '\t',
                        'r' => '\r',
                        '0' => '\0',
                        other => other,
                    });
                    rest = after;
                }
                other if other.is_ascii_alphabetic() => {
                    return Err(misuse(format!("bad escape \\{other}")));
                }
                other => {
                    text.push('\\');
                    text.push(other);
                    rest = after;
                }
            }
        }
        text.push_str(rest);
        parts.push(Part::Text(text));
        Ok(Self(parts))
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
        let named = maxsplit.map(|it| ("maxsplit", it)).into_iter().collect();
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
        let named = count.map(|it| ("count", it)).into_iter().collect();
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
pub(crate) fn method<'v>(
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
    eval: &Evaluator<'v, '_, '_>,
) -> starlark::Result<Pattern> {
    if let Some(pattern) = pattern.downcast_ref::<Pattern>() {
        return Ok(pattern.clone());
    }
    let source = text_of(pattern, "pattern")?;
    let flags = flags
        .map_or(Some(0), as_i64)
        .ok_or_else(|| misuse("flags are `re.IGNORECASE` and the like"))?;
    let session = Session::of(eval);
    let Patterns(kept) = &mut *session.patterns.borrow_mut();
    let same = |it: &&Pattern| it.compiled.source == source && it.compiled.flags == flags;
    if let Some(known) = kept.iter().find(same) {
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
        let make = || {
            // A comment at the end of a verbose pattern must not hide the bracket.
            let end = if self.flags & VERBOSE == 0 { "" } else { "\n" };
            build(&format!("{before}(?:{}{end}){after}", self.translated), self.flags).ok()
        };
        slot.get_or_init(make).as_ref()
    }
}

/// Translates Python's syntax: refuses what takes more than linear time, and escapes what has
/// another meaning in the crate.
fn translate(source: &str, verbose: bool) -> Result<String, String> {
    let chars: Vec<char> = source.chars().collect();
    let mut out = String::with_capacity(source.len() + 8);
    let (mut at, mut class) = (0, None);
    while let Some(c) = chars.get(at).copied() {
        let rest = &chars[at + 1..];
        at += 1;
        match (c, class) {
            ('\\', _) => {
                let next = rest.first().ok_or("bad escape (end of pattern)")?;
                at += 1;
                escape(&mut out, *next, class.is_some())?;
            }
            ('[', None) => {
                out.push('[');
                if rest.first() == Some(&'^') {
                    out.push('^');
                    at += 1;
                }
                // A bracket that comes first is a member.
                if chars.get(at) == Some(&']') {
                    out.push_str("\\]");
                    at += 1;
                }
                class = Some(());
            }
            (']', Some(())) => {
                out.push(']');
                class = None;
            }
            ('[' | '&' | '~', Some(())) => {
                out.push('\\');
                out.push(c);
            }
            (' ' | '#', Some(())) if verbose => {
                out.push('\\');
                out.push(c);
            }
            ('(', None) if rest.first() == Some(&'?') => match (rest.get(1), rest.get(2)) {
                (Some('=' | '!'), _) | (Some('<'), Some('=' | '!')) => {
                    return Err(
                        "look-around is not linear in time: match more, and use a group".into()
                    );
                }
                (Some('P'), Some('=')) => return Err(no_reference()),
                (Some('#'), _) => {
                    at += rest.iter().position(|c| *c == ')').ok_or("missing )")? + 1;
                }
                _ => out.push('('),
            },
            ('{', None) if !is_count(rest) => out.push_str("\\{"),
            ('}', None) if !out_has_open(&out) => out.push_str("\\}"),
            (c, _) => out.push(c),
        }
    }
    Ok(out)
}

fn no_reference() -> String {
    "back references are not linear in time: compare groups yourself".into()
}

fn escape(out: &mut String, next: char, class: bool) -> Result<(), String> {
    match next {
        'Z' if !class => out.push_str("\\z"),
        '1'..='9' if !class => return Err(no_reference()),
        '0' => out.push_str("\\x00"),
        'b' if class => out.push_str("\\x08"),
        'A' | 'b' | 'B' | 'd' | 'D' | 's' | 'S' | 'w' | 'W' | 'n' | 'r' | 't' | 'f' | 'v' | 'x'
        | 'u' | 'U' | 'a' => {
            out.push('\\');
            out.push(next);
        }
        letter if letter.is_ascii_alphanumeric() => return Err(format!("bad escape \\{letter}")),
        '<' | '>' => out.push(next),
        other if other.is_ascii() && !other.is_control() && other != ' ' => {
            out.push('\\');
            out.push(other);
        }
        ' ' => out.push_str("\\x20"),
        other => write!(out, "\\x{{{:x}}}", u32::from(other)).map_err(|error| error.to_string())?,
    }
    Ok(())
}

/// Returns whether a brace opens a count: `{2}`, `{2,}`, `{2,3}`, `{,3}`.
fn is_count(rest: &[char]) -> bool {
    let Some(end) = rest.iter().position(|c| *c == '}') else { return false };
    let inner: String = rest[..end].iter().collect();
    let (low, high) = inner.split_once(',').unwrap_or((&inner, "0"));
    let digits = |text: &str| text.bytes().all(|c| c.is_ascii_digit());
    inner != "," && !inner.is_empty() && digits(low) && digits(high)
}

/// Returns whether the translated pattern has a count that is still open.
fn out_has_open(out: &str) -> bool {
    let open = out.rfind('{').filter(|at| !out[..*at].ends_with('\\'));
    open.is_some_and(|at| !out[at..].contains('}'))
}

/// Finds a pattern again and again as Python does: an empty place counts right after one that is not
/// empty, too.
fn every<'r, 't>(
    regex: &'r Regex,
    text: &'t str,
) -> impl Iterator<Item = Captures<'t>> + use<'r, 't> {
    let (mut from, mut empty) = (0, false);
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

    fn find<'v>(&self, name: &str, string: &str, heap: Heap<'v>) -> Value<'v> {
        let Compiled { anywhere, start, whole, .. } = &*self.compiled;
        let single = |regex: Option<&Regex>| match regex.and_then(|it| it.captures(string)) {
            Some(captures) => heap.alloc(Match::new(self, string, &captures)),
            None => Value::new_none(),
        };
        match name {
            "search" => single(Some(anywhere)),
            "match" => single(self.compiled.around(start, "\\A", "")),
            "fullmatch" => single(self.compiled.around(whole, "\\A", "\\z")),
            "finditer" => {
                let all = every(anywhere, string);
                let all = all.map(|captures| heap.alloc(Match::new(self, string, &captures)));
                heap.alloc(super::iterators::Iter::new(all.collect()))
            }
            _ => {
                let all = every(anywhere, string).map(|captures| {
                    let group = |at| heap.alloc(captures.get(at).map_or("", |it| it.as_str()));
                    match captures.len() {
                        1 => group(0),
                        2 => group(1),
                        count => heap.alloc(AllocTuple((1..count).map(group))),
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
        let (mut out, mut last, mut done) = (String::new(), 0, 0);
        for captures in every(&self.compiled.anywhere, string).take(most) {
            let found = Match::new(self, string, &captures);
            let Some(Some((start, end))) = found.found.groups.first().copied() else { continue };
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
        let (mut parts, mut last) = (Vec::new(), 0);
        for captures in every(&self.compiled.anywhere, string).take(most) {
            let Some(found) = captures.get(0) else { continue };
            parts.push(heap.alloc(&string[last..found.start()]));
            let groups = (1..captures.len()).map(|at| captures.get(at).map(|it| it.as_str()));
            parts.extend(groups.map(|group| optional(group, heap)));
            last = found.end();
        }
        parts.push(heap.alloc(&string[last..]));
        list(heap, parts)
    }
}
