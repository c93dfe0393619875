//! What arguments may come from, with the parser of each executor. In the scripts, `web`, `crm` and `feed` have tools to
//! read, and `mail` has tools to send.

use std::fmt::Write as _;

use super::*;
use airlock_executor::Binding;

/// Returns what the arguments of the tools of `mail` may come from: `tool(path=tools …)`, one tool a line; `?` if that
/// is not decided. The value at the empty path has no name.
pub(super) fn shown(source: &str) -> String {
    let parsed = ruff_python_parser::parse_module(source).expect("Python");
    let flows = tool_flows(&parsed.syntax().body, &bindings(), &|name| name == "input");
    let Some(flows) = flows else { return "?".to_owned() };
    let mut lines: Vec<_> = flows
        .iter()
        .filter(|flow| flow.tool.starts_with("mail"))
        .map(|flow| {
            let mut line = flow.tool.trim_start_matches("mail.").to_owned();
            for value in &flow.values {
                let names = value.tools.iter().map(|tool| {
                    let tool = usize::try_from(*tool).expect("a position");
                    flows[tool].tool.split('.').next().unwrap_or_default()
                });
                let mut names: Vec<_> = names.collect();
                names.sort_unstable();
                let _ = write!(line, " {}={}", value.path, names.join("+"));
            }
            line
        })
        .collect();
    lines.sort();
    lines.join("\n")
}

fn bindings() -> Bindings {
    let names =
        [("web", "get"), ("crm", "get"), ("feed", "get"), ("mail", "send"), ("mail", "draft")];
    let tools = names.map(|(namespace, name)| {
        Binding::in_namespace(namespace, name, format!("{namespace}.{name}"))
    });
    Bindings::from(tools.to_vec())
}

/// Checks scripts that begin with a page of `web` and a contact of `crm`.
pub(super) fn check(cases: &[(&str, &str)]) {
    for (source, expected) in cases {
        let source = format!("page = web.get(url='x')\nman = crm.get(id=1)\n{source}");
        assert_eq!(shown(&source), *expected, "{source}");
    }
}

/// Checks of such scripts that what `mail` sends may come from `web`.
pub(super) fn check_tainted(cases: &[&str]) {
    for source in cases {
        let source = format!("page = web.get(url='x')\nman = crm.get(id=1)\n{source}");
        let found = shown(&source);
        let is_tainted = found == "?" || found.contains("web");
        assert!(is_tainted, "{source}\n{found}");
    }
}

#[test]
fn values_of_arguments_have_the_tools_that_they_are_made_of() {
    check(&[
        ("mail.send(to='boss', body=page['text'])", "send = body=web to="),
        ("mail.send(to=man['email'], body=page)", "send = body=web to=crm"),
        ("mail.send({'to': 'boss', 'body': page})", "send = body=web to="),
        ("mail.send(**{'to': man})", "send = to=crm"),
        ("mail.send(m={'to': 'x', 'body': {'text': page}})", "send = m.body.text=web m.to="),
        ("mail.send(m={'to': 'x', man: page, **{'a': 1}})", "send = m=crm+web m.to="),
        ("mail.send(to=['a', man])", "send = to=crm"),
        ("args = {'to': 'x', 'body': page}\nmail.send(args)", "send =web"),
        ("mail.send(*page)", "send =web"),
        ("mail.send(**page)", "send =web"),
        ("mail.send(to=mail.draft(body=page))", "draft = body=web\nsend = to=mail+web"),
        ("mail.none(to=page)\nmail.send(to='x')", "send = to="),
        ("mail.send(to='a')\nmail.send(to=man)", "send = to=crm"),
    ]);
}

