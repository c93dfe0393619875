//! Host-side types of a script's run.

use std::{collections::BTreeMap, sync::Arc};

use airlock_core::{
    door::Chain,
    tool::{CallError, Content, ToolName, ToolOutput},
};
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde_json::Value;

use crate::{SourceCall, ToolFlow, WrongCall};

/// A script to run.
#[derive(Debug, Clone)]
pub struct Script {
    /// File name for messages.
    pub name: String,
    /// Source text.
    pub source: String,
    /// Every tool that exists for this run.
    pub bindings: Arc<Bindings>,
    /// The time that the script sees, in milliseconds since 1970; `None` if the run has no clock.
    pub clock_ms: Option<i64>,
    /// Variables that the script has before its first statement: the members of this JSON object. Their
    /// names are neither keywords, nor `result`, nor those of global functions and namespaces.
    pub inputs: Option<Arc<str>>,
    /// True if a script that assigns no global `result` has the value of its last statement, if that is
    /// an expression.
    pub last_expression: bool,
    /// True if [`ScriptCalls::follow`] is to be called, which takes fuel.
    pub follows_values: bool,
}

/// One tool as the script sees it: `namespace.name(…)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// Name of the global variable.
    pub namespace: String,
    /// Name of the callable under it.
    pub name: String,
    /// Another spelling of the name that works too.
    pub alias: Option<String>,
    /// Full name of the tool that is called.
    pub tool: ToolName,
}

/// One tool that is a global function of the script: `name(…)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GlobalFunction {
    /// Name of the global.
    pub name: String,
    /// Names of the arguments by position, in order; any other argument is given by name. If there are
    /// none, the function takes its arguments as a tool of a namespace does: by name, or as one dict.
    pub parameters: Vec<String>,
    /// The tool that is called.
    pub tool: ToolName,
}

/// Every tool that exists for a run, by the names in its script. Made once for all runs with the same
/// tools: the guest asks for those of namespaces that its script uses.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Bindings {
    namespaces: BTreeMap<String, Vec<Binding>>,
    functions: BTreeMap<String, GlobalFunction>,
}

impl Bindings {
    /// Creates the bindings of global functions, without namespaces. Of two with the same name, the last
    /// is kept.
    pub fn with_functions(functions: Vec<GlobalFunction>) -> Self {
        let named = functions.into_iter().map(|function| (function.name.clone(), function));
        Self { functions: named.collect(), ..Self::default() }
    }

    /// Returns the namespaces that a source can name, sorted.
    pub(crate) fn named_in(&self, source: &str) -> Vec<String> {
        named_in(&self.namespaces, source).into_keys().map(str::to_owned).collect()
    }

    /// Returns the global functions that a source can name, sorted.
    pub(crate) fn functions_in(&self, source: &str) -> Vec<&GlobalFunction> {
        named_in(&self.functions, source).into_values().collect()
    }

    /// Iterates over the names of all global functions, sorted.
    pub(crate) fn functions(&self) -> impl Iterator<Item = &str> {
        self.functions.keys().map(String::as_str)
    }

    /// Finds a tool by its name, or by its alias if no tool of the namespace has that name. Of two
    /// with the same name, the first is found.
    pub fn find(&self, namespace: &str, name: &str) -> Option<&Binding> {
        let tools = self.namespaces.get(namespace)?;
        let named = tools.iter().find(|binding| binding.name == name);
        named.or_else(|| tools.iter().find(|binding| binding.alias.as_deref() == Some(name)))
    }

    /// Iterates over the names of the tools of a namespace.
    pub fn tools(&self, namespace: &str) -> impl Iterator<Item = &str> {
        self.namespaces.get(namespace).into_iter().flatten().map(|binding| binding.name.as_str())
    }

    /// Iterates over the names of all namespaces, sorted.
    pub(crate) fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.namespaces.keys().map(String::as_str)
    }

    /// Iterates over all bindings in namespaces, by namespace.
    pub fn iter(&self) -> impl Iterator<Item = &Binding> {
        self.namespaces.values().flatten()
    }
}

/// Returns the globals that a source can name: those whose names are words in it. All of them if it is not
/// ASCII, because a parser may read other letters as those of a name.
fn named_in<'b, T>(globals: &'b BTreeMap<String, T>, source: &str) -> BTreeMap<&'b str, &'b T> {
    if globals.is_empty() || !source.is_ascii() {
        return globals.iter().map(|(name, global)| (name.as_str(), global)).collect();
    }
    let words = source.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let named = words.filter_map(|word| globals.get_key_value(word));
    named.map(|(name, global)| (name.as_str(), global)).collect()
}

impl FromIterator<Binding> for Bindings {
    fn from_iter<I: IntoIterator<Item = Binding>>(bindings: I) -> Self {
        let mut all: BTreeMap<String, Vec<Binding>> = BTreeMap::new();
        for binding in bindings {
            match all.get_mut(&binding.namespace) {
                Some(tools) => tools.push(binding),
                None => drop(all.insert(binding.namespace.clone(), vec![binding])),
            }
        }
        Self { namespaces: all, functions: BTreeMap::new() }
    }
}

/// Reason that a script left no value.
#[derive(Debug)]
pub enum ScriptError {
    /// The script itself failed.
    Failed(ScriptFailure),
    /// The script was stopped: by a limit, for a missing approval, or because its caller has gone.
    Stopped(CallError),
}

