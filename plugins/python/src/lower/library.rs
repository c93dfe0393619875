//! Modules of Python's library that the interpreter lacks, or of which it lacks something. They are
//! classes in Python, before the script, and only if the script imports them.

use std::collections::BTreeSet;

use ruff_python_ast::visitor::{Visitor, walk_expr, walk_stmt};
use ruff_python_ast::{Alias, Expr, Stmt, StmtImportFrom};
use ruff_text_size::{Ranged as _, TextRange};

use super::dataclasses;
use super::source::Edit;
use super::syntax::Syntax;

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
    let module = MODULES.iter().find(|known| known.name == module && known.members.is_empty())?;
    let class = format!("class {}:", class_name(module.name));
    let (_, text) = module.text.split_once(&*class)?;
    Some(text.lines().filter_map(member).collect())
}

/// Returns the name that a line of a class defines.
fn member(line: &str) -> Option<&str> {
    let line = line.strip_prefix("    ").filter(|line| !line.starts_with(' '))?;
    line.strip_prefix("def ").unwrap_or(line).split(['(', ' ']).next()
}

/// Returns the name of the class that holds a module.
fn class_name(module: &str) -> String {
    format!("_airlock_{}", module.replace('.', "_"))
}

/// Returns the changes, and the text to put before the script.
pub(super) fn edits(syntax: &Syntax<'_>) -> (Vec<Edit>, String) {
    let mut finder = LibraryFinder { syntax, edits: Vec::new(), used: BTreeSet::new() };
    finder.visit_body(syntax.body);
    let mut text: String = finder.used.iter().map(|at| MODULES[*at].text).collect();
    if finder.used.iter().any(|at| MODULES[*at].name == "dataclasses") {
        let (fields, decorators) = dataclasses::fields(syntax.body);
        finder.edits.extend(decorators);
        text.push_str(&fields);
    }
    (finder.edits, text)
}

struct LibraryFinder<'s> {
    syntax: &'s Syntax<'s>,
    edits: Vec<Edit>,
    /// Modules that the script uses, by their number.
    used: BTreeSet<usize>,
}

/// Binding of one name of an import.
enum ImportBinding {
    /// The statement that the script has, for this name alone.
    Kept(String),
    /// An assignment of a class, or of what is in it.
    Replaced(String),
}

impl LibraryFinder<'_> {
    /// Returns the class that holds a module, or a member of it.
    fn class(&mut self, module: &str, member: Option<&str>) -> Option<String> {
        let at = MODULES.iter().position(|known| {
            let is_whole = known.members.is_empty();
            known.name == module
                && (is_whole || member.is_some_and(|name| known.members.contains(&name)))
        })?;
        self.used.insert(at);
        if module == "urllib" {
            self.class("urllib.parse", None);
        }
        Some(class_name(module))
    }

    fn import(&mut self, alias: &Alias) -> ImportBinding {
        let bound = alias.asname.as_ref();
        let name = match alias.name.as_str() {
            "urllib.parse" if bound.is_none() => "urllib",
            name => name,
        };
        match (self.class(name, None), bound) {
            (Some(class), None) => ImportBinding::Replaced(format!("{name} = {class}")),
            (Some(class), Some(bound)) => ImportBinding::Replaced(format!("{bound} = {class}")),
            (None, None) => ImportBinding::Kept(format!("import {name}")),
            (None, Some(bound)) => ImportBinding::Kept(format!("import {name} as {bound}")),
        }
    }

    fn import_from(&mut self, module: &str, Alias { name, asname, .. }: &Alias) -> ImportBinding {
        let bound = asname.as_ref().unwrap_or(name);
        match self.class(module, Some(name.as_str())) {
            Some(class) => ImportBinding::Replaced(format!("{bound} = {class}.{name}")),
            None => ImportBinding::Kept(format!("from {module} import {name} as {bound}")),
        }
    }

    /// Replaces an import by several, if one of them is changed.
    fn replace(&mut self, statement: TextRange, imports: &[ImportBinding]) {
        if imports.iter().any(|import| matches!(import, ImportBinding::Replaced(_))) {
            let texts = imports
                .iter()
                .map(|(ImportBinding::Kept(text) | ImportBinding::Replaced(text))| &**text);
            let texts = texts.collect::<Vec<_>>().join("; ");
            // The lines after it stay where they are.
            let breaks = self.syntax.breaks(statement).replace('\n', "\\\n");
            self.edits.push(Edit::replace(statement, texts + &breaks));
        }
    }
}

impl<'a> Visitor<'a> for LibraryFinder<'_> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::Import(import) => {
                let imports: Vec<_> = import.names.iter().map(|alias| self.import(alias)).collect();
                self.replace(import.range(), &imports);
            }
            Stmt::ImportFrom(StmtImportFrom { module: Some(module), names, level: 0, .. }) => {
                let imports: Vec<_> =
                    names.iter().map(|alias| self.import_from(module, alias)).collect();
                self.replace(statement.range(), &imports);
            }
            Stmt::ImportFrom(_) => {}
            _ => walk_stmt(self, statement),
        }
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        if let Expr::Attribute(attribute) = expression
            && let Expr::Name(module) = &*attribute.value
            && MODULES
                .iter()
                .any(|known| known.name == module.id.as_str() && !known.members.is_empty())
            && let Some(class) = self.class(module.id.as_str(), Some(attribute.attr.as_str()))
        {
            self.edits.push(Edit::replace(module.range(), class));
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
