//! Hints for Python that Starlark lacks.
//!
//! Models write Python. For an unsupported construct Starlark only reports "reserved keyword" or
//! "unexpected symbol", which does not tell a model what to write instead.

use crate::tool::Namespaces;

/// One habit of models, and the text of its hint. It applies if the error contains one of `errors`.
struct Hint {
    errors: &'static [&'static str],
    say: &'static str,
}

/// Shortens the entries of the table.
const fn hint(errors: &'static [&'static str], say: &'static str) -> Hint {
    Hint { errors, say }
}

/// The hints in order of priority; the first that applies is used.
const HINTS: &[Hint] = &[
    hint(
        &["keyword `while`"],
        "there is no `while`: write `for _ in range(1000):` and leave it with `if …: break`",
    ),
    hint(
        &["keyword `try`", "keyword `except`", "keyword `finally`"],
        "there are no exceptions: `attempt(tool, {\"argument\": value})` returns a struct with `ok`, `value` and `error`",
    ),
    hint(
        &["keyword `raise`", "keyword `assert`"],
        "to end the script with an error, call `fail(\"why\")`",
    ),
    hint(
        &["keyword `import`", "keyword `from`", "`load` is not allowed"],
        "there is nothing to import: `json` is a global, and so are the tools",
    ),
    hint(&["keyword `class`"], "there are no classes: use a dict, or `struct(name = value)`"),
    hint(&["keyword `is`"], "there is no `is`: compare with `==` or `!=`, also with `None`"),
    hint(
        &["keyword `del`"],
        "there is no `del`: `dict.pop(key)` and `list.pop(index)` remove an item",
    ),
    hint(&["keyword `with`", "Variable `open`"], "scripts have no files of their own: call a tool"),
    hint(
        &["keyword `async`", "keyword `await`", "Variable `asyncio`"],
        "a call waits for its answer; `gather([(tool, {\"argument\": value}), …])` makes several at once",
    ),
    hint(&["keyword `yield`"], "there are no generators: return a list"),
    hint(
        &["keyword `global`", "keyword `nonlocal`", "referenced before assignment"],
        "a function cannot assign to a name outside it: return the value, or change a list or dict in place",
    ),
    hint(&["'**', expected new line", "'**=', expected"], "there is no `**`: write `pow(x, y)`"),
    hint(&["'**', expected expression"], "dicts are merged with `a | b`"),
    hint(
        &["f-string expression end", "Key `:", "Unsupported format character"],
        "there are no format specifications: write `{x}` or `%s`, and `round(x, 2)` for digits",
    ),
    hint(
        &["`list` has no attribute `sort`"],
        "lists are not sorted in place: `xs = sorted(xs, key = …, reverse = …)`",
    ),
    hint(&["`list` has no attribute `copy`"], "to copy a list write `list(xs)`"),
    hint(
        &["`dict` has no attribute"],
        "keys of a dict are read with brackets: `d[\"key\"]`, or `d.get(\"key\")`",
    ),
    hint(&["has no attribute `dumps`"], "JSON is written with `json.encode(value)`"),
    hint(&["has no attribute `loads`"], "JSON is read with `json.decode(text)`"),
    hint(
        &["`NoneType`"],
        "the value is `None`: `dict.get` found no such key, or a tool answered nothing",
    ),
    hint(
        &["`(iter)` not supported on type `string`"],
        "to go through the characters of a string write `s.elems()`",
    ),
    hint(
        &["`return` cannot be used outside"],
        "a script gives its result by assigning it: `result = …`",
    ),
    hint(
        &["Variable `isinstance`"],
        "types are compared by name: `type(x) == \"string\"`, or `\"list\"`, `\"dict\"`, `\"int\"`",
    ),
    hint(&["Variable `null`"], "that is `None` here"),
    hint(&["Variable `true`", "Variable `false`"], "those are `True` and `False` here"),
    hint(&[", expected symbol ':'"], "a set is written `set([1, 2])`, and a block begins with `:`"),
    hint(
        &["symbol ':', expected symbol ')'", "symbol '=', expected"],
        "one assignment stands alone on its line: `a = b`",
    ),
    hint(&["unexpected string literal"], "strings are joined with `+`"),
    hint(&["unexpected identifier '_"], "numbers are written without `_`"),
    hint(&["comparisons are not associative"], "write `a < b and b < c`"),
    hint(&["call to print"], "`print` takes values alone and ends the line itself"),
    hint(&["parameter `to_join`"], "only strings are joined: `\", \".join([str(x) for x in xs])`"),
    hint(&["tabs are not allowed"], "indent with spaces"),
    hint(
        &["call stack overflow"],
        "calls nest at most 200 deep: use a loop over a list of what is left to do",
    ),
];