#[test]
fn operators_formats_and_containers_join_what_they_are_made_of() {
    check(&[
        ("mail.send(to=f\"{man['name']}: {page}\")", "send = to=crm+web"),
        ("mail.send(to=f\"{1:{page}}\")", "send = to=web"),
        ("mail.send(to='%s' % page['a'])", "send = to=web"),
        ("mail.send(to='{}'.format(page))", "send = to=web"),
        ("mail.send(to=', '.join([man['a'], 'b']))", "send = to=crm"),
        ("mail.send(to=page['n'] == 1)", "send = to=web"),
        ("mail.send(to=not page)", "send = to=web"),
        ("mail.send(to=-page['n'])", "send = to=web"),
        ("mail.send(to=man if page else 'x')", "send = to=crm+web"),
        ("mail.send(to=page or 'x')", "send = to=web"),
        ("mail.send(to=[1, 2][page['n']])", "send = to=web"),
        ("mail.send(to={'a': 'b'}.get(page['k']))", "send = to=web"),
        ("mail.send(to='abc'[0:page['n']])", "send = to=web"),
        ("mail.send(to=len(page))", "send = to=web"),
        ("mail.send(to=str(man))", "send = to=crm"),
        ("a, b = page, man\nmail.send(to=b)", "send = to=crm"),
        ("a, b = [page, man]\nmail.send(to=b)", "send = to=crm"),
        ("both = [page, man]\na, b = both\nmail.send(to=b)", "send = to=crm+web"),
        ("a = b = man\na, b = b, page\nmail.send(to=a)", "send = to=crm"),
        ("mail.send(to=[x for x in man])", "send = to=crm"),
        ("mail.send(to={x: 1 for x in ['a'] if page})", "send = to=web"),
        ("mail.send(to=sorted(man, key=lambda x: x['a']))", "send = to=crm"),
        ("mail.send(to=max([1, 2], key=lambda x: page[x]))", "send = to=web"),
    ]);
}

#[test]
fn what_only_stands_beside_a_value_is_no_part_of_it() {
    check(&[
        ("rows = [{'man': man, 'page': page}]\nmail.send(to=man['email'])", "send = to=crm"),
        ("text = man['name'] + page['text']\nmail.send(to=man['email'])", "send = to=crm"),
        ("rows = []\nrows.append(man)\nrows.append(page)\nmail.send(to=man)", "send = to=crm"),
        ("print(page, man)\nmail.send(to=man)", "send = to=crm"),
        ("d = dict(a=man, b=page)\nmail.send(to=man)", "send = to=crm"),
        ("x = page\nx = 'a'\nmail.send(to=x)", "send = to="),
        ("if page:\n  x = 1\nmail.send(to='a')", "send = to="),
        ("for x in page:\n  print(x)\nmail.send(to='a')", "send = to="),
        ("while len(page) > 1:\n  break\nmail.send(to='a')", "send = to="),
        ("def f(x):\n  return x\nf(page)\nmail.send(to='a')", "send = to="),
        ("def f(x):\n  y = x + 'a'\n  return y\nmail.send(to=f(man['email']))", "send = to=crm"),
        ("page['text'].upper()\nmail.send(to=man['email'].lower())", "send = to=crm"),
        ("import json\nx = json.loads(page['a'])\nmail.send(to=json.dumps(man))", "send = to=crm"),
        ("from collections import Counter\nc = Counter(page)\nmail.send(to=man)", "send = to=crm"),
    ]);
}

#[test]
fn conditions_are_a_part_of_all_that_they_decide() {
    check(&[
        ("if 'urgent' in page['text']:\n  mail.send(to='boss')", "send =web to="),
        ("if page:\n  pass\nelif man:\n  mail.send(to='x')", "send =crm+web to="),
        ("if page:\n  pass\nelse:\n  mail.send(to='x')", "send =web to="),
        ("for c in man:\n  mail.send(to=c['email'], body=page)", "send =crm body=web to=crm"),
        ("while page:\n  mail.send(to='x')", "send =web to="),
        ("if page:\n  x = 'a'\nelse:\n  x = 'b'\nmail.send(to=x)", "send = to=web"),
        ("x = 'a'\nif page:\n  x = 'b'\nmail.send(to=x)", "send = to=web"),
        ("n = 0\nfor x in page:\n  n += 1\nmail.send(to=n)", "send = to=web"),
        ("page and mail.send(to='x')", "send =web to="),
        ("1 < len(page) < len(mail.send(to='x'))", "send =web to="),
        ("mail.send(to='x') if page else None", "send =web to="),
        ("[mail.send(to='x') for y in page]", "send =web to="),
        ("[mail.send(to='x') for y in [1] if page]", "send =web to="),
        ("match page:\n  case {'a': a}:\n    mail.send(to='x')", "send =web to="),
        ("match 1:\n  case 1 if page:\n    mail.send(to='x')", "send =web to="),
        (
            "match page:\n  case [a, *b]:\n    c = b\n  case _:\n    c = 1\nmail.send(to=c)",
            "send = to=web",
        ),
        ("assert page\nmail.send(to='x')", "send =web to="),
        ("if page:\n  return 1\nmail.send(to='x')", "send =web to="),
        ("if page:\n  raise ValueError('x')\nmail.send(to='x')", "send =web to="),
        ("if page:\n  fail('x')\nmail.send(to='x')", "send =web to="),
    ]);
}

