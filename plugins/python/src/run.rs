//! Runs one script from source to result.

use std::borrow::Cow;

use airlock_executor::{Failure, Language, Lines, Script, Tools, warm_up};
use monty::MontyRun;
use monty_types::{
    AssertMessageAnnotations, CompileOptions, MontyException, MontyObject, PrintWriter,
    PrintWriterCallback, ResourceLimits, ResourceTracker,
};

use crate::Python;
use crate::convert;
use crate::failure;
use crate::lower::Lowered;
use crate::session::PythonSession;

/// Largest depth of nested calls before a run fails with a line number, the same as in Starlark. Endless recursion would
/// otherwise end at a limit of the sandbox, without a line.
const MAX_FRAMES: usize = 200;

impl Language for Python {
    fn prepare() {
        warm_up::<Self>("warm-up.py", include_str!("warm_up.py"));
    }

    fn run(
        script: &Script,
        tools: &dyn Tools,
        print: &dyn Fn(&str),
    ) -> Result<Option<String>, Failure> {
        let inputs = script.inputs.as_deref().map(convert::inputs).transpose();
        let inputs = inputs.map_err(Failure::unfit_inputs)?.unwrap_or_default();
        let lowered = Lowered::new(script, &inputs);
        let mut session = PythonSession::new(script, inputs, tools);
        let mut output = InterpreterOutput(Lines::new(print));
        let ended = evaluate(script, &lowered, &mut session, &mut output);
        output.0.finish();
        let ended = ended?;
        if let Some(tool) = session.dropped() {
            return Err(failure::dropped_call(&tool));
        }
        match ended {
            MontyObject::None => Ok(None),
            value => convert::to_json(&value)
                .map(Some)
                .map_err(|unfit| Failure::unfit_value(&unfit, lowered.ends_with_value)),
        }
    }
}

fn evaluate(
    script: &Script,
    lowered: &Lowered<'_>,
    session: &mut PythonSession<'_>,
    output: &mut InterpreterOutput<'_>,
) -> Result<MontyObject, Failure> {
    if let Some(failure) = failure::refusal(&script.name, lowered) {
        return Err(failure);
    }
    let options = CompileOptions { assert_message_annotations: AssertMessageAnnotations::Off };
    let limits = ResourceLimits::default().max_recursion_depth(MAX_FRAMES);
    let program = MontyRun::new(lowered.program(), &script.name, Vec::new(), options)
        .map_err(|error| failure::compile_failure(&error, lowered))?;
    if let Some(failure) = failure::wrong_calls(script, lowered) {
        return Err(failure);
    }
    if let Some(flows) = &lowered.flows {
        script.bindings.follow(flows);
    }
    let ended = program
        .start(Vec::new(), ResourceTracker::new(limits), PrintWriter::Callback(output))
        .and_then(|progress| session.drive(progress, output));
    ended.map_err(|error| failure::run_failure(&error, lowered, session))
}

/// The output of the interpreter.
struct InterpreterOutput<'a>(Lines<'a>);

