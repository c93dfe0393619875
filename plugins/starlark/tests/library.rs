//! Behaviour of Python's library in scripts. The crate `airlock-starlark-library` has it; only an executor
//! lowers scripts that use it.

use airlock_executor::Failure;
use airlock_starlark::Starlark;
use airlock_starlark_library::{METHODS, MODULES};
use airlock_test_executors::{self as testing, check_values};

fn result(source: &str) -> Option<String> {
    testing::result::<Starlark>(source)
}

fn fail(source: &str) -> Failure {
    testing::fail::<Starlark>(source)
}

#[test]
fn methods_are_those_of_python() {
    check_values::<Starlark>(&[
        (
            "[[1, 2, 1].count(1), (1, True).count(1), [1, 2, 1].index(1, 1), (1, 2).index(2, -1, 9)]",
            "[2,2,2,1]",
        ),
        ("[[1].copy(), {1: 2}.copy(), sorted(set([1]).copy())]", r#"[[1],{"1":2},[1]]"#),
        (
            "[sorted(set([1]).union([2], 'a'), key = str), sorted(set([1, 2, 3]).intersection([1, 2], [2])), sorted(set([1, 2]).difference())]",
            r#"[[1,2,"a"],[2],[1,2]]"#,
        ),
        ("[set([1]).isdisjoint([2], [1]), set([1]).isdisjoint([2])]", "[false,true]"),
        (
            "[1.0.is_integer(), (3).is_integer(), (5).bit_length(), True.bit_length()]",
            "[true,true,3,1]",
        ),
        (
            "'abc'.translate(str.maketrans('ab', 'xy', 'c')) + 'abc'.translate(str.maketrans({'a': 'z', 98: None}))",
            r#""xyzc""#,
        ),
    ]);
    let source = "
a, d, s, t = [3, 1, 2], {'x': 1}, set([1, 2, 3]), set([1, 2, 3])
a.sort(key = lambda n: -n)
a.reverse()
a.extend('b')
d.update([('y', 2)], z = 3)
last = d.popitem()
s.intersection_update([1, 2], [3])
t.difference_update([1], [2])
t.update([4], (5,))
result = [a, d, last, sorted(s), sorted(t)]
";
    let value = r#"[[1,2,3,"b"],{"x":1,"y":2},["z",3],[1,2,3],[3,4,5]]"#;
    assert_eq!(result(source).as_deref(), Some(value));
    for (source, message) in [
        ("[1].index(2)", "2 is not in list"),
        ("{}.copy().popitem()", "popitem(): dictionary is empty"),
        ("[2].sort(len)", "sort() takes no positional arguments"),
        ("str.maketrans('a', 'bc')", "the first two maketrans arguments must have equal length"),
        ("set([1]).union(a = 1)", "method() got an unexpected argument 'a'"),
    ] {
        assert_eq!(fail(source).message, message, "{source}");
    }
}

#[test]
fn the_lists_of_names_are_sorted_for_binary_search() {
    assert!(METHODS.is_sorted() && MODULES.is_sorted());
}

#[test]
fn a_text_is_read_and_written_like_a_file() {
    for (script, value) in [
        (
            "result = [f.read(2), f.readline(), f.readlines(), f.read()]",
            r#"["aé","b\n",["c\n","d"],""]"#,
        ),
        (
            "result = [[line.strip() for line in f], f.readline(), f.getvalue()]",
            r#"[["aéb","c","d"],"","aéb\nc\nd"]"#,
        ),
        ("f.write('X')\nresult = [f.read(1), f.getvalue()]", r#"["é","Xéb\nc\nd"]"#),
        ("f.seek(1)\nf.write('12')\nresult = f.getvalue()", r#""a12\nc\nd""#),
        ("f.seek(99)\nf.write('!')\nresult = f.getvalue()", r#""aéb\nc\nd!""#),
        ("out = []\nfor line in f:\n    out.append(line)\nresult = out", r#"["aéb\n","c\n","d"]"#),
        ("w = f.write\nf.read()\nresult = [w('ü'), f.getvalue()[-1]]", r#"[1,"ü"]"#),
    ] {
        let source = format!("import io\nf = io.StringIO('aéb\\nc\\nd')\n{script}");
        assert_eq!(result(&source).as_deref(), Some(value), "{script}");
    }
    let source = "from io import StringIO\nf = StringIO()\nprint('a', 1, file = f)\nf.writelines(['b', 'c'])\nresult = f.getvalue()";
    assert_eq!(result(source).as_deref(), Some(r#""a 1\nbc""#));
    assert_eq!(fail("import io\nio.StringIO().write(1)").message, "text must be a str, not int");
    assert_eq!(fail("import io\nio.StringIO().seek(-1)").message, "seek() takes a position from 0");
}

#[test]
fn misuse_of_csv_fails_with_what_to_write() {
    for (expression, message) in [
        ("csv.reader('a,b')", "csv reads lines, not one text: write"),
        ("csv.reader([1])", "a line must be a str, not int"),
        ("csv.reader(['a\\rb'])", "csv: new-line character"),
        ("csv.reader([], delimiter = '||')", "\"delimiter\" must be a 1-character string"),
        ("csv.writer([])", "csv writes to an `io.StringIO()`"),
        ("csv.writer(io.StringIO()).writeheader()", "only a DictWriter has a header"),
        (
            "csv.DictWriter(io.StringIO(), ['a']).writerow({'b': 1})",
            "dict contains fields not in fieldnames: 'b'",
        ),
        (
            "csv.writer(io.StringIO(), quoting = csv.QUOTE_NONE).writerow([','])",
            "csv: need to escape",
        ),
    ] {
        let message_of = fail(&format!("import csv, io\nx = {expression}")).message;
        assert!(message_of.starts_with(message), "{expression}: {message_of}");
    }
}

#[test]
fn an_open_quote_ends_with_the_text() {
    let source = "import csv\nresult = list(csv.reader(['a,\"b', 'c']))";
    assert_eq!(result(source).as_deref(), Some(r#"[["a","bc"]]"#));
}

#[test]
fn collections_and_types_are_returned_as_data() {
    check_values::<Starlark>(&[
        ("[set([2]), range(2), str]", r#"[[2],[0,1],"<class 'str'>"]"#),
        ("{'b': 1, 'a': struct(x = 2)}", r#"{"b":1,"a":{"x":2}}"#),
    ]);
}

#[test]
fn the_nesting_of_json_is_limited() {
    let message = fail("json.decode('[' * 200 + ']' * 200)").message;
    assert!(message.starts_with("json.decode: recursion limit"), "{message}");
    let nested =
        "import json\nx = INNER\nfor _ in range(DEPTH):\n    x = [x]\ntext = json.dumps(x)\n";
    for (inner, depth) in [("1", 127), ("[]", 126), ("{}", 126)] {
        let nested = nested.replace("INNER", inner);
        let source = nested.replace("DEPTH", &depth.to_string())
            + "result = json.dumps(json.loads(text)) == text";
        assert_eq!(result(&source).as_deref(), Some("true"), "{inner}");
        let message = fail(&nested.replace("DEPTH", &(depth + 1).to_string())).message;
        assert_eq!(message, "json.dumps: more than 127 levels, or it contains itself", "{inner}");
    }
}

#[test]
fn a_repetition_of_too_many_items_fails() {
    let count = "import itertools\nresult = len(itertools.repeat(0, 1000000))";
    assert_eq!(result(count).as_deref(), Some("1000000"));
    let message = fail("import itertools\nx = itertools.repeat(0, 1000001)").message;
    assert_eq!(message, "itertools.repeat() returns at most 1000000 items");
}
