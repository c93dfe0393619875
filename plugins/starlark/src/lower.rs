//! Lowers a script in Python to Starlark text of the same meaning.
//!
//! Models write Python. A parser for Python reads the script; what Starlark has is copied, what it
//! lacks and can express is rewritten, and the rest is refused, all of it at once, before anything
//! runs. A map leads from each place in the lowered text back to the model's own.
//!
//! - `map`: positions in the lowered text and in the script
//! - `refused`: constructs that neither language shares, with what to write instead
//! - `scope`: the names of each function, and which of them need a cell
//! - `statements`, `blocks`, `matches`, `assign`, `imports`: statements
//! - `expressions`, `comparisons`, `calls`, `comprehensions`, `strings`: expressions
//!
//! Names that the lowered text adds begin with `__py_`; `library` defines them.

mod assign;
mod blocks;
mod calls;
mod comparisons;
mod comprehensions;
mod expressions;
mod imports;
pub(crate) mod map;
mod matches;
pub(crate) mod refused;
mod scope;
mod statements;
mod strings;

use airlock_executor::{Bindings, Script, SourceCall, ToolFlow};
use ruff_python_ast::token::{Token, TokenKind};
use ruff_python_ast::{ModModule, Stmt};
use ruff_python_parser::Parsed;
use ruff_text_size::{Ranged, TextRange};
use serde_json::{Map as JsonMap, Value as Json};

pub(crate) use self::expressions::plain_name;
use self::map::Map;
use self::refused::RefusedConstruct;
use self::scope::{Facts, Scopes};
use crate::source_calls::source_calls;
use crate::source_flow::tool_flows;

/// Prefix of every name that lowering adds.
pub(crate) const OWN: &str = "__py_";

/// Largest depth of nested brackets and indentation in a script. The parser is recursive, and the
/// sandbox ends a run whose stack is exhausted without a line number.
const MAX_NESTING: usize = 80;

/// Longest text of a lowered script in bytes, with the names that patterns bind in it. A pattern
/// repeats the way to each of its parts, so a short script can become a long one.
const MAX_TEXT: usize = 4 * 1024 * 1024;

/// A script in Starlark.
pub(crate) struct Lowered {
    /// The Starlark text.
    pub(crate) text: String,
    /// Origin of each part of it in the script.
    pub(crate) map: Map,
    /// Whether the value of the script is that of its last statement, an expression.
    pub(crate) ends_with_value: bool,
    /// The calls of tools that the source shows.
    pub(crate) calls: Vec<SourceCall>,
    /// What the arguments of calls may come from; `None` if the host does not ask for it, or the source does not
    /// show it.
    pub(crate) flows: Option<Vec<ToolFlow>>,
}

/// Lowers a script that has these inputs. Fails with everything in it that cannot be run, in the order of
/// the text.
pub(crate) fn lower(
    script: &Script,
    inputs: &JsonMap<String, Json>,
) -> Result<Lowered, Vec<RefusedConstruct>> {
    let Script { source, bindings, .. } = script;
    if let Some(deep) = too_deep(source) {
        return Err(vec![deep]);
    }
    let parsed = ruff_python_parser::parse_module(source)
        .map_err(|error| vec![RefusedConstruct::parse(&error)])?;
    let body = &parsed.syntax().body;
    let mut facts = Facts::collect(body);
    if let Some(reserved) = reserved(source, &parsed, &facts) {
        return Err(vec![reserved]);
    }
    let functions = bindings.functions().map(|function| &*function.name);
    let given = functions.chain(inputs.keys().map(String::as_str)).collect::<Vec<_>>();
    facts.bound.extend(&given);
    let ends_with_value = script.last_expression
        && matches!(body.last(), Some(Stmt::Expr(_)))
        && !facts.binds_result();
    let mut lowering = Lowering {
        source,
        bindings,
        facts,
        scopes: Scopes::default(),
        out: String::with_capacity(source.len() * 2),
        map: Map::default(),
        refusals: Vec::new(),
        names: 0,
        indent: 0,
        depth: 0,
        loops: Vec::new(),
        captured: 0,
        full: false,
    };
    lowering.module(body, &given, ends_with_value);
    let Lowering { out, map, mut refusals, .. } = lowering;
    if refusals.is_empty() {
        let calls = source_calls(body, bindings, &|name| inputs.contains_key(name));
        let followed = script.follows_values.then_some(body);
        let flows =
            followed.and_then(|body| tool_flows(body, bindings, &|name| inputs.contains_key(name)));
        return Ok(Lowered { text: out, map, ends_with_value, calls, flows });
    }
    refusals.sort_by_key(|refusal| refusal.range.start());
    Err(refusals)
}

