//! Calls that sources show, with the parser of each executor.

use std::fmt::Write as _;

use airlock_executor::Binding;

use super::*;

/// Returns the calls of a script with the namespaces `files` and `notes`, one a line.
fn shown(source: &str) -> String {
    let parsed = ruff_python_parser::parse_module(source).expect("Python");
    let calls = source_calls(&parsed.syntax().body, &bindings(), &|name| name == "input");
    let mut out = String::new();
    for call in &calls {
        let _ = write!(out, "{}.{}(", call.namespace, call.name);
        for (name, value) in &call.arguments {
            let _ = match value {
                SourceValue::Unknown => write!(out, "{name}=?,"),
                SourceValue::Known(json) => write!(out, "{name}={json},"),
                SourceValue::Part { call, keys } => write!(out, "{name}=#{call}{keys:?},"),
            };
        }
        out.push_str(if call.is_open { "**)" } else { ")" });
        out.push_str(if call.mistake.is_some() { "!\n" } else { "\n" });
    }
    out
}

fn bindings() -> Bindings {
    let namespaces = ["files", "notes", "input"];
    let tools = namespaces.map(|namespace| Binding::in_namespace(namespace, "any", "any"));
    Bindings::from(tools.to_vec())
}

fn check(cases: &[(&str, &str)]) {
    for (source, expected) in cases {
        assert_eq!(shown(source), *expected, "{source}");
    }
}

#[test]
fn arguments_have_the_type_that_the_source_shows() {
    check(&[
        ("files.read()", "files.read()\n"),
        ("x = 1\nprint(x)\nother.read(a = 1)", ""),
        (
            "files.read(a = 'x', b = f'{1}', c = 2, d = -2.5, e = True, f = None, g = [1], h = {}, i = x)",
            "files.read(a=\"\",b=\"\",c=2,d=-2.5,e=true,f=null,g=[],h={},i=?,)\n",
        ),
        ("files.read(a = 18446744073709551616, b = 1e999, c = 1j)", "files.read(a=?,b=?,c=?,)\n"),
        ("files.read(a = 1 + 1, b = x['y'], c = str(1))", "files.read(a=?,b=?,c=?,)\n"),
        ("n = 'x'\nfiles.read(a = n)", "files.read(a=\"\",)\n"),
        ("n = 'x'\nn = 1\nfiles.read(a = n)", "files.read(a=?,)\n"),
        ("n = 1\nfor n in [2]:\n  files.read(a = n)", "files.read(a=?,)\n"),
        ("def f(n):\n  files.read(a = n)\nn = 1\nf(n)", "files.read(a=?,)\n"),
        ("def f():\n  input = 1\nfiles.read(a = input)", "files.read(a=?,)\n"),
        ("__name__ = 1\nfiles.read(a = __name__)", "files.read(a=?,)\n"),
        ("n = 1\nn += 1\nfiles.read(a = n)", "files.read(a=?,)\n"),
        ("n = n\nfiles.read(a = n)", "files.read(a=?,)\n"),
    ]);
}

#[test]
fn arguments_are_given_by_name_or_as_one_dict() {
    check(&[
        ("files.read({'a': 1})", "files.read(a=1,)\n"),
        ("files.read({'a': 1, **x})", "files.read(a=?,**)\n"),
        ("files.read({'a': 1, x: 2})", "files.read(a=?,**)\n"),
        ("files.read(a = 1, **x)", "files.read(a=1,**)\n"),
        ("files.read(*x)", "files.read(**)\n"),
        ("files.read(x)", "files.read(**)\n"),
        ("x = {'a': 1}\nfiles.read(x)", "files.read(**)\n"),
        ("files.read('a')", "files.read(**)!\n"),
        ("files.read('a', 'b')", "files.read()!\n"),
        ("files.read({}, a = 1)", "files.read(a=1,)!\n"),
        ("files.read({}, **x)", "files.read(**)\n"),
    ]);
}