/// Returns a hint for an error with this message.
pub(crate) fn hint_for(message: &str, namespaces: &Namespaces) -> Option<String> {
    if let Some((namespace, name, tools)) = namespaces.missed()
        && message.contains(&name)
    {
        return Some(format!(
            "`{namespace}` has no tool `{name}`; it has {}",
            list(tools.iter().map(String::as_str))
        ));
    }
    if let Some(hint) =
        HINTS.iter().find(|hint| hint.errors.iter().any(|error| message.contains(error)))
    {
        return Some(hint.say.to_owned());
    }
    if !message.starts_with("Variable `") {
        return None;
    }
    let names = list(namespaces.names());
    Some(if names.is_empty() {
        "no tools are bound to this script".into()
    } else {
        format!("the tools are under {names}")
    })
}

fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use crate::run::tests::fail;

    #[test]
    fn unsupported_python_is_answered_with_the_starlark_to_write() {
        for (source, hint) in [
            ("while True:\n  pass", "for _ in range(1000)"),
            ("try:\n  x = 1\nexcept Exception:\n  pass", "attempt(tool"),
            ("raise ValueError('x')", "fail("),
            ("assert 1", "fail("),
            ("import json", "`json` is a global"),
            ("from json import loads", "`json` is a global"),
            ("load('a', 'b')", "`json` is a global"),
            ("class A:\n  pass", "struct("),
            ("x = 1 is None", "`==`"),
            ("x = {}\ndel x['a']", "pop(key)"),
            ("with open('x') as f:\n  pass", "call a tool"),
            ("x = open('x')", "call a tool"),
            ("async def f():\n  pass", "gather("),
            ("x = await f()", "gather("),
            ("def f():\n  yield 1", "return a list"),
            ("def f():\n  global x", "change a list or dict"),
            ("x = 1\ndef f():\n  x += 1\nf()", "change a list or dict"),
            ("x = 2 ** 3", "pow(x, y)"),
            ("x = {**{'a': 1}}", "a | b"),
            ("x = f'{1.5:.2f}'", "round(x, 2)"),
            ("x = '{:>5}'.format(1)", "round(x, 2)"),
            ("x = '%5.2f' % 1", "round(x, 2)"),
            ("[2, 1].sort()", "sorted(xs"),
            ("x = [1].copy()", "list(xs)"),
            ("x = {'a': 1}.a", "brackets"),
            ("x = json.dumps(1)", "json.encode"),
            ("x = json.loads('1')", "json.decode"),
            ("x = {}.get('a').b", "`None`"),
            ("for c in 'abc':\n  pass", ".elems()"),
            ("return 1", "result = "),
            ("x = isinstance(1, int)", "type(x) =="),
            ("x = null", "`None`"),
            ("x = true", "`True`"),
            ("x = {1, 2}", "set([1, 2])"),
            ("a = b = 1", "one assignment"),
            ("if (n := 1):\n  pass", "one assignment"),
            ("x = 'a' 'b'", "`+`"),
            ("x = 1_000", "without `_`"),
            ("x = 1 < 2 < 3", "a < b and b < c"),
            ("print(1, sep = ',')", "ends the line itself"),
            ("x = ' '.join([1])", "str(x)"),
            ("def f():\n\treturn 1", "indent with spaces"),
            ("def f(n):\n  return f(n)\nf(1)", "200 deep"),
        ] {
            let rendered = fail(source).rendered;
            let said = rendered
                .split_once("\nhint: ")
                .unwrap_or_else(|| panic!("{source}: no hint in {rendered}"))
                .1;
            assert!(said.contains(hint), "{source}: {said}");
        }
    }

    #[test]
    fn an_unknown_tool_is_answered_with_the_known_ones() {
        for source in ["x = files.reed_file(path = 1)", "x = getattr(files, 'reed_file')"] {
            let rendered = fail(source).rendered;
            let hint = "\nhint: `files` has no tool `reed_file`; it has `read_file`, `fail`\n";
            assert!(rendered.ends_with(hint), "{rendered}");
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_namespaces() {
        assert!(
            fail("x = datetime.now()").rendered.ends_with("\nhint: the tools are under `files`\n")
        );
    }
}
