//! Calls of tools that the script awaits.
//!
//! A call waits for its result: `x = files.read(path="a")`. Models also write `await
//! files.read(path="a")`, and `await asyncio.gather(…)` over several calls, which then run at the
//! same time. Whether a call returns a value or something to await is decided here, from where its
//! value goes: to an `await` or a `gather`, directly or through variables, lists, comprehensions,
//! parameters and functions. Such a call gets one more argument, [`LATER`](crate::protocol::LATER).
//!
//! The analysis does not know the order of assignments: a variable that holds an awaited call
//! anywhere in its function is taken to hold one everywhere in it.

mod scopes;

use std::collections::HashSet;
use std::ptr;

use airlock_executor::Bindings;
use ruff_python_ast::{Expr, ExprCall, ExprList, ExprTuple, Stmt};
use ruff_text_size::{Ranged as _, TextRange, TextSize};

use self::scopes::{PossibleValue, Scopes};
use super::source::Edit;
use super::syntax::is_name;
use crate::protocol::LATER_TEXT;

/// Built-in functions whose values come out of their arguments.
const CARRIERS: [&str; 10] =
    ["dict", "enumerate", "filter", "iter", "list", "reversed", "set", "sorted", "tuple", "zip"];
/// Variables that one leads to, at most: `a = b; b = a` would lead on without end.
const MAX_STEPS: usize = 8;

/// Returns the changes.
pub(super) fn edits(body: &[Stmt], bindings: &Bindings) -> Vec<Edit> {
    let scopes = Scopes::new(body);
    let mut flow = Flow { bindings, open: scopes.awaited(), scopes, seen: HashSet::new() };
    let mut calls = Vec::new();
    while let Some((scope, expression)) = flow.open.pop() {
        if flow.seen.insert(ptr::from_ref(expression)) {
            calls.extend(flow.follow(scope, expression));
        }
    }
    calls.into_iter().map(mark).collect()
}

/// Adds the argument to a call.
fn mark(call: &ExprCall) -> Edit {
    let inside = call.arguments.start() + TextSize::of('(');
    // Before all that begins with the first argument.
    let rest = TextRange::new(inside, TextSize::new(u32::MAX));
    if call.arguments.is_empty() {
        Edit::open(rest, LATER_TEXT)
    } else {
        Edit::open(rest, format!("{LATER_TEXT}, "))
    }
}

