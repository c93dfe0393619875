//! The languages as texts for models. Models write Python. The descriptions cover only the
//! differences that models get wrong without them.

use super::LanguageTexts;
use airlock_core::door::ScriptLanguage;

/// Starlark.
pub(super) const STARLARK: LanguageTexts = LanguageTexts {
    file_name: ScriptLanguage::Starlark.file_name(),
    description: STARLARK_DESCRIPTION,
    note: "Note: scripts are a subset of Python, without try, class and with; every run starts with a fresh scope.",
    waits: "The call waits for the result: no async, no await",
    fails: "If it fails the script ends; attempt(TOOL, {...}) returns .ok, .value and .error instead",
};

/// Python.
pub(super) const PYTHON: LanguageTexts = LanguageTexts {
    file_name: ScriptLanguage::Python.file_name(),
    description: PYTHON_DESCRIPTION,
    note: "Note: scripts are Python, without clock, files and network; every run starts with a fresh scope.",
    waits: "The call waits for the result; await asyncio.gather(...) makes calls at the same time",
    fails: "If it fails it raises ToolError, with .kind, .code, .message and .data",
};

/// Python whose scripts see the time at which their run began.
pub(super) const PYTHON_WITH_CLOCK: LanguageTexts = LanguageTexts {
    description: PYTHON_WITH_CLOCK_DESCRIPTION,
    note: "Note: scripts are Python, without files and network; the clock stands still at the start of the run (UTC); every run starts with a fresh scope.",
    ..PYTHON
};

const STARLARK_DESCRIPTION: &str = "\
Runs a script that calls tools, and returns what it leaves in `result` and what it prints. Tool results stay in the script: \
call many tools, filter and combine, and return only what you need.

Each server is a global. Call tools as server.tool(name=value), with keyword arguments or one dict. Calls wait for the \
result. A result that is JSON arrives as data - index it, r[\"key\"], not r.key - and any other as a str; images and other \
binary parts as dicts with type, mime_type and size. Read names and \
parameters with readToolFile first; do not guess them.

The language is Python, as a subset that runs on Starlark: functions, loops, comprehensions, f-strings with format specs, \
lambdas, walrus, unpacking, sets, global and nonlocal work as in Python. What differs:
- no try/except: attempt(server.tool, {\"name\": value}) returns a struct with .ok, .value and .error (.kind, .code, .message, \
.data); any other failure ends the script
- no class, with, yield or async: use dicts or namedtuple
- import works for bisect, collections, copy, csv, datetime, functools, heapq, io, itertools, json, math, operator, re, statistics, \
string, typing, urllib.parse; there is no clock, so no now() or today(); re has no look-around and no back references
- gather([(server.tool, {\"name\": value}), ...]) makes calls at the same time, and returns their results in that \
order; with attempt=True each is a struct as above.

Every run starts fresh, without variables of earlier runs, without files, network or clock. A script that failed has still \
made its calls: when you run it again, leave out those that change something.

Example (the server `tracker` is made up):
issues = tracker.list_issues(state=\"open\")
print(len(issues), \"open\")
result = [{\"id\": i[\"id\"], \"title\": i[\"title\"]} for i in issues if \"bug\" in i[\"labels\"]]";

/// Returns the description of Python, with the line about the clock.
macro_rules! python_description {
    ($clock:literal) => {
        concat!(
            "\
Runs a script that calls tools, and returns what it leaves in `result` and what it prints. Tool results stay in the script: \
call many tools, filter and combine, and return only what you need.

Each server is a global. Call tools as server.tool(name=value), with keyword arguments or one dict. Calls wait for the \
result. A result that is JSON arrives as data - index it, r[\"key\"], not r.key - and any other as a str; images and other \
binary parts as dicts with type, mime_type and size. Read names and \
parameters with readToolFile first; do not guess them.

The language is Python, without a few things: def, lambda, loops, comprehensions, f-strings and format specs, try, with, \
simple classes and dataclasses. What differs:
- assign the value to return to the global `result`
- calls can be awaited, also at the top level; what is awaited together runs at the same time: \
await asyncio.gather(*[server.tool(id=i) for i in ids])
- a failed tool raises ToolError; in `except ToolError as e:` there are e.kind, e.code, e.message and e.data. Uncaught, it \
ends the script
- to import: asyncio base64 bisect collections copy csv dataclasses datetime functools heapq io itertools json math operator re \
statistics string typing urllib.parse, as far as they are pure. Nothing else exists
- no yield, match, inheritance, async for; of method decorators property, staticmethod and classmethod; async with works for \
asyncio.Semaphore alone
",
            $clock,
            "

Every run starts fresh, without variables of earlier runs. A script that failed has still made its calls: when you run it \
again, leave out those that change something.

Example (the server `tracker` is made up):
issues = tracker.list_issues(state=\"open\")
print(len(issues), \"open\")
result = [{\"id\": i[\"id\"], \"title\": i[\"title\"]} for i in issues if \"bug\" in i[\"labels\"]]"
        )
    };
}

const PYTHON_DESCRIPTION: &str = python_description!(
    "- no clock, randomness, environment, files or network: datetime computes with dates, but now() and today() fail"
);

const PYTHON_WITH_CLOCK_DESCRIPTION: &str = python_description!(
    "- the clock stands still at the start of the run (UTC): now() and today() are that time; no randomness, environment, files or network"
);
