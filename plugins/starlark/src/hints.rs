//! Hints for errors of scripts whose message alone does not tell a model what to write instead.
//!
//! Python that Starlark lacks is lowered, or refused by `lower::refused` with its own advice.

use airlock_executor::{Bindings, Hint, advice, first_hint, hint};

/// The hints in order of priority; the first that applies is used.
const HINTS: &[Hint] = &[
    hint(
        &["referenced before assignment"],
        "write `global name` in the function that assigns it, and assign the name before you read it",
    ),
    hint(&["`dict` has no attribute", "`defaultdict` has no attribute"], advice::DICT_KEYS),
    hint(&["`NoneType`", "'NoneType'"], advice::NO_VALUE),
    hint(
        &["`return` cannot be used outside"],
        "a script gives its result by assigning it: `result = …`",
    ),
    hint(&["Variable `null`"], advice::NULL),
    hint(&["Variable `true`", "Variable `false`"], advice::BOOLEANS),
    hint(&["expected str instance"], "only strings are joined: `\", \".join(str(x) for x in xs)`"),
    hint(&["call stack overflow"], advice::RECURSION),
];

/// Returns a hint for an error with this message.
/// `code` is the part of the script that failed.
pub(crate) fn find(message: &str, code: &str, bindings: &Bindings) -> Option<String> {
    if let Some(hint) = bindings.hint_for_missed(message) {
        return Some(hint);
    }
    if let Some((name, renamed)) = renamed(message, code, bindings) {
        return Some(format!(
            "`{name}` is a name of Python, so the client with this name is `{renamed}`: call `{renamed}.TOOL(…)`"
        ));
    }
    if let Some(hint) = first_hint(HINTS, message).or_else(|| operation(message)) {
        return Some(hint.to_owned());
    }
    let name = message.strip_prefix("Variable `")?.split('`').next().unwrap_or_default();
    Some(bindings.hint_for_name(name))
}

/// Returns the name of the script and the one of a client that it means: a client with the name of a
/// function, a module or a keyword has an underscore after it.
fn renamed<'a>(message: &str, code: &'a str, bindings: &Bindings) -> Option<(&'a str, String)> {
    if !message.contains("has no attribute") {
        return None;
    }
    let name = code.split('.').next()?.trim();
    let clients = bindings.namespaces().into_iter();
    let client = clients.into_iter().find(|client| client.strip_suffix('_') == Some(name))?;
    Some((name, client))
}

/// Returns the hint for an operation on two types that do not have it.
fn operation(message: &str) -> Option<&'static str> {
    let types = message.split_once("not supported for types ")?.1;
    let (left, right) = types.split_once(" and ")?;
    let is_sum = message.contains("Operation `+`");
    let sets = left.contains("`set`") && right.contains("`set`");
    Some(if sets && message.contains("compare") {
        "compare sets by a method: `a.issubset(b)`, `a.issuperset(b)`"
    } else if types.contains("`NoneType`") {
        "one of the values is `None`: `dict.get` found no such key, or a tool returned nothing"
    } else if is_sum
        && types.contains("`string`")
        && (types.contains("`int`") || types.contains("`float`"))
    {
        "a number and a string are not added: write `str(x)`, or an f-string"
    } else if is_sum {
        "`+` joins two values of one type: convert one of them first, as in `list(x)` or `str(x)`"
    } else {
        "these two types have no such operation: convert one of the values first, as in `int(x)` or `str(x)`"
    })
}

#[cfg(test)]
mod tests {
    use airlock_test_executors::check_hints;

    use crate::Starlark;
    use crate::run::tests::fail;

    #[test]
    fn an_error_that_models_make_is_answered_with_what_to_write() {
        check_hints::<Starlark>(&[
            ("x = 1\ndef f():\n  x += 1\nf()", "global name"),
            ("x = {'a': 1}.a", "brackets"),
            ("x = {}.get('a').b", "`None`"),
            ("x = len(None)", "`None`"),
            ("return 1", "result = "),
            ("x = null", "`None`"),
            ("x = true", "`True`"),
            ("x = ' '.join([1])", "str(x)"),
            ("x = 'a' + 1", "str(x)"),
            ("x = 1.5 + 'a'", "a number and a string"),
            ("x = [1] + 'a'", "two values of one type"),
            ("x = 'a' + {}", "two values of one type"),
            ("x = {} - 'a'", "no such operation"),
            ("x = 'a' + None", "is `None`"),
            ("x = files_read_file(path = 1)", "`files.read_file(…)`"),
            ("x = files-read_file(path = 1)", "`files.read_file(…)`"),
            ("x = read_file(path = 1)", "`files.read_file(…)`"),
            ("x = files_readFile(path = 1)", "`files.read_file(…)`"),
            ("def f(n):\n  return f(n)\nf(1)", "200 deep"),
        ]);
    }

    #[test]
    fn an_unknown_tool_is_answered_with_the_known_ones() {
        for source in ["x = files.reed_file(path = 1)", "x = getattr(files, 'reed_file')"] {
            let rendered = fail(source).rendered;
            let hint = "\nhint: `files` has no tool `reed_file`; it has `read_file`, `fail`, `fail_with`, `number`, `broken`\n";
            assert!(rendered.ends_with(hint), "{rendered}");
        }
    }

    #[test]
    fn a_client_with_the_name_of_a_function_is_found_by_its_own() {
        for (source, name) in [("x = json.get(id = 1)", "json"), ("x = print.compute()", "print")] {
            let hint =
                format!("so the client with this name is `{name}_`: call `{name}_.TOOL(…)`\n");
            let rendered = fail(source).rendered;
            assert!(rendered.ends_with(&hint), "{rendered}");
        }
        let rendered = fail("x = re.get()").rendered;
        assert!(!rendered.contains("client with this name"), "{rendered}");
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_namespaces() {
        assert!(
            fail("x = datetimes.current()")
                .rendered
                .ends_with("\nhint: the tools are under `files`, `json_`, `math_`, `print_`\n")
        );
    }
}
