use airlock_executor::FailureKind;

use crate::run::tests::{fail, result};

#[test]
fn what_cannot_be_had_is_refused_with_what_to_write_instead() {
    for (source, at, say) in [
        ("try:\n  x = 1\nexcept Exception:\n  pass", (1, 1), "attempt(tool"),
        ("x = 1\nclass A:\n  pass", (2, 1), "namedtuple"),
        ("with open('x') as f:\n  pass", (1, 1), "call a tool"),
        ("def f():\n  yield 1", (2, 3), "collect the values in a list"),
        ("match 1:\n  case 1:\n    pass", (1, 1), "if … elif"),
        ("async def f():\n  pass", (1, 1), "gather("),
        ("x = await f()", (1, 5), "gather("),
        ("import os", (1, 8), "no files"),
        ("import files", (1, 8), "already a name"),
        ("from files import read_file", (1, 19), "already a name"),
        ("import requests", (1, 8), "no network"),
        ("from time import sleep", (1, 18), "no clock"),
        ("import numpy as np", (1, 8), "there are bisect, collections"),
        ("from math import *", (1, 18), "import the names"),
        ("import datetime\nx = datetime.datetime.now()", (2, 5), "no clock"),
        ("x = open('x')", (1, 5), "call a tool"),
        ("x = input()", (1, 5), "cannot ask"),
        ("@cache\ndef f():\n  pass", (1, 1), "f = decorator(f)"),
        ("x = {}\nx.a = 1", (2, 1), "d[\"key\"]"),
        ("x = 2j", (1, 5), "two floats"),
        ("x = b'a'", (1, 5), "a str"),
    ] {
        let failure = fail(source);
        assert_eq!(failure.kind, FailureKind::Syntax, "{source}");
        assert_eq!((failure.line, failure.column), (Some(at.0), Some(at.1)), "{source}");
        assert!(failure.message.contains(say), "{source}: {}", failure.message);
    }
}

#[test]
fn the_note_counts_the_refusals_that_the_python_executor_runs() {
    for (source, note) in [
        ("try:\n  x = 1\nexcept E:\n  pass", Some("runs this;")),
        ("class A:\n  pass\nx = await f()", Some("runs all of these;")),
        ("class A:\n  pass\nx = 2j\nmatch 1:\n  case 1:\n    pass", Some("runs 1 of these 3;")),
        ("import dataclasses", Some("runs this;")),
        ("import asyncio", Some("runs this;")),
        ("import requests", None),
        ("import files", None),
        ("def f():\n  yield 1", None),
        ("match 1:\n  case 1:\n    pass", None),
        ("x = open('a')", None),
        ("from math import *", None),
        ("import numpy", None),
    ] {
        let rendered = fail(source).rendered;
        let said =
            rendered.lines().find_map(|line| line.strip_prefix("note: the Python executor "));
        assert_eq!(said.is_some(), note.is_some(), "{rendered}");
        assert!(said.unwrap_or_default().starts_with(note.unwrap_or_default()), "{rendered}");
    }
}

#[test]
fn all_refusals_of_a_script_are_in_one_failure() {
    let failure = fail("import os\ntry:\n  with a:\n    pass\nexcept E:\n  raise\n");
    let expected = "\
error: there is no module `os`: scripts have no files or processes of their own: call a tool
 --> code.star:1:8
1 | import os
  |        ^^
error: there is no `try`: `attempt(tool, {\"argument\": value})` returns a struct with `ok`, `value` and `error`, and other failures are avoided by a test before them
 --> code.star:2:1
2 | try:
  | ^^^
error: there is no `with`: scripts have no files or locks of their own: call a tool
 --> code.star:3:3
3 |   with a:
  |   ^^^^
error: `raise` needs an error here: call `fail(\"why\")`
 --> code.star:6:3
6 |   raise
  |   ^^^^^
note: the Python executor runs 2 of these 4; the operator selects it with `code_mode_language: python`
";
    assert_eq!(failure.rendered, expected);
    assert!(failure.message.ends_with("(and 3 more in this script)"), "{}", failure.message);
}

#[test]
fn a_source_that_is_no_python_is_a_syntax_failure_at_its_place() {
    let failure = fail("x = 1\ny = (2,\nz = 3\n");
    assert_eq!(failure.kind, FailureKind::Syntax);
    assert!(failure.line >= Some(2), "{}", failure.rendered);
    assert!(!failure.rendered.contains("code_mode_language"), "{}", failure.rendered);
}

