//! Hints for Python that a run does not have: what to write instead.

use airlock_executor::{Bindings, Hint, advice, first_hint, hint};

use crate::lower::library;

/// The hints in order of priority; the first that applies is used.
const HINTS: &[Hint] = &[
    hint(
        &["No module named 'time'", "No module named 'zoneinfo'", "No module named 'calendar'"],
        "a run has no clock: remove sleeps and timers, and pass dates in as data; `datetime` computes with them",
    ),
    hint(
        &["No module named 'random'", "No module named 'secrets'", "No module named 'uuid'"],
        "a run has no randomness, so that it can be repeated: pass such values in as data",
    ),
    hint(
        &[
            "No module named 'requests'",
            "No module named 'urllib",
            "module 'urllib' has no attribute",
            "No module named 'httpx'",
            "No module named 'aiohttp'",
            "No module named 'http",
            "No module named 'socket'",
            "No module named 'subprocess'",
            "No module named 'shutil'",
            "No module named 'sqlite3'",
        ],
        "a script can reach only its tools: call a tool that does this",
    ),
    hint(&["No module named 'textwrap'"], "use the methods of `str`: `split`, `join`, `ljust`"),
    hint(
        &["cannot import name 'Enum'", "No module named 'enum'"],
        "use a dict of names and values, or constants",
    ),
    hint(
        &["cannot import name 'cmp_to_key'"],
        "sort by a key: `key=lambda x: (-x[\"count\"], x[\"name\"])`",
    ),
    hint(
        &["No module named 'decimal'", "No module named 'fractions'"],
        "compute in integers, such as cents, or with `round(x, 2)`",
    ),
    hint(
        &["No module named"],
        "these can be imported: asyncio, base64, binascii, bisect, collections, copy, csv, dataclasses, datetime, functools, heapq, io, itertools, json, math, operator, re, statistics, string, typing, unicodedata, urllib.parse",
    ),
    hint(
        &["module 'sys' has no attribute 'exit'", "name 'exit'", "name 'quit'", "SystemExit"],
        "end the script with `return` outside of functions, or with `raise ValueError(\"why\")`",
    ),
    hint(
        &["print() 'file' argument"],
        "`print` writes to the output of the run alone: leave `file` out, or write `buffer.write(text)`",
    ),
    hint(
        &["module 'asyncio' has no attribute", "from 'asyncio'"],
        "of asyncio there are `gather`, `run`, `create_task`, `Semaphore` and `wait_for`; there is no `sleep`, because a run does not wait",
    ),
    hint(
        &["gather() does not yet support"],
        "`gather` takes awaitables alone; to keep failures, catch them in the coroutine and return them",
    ),
    hint(
        &["unsupported operand type(s) for %: 'str'"],
        "`%` needs a literal format string at this place: write it there, or use an f-string, such as `f\"{x:.2f}\"`",
    ),
    hint(
        &[
            "'int' and 'bool'",
            "'bool' and 'int'",
            "'float' and 'bool'",
            "'bool' and 'float'",
            "'bool' and 'bool'",
        ],
        "write `int(flag)`: a `bool` is not added to a number here",
    ),
    hint(
        &[
            "instances of 'set' and 'set'",
            "instances of 'set' and 'frozenset'",
            "instances of 'frozenset' and",
            "'dict_keys' and",
        ],
        "write `a.issubset(b)` or `a.issuperset(b)`",
    ),
    hint(
        &["is not yet supported in this context"],
        "a tool cannot be called inside this function: make the calls first, in a list comprehension",
    ),
    hint(
        &["'OSError' object has no attribute", "'ToolError' object has no attribute"],
        "`kind`, `code`, `message`, `data` and `retry_after_ms` of a `ToolError` are read in its own `except … as` block",
    ),
    hint(&["'dict' object has no attribute"], advice::DICT_KEYS),
    hint(
        &[
            "object can't be awaited",
            "object is not awaitable",
            "a coroutine or an awaitable is required",
        ],
        "write `await` directly before the call of the tool, or leave it out: `await server.tool(…)`",
    ),
    hint(
        &["'coroutine' object", "'_asyncio.Future' object", "'Future' object", "ExternalFuture"],
        "this is a call that has not been awaited: write `await` before it",
    ),
    hint(&["'NoneType' object"], advice::NO_VALUE),
    hint(
        &["name 'attempt'"],
        "there is no `attempt`: write `try: …` and `except ToolError as e: …`",
    ),
    hint(
        &["name 'gather'"],
        "`import asyncio`, and write `await asyncio.gather(server.tool(…), server.tool(…))`",
    ),
    hint(&["name 'null'"], advice::NULL),
    hint(&["name 'true'", "name 'false'"], advice::BOOLEANS),
    hint(
        &[
            "name 'input'",
            "name 'eval'",
            "name 'exec'",
            "name 'globals'",
            "name 'locals'",
            "name '__import__'",
        ],
        "a run does not have this: write out what it would do",
    ),
    hint(&["maximum recursion depth exceeded"], advice::RECURSION),
];

/// Modules that scripts use without importing them.
const MODULES: [&str; 9] = [
    "asyncio",
    "base64",
    "collections",
    "datetime",
    "functools",
    "itertools",
    "json",
    "math",
    "re",
];