#[test]
fn what_leaves_a_loop_decides_all_of_it() {
    check(&[
        ("for x in [1, 2]:\n  if page:\n    break\n  mail.send(to='x')", "send =web to="),
        ("for x in [1, 2]:\n  mail.send(to='x')\n  if page:\n    break", "send =web to="),
        ("for x in [1, 2]:\n  if page:\n    continue\n  mail.send(to='x')", "send =web to="),
        ("for x in [1, 2]:\n  if page:\n    break\nelse:\n  mail.send(to='x')", "send =web to="),
        ("for x in [1, 2]:\n  if page:\n    break\nmail.send(to='x')", "send = to="),
        ("for x in [1, 2]:\n  if page:\n    break\nmail.send(to=x)", "send = to=web"),
        ("for x in [1, 2]:\n  mail.send(to='x')\n  if page:\n    return 1", "send =web to="),
        (
            "while True:\n  y = page\n  if len('a'):\n    break\n  y = 1\nmail.send(to=y)",
            "send = to=web",
        ),
    ]);
}

#[test]
fn loops_carry_values_backwards() {
    check(&[
        ("x = 'a'\nfor i in [1, 2]:\n  mail.send(to=x)\n  x = page", "send = to=web"),
        (
            "a = b = c = 1\nfor i in [1, 2, 3, 4]:\n  mail.send(to=a)\n  a = b\n  b = c\n  c = page",
            "send = to=web",
        ),
        ("x = 'a'\nwhile True:\n  mail.send(to=x)\n  x = x + page['n']", "send = to=web"),
        ("xs = []\nfor i in [1, 2]:\n  mail.send(to=xs)\n  xs.append(page)", "send = to=web"),
        ("y = 1\nwhile (x := y):\n  y = page\nmail.send(to=x)", "send = to=web"),
        (
            "y = 1\nwhile (x := y):\n  y = page\n  x = 2\nelse:\n  mail.send(to=x)",
            "send =web to=web",
        ),
    ]);
}

#[test]
fn functions_pass_values_on_and_return_them() {
    check(&[
        ("def f(to):\n  mail.send(to=to)\nf('x')\nf(man)", "send = to=crm"),
        ("def f():\n  mail.send(to='x')\nif page:\n  f()", "send =web to="),
        ("def f(a, b=man):\n  return b\nmail.send(to=f(page))", "send = to=crm"),
        ("def f(a, *b):\n  return b\nmail.send(to=f(man, page))", "send = to=web"),
        ("def f(a, **b):\n  return a\nmail.send(to=f(man, c=page))", "send = to=crm"),
        ("def f(a, b):\n  return a\nmail.send(to=f(b=page, a=man))", "send = to=crm"),
        ("def f(a, b):\n  return a\nmail.send(to=f(*[man, page]))", "send = to=crm+web"),
        ("def f(a):\n  if a:\n    return 1\n  return 2\nmail.send(to=f(page))", "send = to=web"),
        ("def f(a):\n  if a:\n    return True\nmail.send(to=f(page))", "send = to=web"),
        ("def f(n):\n  return n if n else f(page)\nmail.send(to=f(1))", "send = to=web"),
        ("def f(n):\n  return g(n)\ndef g(n):\n  return n\nmail.send(to=f(man))", "send = to=crm"),
        ("f = lambda x: x\nmail.send(to=f(man))", "send = to=crm"),
        ("async def f(x):\n  return x\nmail.send(to=await f(man))", "send = to=crm"),
        ("def f():\n  if page:\n    raise ValueError()\nf()\nmail.send(to='x')", "send =web to="),
        ("def f():\n  mail.send(to='x')", ""),
    ]);
}