#[test]
fn calls_at_the_same_time_are_read_if_they_end_the_script() {
    let two = "files.read(a=1,)\nnotes.add()\n";
    check(&[
        ("gather([(files.read, {'a': 1}), (notes.add, {})])", two),
        ("gather([(files.read, {'a': 1}), (notes.add, {})], limit = 1)", two),
        ("gather([(files.read, {'a': n}) for n in range(3)])", "files.read(a=?,)\n"),
        ("gather([(files.read, {'a': 1})], attempt = True)", ""),
        ("gather([(files.read, x), (y, {}), z])", ""),
        ("gather = print\ngather([(files.read, {'a': 1})])", ""),
        ("attempt(files.read, {'a': 1})", ""),
    ]);
}

#[test]
fn results_are_followed_straight_into_a_call() {
    let both = "files.read()\nnotes.add(text=#0[],)\n";
    let key = "files.read()\nnotes.add(text=#0[\"a\"],)\n";
    check(&[
        ("notes.add(text = files.read())", "notes.add(text=#1[],)\nfiles.read()\n"),
        ("notes.add(text = await files.read())", "notes.add(text=#1[],)\nfiles.read()\n"),
        ("x = files.read()\nnotes.add(text = x)", both),
        ("x = files.read()\ny = x\nnotes.add(text = y)", both),
        ("x = files.read()\nnotes.add(text = x['a'])", key),
        (
            "x = files.read()\nx['a'] = 1\nnotes.add(text = x['a'])",
            "files.read()\nnotes.add(text=?,)\n",
        ),
        (
            "x = files.read()\nx.update(a = 1)\nnotes.add(text = x['a'])",
            "files.read()\nnotes.add(text=?,)\n",
        ),
        ("x = files.read()\nx.update(a = 1)\nnotes.add(text = x)", both),
        (
            "x = files.read()\nnotes.add(text = x['a'].upper())",
            "files.read()\nnotes.add(text=?,)\n",
        ),
        (
            "notes.add(text = files.read()['a']['b'])",
            "notes.add(text=#1[\"a\", \"b\"],)\nfiles.read()\n",
        ),
        ("x = files.read()\nnotes.add(text = x['a']['b'])", "files.read()\nnotes.add(text=?,)\n"),
        ("x = files.read()\ny = x\nnotes.add(text = y['a'])", "files.read()\nnotes.add(text=?,)\n"),
        ("result = files.read()\nnotes.add(text = result)", "files.read()\nnotes.add(text=?,)\n"),
        ("x = files.read()\nnotes.add(text = x[0])", "files.read()\nnotes.add(text=?,)\n"),
        ("x = files.read()()\nnotes.add(text = x)", "files.read()\nnotes.add(text=?,)\n"),
        ("for x in files.read():\n  notes.add(text = x)", "files.read()\n"),
        ("for x in [files.read()]:\n  notes.add(text = x)", "files.read()\nnotes.add(text=?,)\n"),
    ]);
}

#[test]
fn calls_are_left_out_if_their_failure_may_not_be_that_of_the_script() {
    let one = "files.read()\n";
    check(&[
        ("files = 1\nfiles.read()", ""),
        ("import files\nfiles.read()", ""),
        ("input.read()", ""),
        ("def f(files):\n  files.read()", ""),
        ("[files.read() for files in [1]]", ""),
        ("(files := 1)\nfiles.read()", ""),
        ("def f():\n  global files\n  files = 1\nfiles.read()", ""),
        ("del files\nfiles.read()", ""),
        ("match x:\n  case [*files]:\n    pass\nfiles.read()", ""),
        ("def f(a, /, *files, b = 1, **c):\n  files.read()\nf(1)", ""),
        ("files.read = 1\nfiles.read()", ""),
        ("if hasattr(files, 'read'):\n  files.read()", ""),
        ("f = files.read\nf()", ""),
        ("try:\n  files.read()\nexcept Exception:\n  files.read()", ""),
        ("try:\n  pass\nfinally:\n  pass\nfiles.read()", one),
        ("def f():\n  files.read()\nf()", one),
        ("def f():\n  files.read()\ntry:\n  f()\nexcept Exception:\n  pass", ""),
        ("f = lambda: files.read()\nwith x:\n  f()", ""),
        ("x = files.read()\ntry:\n  await x\nexcept Exception:\n  pass", ""),
        ("x = await files.read()\ntry:\n  await x\nexcept Exception:\n  pass", one),
        ("await gather(files.read(), return_exceptions = True)", ""),
        ("await gather(files.read(), **{'return_exceptions': True})", ""),
        ("asyncio.run(gather(files.read(), return_exceptions = True))", ""),
        ("await gather(files.read())", one),
        ("files.__class__()", ""),
    ]);
}