/// Returns a hint for a run of this script that failed with this message.
pub(crate) fn find(message: &str, source: &str, bindings: &Bindings) -> Option<String> {
    if let Some(hint) = bindings.hint_for_missed(message) {
        return Some(hint);
    }
    if let Some(hint) = of_module(message, source, bindings) {
        return Some(hint);
    }
    let missing =
        message.split_once("No module named '").and_then(|(_, rest)| rest.split('\'').next());
    if let Some(hint) = missing.and_then(|name| bindings.hint_for_import(name)) {
        return Some(hint);
    }
    if let Some(hint) = first_hint(HINTS, message) {
        return Some(hint.to_owned());
    }
    let name = message.strip_prefix("NameError: name '")?.split_once('\'')?.0;
    let client = format!("{name}_");
    if bindings.namespaces().contains(&client) {
        return Some(format!(
            "the client `{name}` is `{client}` in scripts, because `{name}` is a name of Python: write `{client}.TOOL(…)`"
        ));
    }
    if MODULES.contains(&name) {
        return Some(format!("import it first: `import {name}`"));
    }
    Some(bindings.hint_for_name(name))
}

/// Returns a hint for an attribute that a module lacks: it is that of a client, whose name in scripts
/// is another because it is the module's; or it is none of what the module has.
fn of_module(message: &str, source: &str, bindings: &Bindings) -> Option<String> {
    let (before, missing) = message.split_once(" has no attribute '")?;
    let missing = missing.strip_suffix('\'')?;
    // The message does not contain the name of a built-in function.
    for client in bindings.namespaces() {
        let Some(own) = client.strip_suffix('_') else { continue };
        if !source.contains(&format!("{own}.{missing}"))
            || bindings.find(&client, missing).is_none()
        {
            continue;
        }
        return Some(format!(
            "the client `{own}` is `{client}` in scripts, because `{own}` is a name of Python: write `{client}.{missing}(…)`"
        ));
    }
    let name = before.split_once("module '")?.1.strip_suffix('\'')?;
    let members = library::members(name)?;
    (name != "urllib").then(|| format!("of `{name}` there are {}", members.join(", ")))
}

#[cfg(test)]
mod tests {
    use airlock_test_executors::check_hints;

    use crate::Python;

    #[test]
    fn what_a_run_lacks_is_answered_with_what_to_write() {
        check_hints::<Python>(&[
            ("import time", "no clock"),
            ("import random", "no randomness"),
            ("import requests", "only its tools"),
            ("from urllib.request import urlopen", "only its tools"),
            ("from urllib import request", "only its tools"),
            ("import enum", "use a dict"),
            ("import sys\nsys.exit()", "`return` outside"),
            ("import csv\ncsv.wrong()", "of `csv` there are QUOTE_MINIMAL"),
            ("from statistics import wrong", "of `statistics` there are mean, "),
            ("import math\nmath.compute()", "write `math_.compute(…)`"),
            ("math.compute()", "write `math_.TOOL(…)`"),
            ("print.compute()", "write `print_.compute(…)`"),
            ("x = '%d'\ny = x % 3", "literal format string"),
            ("def f(a, b): return a <= b\nf({1}, {2})", "a.issubset(b)"),
            ("a = [frozenset({1})]\nx = a[0] < a[0]", "a.issubset(b)"),
            ("a = {1}\nx = a < set(a) < {3}", "a.issubset(b)"),
            ("from functools import lru_cache, cmp_to_key", "sort by a key"),
            ("from urllib.parse import urlencode, urljoin", "of `urllib.parse` there are quote"),
            ("import files", "already a name"),
            ("from files import read_file", "already a name"),
            ("x = files_read_file(path = 1)", "`files.read_file(…)`"),
            ("x = files-read_file(path = 1)", "`files.read_file(…)`"),
            ("x = read_file(path = 1)", "`files.read_file(…)`"),
            ("x = attempt(files.read_file, {})", "except ToolError"),
            ("x = gather([(files.read_file, {})])", "await asyncio.gather("),
            ("import numpy as np", "collections, copy, csv, dataclasses"),
            ("import asyncio\nawait asyncio.sleep(1)", "there is no `sleep`"),
            ("x = {'a': 1}.a", "brackets"),
            ("x = {}.get('a').b", "`None`"),
            ("x = null", "`None`"),
            ("x = true", "`True`"),
            ("x = eval('1')", "write out"),
            ("x = await 1", "directly before the call"),
            ("async def f(): return {}\nx = f()['a']", "write `await`"),
            ("def f(n):\n  return f(n)\nf(1)", "200 deep"),
            ("x = re.escape('a')", "import re"),
            (
                "x = files.reed_file(path = 1)",
                "`files` has no tool `reed_file`; it has `read_file`",
            ),
            ("x = files.reed_file", "`files` has no tool `reed_file`; it has `read_file`"),
            ("x = filez.read_file()", "the tools are under `files`, `json_`, `math_`, `print_`"),
            (
                "def f(e): return e.kind\ntry:\n  files.fail()\nexcept ToolError as e:\n  f(e)",
                "`except … as` block",
            ),
        ]);
    }
}