#[test]
fn calls_at_the_same_time_have_their_own_results() {
    let two = "a, b = gather([(web.get, {}), (crm.get, {'id': 1})])\nmail.send(to=b)";
    let planned = "gather([(mail.send, {'to': x, 'body': page}) for x in ['a']])";
    check(&[
        (two, "send = to=crm"),
        (planned, "send = body=web to="),
        (
            "gather([(mail.send, {'to': 'x'}), (mail.draft, {'to': page})])",
            "draft = to=web\nsend = to=",
        ),
        ("gather([(mail.send, {'to': 'x'}) for x in page])", "send =web to="),
        ("calls = [(mail.send, {'to': page})]\ngather(calls)", "send =mail+web"),
        ("x = attempt(web.get, {})\nmail.send(to=x.ok)", "send = to=web"),
        ("attempt(mail.send, {'to': man})", "send = to=crm"),
        (
            "import asyncio\na, b = await asyncio.gather(web.get(), crm.get())\nmail.send(to=b)",
            "send = to=crm",
        ),
        ("x = await web.get()\nawait mail.send(to='x')", "send = to="),
        ("t = mail.send(to='x')\nif page:\n  await t", "send =web to="),
    ]);
}

#[test]
fn failures_that_are_caught_tell_what_was_computed() {
    check(&[
        ("try:\n  int(page)\nexcept ValueError:\n  mail.send(to='x')", "send =web to="),
        (
            "ok = False\ntry:\n  int(page)\n  ok = True\nexcept ValueError:\n  pass\nmail.send(to=ok)",
            "send = to=web",
        ),
        (
            "try:\n  int(page)\nexcept ValueError as e:\n  man = e\nmail.send(to=man)",
            "send = to=crm+web",
        ),
        (
            "try:\n  x = page\n  x = 'a'\n  y()\nexcept Exception:\n  pass\nmail.send(to=x)",
            "send = to=web",
        ),
        ("try:\n  x = page\n  x = 'a'\nfinally:\n  mail.send(to=x)", "send = to=web"),
        ("try:\n  crm.get()\nexcept Exception:\n  pass\nmail.send(to='x')", "send = to="),
        ("try:\n  pass\nexcept Exception:\n  pass\nmail.send(to=man)", "send = to=crm"),
        ("with y() as z:\n  int(page)\n  x = 1\nmail.send(to=x)", "send = to=web"),
        ("try:\n  int(page)\nexcept ValueError:\n  return 1\nmail.send(to='x')", "send =web to="),
    ]);
    check_tainted(&[
        "done = []\ndef f():\n  int(page)\n  done.append(1)\ntry:\n  f()\nexcept Exception:\n  pass\nmail.send(to=done)",
        "x = 1\ndef f():\n  global x\n  x = 2\n  int(page)\n  x = 3\ntry:\n  f()\nexcept Exception:\n  pass\nmail.send(to=x)",
        "try:\n  raise ValueError(page)\nexcept ValueError as e:\n  mail.send(to=str(e))",
        "box = []\ntry:\n  raise ValueError(box)\nexcept ValueError as e:\n  e.args[0].append(page)\nmail.send(to=box)",
    ]);
}