#[test]
fn a_call_that_the_script_may_not_reach_is_left_out() {
    for source in [
        "if x:\n  files.read()",
        "if x:\n  pass\nelif files.read():\n  files.read()\nelse:\n  files.read()",
        "if False:\n  files.read()",
        "for x in y:\n  files.read()",
        "for x in []:\n  files.read()",
        "for x in [*y]:\n  files.read()",
        "for x in range(0):\n  files.read()",
        "for x in range(y):\n  files.read()",
        "range = f\nfor x in range(3):\n  files.read()",
        "for x in [1]:\n  if x:\n    break\n  files.read()",
        "for x in [1]:\n  for y in z:\n    pass\n  else:\n    break\n  files.read()",
        "while True:\n  if x:\n    continue\n  files.read()",
        "while x:\n  files.read()",
        "x and files.read()",
        "x or files.read()",
        "files.read() if x else files.read()",
        "x < y < files.read()",
        "[files.read() for x in y]",
        "[files.read() for x in [1] if x]",
        "[files.read() for x in [1] for z in y]",
        "(files.read() for x in [1])",
        "gather([(files.read, {}) for x in y])",
        "f = lambda: files.read()",
        "def f():\n  files.read()",
        "async def f():\n  files.read()\nf()",
        "async def f():\n  files.read()\nx = f()\nawait x",
        "@g\ndef f():\n  files.read()\nf()",
        "def f():\n  files.read()\n  yield 1\nf()",
        "if x:\n  def f():\n    files.read()\nf()",
        "def f():\n  files.read()\nf = g\nf()",
        "def f():\n  return 1\n  files.read()\nf()",
        "def f():\n  def len(x):\n    files.read()\nf()\nlen([])",
        "class A:\n  def f(self):\n    files.read()\n  files.read()",
        "match x:\n  case 1:\n    files.read()",
        "assert x, files.read()",
        "return 1\nfiles.read()",
        "if x:\n  return 1\nfiles.read()",
        "try:\n  return 1\nexcept E:\n  pass\nfiles.read()",
        "__name__ = 1\nif __name__ == '__main__':\n  files.read()",
        "type X = files.read()",
    ] {
        assert_eq!(shown(source), "", "{source}");
    }
}

#[test]
fn a_call_that_the_script_reaches_in_any_case_is_found() {
    for source in [
        "if files.read():\n  pass",
        "if True:\n  files.read()",
        "if __name__ == '__main__':\n  files.read()",
        "while True:\n  files.read()\n  break",
        "while files.read():\n  pass",
        "for x in files.read():\n  return 1",
        "for x in [1, *y]:\n  files.read()\n  break",
        "for x in range(3):\n  files.read()",
        "for x in y:\n  if x:\n    break\nfiles.read()",
        "def f():\n  return 1\nfiles.read()",
        "files.read() and x",
        "x < files.read() < y",
        "x if files.read() else y",
        "[x for x in files.read()]",
        "[files.read() for x in [1]]",
        "(x for x in files.read())",
        "f = lambda x = files.read(): x",
        "def f(x = files.read()):\n  pass",
        "def f():\n  g()\ndef g():\n  files.read()\nf()\nf()",
        "async def f():\n  files.read()\nawait f()",
        "async def f():\n  files.read()\nasyncio.run(f())",
        "match files.read():\n  case 1:\n    pass",
        "assert files.read(), x",
        "f'{files.read()}'",
        "raise files.read()",
    ] {
        assert_eq!(shown(source), "files.read()\n", "{source}");
    }
}