struct Flow<'a, 'b> {
    bindings: &'b Bindings,
    scopes: Scopes<'a>,
    /// Expressions whose value is awaited, or holds values that are, with their scopes.
    open: Vec<(usize, &'a Expr)>,
    seen: HashSet<*const Expr>,
}

impl<'a> Flow<'a, '_> {
    /// Returns the call of a tool that an awaited value comes from; otherwise adds the expressions
    /// that it may come from.
    fn follow(&mut self, scope: usize, expression: &'a Expr) -> Option<&'a ExprCall> {
        match expression {
            Expr::Call(call) => return self.follow_call(scope, call),
            Expr::Name(name) => {
                for held in self.scopes.held(scope, name.id.as_str()) {
                    self.open.extend(self.scopes.values(&held));
                }
            }
            _ => self.open.extend(parts(expression).into_iter().map(|part| (scope, part))),
        }
        None
    }

    fn follow_call(&mut self, scope: usize, call: &'a ExprCall) -> Option<&'a ExprCall> {
        let arguments = &call.arguments.args;
        if self.is_tool(scope, &call.func, MAX_STEPS) {
            return Some(call);
        }
        match &*call.func {
            Expr::Attribute(attribute) if is_name(&attribute.value, &["asyncio"]) => {
                self.open.extend(arguments.iter().map(|argument| (scope, argument)));
            }
            // A method of a collection, such as `calls.values()`.
            Expr::Attribute(method) => self.open.push((scope, &method.value)),
            Expr::Name(name) if CARRIERS.contains(&name.id.as_str()) => {
                self.open.extend(arguments.iter().map(|argument| (scope, argument)));
            }
            Expr::Name(name) if name.id.as_str() == "map" => {
                if let Some(function) = arguments.first() {
                    self.returned(scope, function, MAX_STEPS);
                }
            }
            function => self.returned(scope, function, MAX_STEPS),
        }
        None
    }

    /// Adds the expressions that a function returns. One that is `async` returns a coroutine, which
    /// the interpreter awaits itself.
    fn returned(&mut self, scope: usize, function: &'a Expr, steps: usize) {
        match function {
            Expr::Lambda(lambda) => self.open.push((scope, &lambda.body)),
            Expr::Name(name) if steps > 0 => {
                for held in self.scopes.held(scope, name.id.as_str()) {
                    match held {
                        PossibleValue::Function { scope, is_async: false } => {
                            self.open.extend(self.scopes.returns(scope));
                        }
                        PossibleValue::Function { .. } => {}
                        PossibleValue::Value(scope, value) => {
                            self.returned(scope, value, steps - 1);
                        }
                    }
                }
            }
            _ => {}
        }
    }

    /// Returns whether an expression is a tool: an attribute of a namespace, a global function, or a
    /// variable that holds one.
    fn is_tool(&self, scope: usize, expression: &'a Expr, steps: usize) -> bool {
        match expression {
            Expr::Attribute(attribute) => self.is_namespace(scope, &attribute.value, steps),
            Expr::Call(call) => {
                is_name(&call.func, &["getattr"])
                    && call
                        .arguments
                        .args
                        .first()
                        .is_some_and(|of| self.is_namespace(scope, of, steps))
            }
            Expr::Name(name) if self.is_function(scope, name.id.as_str()) => true,
            Expr::Name(_) | Expr::Subscript(_) => {
                self.any_held(scope, expression, steps, &Self::is_tool)
            }
            _ => false,
        }
    }

    /// Returns whether a name is that of a global function of the run, and of nothing in the script.
    fn is_function(&self, scope: usize, name: &str) -> bool {
        self.bindings.function(name).is_some() && !self.scopes.is_bound(scope, name)
    }

    /// Returns whether an expression is a namespace of tools.
    fn is_namespace(&self, scope: usize, expression: &'a Expr, steps: usize) -> bool {
        if let Expr::Name(name) = expression
            && self.scopes.held(scope, name.id.as_str()).is_empty()
        {
            return self.bindings.has(name.id.as_str());
        }
        self.any_held(scope, expression, steps, &Self::is_namespace)
    }

    /// Returns whether the predicate is true for a value that a variable or a collection may hold.
    fn any_held(
        &self,
        scope: usize,
        expression: &'a Expr,
        steps: usize,
        is: &dyn Fn(&Self, usize, &'a Expr, usize) -> bool,
    ) -> bool {
        let Some(steps) = steps.checked_sub(1) else { return false };
        match expression {
            Expr::Name(name) => {
                self.scopes.held(scope, name.id.as_str()).iter().any(|held| match held {
                    PossibleValue::Value(scope, value) => {
                        is(self, *scope, value, steps) || self.any_held(*scope, value, steps, is)
                    }
                    PossibleValue::Function { .. } => false,
                })
            }
            Expr::Subscript(subscript) => self.any_held(scope, &subscript.value, steps, is),
            Expr::List(ExprList { elts, .. }) | Expr::Tuple(ExprTuple { elts, .. }) => elts
                .iter()
                .any(|item| is(self, scope, item, steps) || self.any_held(scope, item, steps, is)),
            Expr::Dict(dict) => dict.items.iter().any(|item| is(self, scope, &item.value, steps)),
            Expr::Call(call) => match &*call.func {
                Expr::Attribute(method) => self.any_held(scope, &method.value, steps, is),
                _ => false,
            },
            _ => false,
        }
    }
}

/// Returns the expressions that the value of another one comes from, or that it holds, without names and calls.
fn parts(expression: &Expr) -> Vec<&Expr> {
    match expression {
        Expr::List(list) => list.elts.iter().collect(),
        Expr::Tuple(tuple) => tuple.elts.iter().collect(),
        Expr::Set(set) => set.elts.iter().collect(),
        Expr::Dict(dict) => dict.items.iter().map(|item| &item.value).collect(),
        Expr::ListComp(comprehension) => vec![&*comprehension.elt],
        Expr::SetComp(comprehension) => vec![&*comprehension.elt],
        Expr::Generator(generator) => vec![&*generator.elt],
        Expr::DictComp(comprehension) => vec![&*comprehension.value],
        Expr::Starred(starred) => vec![&*starred.value],
        Expr::Subscript(subscript) => vec![&*subscript.value],
        Expr::Named(named) => vec![&*named.value],
        Expr::BoolOp(operation) => operation.values.iter().collect(),
        Expr::BinOp(operation) => vec![&*operation.left, &*operation.right],
        Expr::If(conditional) => vec![&*conditional.body, &*conditional.orelse],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_executor::Binding;
    use ruff_python_parser::parse_module;

    /// Returns the script with its changes.
    fn marked(source: &str) -> String {
        let bindings = vec![
            Binding::in_namespace("files", "read", "files-read"),
            Binding::function("fetch_page", "web-fetch", vec!["url".into()]),
        ];
        let parsed = parse_module(source).expect("the test is Python");
        let edits = edits(&parsed.syntax().body, &bindings.into());
        super::super::source::Text::new(source, String::new(), edits).text.into_owned()
    }

    #[test]
    fn calls_are_marked_wherever_their_value_is_awaited() {
        for script in [
            "x = await files.read(@p=1)",
            "x = (await files.read(@))['a']",
            "async def f(i):\n    return await files.read(@i=i)\nawait asyncio.gather(*[f(i) for i in [1]])",
            "await asyncio.gather(files.read(@p=1), files.read(@p=2))",
            "from asyncio import gather\nawait gather(*(files.read(@p=i) for i in [1, 2]))",
            "a = files.read(@p=1)\nb = files.read(@p=2)\nx = await a\ny = await b",
            "tasks = []\nfor i in [1]:\n    tasks.append(files.read(@p=i))\nawait asyncio.gather(*tasks)",
            "tasks = [files.read(@p=i) for i in [1]]\ntasks += [files.read(@p=0)]\nfor t in tasks:\n    print(await t)",
            "tasks = {i: files.read(@p=i) for i in [1]}\nx = dict(zip(tasks, await asyncio.gather(*tasks.values())))",
            "calls = {}\ncalls['a'] = files.read(@p=1)\nx = await asyncio.gather(*list(calls.values()))",
            "def fetch(i):\n    return files.read(@p=i)\nx = await asyncio.gather(fetch(1), fetch(2))",
            "fetch = lambda i: files.read(@p=i)\nx = await asyncio.gather(*map(fetch, [1, 2]))",
            "async def safe(call):\n    return await call\nx = await asyncio.gather(*[safe(files.read(@p=i)) for i in [1]])",
            "async def safe(*, call=None):\n    return await call\nx = await safe(call=files.read(@p=1))",
            "async def go(tool, **more):\n    return await tool(@**more)\nx = await go(files.read, p=1)",
            "f = files.read\nx = await f(@p=1)",
            "x = await getattr(files, 'read')(@p=1)",
            "x = await {'a': files.read}['a'](@p=1)".replace("{'a': files.read}", "tools").as_str(),
            "x = await (files.read(@p=1) if y else files.read(@p=2))",
            "for server in [files]:\n    x = await server.read(@p=1)",
            "async def main():\n    x, y = files.read(@p=1), files.read(@p=2)\n    return await asyncio.gather(x, y)\nasyncio.run(main())",
            "x = await fetch_page(@'a')",
            "await asyncio.gather(fetch_page(@'a'), fetch_page(@url='b'), files.read(@p=1))",
            "f = fetch_page\nx = await f(@'a')",
            "async def one(tool, url):\n    return await tool(@url)\nawait one(fetch_page, 'a')",
            "await asyncio.gather(*[fetch_page(@u) for u in ['a', 'b']])",
            "def start(u):\n    return fetch_page(@u)\nx = await asyncio.gather(start('a'), start('b'))",
        ] {
            let script = if script.contains("tools['a']") {
                format!("tools = {{'a': files.read}}\n{script}")
            } else {
                script.to_owned()
            };
            let plain = script.replace('@', "");
            let expected = script.replace("@)", "...)").replace('@', "..., ");
            assert_eq!(marked(&plain), expected, "{plain}");
        }
    }

    #[test]
    fn calls_whose_value_is_used_are_not_marked() {
        for script in [
            "x = files.read(p=1)\nasync def f():\n    return x\nawait f()",
            "async def f(i):\n    x = files.read(p=i)\n    return x['a']\nawait asyncio.gather(f(1), f(2))",
            "async def f(i):\n    return files.read(p=i)\nawait f(1)",
            "async def f(item):\n    return item\nawait asyncio.gather(*[f(item) for item in files.read(p=1)])",
            "def f():\n    x = files.read(p=1)\n    return x['a']\nasync def g():\n    x = h()\n    return await x\nf()",
            "other = 1\nx = await other.read(p=1)",
            "files = 1\nx = await files.read(p=1)",
            "x = await files.other.read(p=1)",
            "x = fetch_page('a')\nasync def f():\n    return x\nawait f()",
            "async def fetch_page(u):\n    return u\nx = await fetch_page('a')",
            "async def f(fetch_page):\n    return await fetch_page('a')\nawait g(f)",
            "x = await files.fetch_page.read('a')",
        ] {
            assert_eq!(marked(script), script);
        }
    }

    #[test]
    fn endless_definitions_end() {
        for script in [
            "x = x\nawait x",
            "f = f\nawait f()",
            "def f():\n    return f()\nawait f()",
            "a = b\nb = a\nawait a.read()",
        ] {
            assert_eq!(marked(script), script);
        }
    }
}