#[test]
fn an_object_is_the_same_under_every_name() {
    check_tainted(&[
        "a = []\nb = a\nb.append(page)\nmail.send(to=a)",
        "a = {}\nb = {'x': a}\nb['x']['y'] = page\nmail.send(to=a)",
        "a = []\nb = [a]\nfor c in b:\n  c.append(page)\nmail.send(to=a)",
        "a = []\nb, c = a, 1\nb += [page]\nmail.send(to=a)",
        "a = []\nb = a if page else []\nb.append(1)\nmail.send(to=a)",
        "a = []\n(a or [])\nb = a or []\nb.append(page)\nmail.send(to=a)",
        "a = []\ndef f(x):\n  x.append(page)\nf(a)\nmail.send(to=a)",
        "a = []\ndef f(x):\n  return x\nf(a).append(page)\nmail.send(to=a)",
        "a = []\ndef f():\n  a.append(page)\nf()\nmail.send(to=a)",
        "a = []\nadd = a.append\nadd(page)\nmail.send(to=a)",
        "a = []\nf = [a.append]\nf[0](page)\nmail.send(to=a)",
        "a = []\nunknown(a, page)\nmail.send(to=a)",
        "a = []\nb = unknown(a)\nb.put(page)\nmail.send(to=a)",
        "import heapq\na = []\nheapq.heappush(a, page)\nmail.send(to=a)",
        "import csv, io\na = io.StringIO()\nw = csv.writer(a)\nw.writerow(page)\nmail.send(to=a.getvalue())",
        "import io\na = io.StringIO()\nprint(page, file=a)\nmail.send(to=a.getvalue())",
        "import io, json\na = io.StringIO()\njson.dump(page, a)\nmail.send(to=a.getvalue())",
        "a = [[]] * 2\na[0].append(page)\nmail.send(to=a[1])",
        "t = ([],) + (1,)\nt[0].append(page)\nmail.send(to=t[0])",
        "a = []\nt = (a,) + (1,)\nt[0].append(page)\nmail.send(to=a)",
        "a = max([[1], []])\nb = [a]\nmax(b).append(page)\nmail.send(to=a)",
        "a = {}\na.setdefault('x', []).append(page)\nmail.send(to=a)",
        "a = []\n{'x': a}.get('x').append(page)\nmail.send(to=a)",
        "a = []\nfirst, *rest = [1, a]\nrest[0].append(page)\nmail.send(to=a)",
        "first, *rest = 'abc'\nrest.append(page)\nmail.send(to=rest)",
        "parts = 'a,b'.split(',')\nparts.append(page)\nmail.send(to=parts)",
        "def f(x, y=[]):\n  y.append(x)\n  return y\nf(page)\nmail.send(to=f(1))",
        "def f(*xs, **ys):\n  ys['a'] = page\n  return ys\nmail.send(to=f())",
        "class A:\n  x: list = []\na = A()\na.x.append(page)\nmail.send(to=A.x)",
        "class A:\n  pass\na = A()\na.x = page\nmail.send(to=a.x)",
        "a = []\nx = {'k': a}\nmatch x:\n  case {'k': b}:\n    b.append(page)\nmail.send(to=a)",
        "from collections import defaultdict\nd = defaultdict(list)\nd['a'].append(page)\nmail.send(to=d)",
        "from collections import defaultdict\na = []\nd = defaultdict(lambda: a)\nd['x'].append(page)\nmail.send(to=a)",
        "input.append(page)\nmail.send(to=input)",
        "a = [1]\nif page:\n  a.pop()\nmail.send(to=a)",
        "a = {'x': 1}\nif page:\n  del a['x']\nmail.send(to=a)",
        "a = [1, 2]\na[page['n']] = 3\nmail.send(to=a)",
        "i = iter([1, 2])\nif page:\n  next(i)\nmail.send(to=next(i))",
        "i = iter([1, 2])\nfor x in i:\n  if page:\n    break\nmail.send(to=next(i))",
    ]);
}

