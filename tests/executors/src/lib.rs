//! Shared parts of the tests of executors: tools, scripts that every language runs, those of a program that
//! has functions and inputs, and the corpora.

pub mod corpora;
pub mod embedded;

use std::{
    cell::RefCell,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use airlock_executor::{
    Binding, Bindings, Catalogue, Failure, FailureKind, Language, Request, Script, ToolAnswer,
    ToolError, Tools,
};

/// The tools of `files`: `read_file` returns its arguments, `number` the number in the text `n`, and
/// `broken` what is no JSON; `fail_with` fails with the message `text`, and any other with `refused`.
#[derive(Default)]
pub struct Files {
    /// Numbers of calls that were made at a time.
    batches: RefCell<Vec<usize>>,
}

impl Files {
    /// Returns the tools by their names, and clients whose names are those of Python with an
    /// underscore.
    fn bindings() -> Bindings {
        Self::namespaced().into()
    }

    fn namespaced() -> Vec<Binding> {
        let tools = ["read_file", "fail", "fail_with", "number", "broken"];
        let mut all: Vec<_> = tools.map(|name| binding("files", name)).into();
        all[0].alias = Some("readFile".into());
        all.extend(["json_", "math_", "print_"].map(|client| binding(client, "compute")));
        all
    }

    fn answer(request: Request) -> Result<ToolAnswer, ToolError> {
        match request.tool.as_str() {
            "files-read_file" => Ok(ToolAnswer::Text(request.arguments)),
            "files-number" => Ok(ToolAnswer::Text(argument(&request, "n"))),
            "files-broken" => Ok(ToolAnswer::Json("{".into())),
            "files-fail_with" => Err(ToolError {
                kind: "denied".into(),
                message: argument(&request, "text"),
                ..ToolError::default()
            }),
            _ => Err(ToolError {
                kind: "denied".into(),
                code: Some("no_way".into()),
                message: "refused".into(),
                data: Some(request.arguments),
                ..ToolError::default()
            }),
        }
    }
}

impl Tools for Files {
    fn call(&self, request: Request) -> Result<ToolAnswer, ToolError> {
        self.batches.borrow_mut().push(1);
        Self::answer(request)
    }

    fn call_batch(&self, requests: Vec<Request>) -> Vec<Result<ToolAnswer, ToolError>> {
        self.batches.borrow_mut().push(requests.len());
        requests.into_iter().map(Self::answer).collect()
    }
}

fn binding(namespace: &str, name: &str) -> Binding {
    Binding::in_namespace(namespace, name, format!("{namespace}-{name}"))
}

/// Runs a script with the tools of [`Files`].
pub fn run<L: Language>(
    source: &str,
    files: &Files,
    print: &dyn Fn(&str),
) -> Result<Option<String>, Failure> {
    L::run(&Script::new("code", source, Files::bindings()), files, print)
}

/// Returns the result of a script that ends well.
///
/// # Panics
///
/// If the script fails.
#[track_caller]
pub fn result<L: Language>(source: &str) -> Option<String> {
    run::<L>(source, &Files::default(), &|_| ())
        .unwrap_or_else(|failure| panic!("{source}: {}", failure.rendered))
}

/// Returns the failure of a script.
///
/// # Panics
///
/// If the script ends well.
#[track_caller]
pub fn fail<L: Language>(source: &str) -> Failure {
    match run::<L>(source, &Files::default(), &|_| ()) {
        Err(failure) => failure,
        Ok(value) => panic!("{source}: worked and left {value:?}"),
    }
}

/// Returns how many calls a script makes at a time.
///
/// # Panics
///
/// If the script fails.
#[track_caller]
pub fn batches<L: Language>(source: &str) -> Vec<usize> {
    let files = Files::default();
    run::<L>(source, &files, &|_| ())
        .unwrap_or_else(|failure| panic!("{source}: {}", failure.rendered));
    files.batches.into_inner()
}

/// Checks that each of these expressions has this value, as JSON.
///
/// # Panics
///
/// If one has not.
#[track_caller]
pub fn check_values<L: Language>(expressions: &[(&str, &str)]) {
    for (expression, json) in expressions {
        let source = format!("result = {expression}");
        assert_eq!(result::<L>(&source).as_deref(), Some(*json), "{expression}");
    }
}

/// Checks that each of these scripts fails with a hint that contains this text.
///
/// # Panics
///
/// If one does not.
#[track_caller]
pub fn check_hints<L: Language>(scripts: &[(&str, &str)]) {
    for (source, hint) in scripts {
        let rendered = fail::<L>(source).rendered;
        let Some((_, shown)) = rendered.split_once("\nhint: ") else {
            panic!("{source}: no hint in {rendered}")
        };
        assert!(shown.contains(hint), "{source}: {shown}");
    }
}

/// Returns an argument that is a text; an empty one if it is not there.
fn argument(request: &Request, name: &str) -> String {
    let arguments: serde_json::Value =
        serde_json::from_str(&request.arguments).expect("arguments are JSON");
    arguments[name].as_str().unwrap_or_default().to_owned()
}

/// Checks what scripts may expect of every executor.
///
/// # Panics
///
/// If a script gets anything else.
pub fn check_language<L: Language>() {
    L::prepare();
    check_printing::<L>();
    check_json::<L>();
    check_tools::<L>();
    check_unfit_results::<L>();
    check_lazy_bindings::<L>();
    embedded::check_language::<L>();
}

/// Printed lines arrive one by one, even if the script fails later.
fn check_printing<L: Language>() {
    let lines = RefCell::new(Vec::new());
    let source = "print('a', 1)\nprint('b\\nc')\nprint()\nprint('d', end='')\nprint('e', 2, sep='-', end='')\n1 // 0";
    run::<L>(source, &Files::default(), &|line: &str| lines.borrow_mut().push(line.to_owned()))
        .expect_err("it divides by zero");
    assert_eq!(*lines.borrow(), ["a 1", "b", "c", "", "de-2"]);
}

/// Values become JSON and back without loss.
fn check_json<L: Language>() {
    for source in ["", "result = None", "1 + 1"] {
        assert_eq!(result::<L>(source), None, "{source}");
    }
    let text = r#"{"z":[1,1.0,-0.5,1e3,18446744073709551615,null,true],"a":{"é":"\u0001"}}"#;
    let same = r#"{"z":[1,1.0,-0.5,1000.0,18446744073709551615,null,true],"a":{"é":"\u0001"}}"#;
    let source = format!("import json\nresult = json.loads(r'{text}')");
    assert_eq!(result::<L>(&source).as_deref(), Some(same));
    check_values::<L>(&[
        (r#"[True, 'a"\n', 1.0, (1, None)]"#, r#"[true,"a\"\n",1.0,[1,null]]"#),
        ("{None: 1, True: 2, 2.5: 3, (1, 2): 4}", r#"{"null":1,"true":2,"2.5":3,"(1, 2)":4}"#),
        (
            "[1 << 63, (1 << 64) - 1, -(1 << 63), 1 << 64]",
            r#"[9223372036854775808,18446744073709551615,-9223372036854775808,"18446744073709551616"]"#,
        ),
        ("files.number(n = '9' * 40) + 1 == 10 ** 40", "true"),
        ("[str(files.number(n = n)) for n in ['1e999', '-1e999']]", r#"["inf","-inf"]"#),
    ]);
    let deepest = format!("{}1{}", "[".repeat(127), "]".repeat(127));
    assert_eq!(result::<L>(&nested(127)), Some(deepest));
    for source in [&*nested(128), "x = []\nx.append(x)\nresult = x"] {
        let message = fail::<L>(source).message;
        assert!(message.contains("127 levels"), "{source}: {message}");
    }
}

/// Returns a script whose result are so many lists in each other.
fn nested(levels: usize) -> String {
    format!("x = 1\nfor _ in range({levels}):\n  x = [x]\nresult = x")
}

/// Tools are ordinary values in their namespaces, and take arguments by name or as one dict.
fn check_tools<L: Language>() {
    check_values::<L>(&[
        ("files.read_file(a = 1, b = [2])", r#"{"a":1,"b":[2]}"#),
        ("files.read_file({'a': 1, 'b': [2]})", r#"{"a":1,"b":[2]}"#),
        ("files.read_file(**{'a': 1, 'b': [2]})", r#"{"a":1,"b":[2]}"#),
        ("dir(files)", r#"["broken","fail","fail_with","number","read_file"]"#),
        (
            "[hasattr(files, 'x'), hasattr(files, 'readFile'), getattr(files, 'x', None)]",
            "[false,true,null]",
        ),
    ]);
    let source = "
f = files.read_file
result = [f(n = 1), getattr(files, 'read_file')(n = 2), [g(n = 3) for g in [files.readFile]], {'f': f}['f'](n = 4)]
";
    assert_eq!(result::<L>(source).as_deref(), Some(r#"[{"n":1},{"n":2},[{"n":3}],{"n":4}]"#));
    let failure = fail::<L>("files.broken()");
    assert_eq!(failure.kind, FailureKind::Tool);
    assert!(failure.message.starts_with("files.broken: its result is not JSON"), "{failure:?}");
}

/// A result that JSON cannot represent is a failure of the run.
fn check_unfit_results<L: Language>() {
    for (source, reason) in [
        ("result = [float('nan')]", "it contains a float that JSON cannot hold (nan or infinity)"),
        ("result = {1: 'a', '1': 'b'}", "a dict in it has two keys that are both \"1\" as text"),
        (
            "result = {'a': [files.readFile]}",
            "`files.read_file` is a tool: call it, like `files.read_file(…)`",
        ),
        ("def main():\n    pass\nresult = main", "`main` is a function: call it, like `main(…)`"),
        ("result = len", "`len` is a function: call it, like `len(…)`"),
    ] {
        let failure = fail::<L>(source);
        assert_eq!(failure.kind, FailureKind::Runtime, "{source}");
        assert_eq!(failure.message, format!("`result` cannot be returned: {reason}"), "{source}");
    }
}

/// A script that uses two of 500 tools, each three times, asks for two.
fn check_lazy_bindings<L: Language>() {
    let times = Arc::new(AtomicUsize::new(0));
    let named = (0..5).map(|n| format!("server_{n}")).collect();
    let source = "out = []
for _ in range(3):
    out.append(server_1.tool_7(a=1))
    out.append(server_3.tool_99())
result = out[2:4]";
    let bindings = Bindings::new(named, Vec::new(), Box::new(Many(times.clone())));
    let script = Script::new("code", source, bindings);
    let value = L::run(&script, &Named, &|_| ()).expect("it ends well");
    assert_eq!(value.as_deref(), Some(r#"["server_1-tool_7","server_3-tool_99"]"#));
    assert_eq!(times.load(Ordering::Relaxed), 2);
}

/// A catalogue of 500 tools in five namespaces that counts what is asked of it.
struct Many(Arc<AtomicUsize>);

impl Catalogue for Many {
    fn find(&self, namespace: &str, name: &str) -> Option<Binding> {
        self.0.fetch_add(1, Ordering::Relaxed);
        let number: usize = name.strip_prefix("tool_")?.parse().ok()?;
        (number < 100).then(|| binding(namespace, name))
    }

    fn names(&self, _: &str) -> Vec<String> {
        panic!("a script that ends well lists no tools")
    }

    fn namespaces(&self) -> Vec<String> {
        panic!("a script that ends well lists no namespaces")
    }

    fn functions(&self) -> Vec<String> {
        panic!("a script that ends well lists no functions")
    }
}

/// Returns the name of the tool.
struct Named;

impl Tools for Named {
    fn call(&self, request: Request) -> Result<ToolAnswer, ToolError> {
        Ok(ToolAnswer::Text(request.tool))
    }
}
