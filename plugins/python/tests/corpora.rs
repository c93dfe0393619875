//! Runs the corpora of scripts as models write them (`tests/corpora`), and compares each with what
//! `CPython` makes of it. Skipped without the corpora, or without Python.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use std::{env, fs, thread};

use airlock_executor::{Answer, Binding, Language as _, Request, Script, ToolError, Tools};
use airlock_python::Python;
use serde_json::Value;

/// Scripts of the corpus of habits that are known to run, in percent. Never to be lowered.
const LEAST_HABITS: usize = 92;

/// Scripts of the held-out corpus that are known to run. Never to be lowered.
const LEAST_HELD_OUT: usize = 80;

/// Time for one script, which takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// The tools of the corpora: for each, rules of which the first that fits the arguments applies.
struct Fixture(BTreeMap<String, Vec<Value>>);

impl Fixture {
    fn read(directory: &Path) -> Option<Self> {
        let text = fs::read_to_string(directory.join("tools.json")).ok()?;
        Some(Self(serde_json::from_str(&text).expect("tools.json is an object of lists")))
    }

    fn bindings(&self) -> Vec<Binding> {
        let binding = |tool: &String| {
            let (namespace, name) = tool.split_once('.').expect("server.tool");
            Binding {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                alias: None,
                tool: tool.clone(),
            }
        };
        self.0.keys().map(binding).collect()
    }
}

impl Tools for Fixture {
    fn call(&self, request: Request) -> Result<Answer, ToolError> {
        let arguments: Value = serde_json::from_str(&request.arguments).expect("an object");
        let fits = |rule: &&Value| {
            let when = rule["when"].as_object().expect("an object");
            when.iter().all(|(name, value)| arguments.get(name) == Some(value))
        };
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let rule = self.0.get(&request.tool).and_then(|rules| rules.iter().find(fits));
        match rule {
            Some(rule) if rule.get("error").is_some() => Err(ToolError {
                kind: text(&rule["error"]["kind"]).unwrap_or_default(),
                code: text(&rule["error"]["code"]),
                message: text(&rule["error"]["message"]).unwrap_or_default(),
                data: rule["error"].get("data").map(Value::to_string),
            }),
            Some(rule) => Ok(Answer::Json(rule["result"].to_string())),
            None => Err(ToolError {
                kind: "invalid-input".into(),
                message: "no rule".into(),
                ..ToolError::default()
            }),
        }
    }
}

/// Returns what `CPython` makes of each script, by file name.
fn expected(directory: &Path, files: &[PathBuf]) -> Option<BTreeMap<String, Value>> {
    let output = Command::new(env::var("PYTHON").unwrap_or_else(|_| "python3".into()))
        .arg("-B")
        .arg(directory.join("run.py"))
        .args(files)
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = |line: &str| {
        let value: Value = serde_json::from_str(line).expect("run.py prints JSON");
        let file = value["file"].as_str().expect("a file");
        let name = Path::new(file).file_name().expect("a name").to_string_lossy().into_owned();
        (name, value)
    };
    Some(text.lines().map(line).collect())
}

/// Runs a script, and returns why it differs from `CPython`'s; `None` if it does not.
fn difference(fixture: &Fixture, source: &str, expected: &Value) -> Option<String> {
    let script = Script {
        name: "code.py".into(),
        source: source.into(),
        bindings: fixture.bindings().into(),
        clock_ms: None,
    };
    let printed = RefCell::new(Vec::new());
    let ended = Python::run(&script, fixture, &|line| printed.borrow_mut().push(line.to_owned()));
    let value = match ended {
        Ok(value) => value.unwrap_or_else(|| "null".to_owned()),
        Err(failure) => return Some(failure.rendered),
    };
    let value: Value = serde_json::from_str(&value).expect("JSON");
    if !same(&value, &expected["result"]) {
        return Some(format!("{value}\nand not {}\n", expected["result"]));
    }
    let wanted = expected["printed"].as_str().unwrap_or_default().trim_end();
    let printed = printed.into_inner().join("\n");
    (printed.trim_end() != wanted).then(|| format!("printed {printed:?}\nand not {wanted:?}\n"))
}

/// Returns whether two results are equal. An integer beyond 64 bits is a text in ours, and a float as
/// the test reads `CPython`'s.
fn same(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Array(ours), Value::Array(theirs)) => {
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(a, b)| same(a, b))
        }
        (Value::Object(ours), Value::Object(theirs)) => {
            ours.len() == theirs.len()
                && ours.iter().all(|(key, a)| theirs.get(key).is_some_and(|b| same(a, b)))
        }
        (Value::String(digits), Value::Number(number)) if number.is_f64() => {
            digits.bytes().all(|it| it.is_ascii_digit() || it == b'-')
                && digits
                    .parse::<f64>()
                    .ok()
                    .zip(number.as_f64())
                    .is_some_and(|(a, b)| (a - b).abs() <= b.abs() * f64::EPSILON)
        }
        _ => ours == theirs,
    }
}

/// Runs a script as [`difference`] does, which here has no fuel that ends an endless loop.
fn in_time(fixture: &Arc<Fixture>, source: String, expected: &Value) -> Option<String> {
    let (sender, receiver) = mpsc::channel();
    let (fixture, expected) = (fixture.clone(), expected.clone());
    // The thread of a script that does not end goes with the process.
    thread::spawn(move || sender.send(difference(&fixture, &source, &expected)));
    receiver.recv_timeout(PATIENCE).unwrap_or_else(|_| Some("does not end\n".to_owned()))
}

/// Runs a corpus, prints what differs, and returns how many scripts ran and how many there are;
/// `None` without it.
fn corpus(name: &str) -> Option<(usize, usize)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpora");
    // A corpus may have fixtures of its own.
    let own = directory.join(name).join("fixtures");
    let fixtures = if own.exists() { &own } else { &directory };
    let fixture = Arc::new(Fixture::read(fixtures)?);
    let entries = fs::read_dir(directory.join(name)).ok()?;
    let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|file| file.extension().is_some_and(|it| it == "py"));
    files.sort();
    let expected = expected(fixtures, &files)?;
    let mut ran = 0;
    for file in &files {
        let source = fs::read_to_string(file).expect("UTF-8");
        let name = file.file_name().expect("a name").to_string_lossy();
        let expected = expected.get(&*name).filter(|value| value.get("result").is_some());
        let expected = expected.unwrap_or_else(|| panic!("CPython does not run {name}"));
        match in_time(&fixture, source, expected) {
            None => ran += 1,
            Some(difference) => println!("--- {name}\n{difference}"),
        }
    }
    println!("{name}: {ran} of {} scripts as in CPython", files.len());
    Some((ran, files.len()))
}

#[test]
fn habits_of_models_run_as_in_cpython() {
    let Some((ran, all)) = corpus("habits") else { return };
    assert!(ran * 100 >= all * LEAST_HABITS, "{ran} of {all} scripts ran");
}

#[test]
fn habits_that_only_this_executor_has_run_as_in_cpython() {
    let Some((ran, all)) = corpus("habits/python") else { return };
    assert_eq!(ran, all);
}

#[test]
fn as_many_held_out_scripts_as_ever_run_as_in_cpython() {
    let Some((ran, all)) = corpus("held_out") else { return };
    assert!(ran >= LEAST_HELD_OUT, "{ran} of {all} scripts ran");
}
