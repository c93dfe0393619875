//! Ways by which a value could reach an argument unseen: results of tools that were given it, functions under the names
//! of methods, methods that are passed on, and failures that are caught elsewhere.

use super::tests::{check, check_tainted, shown};

#[test]
fn results_of_a_tool_come_from_what_the_tools_of_its_namespace_were_given() {
    check(&[
        ("mail.send(to=crm.get(id=page['id']))", "send = to=crm+web"),
        ("crm.get(note=page)\nmail.send(to=crm.get(id=1))", "send = to=crm+web"),
        ("if page:\n  crm.get(id=2)\nmail.send(to=crm.get(id=1))", "send = to=crm+web"),
        ("crm.get(note=page)\nmail.send(to=man['email'])", "send = to=crm"),
        (
            "if man:\n  crm.get(note=page)\nelse:\n  man = crm.get()\nmail.send(to=man)",
            "send = to=crm",
        ),
        ("for i in [1, 2]:\n  mail.send(to=crm.get())\n  crm.get(note=page)", "send = to=crm+web"),
        ("feed.get(note=page)\nmail.send(to=crm.get(id=1))", "send = to=crm"),
        ("x = await crm.get()\nawait mail.send(to=x)", "send = to=crm"),
    ]);
    check_tainted(&[
        "def read():\n  return crm.get()\nx = read()\ncrm.get(note=page)\nmail.send(to=read())",
        "save = crm.get\nsave(note=page)\nmail.send(to=crm.get())",
        "list(map(crm.get, page))\nmail.send(to=crm.get())",
        "[[mail.send(to=crm.get()), crm.get(note=page)] for i in [1, 2]]",
        "later = crm.get()\nawait crm.get(note=page)\nx = await later\nawait mail.send(to=x)",
        "gather([(crm.get, {}), (crm.get, {'note': page})])\nmail.send(to=crm.get())",
        "x = attempt(crm.get, {'id': page})\nmail.send(to=x.error.message)",
    ]);
}

#[test]
fn methods_are_those_of_the_type_only_where_the_script_has_not_chosen_them() {
    check_tainted(&[
        "s = struct(count=list)\na = s.count()\nb = a\nb.append(page)\nmail.send(to=a)",
        "s = struct(count='a b'.split)\na = s.count()\nb = a\nb.append(page)\nmail.send(to=a)",
        "a = [1]\ns = struct(title=a.copy)\nb = s.title()\nc = b\nc.append(page)\nmail.send(to=b)",
        "class S:\n  upper = list\na = S.upper()\nb = a\nb.append(page)\nmail.send(to=a)",
        "from collections import namedtuple\nS = namedtuple('S', 'find')\na = S(find=list).find()\nb = a\nb.append(page)\nmail.send(to=a)",
        "a = [1]\nlist.append(a, page)\nmail.send(to=a)",
        "import json\nj = json\na = j.decode('{}')\nb = a\nb['x'] = page\nmail.send(to=a)",
        "a = json.decode('{}')\nb = a\nb['x'] = page\nmail.send(to=a)",
        "s = struct(copy=max)\na = []\ns.copy([a], [[1]]).append(page)\nmail.send(to=a)",
    ]);
    check(&[
        ("x = json.decode(page['a'])\nmail.send(to=json.encode(man))", "send = to=crm"),
        (
            "from dataclasses import dataclass\n@dataclass\nclass A:\n  x: str\n@dataclass\nclass B:\n  x: str\na = A(page)\nmail.send(to=B(man).x)",
            "send = to=crm",
        ),
    ]);
}

#[test]
fn methods_that_are_passed_on_change_their_objects() {
    check_tainted(&[
        "a = []\nlist(map(a.append, [page]))\nmail.send(to=a)",
        "a = []\nlist(map(list.append, [a], [page]))\nmail.send(to=a)",
        "a = []\nsorted([page], key=a.append)\nmail.send(to=a)",
        "a = []\n[page].sort(key=a.append)\nmail.send(to=a)",
        "import re\na = []\nre.sub('x', a.append, page['t'])\nmail.send(to=a)",
        "from functools import partial\na = []\nlist(map(partial(list.append, a), [page]))\nmail.send(to=a)",
        "from heapq import heappush\na = []\nlist(map(heappush, [a], [page]))\nmail.send(to=a)",
        "import json, io\na = io.StringIO()\nlist(map(json.dump, [page], [a]))\nmail.send(to=a.getvalue())",
        "from itertools import count\ni = count()\nif page:\n  next(i)\nmail.send(to=next(i))",
        "i = iter([1, 2])\na = []\nif page:\n  a += i\nmail.send(to=next(i, 3))",
    ]);
}

#[test]
fn what_runs_later_fails_where_it_is_awaited_or_read() {
    check_tainted(&[
        "async def f():\n  int(page)\nc = f()\ntry:\n  await c\nexcept ValueError:\n  await mail.send(to='x')",
        "import asyncio\nasync def f():\n  int(page)\n  return 1\nr = await asyncio.gather(f(), return_exceptions=True)\nawait mail.send(to=r)",
        "import asyncio\nasync def f():\n  int(page)\n  return 1\nr = await asyncio.gather(f(), **{'return_exceptions': True})\nawait mail.send(to=r)",
        "import asyncio\ndone = []\nasync def f():\n  int(page)\n  done.append(1)\nr = await asyncio.gather(f(), return_exceptions=True)\nawait mail.send(to=done)",
        "def f():\n  int(page)\n  return 1\ng = (f() for i in [1])\ntry:\n  list(g)\nexcept ValueError:\n  mail.send(to='x')",
        "x = 1\nif page:\n  del x\ntry:\n  x\nexcept NameError:\n  mail.send(to='x')",
        "if page:\n  def f():\n    return 1\ntry:\n  f()\nexcept NameError:\n  mail.send(to='x')",
        "if page:\n  import json\ntry:\n  json.dumps(1)\nexcept NameError:\n  mail.send(to='x')",
    ]);
    check(&[(
        "import asyncio\nif page:\n  x = 1\nawait asyncio.gather(*[mail.send(to=m) for m in ['a']])",
        "send = to=",
    )]);
    let main = "
import asyncio
async def main():
  page = await web.get()
  man = await crm.get(id=1)
  if page:
    x = 1
  await mail.send(to=man)
asyncio.run(main())
";
    assert_eq!(shown(main), "send = to=crm");
}

#[test]
fn comprehensions_assign_to_names_of_the_body_in_each_turn() {
    check_tainted(&[
        "y = 'a'\n[[mail.send(to=y), (y := page)] for i in [1, 2]]",
        "x = 'a'\n[(x := page) for x in [1]]\nmail.send(to=x)",
        "y: (z := page) = 1\nmail.send(to=z)",
    ]);
}

#[test]
fn decorators_of_classes_are_called() {
    check_tainted(&[
        "def f(c):\n  mail.send(to=page)\n  return c\n@f\nclass A:\n  pass\nmail.send(to='x')",
        "def f(*xs):\n  mail.send(to=page)\nclass A(metaclass=f):\n  pass\nmail.send(to='x')",
    ]);
}
