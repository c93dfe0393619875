//! The corpora of scripts as models write them (`tests/corpora`), each compared with what `CPython` makes
//! of it.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use serde_json::Value;

use airlock_executor::{Binding, Language, Request, Script, ToolAnswer, ToolError, Tools};

/// Time for one script, which takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// A corpus after its run.
pub struct Corpus {
    /// Scripts in it.
    pub total: usize,
    /// Those that ran as in `CPython`.
    pub same: usize,
}

/// Runs a corpus and prints what differs; `None` without the corpora, or without Python.
///
/// # Panics
///
/// If the corpus is damaged, or `CPython` does not run one of its scripts.
pub fn run<L: Language + 'static>(name: &str) -> Option<Corpus> {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpora");
    let directory = all.join(name);
    // A corpus may have fixtures of its own.
    let own = directory.join("fixtures");
    let fixtures = if own.exists() { &own } else { &all };
    let tools = Arc::new(Fixtures::read(fixtures)?);
    let entries = fs::read_dir(directory).ok()?;
    let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "py"));
    files.sort();
    let expected = in_cpython(fixtures, &files)?;
    let mut same = 0;
    for file in &files {
        let source = fs::read_to_string(file).expect("UTF-8");
        let expected = expected.get(&file_name(file)).filter(|ran| ran.get("result").is_some());
        let Some(expected) = expected else { panic!("CPython does not run {}", file.display()) };
        match difference_in_time::<L>(&tools, source, expected) {
            None => same += 1,
            Some(difference) => println!("--- {}\n{difference}", file_name(file)),
        }
    }
    println!("{name}: {same} of {} scripts as in CPython", files.len());
    Some(Corpus { total: files.len(), same })
}

/// Returns what `CPython` makes of each script, by file name.
fn in_cpython(fixtures: &Path, files: &[PathBuf]) -> Option<BTreeMap<String, Value>> {
    let output = Command::new(env::var("PYTHON").unwrap_or_else(|_| "python3".into()))
        .arg("-B")
        .arg(fixtures.join("run.py"))
        .args(files)
        .output()
        .ok()?;
    let lines = String::from_utf8_lossy(&output.stdout);
    let ran = lines.lines().map(|line| {
        let ran: Value = serde_json::from_str(line).expect("run.py prints JSON");
        (file_name(Path::new(ran["file"].as_str().expect("a file"))), ran)
    });
    Some(ran.collect())
}

fn file_name(file: &Path) -> String {
    file.file_name().expect("a name").to_string_lossy().into_owned()
}

/// Runs a script as [`difference`] does, which here has no fuel that ends an endless loop.
fn difference_in_time<L: Language + 'static>(
    tools: &Arc<Fixtures>,
    source: String,
    expected: &Value,
) -> Option<String> {
    let (sender, receiver) = mpsc::channel();
    let tools = tools.clone();
    let expected = expected.clone();
    // The thread of a script that does not end goes with the process.
    thread::spawn(move || sender.send(difference::<L>(&tools, source, &expected)));
    receiver.recv_timeout(PATIENCE).unwrap_or_else(|_| Some("does not end\n".to_owned()))
}

/// Runs a script, and returns why it differs from `CPython`'s; `None` if it does not.
fn difference<L: Language>(tools: &Fixtures, source: String, expected: &Value) -> Option<String> {
    let script = Script::new("code.py", source, tools.bindings().into());
    let printed = RefCell::new(Vec::new());
    let ended = L::run(&script, tools, &|line| printed.borrow_mut().push(line.to_owned()));
    let value = match ended {
        Ok(value) => value.map_or(Value::Null, |json| serde_json::from_str(&json).expect("JSON")),
        Err(failure) => return Some(failure.rendered),
    };
    if !is_same(&value, &expected["result"]) {
        return Some(format!("{value}\nand not {}\n", expected["result"]));
    }
    let wanted = expected["printed"].as_str().unwrap_or_default().trim_end();
    let printed = printed.into_inner().join("\n");
    (printed.trim_end() != wanted).then(|| format!("printed {printed:?}\nand not {wanted:?}\n"))
}

/// Returns whether two results are equal in Python: `1` differs from `1.0`. An integer beyond 64 bits is
/// a text in ours, and may be a float as the test reads `CPython`'s.
fn is_same(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Array(ours), Value::Array(theirs)) => {
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(a, b)| is_same(a, b))
        }
        (Value::Object(ours), Value::Object(theirs)) => {
            ours.len() == theirs.len()
                && ours.iter().all(|(key, a)| theirs.get(key).is_some_and(|b| is_same(a, b)))
        }
        (Value::Number(ours), Value::Number(theirs)) => {
            ours == theirs || ours.is_f64() && theirs.is_f64() && ours.as_f64() == theirs.as_f64()
        }
        (Value::String(digits), Value::Number(number)) => {
            *digits == number.to_string() || number.is_f64() && is_near(digits, number.as_f64())
        }
        _ => ours == theirs,
    }
}

fn is_near(digits: &str, float: Option<f64>) -> bool {
    let is_integer = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    match (digits.parse::<f64>(), float) {
        (Ok(ours), Some(theirs)) => {
            is_integer && (ours - theirs).abs() <= theirs.abs() * f64::EPSILON
        }
        _ => false,
    }
}

/// The tools of the corpora: for each, rules of which the first that fits the arguments applies.
struct Fixtures(BTreeMap<String, Vec<Value>>);

impl Fixtures {
    fn read(directory: &Path) -> Option<Self> {
        let text = fs::read_to_string(directory.join("tools.json")).ok()?;
        Some(Self(serde_json::from_str(&text).expect("tools.json is an object of lists")))
    }

    fn bindings(&self) -> Vec<Binding> {
        let bindings = self.0.keys().map(|tool| {
            let (namespace, name) = tool.split_once('.').expect("server.tool");
            Binding::in_namespace(namespace, name, tool)
        });
        bindings.collect()
    }

    /// Returns the rule for a call.
    fn rule(&self, request: &Request) -> Option<&Value> {
        let arguments: Value = serde_json::from_str(&request.arguments).expect("an object");
        self.0.get(&request.tool)?.iter().find(|rule| {
            let when = rule["when"].as_object().expect("an object");
            when.iter().all(|(name, value)| arguments.get(name) == Some(value))
        })
    }
}

impl Tools for Fixtures {
    fn call(&self, request: Request) -> Result<ToolAnswer, ToolError> {
        let Some(rule) = self.rule(&request) else {
            let kind = "invalid-input".into();
            return Err(ToolError { kind, message: "no rule".into(), ..ToolError::default() });
        };
        let Some(error) = rule.get("error") else {
            return Ok(ToolAnswer::Json(rule["result"].to_string()));
        };
        Err(ToolError {
            kind: text(error, "kind").unwrap_or_default(),
            code: text(error, "code"),
            message: text(error, "message").unwrap_or_default(),
            data: error.get("data").map(Value::to_string),
            retry_after_ms: error["retry_after_ms"].as_u64(),
        })
    }
}

/// Returns a member of an error that is a text.
fn text(error: &Value, name: &str) -> Option<String> {
    error[name].as_str().map(str::to_owned)
}
