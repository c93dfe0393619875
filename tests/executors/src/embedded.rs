//! Scripts of a program that gives them functions and inputs, and takes the value of the last expression.

use super::Files;
use airlock_executor::{Binding, Failure, FailureKind, Language, Script};

/// Inputs of the scripts here.
const INPUTS: &str =
    r#"{"id":7,"name":"ann","len":[1,2],"big":123456789012345678901234567890,"unused":{"a":null}}"#;

/// The functions: `read` and `save` return their arguments, and so do `sum`, which has the name of a
/// built-in function, and `plain`, which has no names for arguments by position. `refuse` fails.
fn functions() -> [Binding; 5] {
    [
        Binding::function("read", "files-read_file", vec!["path".into(), "limit".into()]),
        Binding::function("save", "files-read_file", vec!["record".into()]),
        Binding::function("sum", "files-read_file", vec!["values".into()]),
        Binding::function("plain", "files-read_file", Vec::new()),
        Binding::function("refuse", "files-fail", vec!["why".into()]),
    ]
}

/// Runs a script with these functions and inputs, and the tools of [`Files`].
pub fn run<L: Language>(source: &str, files: &Files) -> Result<Option<String>, Failure> {
    run_with::<L>(source, files, INPUTS)
}

fn run_with<L: Language>(
    source: &str,
    files: &Files,
    inputs: &str,
) -> Result<Option<String>, Failure> {
    let mut all = Files::namespaced();
    all.extend(functions());
    let script = Script {
        inputs: Some(inputs.into()),
        last_expression: true,
        ..Script::new("code", source, all.into())
    };
    L::run(&script, files, &|_| ())
}

/// Returns the value of a script that ends well.
///
/// # Panics
///
/// If the script fails.
#[track_caller]
pub fn result<L: Language>(source: &str) -> Option<String> {
    run::<L>(source, &Files::default())
        .unwrap_or_else(|failure| panic!("{source}: {}", failure.rendered))
}

/// Returns the failure of a script.
///
/// # Panics
///
/// If the script ends well.
#[track_caller]
pub fn fail<L: Language>(source: &str) -> Failure {
    match run::<L>(source, &Files::default()) {
        Err(failure) => failure,
        Ok(value) => panic!("{source}: worked and left {value:?}"),
    }
}

/// Returns how many calls a script makes at a time.
///
/// # Panics
///
/// If the script fails.
#[track_caller]
pub fn batches<L: Language>(source: &str) -> Vec<usize> {
    let files = Files::default();
    run::<L>(source, &files).unwrap_or_else(|failure| panic!("{source}: {}", failure.rendered));
    files.batches.into_inner()
}

/// Checks that each of these scripts has this value, as JSON.
///
/// # Panics
///
/// If one has not.
#[track_caller]
pub fn check_results<L: Language>(scripts: &[(&str, &str)]) {
    for (source, json) in scripts {
        assert_eq!(result::<L>(source).as_deref(), Some(*json), "{source}");
    }
}

pub(super) fn check_language<L: Language>() {
    check_arguments::<L>();
    check_function_values::<L>();
    check_inputs::<L>();
    check_last_expression::<L>();
}

