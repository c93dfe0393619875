use crate::run::tests::{batches, fail, result};

#[test]
fn patterns_that_split_otherwise_at_the_empty_text_are_refused() {
    for call in [
        r"re.split(r'x*', 'axbc')",
        r"re.split(r'x*', 'xxx')",
        r"re.split(r'(x*)', 'axb')",
        r"re.compile(r'\s*').split('a b')",
    ] {
        let failure = fail(&format!("import re\n{call}"));
        let message = "ValueError: re.split() takes no pattern here that matches the empty text";
        assert!(failure.message.starts_with(message), "{call}: {}", failure.message);
        assert_eq!(failure.line, Some(2), "{call}");
    }
}

#[test]
fn methods_of_the_scripts_own_classes_and_of_tools_are_called_as_they_are() {
    let class = "
class Own:
    def __init__(self, n): self.n = n
    def combine(self, other): return self.n + other
    def isocalendar(self): return 'own'
    def union(self, *them, k=1): return [*them, k]
    def sub(self, a, b): return [a, b]
    def split(self): return 'split'
    def translate(self, table): return table
    def strftime(self, format): return format
    def update(self, a, b): return a + b
own = Own(1)
import re
p = re.compile('(a)')
";
    for (expression, value) in [
        (
            "[own.combine(2), own.isocalendar(), own.union(1, 2), own.sub(1, 2)]",
            r#"[3,"own",[1,2,1],[1,2]]"#,
        ),
        (
            "[own.translate(3), own.strftime('%f'), own.update(1, 2), own.split()]",
            r#"[3,"%f",3,"split"]"#,
        ),
        ("files.read_file(update=1)", r#"{"update":1}"#),
        (
            "[Own(1)\n  .combine(\n  2), (Own(4)) . combine (5), {'a': own}['a'].combine(1)]",
            "[3,9,2]",
        ),
        ("'a b'.split(maxsplit=1)", r#"["a","b"]"#),
    ] {
        let source = format!("{class}result = {expression}");
        assert_eq!(result(&source).as_deref(), Some(value), "{expression}");
    }
    assert_eq!(batches("x = await files.read_file(split=1)"), [1]);
}

#[test]
fn changed_calls_nest_in_each_other_and_in_awaits() {
    for (source, value) in [
        ("import math\nresult = math.fsum(x for x in [0.5, 1])", "1.5"),
        (
            "from datetime import datetime, timedelta\na = datetime(2024, 1, 9)\nresult = [((a - datetime(2024, 1, 1)) // timedelta(days=0.5)) // 2, a.astimezone().isocalendar()[1] * (1 < 2), f\"{a.isoformat(' ')}\"]",
            r#"[8,2,"2024-01-09 00:00:00"]"#,
        ),
        (
            "from datetime import timedelta\nx = await files.read_file(n = 6)\nasync def f(): return 6\nresult = [await f() // x['n'], await f() * (await f())]",
            "[1,36]",
        ),
        (
            "import re\nresult = re.sub('(a)', lambda m: re.sub('(.)', r'\\1_', m.group(1)), 'xa')",
            r#""xa_""#,
        ),
        ("async def f(): return {'a': 1}\nresult = await f() | {'b': 2}", r#"{"a":1,"b":2}"#),
        (
            "a = [1, 2]\na[0], b = sum([x > 1 for x in a]), {1} | {2}\nresult = [a, len(b)]",
            "[[1,2],2]",
        ),
        (
            "result = ['ab'.center(5, '*'), 'ab'.center(6), 'abc'.center(2)]",
            r#"["**ab*","  ab  ","abc"]"#,
        ),
    ] {
        assert_eq!(result(source).as_deref(), Some(value), "{source}");
    }
}

#[test]
fn failures_are_those_of_python_at_the_place_of_the_script() {
    for (source, message, line) in [
        (
            "from datetime import datetime\ndatetime.strptime('x', '%Y%z')",
            "ValueError: time data 'x' does not match format '%Y%z'",
            2,
        ),
        (
            "import re\n\nre.sub('a', '\\\\q', 'a')",
            "ValueError: bad escape \\q in the replacement",
            3,
        ),
        (
            "x = 1\n'a'.center(3, 'ab')",
            "TypeError: The fill character must be exactly one character long",
            2,
        ),
        ("from datetime import timedelta\ntimedelta(day=1.5)", "TypeError: ", 2),
        (
            "x = {1}\nx <= 3",
            "TypeError: '<=' not supported between instances of 'set' and 'int'",
            2,
        ),
    ] {
        let failure = fail(source);
        assert!(failure.message.starts_with(message), "{source}: {}", failure.message);
        assert_eq!(failure.line, Some(line), "{source}");
    }
}
