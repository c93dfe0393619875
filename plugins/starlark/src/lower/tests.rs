use airlock_executor::{FailureKind, Script};

use crate::run::tests::{fail, result};

#[test]
fn what_cannot_be_had_is_refused_with_what_to_write_instead() {
    for (source, at, say) in [
        ("try:\n  x = 1\nexcept Exception:\n  pass", (1, 1), "attempt(tool"),
        ("x = 1\nclass A:\n  pass", (2, 1), "namedtuple"),
        ("with open('x') as f:\n  pass", (1, 1), "call a tool"),
        ("def f():\n  yield 1", (2, 3), "collect the values in a list"),
        ("match 1:\n  case A(1):\n    pass", (2, 8), "built-in types"),
        ("match 1:\n  case [x] | x:\n    pass", (2, 9), "a case for each"),
        ("async def f():\n  pass", (1, 1), "gather("),
        ("x = await f()", (1, 5), "gather("),
        ("import os", (1, 8), "no files"),
        ("import files", (1, 8), "already a name"),
        ("from files import read_file", (1, 19), "already a name"),
        ("import requests", (1, 8), "no network"),
        ("import urllib.request", (1, 8), "no network"),
        ("from urllib import robotparser", (1, 20), "`urllib.parse`"),
        ("from time import sleep", (1, 18), "no clock"),
        ("import numpy as np", (1, 8), "there are bisect, collections"),
        ("from math import *", (1, 18), "import the names"),
        ("import datetime\nx = datetime.datetime.now()", (2, 5), "no clock"),
        ("x = open('x')", (1, 5), "call a tool"),
        ("x = input()", (1, 5), "cannot ask"),
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
fn the_refusals_that_the_python_executor_runs_are_marked() {
    for (source, marks) in [
        ("try:\n  x = 1\nexcept E:\n  pass", vec![true]),
        ("class A:\n  pass\nx = await f()", vec![true, true]),
        ("class A:\n  pass\nx = 2j\ndef f():\n  yield 1", vec![true, false, false]),
        ("import dataclasses", vec![true]),
        ("import asyncio", vec![true]),
        ("import requests", vec![false]),
        ("import files", vec![false]),
        ("def f():\n  yield 1", vec![false]),
        ("x = open('a')", vec![false]),
        ("from math import *", vec![false]),
        ("import numpy", vec![false]),
    ] {
        let rendered = fail(source).rendered;
        let errors = rendered.lines().filter(|line| line.starts_with("error: "));
        let found: Vec<_> = errors.map(|line| line.ends_with(" [python]")).collect();
        assert_eq!(found, marks, "{rendered}");
        let note = "\nnote: Python (`code_mode_language: python`, or the header `x-airlock-code-mode-language: python`) runs the constructs marked [python]\n";
        assert_eq!(rendered.ends_with(note), marks.contains(&true), "{rendered}");
    }
}

#[test]
fn all_refusals_of_a_script_are_in_one_failure() {
    let failure = fail("import os\ntry:\n  with a:\n    pass\nexcept E:\n  raise\n");
    let expected = "\
error: there is no module `os`: scripts have no files or processes of their own: call a tool
 --> code:1:8
1 | import os
  |        ^^
error: there is no `try`: `attempt(tool, {\"argument\": value})` returns a struct with `ok`, `value` and `error`; test for other failures before they happen, e.g. `if key in d`, `s.lstrip(\"-\").isdigit()` [python]
 --> code:2:1
2 | try:
  | ^^^
error: there is no `with`: scripts have no files or locks of their own: call a tool
 --> code:3:3
3 |   with a:
  |   ^^^^
error: `raise` needs an error here: call `fail(\"why\")` [python]
 --> code:6:3
6 |   raise
  |   ^^^^^
note: Python (`code_mode_language: python`, or the header `x-airlock-code-mode-language: python`) runs the constructs marked [python]
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
  * code:4, in <module>
      result = f([{}])
  * code:2, in f
      return max(x, key=lambda y: y['a'])
error: Key `\"a\"` was not found
 --> code:2:33
2 |     return max(x, key=lambda y: y['a'])
  |                                 ^^^^^^
";
    assert_eq!(failure.rendered, expected);
}

#[test]
fn sources_are_refused_where_they_nest_too_deeply() {
    assert_eq!(result(&nested_lists(79)), None);
    let failure = fail(&nested_lists(81));
    assert_eq!(failure.kind, FailureKind::Syntax);
    let brackets = "brackets are nested more than 80 deep: build the value in several statements";
    assert_eq!(failure.message, brackets);
    let minus = format!("x = {}1", "-".repeat(160));
    let expression = "an expression is nested more than 150 deep: assign its parts to names first";
    assert!(fail(&minus).message.starts_with(expression));
    let sum = format!("x = 1{}", " + 1".repeat(160));
    assert!(fail(&sum).message.starts_with(expression));
    for word in [" or ", " and "] {
        assert_eq!(result(&format!("x = {}", terms(149, word))), None);
        let failure = fail(&format!("x = {}", terms(150, word)));
        assert!(failure.message.starts_with(expression));
    }
    assert_eq!(result(&format!("x = 1{}", " < 2".repeat(80))), None);
    let failure = fail(&format!("x = 1{}", " < 2".repeat(81)));
    assert!(failure.message.starts_with("a chain has more than 80 comparisons"));
    for (before, between, after) in [("", " | ", ""), ("[", ", ", "]")] {
        let [most, more] = [80, 81].map(|count| {
            let parts = terms(count, between);
            format!("match 1:\n    case {before}{parts}{after}:\n        pass")
        });
        assert_eq!(result(&most), None);
        assert!(fail(&more).message.starts_with("a pattern has more than 80 parts"));
    }
    let decorated = format!(
        "def d(f):\n    return f\n{}def g():\n    return 1\nresult = g()",
        "@d\n".repeat(2_000)
    );
    assert_eq!(result(&decorated).as_deref(), Some("1"));
    let blocks: Vec<_> = (0..81).map(|at| " ".repeat(at) + "if 1:\n").collect();
    let blocks = blocks.concat();
    let blocks = fail(&format!("{blocks}{}pass\n", " ".repeat(81))).message;
    let statements = "statements are nested more than 80 deep: move the inner part into a function";
    assert!(blocks.starts_with(statements), "{blocks}");
}

fn nested_lists(depth: usize) -> String {
    format!("x = {}{}", "[".repeat(depth), "]".repeat(depth))
}

fn terms(count: usize, operator: &str) -> String {
    vec!["1"; count].join(operator)
}

#[test]
fn a_chain_of_elif_is_as_long_as_the_script() {
    for clauses in [1, 8, 9, 10, 11, 400, 5_000] {
        for operand in ["x", "(y := x)"] {
            let expected = format!("[0,1,{clauses},-1]");
            let source = elif_chain(clauses, operand);
            assert_eq!(result(&source).as_deref(), Some(&*expected), "{clauses} {operand}");
        }
    }
    // Only tests before the first that holds are evaluated.
    let source = "seen = []\ndef t(n, v):\n  seen.append(n)\n  return v\nif t(0, False): pass\n";
    let more: Vec<_> = (1..30).map(|at| format!("elif t({at}, {at} == 20): x = {at}\n")).collect();
    let more = more.concat();
    let ours = result(&format!("{source}{more}else: x = -1\nresult = [x, len(seen)]"));
    assert_eq!(ours.as_deref(), Some("[20,21]"));
}

/// Returns a script with a function whose `elif` have these numbers.
fn elif_chain(clauses: usize, operand: &str) -> String {
    let elif: Vec<_> =
        (1..=clauses).map(|at| format!("    elif {operand} == {at}: return {at}\n")).collect();
    let elif = elif.concat();
    format!(
        "def f(x):\n    if {operand} == 0: return 0\n{elif}    else: return -1\nresult = [f(0), f(1), f({clauses}), f(-5)]"
    )
}

#[test]
fn chains_of_elif_nest_in_each_other_to_a_limit() {
    for (clauses, levels) in [(0, 79), (1, 38), (10, 24), (11, 39), (500, 39)] {
        assert_eq!(result(&nested_chains(levels, clauses)).as_deref(), Some("3"), "{clauses}");
        let failure = fail(&nested_chains(levels + 3, clauses));
        let line = failure.line.unwrap_or(0);
        let column = failure.column.unwrap_or(0);
        assert!(failure.message.starts_with("statements are nested more than 80 deep"));
        assert!(line > 2 && column as usize >= levels, "{clauses}: {line}:{column}");
    }
}

/// Returns a script with chains of `elif`, each in the last clause of the one before.
fn nested_chains(levels: usize, clauses: usize) -> String {
    let mut source = String::from("x = 3\n");
    for level in 0..levels {
        let indent = " ".repeat(level);
        source += &format!("{indent}if x == 1: r = 1\n");
        source += &format!("{indent}elif x == 2: r = 2\n").repeat(clauses);
        source += &format!("{indent}else:\n");
    }
    source + &format!("{}r = 3\nresult = r", " ".repeat(levels))
}

#[test]
fn a_script_that_becomes_too_long_is_refused_at_its_place() {
    // A name takes its part of the value twice: as it is collected, and as it is bound.
    let numbers = vec!["1".to_owned(); 80];
    let names = (0..80).map(|at| format!("a{at}")).collect();
    for (parts, fits, beyond) in [(numbers, 54, 62), (names, 26, 31)] {
        assert_eq!(result(&long_cases(fits, &parts)), None);
        let script = Script::new("code.star", long_cases(beyond, &parts), Vec::new().into());
        let Err(refusals) = super::lower(&script, &serde_json::Map::new()) else {
            panic!("{beyond} cases are lowered");
        };
        assert_eq!(refusals.len(), 1);
        let failure = fail(&long_cases(beyond, &parts));
        assert_eq!(failure.kind, FailureKind::Syntax);
        assert!(failure.message.starts_with("the script becomes too long here"));
        assert!(failure.line > Some(2) && failure.column > Some(1), "{:?}", failure.line);
    }
}

/// Returns a script with patterns of these parts.
fn long_cases(count: usize, parts: &[String]) -> String {
    let key = "k".repeat(900);
    let case = format!("    case {{'{key}': [{}]}}:\n        x = 1\n", parts.join(", "));
    format!("match 1:\n{}", case.repeat(count))
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
fn truth_values_are_numbers_in_comparisons_and_positions() {
    for (expression, value) in [
        (
            "[True == 1, 1 == True, 0 == False, 2 == True, 1.0 == True]",
            "[true,true,true,false,true]",
        ),
        ("[True != 1, 0 != True, 'a' == True, None != False]", "[false,true,false,true]"),
        (
            "[1 in [True, 'yes'], 0 in (True,), 0 not in [False], [1, True].count(1)]",
            "[true,false,false,2]",
        ),
        ("[r for r in [{'a': 1}, {'a': 0}] if r['a'] == True]", "[{\"a\":1}]"),
        (
            "[['no', 'yes'][3 > 2], 'ab'[1 > 2], {True: 'a', False: 'b'}[1 > 2]]",
            "[\"yes\",\"a\",\"b\"]",
        ),
        ("[('no', 'yes')[x] for x in [True, 0]]", "[\"yes\",\"no\"]"),
        ("[-x for x in [True, 2, 2.5]] + [-(1 > 0), -True]", "[-1,-2,-2.5,-1,-1]"),
        ("[1 == True == 1, 0 < True, 5 .bit_length(), True.bit_length()]", "[true,true,3,1]"),
    ] {
        let found = result(&format!("result = {expression}"));
        assert_eq!(found.as_deref(), Some(value), "{expression}");
    }
}

#[test]
fn sets_are_ordered_by_inclusion() {
    for (setup, expression, value) in [
        (
            "a, b = {1}, {1, 2}",
            "[{1} <= b, a <= {1, 2}, {1} < a, {1} >= a]",
            "[true,true,false,true]",
        ),
        (
            "a = {1}\nb = set([1, 2])",
            "[a <= b, a < b, a >= b, a > b, b > a]",
            "[true,true,false,false,true]",
        ),
        (
            "a = {1}\nb = {2}",
            "[a <= b, a < b, a >= b, a > b, a <= a, a < a]",
            "[false,false,false,false,true,false]",
        ),
        (
            "a = {'x': 1}\nb = {'y': 1, 'x': 2}",
            "[a.keys() <= b.keys(), a.keys() < b.keys(), b.keys() <= a.keys()]",
            "[true,true,false]",
        ),
        (
            "a = {1}\nb = {1, 2}\nc = {1, 2, 3}",
            "[a < b < c, a < c < b, 1 < 2 < 3]",
            "[true,false,true]",
        ),
        ("a = {1}\na = 3", "[a < 4, a >= 4]", "[true,false]"),
    ] {
        let found = result(&format!("{setup}\nresult = {expression}"));
        assert_eq!(found.as_deref(), Some(value), "{setup}: {expression}");
    }
    let failure = fail("def f(a, b):\n    return a < b\nf({1}, {2})");
    assert!(failure.rendered.contains("hint: compare sets by a method"), "{}", failure.rendered);
}

#[test]
fn decorators_are_applied_from_the_inner_to_the_outer() {
    let source = "
log = []
def note(name):
    log.append(name)
    def wrap(f):
        log.append('wrap ' + name)
        return lambda *args: [name, f(*args)]
    return wrap
@note('a')
@note('b')
def f(x):
    return x
def outer():
    @note('c')
    def inner(n):
        return n if n == 0 else inner(n - 1)
    return inner(1)
result = [f(1), outer(), log]";
    let value = r#"[["a",["b",1]],["c",["c",0]],["a","b","wrap b","wrap a","c","wrap c"]]"#;
    assert_eq!(result(source).as_deref(), Some(value));
}

#[test]
fn a_match_takes_the_first_case_that_fits() {
    let source = "
def f(x):
    match x:
        case 1 | 2:
            return 'small'
        case 'a':
            return 'text'
        case None:
            return 'none'
        case True:
            return 'true'
        case int(n) if n > 100:
            return ['big', n]
        case float() | int():
            return 'number'
        case []:
            return 'empty'
        case ['go', where]:
            return ['go', where]
        case ['all', *rest]:
            return ['all', rest]
        case [first, *_, last] if first == last:
            return ['ends', first]
        case {'kind': 'user', 'id': int(key)}:
            return ['user', key]
        case {'kind': kind, **more}:
            return [kind, more]
        case [[a, b], {'c': c}]:
            return [a, b, c]
        case str() as text:
            return ['str', text]
        case _:
            return 'other'
result = [f(x) for x in [1, 2, 'a', None, True, 101, 100, 2.5, [], ['go', 1], ('all', 1, 2), [3, 4, 3],
    {'kind': 'user', 'id': 7}, {'kind': 'user', 'id': 'x'}, {'kind': 'k', 'z': 1}, [[1, 2], {'c': 3}], 'z', {}, [1, 2], range(0)]]";
    // `True` is a case of its own before the numbers here; Python takes it for the 1 of the first.
    let value = r#"["small","small","text","none","true",["big",101],"number","number","empty",["go",1],["all",[1,2]],["ends",3],["user",7],["user",{"id":"x"}],["k",{"z":1}],[1,2,3],["str","z"],"other","other","empty"]"#;
    assert_eq!(result(source).as_deref(), Some(value));
    let source = "out = []\nfor x in [1, 2, 3]:\n    match x:\n        case 2:\n            continue\n        case 3:\n            break\n        case y:\n            pass\n    out.append(y)\nresult = out";
    assert_eq!(result(source).as_deref(), Some("[1]"));
    let long = format!("match 1:\n    case {{'{}': [1, 2]}}:\n        pass", "k".repeat(2_000));
    assert!(fail(&long).message.contains("its keys are too long"));
}

#[test]
fn next_goes_on_where_it_stopped() {
    let source = "
it = map(str, [1, 2, 3])
pairs = zip([1, 2], 'ab')
seq = iter([7])
result = [next(it), next(it), list(it), next(it, None), next(pairs), [p for p in pairs], next(seq), next(seq, 'end')]";
    let value = r#"["1","2",["3"],null,[1,"a"],[[2,"b"]],7,"end"]"#;
    assert_eq!(result(source).as_deref(), Some(value));
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

#[test]
fn names_of_lowered_text_are_reserved() {
    for (source, at) in [
        ("__py_num = 5\nx = -3", (1, 1)),
        ("x = 1\ndef f(__py_at): pass", (2, 7)),
        ("for a, __py_cat in []: pass", (1, 8)),
        ("import math as __py_neg", (1, 16)),
        ("x = [(__py_1 := 2)]", (1, 7)),
        ("x = f'{__py_num(1)}'", (1, 8)),
        // Python reads this letter as `p`.
        ("__\u{ff50}y_num = 5", (1, 1)),
    ] {
        let failure = fail(source);
        assert_eq!(failure.kind, FailureKind::Syntax, "{source}");
        assert_eq!((failure.line, failure.column), (Some(at.0), Some(at.1)), "{source}");
        assert!(failure.message.contains("is reserved"), "{source}: {}", failure.message);
    }
    let text = result("x = '__py_num'  # __py_num\nresult = x");
    assert_eq!(text.as_deref(), Some("\"__py_num\""));
}

#[test]
fn messages_name_what_the_script_wrote() {
    for (source, say) in [
        ("x = True > 'a'", "'>' not supported between instances of 'bool' and 'str'"),
        ("x = {1} <= [1]", "'<=' not supported between instances of 'set' and 'list'"),
        ("x = {1} >= 1", "'>=' not supported between instances of 'set' and 'int'"),
        ("x = sorted([1, 'a'])", "'<' not supported between instances of"),
        (
            "from urllib.parse import quote, joined",
            "cannot import name `joined` from `urllib.parse`",
        ),
        ("from math import foo", "cannot import name `foo` from `math`"),
        ("import math\nx = math.foo(1)", "Object of type `module` has no attribute `foo`"),
        (
            "from urllib.parse import quote\nx = quote(5)",
            "quote() takes a str, not int: write `quote(str(x))`",
        ),
        (
            "import urllib.parse\nx = urllib.parse.quote_plus(None)",
            "quote_plus() takes a str, not NoneType: write `quote_plus(str(x))`",
        ),
    ] {
        let message = fail(source).message;
        assert!(message.starts_with(say), "{source}: {message}");
    }
}