/// A function takes its arguments by position and by name, and a dict by position is an argument.
fn check_arguments<L: Language>() {
    check_results::<L>(&[
        ("read('a')", r#"{"path":"a"}"#),
        ("read('a', 2)", r#"{"path":"a","limit":2}"#),
        ("read('a', limit = 2)", r#"{"path":"a","limit":2}"#),
        ("read(limit = 2, path = 'a')", r#"{"limit":2,"path":"a"}"#),
        ("read(*['a'], **{'limit': 2})", r#"{"path":"a","limit":2}"#),
        ("read('a', more = [1])", r#"{"path":"a","more":[1]}"#),
        ("read()", "{}"),
        ("read({'path': 'a'})", r#"{"path":{"path":"a"}}"#),
        ("save({'record': 1})", r#"{"record":{"record":1}}"#),
        ("save(record = {'a': 1})", r#"{"record":{"a":1}}"#),
        ("plain(a = 1)", r#"{"a":1}"#),
        ("plain({'a': 1})", r#"{"a":1}"#),
        ("sum([True, 1])", r#"{"values":[true,1]}"#),
    ]);
    for (call, what) in [
        ("read('a', 1, 2)", "read takes by position only `path`, `limit`: "),
        ("read('a', path = 'b')", "read takes `path` once: "),
        ("read(*['a'], **{'path': 'b'})", "read takes `path` once: "),
        ("plain(1)", "plain takes "),
        ("save(float('nan'))", "save cannot be called with this: "),
    ] {
        let failure = fail::<L>(call);
        assert_eq!((failure.kind, failure.line), (FailureKind::Runtime, Some(1)), "{call}");
        assert!(failure.message.contains(what), "{call}: {}", failure.message);
    }
    let failure = fail::<L>("x = 1\nrefuse('a')");
    assert_eq!((failure.kind, failure.line), (FailureKind::Tool, Some(2)));
    assert_eq!(failure.message, "refuse: refused");
}

/// A function is a value like any other, and a script may take its name for something else.
fn check_function_values<L: Language>() {
    check_results::<L>(&[
        ("f = read\n[f('a'), {'f': f}['f'](limit = 1)]", r#"[{"path":"a"},{"limit":1}]"#),
        ("def f(n):\n  return save(n)\n[f(n) for n in [1, 2]]", r#"[{"record":1},{"record":2}]"#),
        ("[d['path'] for d in map(read, ['a', 'b'])]", r#"["a","b"]"#),
        ("def read(a):\n  return ['own', a]\nread(1)", r#"["own",1]"#),
        ("save = 1\nsave + 1", "2"),
        ("def f(read):\n  return read\nf(3)", "3"),
        ("[save(1), files.read_file(n = 1)]", r#"[{"record":1},{"n":1}]"#),
    ]);
    let failure = fail::<L>("[save]");
    let reason = "`save` is a function: call it, like `save(…)`";
    assert_eq!(failure.message, format!("the last expression cannot be returned: {reason}"));
    let rendered = fail::<L>("raed('a')").rendered;
    let functions = "hint: the functions are `read`, `save`, `sum`, `plain`, `refuse`, and ";
    assert!(rendered.contains(functions), "{rendered}");
    let rendered = fail::<L>("import read").rendered;
    assert!(rendered.contains("`read` is a function, and already a name: "), "{rendered}");
}

/// Inputs are variables from the start, under any name, and a script may assign to them.
fn check_inputs<L: Language>() {
    check_results::<L>(&[
        ("[id, name, len, big + 1]", r#"[7,"ann",[1,2],"123456789012345678901234567891"]"#),
        ("id = id + 1\nname += '!'\n[id, name]", r#"[8,"ann!"]"#),
        ("len.append(3)\ndef f():\n  return len + [id]\nf()", "[1,2,3,7]"),
        ("def f():\n  global id\n  id = id + 1\nf()\nf()\nid", "9"),
        ("x = (id := id + 1)\n[x, id]", "[8,8]"),
        ("if name == 'bob':\n  id = 0\nid", "7"),
        ("[id for id in [1]] + [id]", "[1,7]"),
        ("[sorted([2, 1]), f'{name}{id}']", r#"[[1,2],"ann7"]"#),
    ]);
    for inputs in ["", "[]", "1", "{"] {
        let failure = run_with::<L>("1", &Files::default(), inputs).expect_err("no object");
        assert_eq!((failure.kind, failure.line), (FailureKind::Runtime, None), "{inputs}");
    }
    // Names that no script can write do no harm.
    let odd = r#"{"a b":1,"x = 1; y":2,"for":3,"":4,"_airlock_sum":5,"__py_seq":6,"ré":7}"#;
    let source = "pair = ['x', 'y']\na, b = pair\n[a, b, ré + 1, sum([True])]";
    let value = run_with::<L>(source, &Files::default(), odd);
    let expected = r#"["x","y",8,{"values":[true]}]"#;
    assert_eq!(value.as_ref().map(Option::as_deref), Ok(Some(expected)));
}

/// A script that assigns no global `result` has the value of its last expression.
fn check_last_expression<L: Language>() {
    check_results::<L>(&[
        ("1 + 1", "2"),
        ("x = 1\nx; x + 1", "2"),
        ("(\n  1,\n  2\n)  # end", "[1,2]"),
        ("1, 2", "[1,2]"),
        ("'text'", r#""text""#),
        ("'''doc'''\n{'a': 1}", r#"{"a":1}"#),
        ("files.read_file(n = 1)\n", r#"{"n":1}"#),
        ("def f():\n  result = 1\n  return result\nf()", "1"),
        ("[result for result in [1]]", "[1]"),
        ("result = 1\n2", "1"),
        ("if True:\n  result = [1]\n2", "[1]"),
        ("def f():\n  global result\n  result = 1\nf()\n2", "1"),
    ]);
    for source in [
        "",
        "# none",
        "x = 1",
        "1\nx = 2",
        "None",
        "1\n...",
        "1\npass",
        "print(1)",
        "if 1:\n  2",
        "result = None\n1",
    ] {
        assert_eq!(result::<L>(source), None, "{source}");
    }
    assert_eq!(fail::<L>("x = 1\n\nx.missing\n").line, Some(3));
}