#[test]
fn errors_point_into_the_script_as_it_was_written() {
    for (source, at) in [
        ("x = [1, 2]\ny = 0\nwhile y < 5:\n    y += 1\n    z = x[y]\n", (5, 9)),
        ("é = 'é' + 'a'.zfill('b')\n", (1, 11)),
        ("x = {'a': 1}\nprint(f\"{x['a']:.2f} {x['b']}\")\n", (2, 23)),
        ("xs = [3, 'a']\nxs.sort()\n", (2, 1)),
        ("def f(x):\n    return x ** 'a'\n\nresult = sum(f(n) for n in [1])\n", (2, 12)),
        ("if 1 < 2 < None:\n    pass\n", (1, 4)),
        ("assert 1 > 2, 'no'\n", (1, 1)),
        ("raise ValueError('no')\n", (1, 1)),
        ("x = undefined\n", (1, 5)),
    ] {
        let failure = fail(source);
        assert_eq!(
            (failure.line, failure.column),
            (Some(at.0), Some(at.1)),
            "{}",
            failure.rendered
        );
        assert!(!failure.rendered.contains("__py_"), "{}", failure.rendered);
    }
    assert_eq!(fail("raise ValueError('no')").message, "ValueError: no");
    assert_eq!(fail("assert 1 > 2, 'no'").message, "AssertionError: no");
}

#[test]
fn a_traceback_shows_the_lines_of_the_script() {
    let failure = fail("def f(x):\n    return max(x, key=lambda y: y['a'])\n\nresult = f([{}])\n");
    let expected = "\
Traceback (most recent call last):
  * code.star:4, in <module>
      result = f([{}])
  * code.star:2, in f
      return max(x, key=lambda y: y['a'])
error: Key `\"a\"` was not found
 --> code.star:2:33
2 |     return max(x, key=lambda y: y['a'])
  |                                 ^^^^^^
";
    assert_eq!(failure.rendered, expected);
}

#[test]
fn sources_are_refused_where_they_nest_too_deeply() {
    let nested = |depth: usize| format!("x = {}{}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(result(&nested(79)), None);
    let failure = fail(&nested(81));
    assert_eq!(failure.kind, FailureKind::Syntax);
    let brackets = "brackets are nested more than 80 deep: build the value in several statements";
    assert_eq!(failure.message, brackets);
    let minus = format!("x = {}1", "-".repeat(160));
    let expression = "an expression is nested more than 150 deep: assign its parts to names first";
    assert!(fail(&minus).message.starts_with(expression));
    let sum = format!("x = 1{}", " + 1".repeat(160));
    assert!(fail(&sum).message.starts_with(expression));
    let blocks: Vec<_> = (0..81).map(|at| " ".repeat(at) + "if 1:\n").collect();
    let blocks = blocks.concat();
    let blocks = fail(&format!("{blocks}{}pass\n", " ".repeat(81))).message;
    let statements = "statements are nested more than 80 deep: move the inner part into a function";
    assert!(blocks.starts_with(statements), "{blocks}");
}

#[test]
fn each_part_is_evaluated_once_and_in_order() {
    let source = "
log = []
def f(x):
    log.append(x)
    return x
a = f(1) < f(2) < f(3)
b = [f(4), *[f(5)], f(6)]
c = {**{'a': f(7)}, 'b': f(8)}
d = [0]
d[f(0)] += f(9)
(lambda *a, **k: None)(f(10), *[f(11)], x=f(12), **{'y': f(13)})
x = y = f(14)
result = log";
    assert_eq!(result(source).as_deref(), Some("[1,2,3,4,5,6,7,8,0,9,10,11,12,13,14]"));
}

#[test]
fn the_result_may_be_global_to_a_function() {
    let source = "def main():\n    global result\n    result = 5\nmain()\n";
    assert_eq!(result(source).as_deref(), Some("5"));
}

#[test]
fn long_loops_over_a_changing_list_see_what_is_added() {
    let source = "xs = [1]\nfor x in xs:\n    if x < 100: xs.append(x + 1)\nresult = len(xs)";
    assert_eq!(result(source).as_deref(), Some("100"));
}