impl PrintWriterCallback for InterpreterOutput<'_> {
    fn stdout_write(&mut self, output: Cow<'_, str>) -> Result<(), MontyException> {
        self.0.push(&output);
        Ok(())
    }

    fn stdout_push(&mut self, end: char) -> Result<(), MontyException> {
        self.0.push(end.encode_utf8(&mut [0; 4]));
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use airlock_executor::FailureKind;
    use airlock_test_executors::{self as testing, embedded};

    use super::*;

    pub(crate) fn result(source: &str) -> Option<String> {
        testing::result::<Python>(source)
    }

    pub(crate) fn fail(source: &str) -> Failure {
        testing::fail::<Python>(source)
    }

    /// Returns how many calls a script makes at a time.
    pub(crate) fn batches(source: &str) -> Vec<usize> {
        testing::batches::<Python>(source)
    }

    #[test]
    fn scripts_run_as_in_every_executor() {
        testing::check_language::<Python>();
    }

    #[test]
    fn a_script_without_a_result_returns_none() {
        for source in ["'result'", "if False:\n    result = 1", "# end", "x = 1 \\"] {
            assert_eq!(result(source), None, "{source}");
        }
        fail("x = \\");
    }

    #[test]
    fn a_return_outside_a_function_gives_the_result() {
        assert_eq!(result("result = 1\nif result:\n    return [2]").as_deref(), Some("[2]"));
    }

    #[test]
    fn arguments_are_given_by_name_or_as_one_dict() {
        for call in [
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
            ("result = lambda: 1", "`<lambda>` is a function: call it"),
        ] {
            assert!(fail(source).message.contains(what), "{source}: {}", fail(source).message);
        }
        let failure = fail("files.read_file(a = files.fail)");
        assert!(failure.message.contains("`files.fail` is a tool: call it"), "{}", failure.message);
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
    fn awaited_calls_of_global_functions_run_at_the_same_time() {
        for (source, made, value) in [
            ("await read('a')", vec![1], r#"{"path":"a"}"#),
            ("x = await read('a', limit=1)\nx['limit']", vec![1], "1"),
            ("await save({'a': 1})", vec![1], r#"{"record":{"a":1}}"#),
            (
                "import asyncio\nawait asyncio.gather(read('a'), save(1), files.read_file(n = 2))",
                vec![3],
                r#"[{"path":"a"},{"record":1},{"n":2}]"#,
            ),
            (
                "import asyncio\nasync def one(n):\n    return (await save(n))['record']\nasync def main():\n    return await asyncio.gather(*[one(n) for n in range(3)])\nasyncio.run(main())",
                vec![3],
                "[0,1,2]",
            ),
            ("async def f():\n    return await read('a')\nawait f()", vec![1], r#"{"path":"a"}"#),
            (
                "a = read('a')\nb = read('b')\n[await a, await b]",
                vec![2],
                r#"[{"path":"a"},{"path":"b"}]"#,
            ),
            (
                "try:\n    await refuse('a')\nexcept ToolError as e:\n    x = [e.code, e.data]\nx",
                vec![1],
                r#"["no_way",{"why":"a"}]"#,
            ),
        ] {
            assert_eq!(embedded::result::<Python>(source).as_deref(), Some(value), "{source}");
            assert_eq!(embedded::batches::<Python>(source), made, "{source}");
        }
        let failure = embedded::fail::<Python>("x = 1\ny = await refuse('a')\ny");
        assert_eq!((failure.kind, failure.line), (FailureKind::Tool, Some(2)));
        let failure = embedded::fail::<Python>("await read('a', path='b')");
        assert_eq!(failure.message, "TypeError: read takes `path` once: by position or by name");
    }

    #[test]
    fn a_return_comes_before_the_last_expression() {
        for (source, value) in [
            ("if id == 7:\n    return [2]\n3", Some("[2]")),
            ("if id == 8:\n    return [2]\n3", Some("3")),
            ("return None\n3", None),
        ] {
            assert_eq!(embedded::result::<Python>(source).as_deref(), value, "{source}");
        }
    }

    #[test]
    fn functions_and_inputs_with_the_names_of_built_in_functions_are_no_others() {
        embedded::check_results::<Python>(&[
            ("sum(x > 1 for x in [1, 2])", r#"{"values":[false,true]}"#),
            ("def f():\n    return sum(len)\nf()", r#"{"values":[1,2]}"#),
            ("x = {1} <= {1, 2}\n[x, len, 'ab'.center(4)]", r#"[true,[1,2]," ab "]"#),
            ("def f(len):\n    return len\n[f(1), len[0]]", "[1,1]"),
        ]);
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
    fn values_are_those_of_python() {
        testing::check_values::<Python>(&[
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
        ]);
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
