//! Modules of Python's library that the interpreter lacks, or of which it lacks something. They are
//! classes in Python, before the script, and only if the script imports them.

use std::collections::BTreeSet;

use ruff_python_ast::visitor::{Visitor, walk_expr, walk_stmt};
use ruff_python_ast::{Alias, Expr, Stmt, StmtImport, StmtImportFrom};
use ruff_text_size::{Ranged, TextRange};

use super::dataclasses;
use super::source::Edit;

/// A module, or a part of one.
struct Module {
    name: &'static str,
    /// Names in the class; empty if the interpreter has nothing of the module.
    members: &'static [&'static str],
    text: &'static str,
}

macro_rules! module {
    ($name:literal, $members:expr) => {
        Module {
            name: $name,
            members: &$members,
            text: include_str!(concat!("library/", $name, ".py")),
        }
    };
}

const MODULES: [Module; 15] = [
    module!("bisect", []),
    module!("collections", ["OrderedDict"]),
    module!("copy", []),
    module!("csv", []),
    module!("dataclasses", ["asdict", "astuple", "field", "fields", "is_dataclass", "replace"]),
    module!("functools", ["cache", "lru_cache", "wraps"]),
    module!("heapq", []),
    module!("io", []),
    module!("itertools", ["combinations", "groupby", "permutations", "product"]),
    module!("math", ["hypot", "prod"]),
    module!("operator", []),
    module!("statistics", []),
    module!("string", []),
    module!("urllib.parse", []),
    // After the module that it holds.
    module!("urllib", []),
];

/// Returns the names in a module that is supplied as a whole; `None` for any other.
pub(crate) fn members(module: &str) -> Option<Vec<&'static str>> {
    let module = MODULES.iter().find(|it| it.name == module && it.members.is_empty())?;
    let class = format!("class _airlock_{}:", module.name.replace('.', "_"));
    let (_, text) = module.text.split_once(&*class)?;
    let name = |line: &'static str| {
        let line = line.strip_prefix("    ").filter(|line| !line.starts_with(' '))?;
        let line = line.strip_prefix("def ").unwrap_or(line);
        line.split(['(', ' ']).next()
    };
    Some(text.lines().filter_map(name).collect())
}

/// Returns the changes, and the text to put before the script.
pub(super) fn edits(source: &str, body: &[Stmt]) -> (Vec<Edit>, String) {
    let mut finder = Finder { source, edits: Vec::new(), used: BTreeSet::new() };
    finder.visit_body(body);
    let mut text: String = finder.used.iter().map(|at| MODULES[*at].text).collect();
    if finder.used.iter().any(|at| MODULES[*at].name == "dataclasses") {
        let (fields, decorators) = dataclasses::fields(body);
        finder.edits.extend(decorators);
        text.push_str(&fields);
    }
    (finder.edits, text)
}

struct Finder<'s> {
    source: &'s str,
    edits: Vec<Edit>,
    /// Modules that the script uses, by their number.
    used: BTreeSet<usize>,
}

impl Finder<'_> {
    /// Returns the class that holds a module, or a member of it.
    fn class(&mut self, module: &str, member: Option<&str>) -> Option<String> {
        let has = |it: &Module| {
            it.name == module
                && (it.members.is_empty() || member.is_some_and(|name| it.members.contains(&name)))
        };
        let at = MODULES.iter().position(has)?;
        self.used.insert(at);
        if module == "urllib" {
            self.class("urllib.parse", None);
        }
        Some(format!("_airlock_{}", module.replace('.', "_")))
    }

    fn import(&mut self, statement: &StmtImport) {
        let one = |finder: &mut Self, alias: &Alias| {
            let mut name = alias.name.as_str();
            if name == "urllib.parse" && alias.asname.is_none() {
                name = "urllib";
            }
            let class = finder.class(name, None);
            (
                class.is_some(),
                match (class, &alias.asname) {
                    (Some(class), bound) => {
                        format!("{} = {class}", bound.as_ref().map_or(name, |it| it.as_str()))
                    }
                    (None, Some(bound)) => format!("import {name} as {bound}"),
                    (None, None) => format!("import {name}"),
                },
            )
        };
        let all: Vec<_> = statement.names.iter().map(|alias| one(self, alias)).collect();
        self.replace(statement.range(), &all);
    }

    fn import_from(&mut self, statement: &StmtImportFrom) {
        let Some(module) = statement.module.as_ref().filter(|_| statement.level == 0) else {
            return;
        };
        let one = |finder: &mut Self, alias: &Alias| {
            let name = alias.name.as_str();
            let class = finder.class(module.as_str(), Some(name));
            let bound = alias.asname.as_ref().map_or(name, |it| it.as_str());
            (
                class.is_some(),
                match class {
                    Some(class) => format!("{bound} = {class}.{name}"),
                    None => format!("from {module} import {name} as {bound}"),
                },
            )
        };
        let all: Vec<_> = statement.names.iter().map(|alias| one(self, alias)).collect();
        self.replace(statement.range(), &all);
    }

    /// Replaces an import by several, if one of them is changed and the import is on one line.
    fn replace(&mut self, range: TextRange, all: &[(bool, String)]) {
        let (at, end) = (range.start().to_usize(), range.end().to_usize());
        let breaks = self.source[at..end].matches('\n').count();
        if all.iter().any(|(is_changed, _)| *is_changed) {
            let texts: Vec<_> = all.iter().map(|(_, text)| text.as_str()).collect();
            // The lines after it stay where they are.
            let insert = texts.join("; ") + &"\\\n".repeat(breaks);
            self.edits.push(Edit::replace(at, end - at, insert));
        }
    }
}