/// State of lowering one script.
struct Lowering<'a> {
    source: &'a str,
    bindings: &'a Bindings,
    facts: Facts<'a>,
    scopes: Scopes<'a>,
    out: String,
    map: Map,
    refusals: Vec<RefusedConstruct>,
    /// Number of names that were added so far.
    names: usize,
    /// Depth of the block that is written.
    indent: usize,
    /// Depth of the expression that is written.
    depth: usize,
    /// For each loop around the statement, the flag that `break` clears if the loop has an `else`.
    loops: Vec<Option<String>>,
    /// Bytes of text that patterns keep for the names that they bind.
    captured: usize,
    /// Whether the text has reached [`MAX_TEXT`].
    full: bool,
}

impl<'a> Lowering<'a> {
    /// Refuses the construct at `range`, with a whole sentence.
    fn refuse(&mut self, range: TextRange, message: impl Into<String>) {
        self.refusals.push(RefusedConstruct::new(range, message));
    }

    /// Refuses a construct that the Python executor runs.
    fn refuse_here(&mut self, range: TextRange, message: impl Into<String>) {
        self.refusals.push(RefusedConstruct::new(range, message).but_in_python());
    }

    /// Returns whether the text has reached [`MAX_TEXT`], and refuses the first node that meets it.
    fn is_full(&mut self, node: &impl Ranged) -> bool {
        if !self.full && self.out.len() + self.captured > MAX_TEXT {
            self.full = true;
            let message = "the script becomes too long here: shorten it, or the keys and the depth of its patterns";
            self.refuse(node.range(), message);
        }
        self.full
    }

    /// Returns a name that the script does not have.
    fn fresh(&mut self) -> String {
        self.names += 1;
        format!("{OWN}{}", self.names)
    }

    fn push(&mut self, text: &str) {
        self.out.push_str(text);
    }

    /// Writes a node, and records where it comes from.
    fn mapped(&mut self, node: &impl Ranged, write: impl FnOnce(&mut Self)) {
        let from = self.out.len();
        write(self);
        self.map.add(from..self.out.len(), node.range());
    }

    /// Starts a line of the current block.
    fn line(&mut self) {
        if !self.out.is_empty() {
            self.out.push('\n');
        }
        for _ in 0..self.indent {
            self.out.push(' ');
        }
    }

    /// Writes `items` with commas between them.
    fn separated<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&mut Self, T),
    ) {
        for (at, item) in items.into_iter().enumerate() {
            if at > 0 {
                self.push(", ");
            }
            write(self, item);
        }
    }

    /// Returns the part of the script at `range`.
    fn text_of(&self, node: &impl Ranged) -> &'a str {
        self.source.get(node.range().to_std_range()).unwrap_or_default()
    }
}

/// Finds the first name that begins as those which lowering adds. `facts` has the names as the parser
/// reads them: to Python, some letters that are not in ASCII are the same as one that is.
fn reserved(
    source: &str,
    parsed: &Parsed<ModModule>,
    facts: &Facts<'_>,
) -> Option<RefusedConstruct> {
    let is_bound = facts.bound.iter().any(|name| name.starts_with(OWN));
    let mut names = parsed.tokens().iter().filter(|token| token.kind() == TokenKind::Name);
    let plain = names.clone().find(|name| token_text(source, name).starts_with(OWN));
    let reserved =
        plain.or_else(|| names.find(|name| is_bound && !token_text(source, name).is_ascii()))?;
    let message = format!("a name that begins with `{OWN}` is reserved: take another");
    Some(RefusedConstruct::new(reserved.range(), message))
}

fn token_text<'a>(source: &'a str, token: &Token) -> &'a str {
    &source[token.range().to_std_range()]
}

/// Finds the place where brackets or blocks nest deeper than [`MAX_NESTING`], strings and comments
/// aside.
fn too_deep(source: &str) -> Option<RefusedConstruct> {
    let mut depth = 0_usize;
    let mut quote = None;
    let mut bytes = source.bytes().enumerate().peekable();
    while let Some((at, byte)) = bytes.next() {
        match (quote, byte) {
            (Some(_), b'\\') => drop(bytes.next()),
            (Some(open), _) if open == byte => quote = None,
            (Some(_), b'\n') => quote = None,
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'#') => while bytes.next_if(|(_, byte)| *byte != b'\n').is_some() {},
            (None, b'(' | b'[' | b'{') => depth += 1,
            (None, b')' | b']' | b'}') => depth = depth.saturating_sub(1),
            _ => (),
        }
        if depth > MAX_NESTING {
            let at = u32::try_from(at).unwrap_or(u32::MAX).into();
            let message = format!(
                "brackets are nested more than {MAX_NESTING} deep: build the value in several statements"
            );
            return Some(RefusedConstruct::new(TextRange::empty(at), message));
        }
    }
    None
}

#[cfg(test)]
mod tests;