/// A script's own failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ScriptFailure {
    /// Kind of the failure.
    pub kind: FailureKind,
    /// The failure in one line.
    pub message: String,
    /// Line in the source, from 1.
    pub line: Option<u32>,
    /// Column in that line, from 1.
    pub column: Option<u32>,
    /// The failure with call stack and source, for people and models.
    pub rendered: String,
}

/// Kind of a script's failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The script does not parse.
    Syntax,
    /// The script failed while it was running.
    Runtime,
    /// A tool that the script called failed.
    Tool,
}

/// Value that a script left in `result`; `None` if it left none.
pub type ScriptResult = Result<Option<Value>, ScriptError>;

/// A tool call that a script makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptCall {
    /// Name of the tool, as its [`Binding`] has it.
    pub tool: String,
    /// Arguments, as JSON text.
    pub arguments: String,
}

/// Result of a call, for the script: a failure that the script can handle is an inner error.
pub type ScriptAnswer = Result<ToolOutput, CallError>;

/// Makes the calls of one script, in the order in which it asks for them.
pub trait ScriptCalls: Send + Sync {
    /// Makes one call, or several at the same time if `is_block`. Returns the results in the order of
    /// the calls. An error stops the script. If the future is dropped, running calls are cancelled.
    fn make(
        &self,
        calls: Vec<ScriptCall>,
        is_block: bool,
    ) -> BoxFuture<'_, Result<Vec<ScriptAnswer>, CallError>>;

    /// Returns those of the `calls` that its source shows which would fail if the script reached them. If there are any,
    /// the script does not run. Asked at most once, before the first call; must not block, and has the stack of a guest.
    fn check(&self, bindings: &Bindings, calls: &[SourceCall]) -> Vec<WrongCall> {
        let _ = (bindings, calls);
        Vec::new()
    }

    /// Takes what the arguments of the calls may come from, of all tools that the script may call. Called at most once,
    /// after [`Self::check`] and before the first call, if [`Script::follows_values`] is set and the source shows it; must
    /// not block, and has the stack of a guest.
    fn follow(&self, flows: Vec<ToolFlow>) {
        let _ = flows;
    }

    /// Takes a line that the script prints. Must not block, and has the stack of a guest. Emits the line to the chain,
    /// unless it is implemented otherwise.
    fn print(&self, chain: &Chain, line: String) {
        chain.reporter().emit(Content::text(line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bindings() -> Bindings {
        let all = [
            bind("fs", "read_file", Some("readFile")),
            bind("github", "get", None),
            bind("fs", "readFile", None),
        ];
        all.into_iter().collect()
    }

    fn bind(namespace: &str, name: &str, alias: Option<&str>) -> Binding {
        Binding {
            namespace: namespace.into(),
            name: name.into(),
            alias: alias.map(Into::into),
            tool: ToolName::alias(&format!("{namespace}-{name}")),
        }
    }

    #[test]
    fn a_source_names_the_namespaces_that_are_words_in_it() {
        assert_eq!(named_in(""), "");
        assert_eq!(named_in("fs.read_file()"), "fs");
        assert_eq!(named_in("result=[github.get(),fs.x]"), "fs github");
        assert_eq!(named_in("fs_.x, afs.x, fs1.x, 'gitHub'"), "");
        assert_eq!(named_in("f'{github.get()}'"), "github");
        assert_eq!(
            named_in("\u{fb01}s = 'ä'"),
            "fs github",
            "letters that a parser may read as others"
        );
    }

    fn named_in(source: &str) -> String {
        bindings().named_in(source).join(" ")
    }

    #[test]
    fn a_source_names_the_functions_that_are_words_in_it() {
        let functions = ["read", "save", "fs_read"].map(|name| GlobalFunction {
            name: name.into(),
            parameters: vec!["path".into()],
            tool: ToolName::alias(name),
        });
        let Bindings { functions, .. } = Bindings::with_functions(functions.into());
        let bindings = Bindings { functions, ..bindings() };
        assert_eq!(bindings.functions().collect::<Vec<_>>(), ["fs_read", "read", "save"]);
        for (source, expected) in [
            ("", &[][..]),
            ("save(read('a'))\nread('b')", &["read", "save"]),
            ("fs.save_all(); reads = fs_read", &["fs_read"]),
            ("x = 'ä'", &["fs_read", "read", "save"]),
        ] {
            let named = bindings.functions_in(source).into_iter();
            let named: Vec<_> = named.map(|function| function.name.as_str()).collect();
            assert_eq!(named, expected, "{source}");
        }
        assert_eq!(bindings.named_in("save(fs)"), ["fs"]);
        assert_eq!(bindings.iter().count(), 3);
        assert!(Bindings::default().functions_in("read").is_empty());
    }

    #[test]
    fn a_tool_is_found_by_its_name_before_an_alias() {
        let bindings = bindings();
        assert_eq!(tool_of(bindings.find("fs", "read_file")).as_deref(), Some("fs-read_file"));
        assert_eq!(tool_of(bindings.find("fs", "readFile")).as_deref(), Some("fs-readFile"));
        assert_eq!(tool_of(bindings.find("fs", "get")), None);
        assert_eq!(tool_of(bindings.find("x", "get")), None);
        assert_eq!(bindings.tools("fs").collect::<Vec<_>>(), ["read_file", "readFile"]);
        assert_eq!(bindings.iter().count(), 3);
    }

    fn tool_of(found: Option<&Binding>) -> Option<String> {
        Some(found?.tool.to_string())
    }
}