impl<'a> Visitor<'a> for Finder<'_> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::Import(it) => self.import(it),
            Stmt::ImportFrom(it) => self.import_from(it),
            _ => walk_stmt(self, statement),
        }
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        if let Expr::Attribute(it) = expression
            && let Expr::Name(module) = &*it.value
            && MODULES
                .iter()
                .any(|known| known.name == module.id.as_str() && !known.members.is_empty())
            && let Some(class) = self.class(module.id.as_str(), Some(it.attr.as_str()))
        {
            let (at, end) = (module.start().to_usize(), module.end().to_usize());
            self.edits.push(Edit::replace(at, end - at, class));
        }
        walk_expr(self, expression);
    }
}

#[cfg(test)]
mod tests {
    use crate::run::tests::{fail, result};

    #[test]
    fn long_texts_are_taken_apart_in_one_pass() {
        // Each takes under a second, and would take minutes if its time were quadratic.
        for (expression, value) in [
            ("len(re.split('(,)', 'a,' * 100000))", "200001"),
            ("len(re.sub('(,)', r'\\1', 'a,' * 100000))", "200000"),
            ("len(next(csv.reader(['\"é\",' * 100000])))", "100001"),
            ("len(next(csv.reader(['\"' + '\"\"' * 200000 + '\"']))[0])", "200000"),
            ("len([1 for _ in range(100000) if text.readline()])", "100000"),
        ] {
            let source = format!(
                "import csv, io, re\ntext = io.StringIO('é\\n' * 100000)\nresult = {expression}"
            );
            let begun = std::time::Instant::now();
            assert_eq!(result(&source).as_deref(), Some(value), "{expression}");
            let seconds = begun.elapsed().as_secs();
            assert!(seconds < 20, "{expression} took {seconds} s");
        }
    }

    #[test]
    fn modules_that_the_interpreter_lacks_are_there() {
        for (source, value) in [
            (
                "import statistics\nresult = [statistics.mean([1, 2, 3]), statistics.median([1, 2]), statistics.mode('aab'), round(statistics.stdev([1, 2, 4]), 3)]",
                r#"[2,1.5,"a",1.528]"#,
            ),
            (
                "from statistics import mean as m, median\nresult = [m([1, 2]), median([3])]",
                "[1.5,3]",
            ),
            (
                "import json, operator as op\nresult = json.dumps(sorted([{'a': 2}, {'a': 1}], key=op.itemgetter('a')))",
                r#""[{\"a\": 1}, {\"a\": 2}]""#,
            ),
            (
                "from itertools import groupby, chain\nresult = [[k, list(g)] for k, g in groupby([1, 1, 2], key=lambda x: x % 2)] + list(chain([1], [2]))",
                "[[1,[1,1]],[0,[2]],1,2]",
            ),
            (
                "from itertools import (\n    product,\n    combinations,\n)\nresult = [list(product('ab', [1])), list(combinations([1, 2, 3], 2))]",
                r#"[[["a",1],["b",1]],[[1,2],[1,3],[2,3]]]"#,
            ),
            (
                "import itertools, math\nresult = [len(list(itertools.permutations([1, 2, 3]))), math.hypot(3, 4), math.floor(2.5)]",
                "[6,5.0,2]",
            ),
            (
                "import heapq, bisect\nh = [3, 1, 2]\nheapq.heapify(h)\nheapq.heappush(h, 0)\nresult = [heapq.heappop(h), heapq.heappop(h), heapq.nlargest(1, h), bisect.bisect([1, 2, 3], 2)]",
                "[0,1,[3],2]",
            ),
            (
                "from copy import deepcopy\na = {'x': [1]}\nb = deepcopy(a)\nb['x'].append(2)\nresult = [a, b]",
                r#"[{"x":[1]},{"x":[1,2]}]"#,
            ),
            (
                "import string\nfrom collections import OrderedDict, Counter\nresult = [string.digits, OrderedDict(a=1), Counter('aa')]",
                r#"["0123456789",{"a":1},{"a":2}]"#,
            ),
            (
                "from functools import lru_cache, reduce\n@lru_cache(maxsize=None)\ndef fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\nresult = fib(30)",
                "832040",
            ),
            (
                "import csv, io\nout = io.StringIO()\ncsv.writer(out).writerow(['a,b', None, 1])\nresult = [[row['x'] for row in csv.DictReader(io.StringIO('x,y\\n\"1,2\",3\\n'))], list(csv.reader(['a;\"b;\"\"c\"'], delimiter=';')), out.getvalue()]",
                r#"[["1,2"],[["a","b;\"c"]],"\"a,b\",,1\r\n"]"#,
            ),
            (
                "import urllib.parse\nfrom urllib import parse\nfrom urllib.parse import urlparse as p\nresult = [urllib.parse.quote('a b'), parse.unquote('a%C3%A9'), p('http://h:1/x?y').port]",
                r#"["a%20b","aé",1]"#,
            ),
        ] {
            assert_eq!(result(source).as_deref(), Some(value), "{source}");
        }
        assert_eq!(fail("from itertools import (\n  product,\n)\nx").line, Some(4));
    }
}
