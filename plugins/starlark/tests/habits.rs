//! Runs the corpus of scripts in Python's style and compares each with `CPython`'s own result.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use airlock_executor::{Answer, Binding, Language as _, Request, Script, ToolError, Tools};
use airlock_starlark::Starlark;
use serde_json::Value as Json;

/// Scripts of the held-out corpus that are known to run. Never to be lowered.
const LEAST_HELD_OUT: usize = 59;

/// The fixture tools: for each name, rules of which the first that fits answers.
struct Fixtures(BTreeMap<String, Vec<Json>>);

impl Fixtures {
    fn read(corpora: &Path) -> Self {
        let text = std::fs::read_to_string(corpora.join("tools.json")).expect("fixtures exist");
        Self(serde_json::from_str(&text).expect("fixtures are JSON"))
    }

    fn bindings(&self) -> Vec<Binding> {
        let binding = |full: &String| {
            let (namespace, name) = full.split_once('.').expect("a tool is server.tool");
            let (namespace, name) = (namespace.into(), name.into());
            Binding { namespace, name, alias: None, tool: full.clone() }
        };
        self.0.keys().map(binding).collect()
    }
}

impl Tools for Fixtures {
    fn call(&self, request: Request) -> Result<Answer, ToolError> {
        let given: Json = serde_json::from_str(&request.arguments).expect("arguments are JSON");
        let fits = |rule: &&Json| {
            let when = rule["when"].as_object().expect("a rule has `when`");
            when.iter().all(|(key, value)| given.get(key) == Some(value))
        };
        let Some(rule) = self.0[&request.tool].iter().find(fits) else {
            return Err(fault("invalid-input", None, "no rule"));
        };
        match rule.get("error") {
            None => Ok(Answer::Json(rule["result"].to_string())),
            Some(error) => Err(fault(
                error["kind"].as_str().unwrap_or_default(),
                error["code"].as_str(),
                error["message"].as_str().unwrap_or_default(),
            )),
        }
    }
}

fn fault(kind: &str, code: Option<&str>, message: &str) -> ToolError {
    let (kind, code) = (kind.into(), code.map(Into::into));
    ToolError { kind, code, message: message.into(), data: None }
}

/// Returns whether two values are equal in Python: `1` differs from `1.0`, and an integer beyond 64
/// bits has become text.
fn equal(ours: &Json, theirs: &Json) -> bool {
    match (ours, theirs) {
        (Json::Array(a), Json::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))
        }
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| equal(a, b)))
        }
        (Json::Number(a), Json::Number(b)) => {
            let (a, b) = (a.to_string(), b.to_string());
            let is_float = |text: &str| text.contains(['.', 'e', 'E']);
            is_float(&a) == is_float(&b)
                && (a == b || is_float(&a) && a.parse::<f64>().ok() == b.parse::<f64>().ok())
        }
        (Json::String(a), Json::Number(b)) => *a == b.to_string(),
        (a, b) => a == b,
    }
}

/// Runs each script of `folder` in both, and returns those that differ.
fn differences(folder: &str) -> (usize, Vec<String>) {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpora");
    // A corpus may have fixtures of its own.
    let own = corpora.join(folder).join("fixtures");
    let fixtures = if own.exists() { &own } else { &corpora };
    let mut files: Vec<PathBuf> = std::fs::read_dir(corpora.join(folder))
        .expect("the corpus exists")
        .map(|entry| entry.expect("the folder can be read").path())
        .filter(|path| path.extension().is_some_and(|it| it == "py"))
        .collect();
    files.sort();
    let python = Command::new("python3")
        .arg("-B")
        .arg(fixtures.join("run.py"))
        .args(&files)
        .output()
        .expect("python3 runs");
    assert!(python.status.success(), "{}", String::from_utf8_lossy(&python.stderr));
    let expected = String::from_utf8(python.stdout).expect("Python prints JSON");
    let fixtures = Fixtures::read(fixtures);
    let found = files.iter().zip(expected.lines()).filter_map(|(file, expected)| {
        let expected: Json = serde_json::from_str(expected).expect("a line is JSON");
        difference(file, &expected, &fixtures)
    });
    (files.len(), found.collect())
}

fn difference(file: &Path, expected: &Json, fixtures: &Fixtures) -> Option<String> {
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let source = std::fs::read_to_string(file).expect("a script can be read");
    let bindings = fixtures.bindings().into();
    let script = Script { name: name.clone(), source, bindings, clock_ms: None };
    let printed = RefCell::new(String::new());
    let print = |line: &str| {
        printed.borrow_mut().push_str(line);
        printed.borrow_mut().push('\n');
    };
    let ours = match Starlark::run(&script, fixtures, &print) {
        Ok(json) => json.map_or(Json::Null, |json| serde_json::from_str(&json).expect("JSON")),
        Err(failure) => return Some(format!("{name} does not run:\n{}", failure.rendered)),
    };
    if !equal(&ours, &expected["result"]) {
        return Some(format!("{name}\n  ours:   {ours}\n  Python: {}", expected["result"]));
    }
    let (ours, theirs) = (printed.into_inner(), expected["printed"].as_str().unwrap_or_default());
    (ours.trim_end() != theirs.trim_end())
        .then(|| format!("{name} printed\n  ours:   {ours:?}\n  Python: {theirs:?}"))
}

#[test]
fn scripts_in_pythons_style_have_pythons_result() {
    Starlark::prepare();
    let (total, different) = differences("habits");
    assert!(total >= 150, "the corpus has {total} scripts");
    assert!(different.is_empty(), "{} of {total}:\n{}", different.len(), different.join("\n"));
}

/// Scripts that were written by others than the executor's authors, and never looked at while it was
/// made. About a third use what cannot be had, such as `try` and classes.
#[test]
fn most_scripts_that_nothing_was_made_for_have_pythons_result() {
    Starlark::prepare();
    let (total, different) = differences("held_out");
    let same = total - different.len();
    println!("held_out: {same} of {total} scripts as in CPython\n{}", different.join("\n"));
    assert!(same >= LEAST_HELD_OUT, "{same} of {total}:\n{}", different.join("\n"));
}