#[test]
fn functions_that_are_values_meet_all_that_their_callers_have() {
    check_tainted(&[
        "mail.send(to=list(map(lambda x: x['a'], page)))",
        "list(map(lambda x: mail.send(to=x), page))",
        "fs = {'a': lambda x: mail.send(to=x)}\nfs['a'](page)",
        "def f(x):\n  return x\ng = f\nmail.send(to=g(page))",
        "def f(g):\n  return g(page)\nmail.send(to=f(lambda x: x))",
        "from functools import partial\nf = partial(lambda a, b: mail.send(to=b), 1)\nf(page)",
        "s = struct(send=lambda x: mail.send(to=x))\ns.send(page)",
        "s = struct(get=lambda x: mail.send(to=x))\ns.get(page)",
        "def f(x):\n  return lambda: x\nmail.send(to=f(page)())",
        "x = 1\nf = lambda: x\nx = page\nmail.send(to=f())",
        "def f():\n  return x\nx = page\nmail.send(to=f())",
        "def f():\n  n = 1\n  def g():\n    nonlocal n\n    n = page\n  g()\n  return n\nmail.send(to=f())",
        "x = 1\ng = (x for i in [1])\nx = page\nmail.send(to=list(g))",
        "g = (mail.send(to='x') for i in [1])\nif page:\n  list(g)",
        "m = map(lambda i: mail.send(to='x'), [1])\nif page:\n  list(m)",
        "send = mail.send\nsend(to=page)",
        "async def f():\n  mail.send(to='x')\nc = f()\nif page:\n  await c",
        "def twice(f):\n  return lambda x: f(x)\n@twice\ndef g(x):\n  mail.send(to=x)\ng(page)",
        "if page:\n  def f():\n    return 1\nelse:\n  def f():\n    return 2\nmail.send(to=f())",
        "[y := page for i in [1]]\nmail.send(to=y)",
        "x = 'a'\n[x for x in [page]]\nmail.send(to=[x for x in [page]])",
        "(lambda x: mail.send(to=x))(page)",
    ]);
    check(&[
        ("x = man\n[x for x in page]\nmail.send(to=x)", "send = to=crm"),
        ("g = (x for x in man)\nmail.send(to=list(g))", "send = to=crm"),
        ("mail.send(to=[c['a'] for c in man if c['b']])", "send = to=crm"),
    ]);
}

#[test]
fn what_the_source_does_not_show_is_not_decided() {
    for source in [
        "w = web\nw.get()",
        "exec('1')",
        "eval('1')",
        "getattr(web, 'get')()",
        "web.get.__call__()",
        "x = globals()",
        "web = 1",
        "def f(mail):\n  pass",
        "from x import *",
        "class A:\n  def f(self):\n    pass",
        "class A:\n  __add__ = 1",
        "class A:\n  x = 1\n  y = x",
        "class A:\n  x: web.get() = 1",
        "def f():\n  yield 1",
        "import math\nmath.x = 1",
        "x.__class__ = 1",
        "def f(x: web.get()):\n  pass",
        "type X = int",
    ] {
        assert_eq!(shown(source), "?", "{source}");
    }
}

#[test]
fn a_script_that_is_too_large_or_too_deep_is_not_decided() {
    assert_eq!(shown(&format!("mail.send(to={})", "-".repeat(200) + "1")), "?");
    assert_eq!(shown(&"x = []\n".repeat(600)), "?");
    assert_eq!(shown(&"x = 1\n".repeat(5_000)), "");
    let loops = (0..12).map(|depth| format!("{}for a{depth} in b:\n", " ".repeat(depth)));
    let nested = loops.collect::<String>() + &" ".repeat(12) + "mail.send(to=a0)";
    assert_ne!(shown(&nested), "?");
    let chain: Vec<_> = (0..60).map(|at| format!("  x{at} = x{}\n", at + 1)).collect();
    let names: Vec<_> = (0..61).map(|at| format!("x{at} = 0\n")).collect();
    let [chain, names] = [chain.concat(), names.concat()];
    let slow = format!("{names}for i in [1]:\n{chain}  x60 = web.get()\nmail.send(to=x0)");
    assert_eq!(shown(&slow), "?", "it takes a pass for each name");
}

#[test]
fn the_same_source_has_the_same_findings_in_the_same_order() {
    let source = "a = feed.get()\nb = web.get(x=a)\nmail.send(to=b, body=a)";
    let parsed = ruff_python_parser::parse_module(source).expect("Python");
    let found = tool_flows(&parsed.syntax().body, &bindings(), &|_| false).expect("it is decided");
    let tools: Vec<_> = found.iter().map(|flow| flow.tool.as_str()).collect();
    assert_eq!(tools, ["feed.get", "web.get", "mail.send"]);
    let again = tool_flows(&parsed.syntax().body, &bindings(), &|_| false);
    assert_eq!(again, Some(found));
}
