//! Runs one script from source to result.

use std::borrow::Cow;

use airlock_executor::{Answer, Binding, Failure, Request, Script, ToolError, Tools};
use monty::MontyRun;
use monty_types::{
    AssertMessageAnnotations, CompileOptions, MontyException, MontyObject, PrintWriter,
    PrintWriterCallback, ResourceLimits, ResourceTracker,
};

use crate::convert;
use crate::failure;
use crate::lower::Lowered;
use crate::session::Session;

/// Largest depth of nested calls before a run fails with a line number.
const MAX_FRAMES: usize = 200;

/// Runs a script, as [`airlock_executor::Language::run`].
pub(crate) fn run(
    script: &Script,
    tools: &dyn Tools,
    print: &dyn Fn(&str),
) -> Result<Option<String>, Failure> {
    let lowered = Lowered::of(&script.source, &script.bindings);
    let mut session = Session::new(&script.bindings, script.clock_ms, tools);
    let mut lines = Lines { print, begun: String::new() };
    let ended = evaluate(script, &lowered, &mut session, &mut lines);
    lines.end();
    let ended = ended?;
    if let Some(tool) = session.dropped() {
        return Err(failure::of_dropped(&tool));
    }
    match ended {
        MontyObject::None => Ok(None),
        value => convert::to_json(&value).map(Some).map_err(|unfit| Failure::of_result(&unfit)),
    }
}

fn evaluate(
    script: &Script,
    lowered: &Lowered<'_>,
    session: &mut Session<'_>,
    lines: &mut Lines<'_>,
) -> Result<MontyObject, Failure> {
    if let Some(failure) = failure::of_refused(&script.name, lowered) {
        return Err(failure);
    }
    let options = CompileOptions { assert_message_annotations: AssertMessageAnnotations::Off };
    let limits = ResourceLimits::default().max_recursion_depth(MAX_FRAMES);
    let program = MontyRun::new(lowered.program(), &script.name, Vec::new(), options)
        .map_err(|error| failure::of_source(&error, lowered))?;
    let ended = program
        .start(Vec::new(), ResourceTracker::new(limits), PrintWriter::Callback(lines))
        .and_then(|progress| session.drive(progress, lines));
    ended.map_err(|error| failure::of_run(&error, lowered, session))
}

/// Builds the state that all runs share, as [`airlock_executor::Language::prepare`].
pub(crate) fn prepare() {
    struct NoTools;
    impl Tools for NoTools {
        fn call(&self, _: Request) -> Result<Answer, ToolError> {
            Ok(Answer::Json("{\"text\": [1, 2.5]}".into()))
        }
    }
    let script = Script {
        name: "warm-up.py".into(),
        source: include_str!("warm_up.py").into(),
        bindings: vec![Binding {
            namespace: "tools".into(),
            name: "touch".into(),
            alias: None,
            tool: "tools-touch".into(),
        }]
        .into(),
        clock_ms: None,
    };
    let outcome = run(&script, &NoTools, &|_| ());
    assert!(matches!(outcome, Ok(Some(_))), "the warm-up script fails: {outcome:?}");
}

/// Splits printed text into lines.
struct Lines<'a> {
    print: &'a dyn Fn(&str),
    /// The line that has not ended yet.
    begun: String,
}

impl Lines<'_> {
    fn push(&mut self, text: &str) {
        let mut rest = text;
        while let Some((line, after)) = rest.split_once('\n') {
            self.begun.push_str(line);
            (self.print)(&self.begun);
            self.begun.clear();
            rest = after;
        }
        self.begun.push_str(rest);
    }

    /// Prints a line that the script did not end.
    fn end(&mut self) {
        if !self.begun.is_empty() {
            (self.print)(&self.begun);
        }
    }
}

impl PrintWriterCallback for Lines<'_> {
    fn stdout_write(&mut self, output: Cow<'_, str>) -> Result<(), MontyException> {
        self.push(&output);
        Ok(())
    }

    fn stdout_push(&mut self, end: char) -> Result<(), MontyException> {
        self.push(end.encode_utf8(&mut [0; 4]));
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::RefCell;

    use airlock_executor::FailureKind;

    use super::*;

    /// Answers the tools of `files`: returns the arguments for `read_file`, a number for `number`,
    /// text that is no JSON for `broken`, and fails for `fail` and, with a given message, `fail_with`.
    #[derive(Default)]
    struct Files {
        /// How many calls were made at a time.
        batches: RefCell<Vec<usize>>,
    }

    impl Files {
        fn answer(request: Request) -> Result<Answer, ToolError> {
            match request.tool.as_str() {
                "files-read_file" => Ok(Answer::Text(request.arguments)),
                "files-number" => {
                    Ok(Answer::Text(request.arguments["{\"n\":\"".len()..].replace("\"}", "")))
                }
                "files-broken" => Ok(Answer::Json("{".into())),
                "files-fail_with" => {
                    let text: serde_json::Value =
                        serde_json::from_str(&request.arguments).expect("an object");
                    let message = text["text"].as_str().unwrap_or_default().to_owned();
                    Err(ToolError { kind: "denied".into(), message, ..ToolError::default() })
                }
                _ => Err(ToolError {
                    kind: "denied".into(),
                    code: Some("no_way".into()),
                    message: "refused".into(),
                    data: Some(request.arguments),
                }),
            }
        }
    }

    impl Tools for Files {
        fn call(&self, request: Request) -> Result<Answer, ToolError> {
            self.batches.borrow_mut().push(1);
            Self::answer(request)
        }

        fn call_batch(&self, requests: Vec<Request>) -> Vec<Result<Answer, ToolError>> {
            self.batches.borrow_mut().push(requests.len());
            requests.into_iter().map(Self::answer).collect()
        }
    }

    fn run_with(
        source: &str,
        tools: &dyn Tools,
        print: &dyn Fn(&str),
    ) -> Result<Option<String>, Failure> {
        let bind = |name: &str, alias: Option<&str>| Binding {
            namespace: "files".into(),
            name: name.into(),
            alias: alias.map(Into::into),
            tool: format!("files-{name}"),
        };
        let mut bindings = vec![bind("read_file", Some("readFile"))];
        let other =
            |namespace: &str| Binding { namespace: namespace.into(), ..bind("compute", None) };
        let others = [other("math_"), other("print_")];
        bindings.extend(["fail", "fail_with", "number", "broken"].map(|name| bind(name, None)));
        bindings.extend(others);
        let (name, bindings) = ("code.py".into(), bindings.into());
        run(&Script { name, source: source.into(), bindings, clock_ms: None }, tools, print)
    }

    pub(crate) fn result(source: &str) -> Option<String> {
        run_with(source, &Files::default(), &|_| ())
            .unwrap_or_else(|failure| panic!("{source}: {}", failure.rendered))
    }

    pub(crate) fn fail(source: &str) -> Failure {
        match run_with(source, &Files::default(), &|_| ()) {
            Err(failure) => failure,
            Ok(value) => panic!("{source}: worked and left {value:?}"),
        }
    }

    /// Returns how many calls a script makes at a time.
    pub(crate) fn batches(source: &str) -> Vec<usize> {
        let files = Files::default();
        run_with(source, &files, &|_| ()).unwrap_or_else(|it| panic!("{source}: {}", it.rendered));
        files.batches.into_inner()
    }

    #[test]
    fn printed_lines_arrive_one_by_one_even_if_the_script_fails_later() {
        let lines = RefCell::new(Vec::new());
        let print = |line: &str| lines.borrow_mut().push(line.to_owned());
        let source = "print('a', 1)\nprint('b\\nc')\nprint()\nprint('d', end='')\nprint('e', 2, sep='-', end='')\nx";
        run_with(source, &Files::default(), &print).expect_err("there is no x");
        assert_eq!(*lines.borrow(), ["a 1", "b", "c", "", "de-2"]);
    }

    #[test]
    fn a_script_without_a_result_returns_none() {
        for source in [
            "",
            "result = None",
            "1 + 1",
            "'result'",
            "if False:\n    result = 1",
            "# end",
            "x = 1 \\",
        ] {
            assert_eq!(result(source), None, "{source}");
        }
        fail("x = \\");
    }

    #[test]
    fn a_return_outside_a_function_gives_the_result() {
        assert_eq!(result("result = 1\nif result:\n    return [2]").as_deref(), Some("[2]"));
    }

    #[test]
    fn the_warm_up_script_runs() {
        prepare();
    }

    #[test]
    fn arguments_are_given_by_name_or_as_one_dict() {
        for call in [
            "files.read_file(a = 1, b = [2])",
            "files.read_file({'a': 1, 'b': [2]})",
            "files.read_file(**{'a': 1, 'b': [2]})",
            "files.readFile(a = 1, b = [2])",
            "await files.read_file(a = 1, b = [2])",
            "await files.read_file({'a': 1, 'b': [2]})",
            "(await files.read_file(\n  a = 1, # one\n  b = [2],\n))",
        ] {
            assert_eq!(
                result(&format!("result = {call}")).as_deref(),
                Some(r#"{"a":1,"b":[2]}"#),
                "{call}"
            );
        }
        for (call, message) in [
            (
                "files.read_file('a')",
                "TypeError: files.read_file takes no str by position: write the name of the parameter, like `files.read_file(name = …)`",
            ),
            (
                "files.read_file('a', 'b')",
                "TypeError: files.read_file takes arguments by name, like `files.read_file(name = …)`, or one dict",
            ),
            (
                "await files.read_file({}, b = 1)",
                "TypeError: files.read_file takes arguments by name, like `files.read_file(name = …)`, or one dict",
            ),
        ] {
            assert_eq!(fail(call).message, message, "{call}");
        }
    }

    #[test]
    fn a_tool_is_an_ordinary_value() {
        let source = "
f = files.read_file
result = [f(n = 1), getattr(files, 'read_file')(n = 2), [g(n = 3) for g in [files.readFile]], {'f': f}['f'](n = 4)]
";
        assert_eq!(result(source).as_deref(), Some(r#"[{"n":1},{"n":2},[{"n":3}],{"n":4}]"#));
    }

    #[test]
    fn a_tool_that_is_not_called_is_refused() {
        let failure = fail("x = 1\nfiles.read_file");
        assert_eq!((failure.kind, failure.line), (FailureKind::Syntax, Some(2)));
        let message = "`files.read_file` is a tool, and this statement does not call it";
        assert_eq!(failure.message, message);
        for (source, what) in [
            (
                "result = files.read_file",
                "`files.read_file` is a tool: call it, like `files.read_file(…)`",
            ),
            (
                "result = {'a': [files.readFile]}",
                "`files.read_file` is a tool: call it, like `files.read_file(…)`",
            ),
            ("def f(): pass\nresult = f", "`f` is a function: call it, like `f(…)`"),
            ("result = [len]", "`len` is a function: call it, like `len(…)`"),
            ("result = lambda: 1", "`<lambda>` is a function: call it"),
        ] {
            assert!(fail(source).message.contains(what), "{source}: {}", fail(source).message);
        }
        let failure = fail("files.read_file(a = files.fail)");
        assert!(failure.message.contains("`files.fail` is a tool: call it"), "{}", failure.message);
    }

    #[test]
    fn a_namespace_can_be_inspected() {
        let source = "result = [dir(files), hasattr(files, 'x'), hasattr(files, 'readFile'), getattr(files, 'x', None)]";
        assert_eq!(
            result(source).as_deref(),
            Some(r#"[["broken","fail","fail_with","number","read_file"],false,true,null]"#)
        );
    }

    #[test]
    fn awaited_calls_run_at_the_same_time() {
        for (source, made) in [
            ("x = files.read_file(n = 1)\ny = await files.read_file(n = 2)", vec![1, 1]),
            (
                "import asyncio\nx = await asyncio.gather(files.read_file(n = 1), files.read_file(n = 2))",
                vec![2],
            ),
            (
                "import asyncio\nasync def f(n):\n    a = await files.read_file(n = n)\n    return await files.read_file(n = a['n'])\nx = asyncio.run(f(1))\ny = await asyncio.gather(*[f(n) for n in range(3)])",
                vec![1, 1, 3, 3],
            ),
            (
                "a = files.read_file(n = 1)\nb = files.read_file(n = 2)\nx = [await a, await b]",
                vec![2],
            ),
        ] {
            assert_eq!(batches(source), made, "{source}");
        }
        let source = "import asyncio\nresult = await asyncio.gather(*[files.read_file(n = n) for n in range(3)])";
        assert_eq!(result(source).as_deref(), Some(r#"[{"n":0},{"n":1},{"n":2}]"#));
    }

    #[test]
    fn what_only_the_machine_knows_is_refused_with_the_reason() {
        for (source, reason) in [
            ("from datetime import datetime\ndatetime.now()", "no clock"),
            ("from datetime import datetime, timezone\ndatetime.now(timezone.utc)", "no clock"),
            ("from datetime import date\ndate.today()", "no clock"),
            ("import os\nos.getenv('HOME')", "no environment"),
            ("import os\nos.environ['HOME']", "no environment"),
            ("open('a.txt')", "no files"),
            ("with open('a.txt', 'w') as f:\n    f.write('a')", "no files"),
            ("from pathlib import Path\nPath('a').read_text()", "no files"),
            ("from pathlib import Path\nPath('a').exists()", "no files"),
        ] {
            let failure = fail(source);
            assert_eq!(failure.kind, FailureKind::Runtime, "{source}");
            assert!(failure.message.contains(reason), "{source}: {}", failure.message);
        }
    }

    #[test]
    fn what_the_other_executor_refuses_and_this_one_has_runs() {
        for (source, value) in [
            (
                "def twice(f):\n  return lambda x: f(x) * 2\n@twice\ndef f(x):\n  return x\nresult = f(2)",
                "4",
            ),
            ("class A:\n  pass\na = A()\na.b = 1\nresult = a.b", "1"),
            ("result = len(b'ab')", "2"),
            (
                "try:\n  try:\n    [][1]\n  except IndexError:\n    raise\nexcept Exception as e:\n  result = type(e).__name__",
                "\"IndexError\"",
            ),
            ("async def f():\n  return 1\nresult = await f()", "1"),
            ("import base64\nresult = base64.b64encode(b'a').decode()", "\"YQ==\""),
            ("import binascii, unicodedata\nresult = unicodedata.normalize('NFC', 'a')", "\"a\""),
        ] {
            assert_eq!(result(source).as_deref(), Some(value), "{source}");
        }
    }

    #[test]
    fn a_result_that_is_no_json_is_the_error_of_the_tool() {
        let failure = fail("files.broken()");
        assert_eq!(failure.kind, FailureKind::Tool);
        assert!(failure.message.starts_with("files.broken: its result is not JSON"), "{failure:?}");
    }

    #[test]
    fn values_are_those_of_python() {
        for (expression, value) in [
            (
                "[10 ** 20, -7 // 2, -7 % 3, 2 ** -1, 7 / 2]",
                r#"["100000000000000000000",-4,2,0.5,3.5]"#,
            ),
            (
                "[str(1e16), str(0.1 + 0.2), repr(1.0), str(1e-7)]",
                r#"["1e+16","0.30000000000000004","1.0","1e-07"]"#,
            ),
            (
                "[f'{3.14159:.2f}', f'{5:>4}|', '{:,}'.format(12345), '%s'.replace('%', 'x')]",
                r#"["3.14","   5|","12,345","xs"]"#,
            ),
            ("list({**{'z': 1, 'a': 2}, **{'m': 3}})", r#"["z","a","m"]"#),
            ("[*range(3), *'ab']", r#"[0,1,2,"a","b"]"#),
            (
                "sorted({'b': 1, 'a': 2}.items(), key=lambda kv: kv[1], reverse=True)",
                r#"[["a",2],["b",1]]"#,
            ),
            (
                "[round(2.5), round(2.625, 2), abs(-3), divmod(7, 2), sum([0.1] * 3)]",
                "[2,2.62,3,[3,1],0.30000000000000004]",
            ),
            ("' a,b '.strip().split(',') + 'x'.join('ab').split('x')", r#"["a","b","a","b"]"#),
            ("[x for x in range(10) if x % 2 if x > 3]", "[5,7,9]"),
            ("1 < 2 < 3 and not 1 is None", "true"),
            ("(lambda *a, **k: [a, k])(1, b=2)", r#"[[1],{"b":2}]"#),
        ] {
            assert_eq!(
                result(&format!("result = {expression}")).as_deref(),
                Some(value),
                "{expression}"
            );
        }
    }

    #[test]
    fn a_program_of_many_parts_runs() {
        let source = r"
import json, re, math
from collections import defaultdict, Counter
from datetime import datetime, timedelta
from functools import reduce
from itertools import chain
from dataclasses import dataclass

@dataclass
class Item:
    name: str
    price: float = 1.5

    def total(self, n: int) -> float:
        return self.price * n

def pages(limit=3):
    page, found = 1, []
    while True:
        answer = files.read_file(page=page)
        found.append(answer['page'])
        if answer['page'] >= limit:
            break
        page += 1
    return found

groups = defaultdict(list)
for word in re.findall(r'\w+', 'a bb cc d'):
    groups[len(word)].append(word)
counts = Counter(chain(*groups.values()))
when = datetime.strptime('2024-01-31', '%Y-%m-%d') + timedelta(days=1)
first, *rest = pages()
a = b = 0
a += (n := 4)
x = {'k': 1, **{'l': 2}}
global_total = 0
def add(n):
    global global_total
    global_total += n
for i in range(3):
    add(i)
else:
    add(10)
assert global_total == 13, 'sum'
try:
    json.loads('{')
except json.JSONDecodeError as error:
    bad = 'bad'
finally:
    x['m'] = 3
result = {
    'groups': groups, 'counts': dict(counts), 'when': when.strftime('%d.%m.%Y'), 'rest': rest,
    'item': Item('a').total(2), 'sum': reduce(lambda p, q: p + q, [1, 2]), 'x': x, 'n': n, 'bad': bad,
    'text': ', '.join(f'{k}={v!r:>4}' for k, v in sorted(x.items())), 'floor': math.floor(2.5),
}
";
        let expected = r#"{"groups":{"1":["a","d"],"2":["bb","cc"]},"counts":{"a":1,"d":1,"bb":1,"cc":1},"when":"01.02.2024","rest":[2,3],"item":3.0,"sum":3,"x":{"k":1,"l":2,"m":3},"n":4,"bad":"bad","text":"k=   1, l=   2, m=   3","floor":2}"#;
        assert_eq!(result(source).as_deref(), Some(expected));
    }
}
