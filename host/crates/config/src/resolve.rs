//! Turns the file's types into the settings of each module: applies defaults, bounds and the
//! environment, and checks values against each other. Every problem is collected, so that one run
//! reports all errors.

mod client;
mod http_client;
mod key;
mod mcp_server;
mod plugin;
mod process;
mod provider;
mod server;
mod upstream;

use std::{
    cell::RefCell,
    fmt,
    path::{Path, PathBuf},
};

use super::{
    Config, Fingerprint, KeyPath, Problem, file,
    values::{EnvText, has_reference, has_reference_of_editors},
};
use airlock_agent::{self as agent, results};
use airlock_core::{
    door::{ApprovalChoice, Budget, ScriptLanguage},
    secret::Secret,
    tool::{UriList, Whitelist},
};
use airlock_sandbox as sandbox;
use airlock_scripts::{BindingLevel, runs};
use airlock_store::runs::RunBounds;

/// Beginning of the message about a variable without a value; its name follows.
pub(super) const VARIABLE: &str = "the environment variable ";

/// Message about a text with a reference that would be used as it is written. The text is not
/// quoted: it may be a credential.
const NOT_EXPANDED: &str = "the gateway does not expand `${…}`: put the whole value into a variable of its environment and \
     write \"env.NAME\", or write {\"value\": \"…\"} for a text that has `${…}` on purpose";
/// The same message about a process.
const NOT_EXPANDED_FOR_PROCESS: &str = "the gateway does not expand `${…}`, and neither does the process: write the value, or put the whole value \
     into a variable of the gateway's environment and `NAME=env.OTHER` into `envs`";

/// Looks up a variable of the gateway's environment.
pub(super) type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Resolves a whole file. Its paths are relative to `base`. The result is complete only if there is
/// no problem.
pub(super) fn resolve(file: file::File, base: &Path, env: Env<'_>) -> (Config, Vec<Problem>) {
    let problems = RefCell::default();
    let root = Field { key: KeyPath::default(), base, env, problems: &problems };
    let config = config(&root, file);
    (config, problems.into_inner())
}

fn config(root: &Field<'_>, file: file::File) -> Config {
    let mcp = root.member("mcp");
    let names = client::names(&mcp.member("client_configs"), &file.mcp.client_configs);
    let has_active_key = file.governance.virtual_keys.iter().any(key::is_active);
    let tool_manager = &file.mcp.tool_manager_config;
    let (agent, budget) = self::tool_manager(tool_manager);
    let runs = runs(tool_manager);
    let results = kept_results(tool_manager);
    let binding_level = tool_manager.code_mode_binding_level.into();
    let search_above = tool_manager.code_mode_search_threshold.count() as usize;
    let script_language = tool_manager.code_mode_language.into();
    let mut server = server::resolve(&root.member("server"), file.server, has_active_key);
    let mcp_server = root.member("mcp_server");
    let providers = provider::resolve(&root.member("providers"), file.providers);
    let disabled = client::disabled(&file.mcp.client_configs);
    let clients = client::resolve(&mcp.member("client_configs"), file.mcp.client_configs, &names);
    let keys = key::resolve(
        &root.member("governance").member("virtual_keys"),
        file.governance.virtual_keys,
        &names,
    );
    let connections = server.max_connections;
    server.mcp = mcp_server::resolve(&mcp_server, &file.mcp_server, connections, &keys);
    let oauth = file.mcp_server.oauth;
    Config {
        oauth: oauth.and_then(|oauth| mcp_server::oauth(&mcp_server.member("oauth"), oauth, &keys)),
        server,
        providers,
        clients,
        disabled,
        agent,
        results,
        budget,
        binding_level,
        runs,
        search_above,
        script_language,
        keys,
        store: match file.store {
            Some(path) => root.member("store").path(&path),
            None => root.base.join("airlock.db"),
        },
        lock: None,
        file: None,
        fingerprint: Fingerprint::default(),
        sandbox: sandbox::Settings {
            depths: budget.depth,
            ..sandbox::Settings::new(code_cache(root.env))
        },
    }
}

/// Returns the directory for compiled code: below `AIRLOCK_CACHE_DIR`, else below the user's cache
/// directory; `None` if neither is known.
fn code_cache(env: Env<'_>) -> Option<PathBuf> {
    let cache = directory(env, "XDG_CACHE_HOME")
        .or_else(|| directory(env, "HOME").map(|home| home.join(".cache")));
    directory(env, "AIRLOCK_CACHE_DIR")
        .or_else(|| cache.map(|cache| cache.join("airlock")))
        .map(|directory| directory.join("code"))
}

fn directory(env: Env<'_>, variable: &str) -> Option<PathBuf> {
    env(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn tool_manager(file: &file::ToolManager) -> (agent::Settings, Budget) {
    let parallel_calls = file.max_parallel_tool_calls.count() as usize;
    // Zero means the default, for compatibility.
    let max_depth = file.max_agent_depth.nonzero().unwrap_or_default();
    let deadline = file.tool_execution_timeout.nonzero().unwrap_or_default();
    let agent = agent::Settings {
        max_depth: max_depth.count(),
        parallel_calls,
        calls_per_answer: file.max_tool_calls_per_answer.count() as usize,
        max_tool_bytes: file.max_tool_results.get().bytes(),
        timeout: file.agent_timeout.get().0,
        disable_auto_tool_inject: file.disable_auto_tool_inject,
        results_as_text: file.results_as_text.into(),
        approval: file.approval.into(),
        approval_wait: file.approval_wait.get().0,
    };
    let budget = Budget {
        deadline: deadline.get().0.0,
        script: file.code_mode_timeout.get().0,
        nested_calls: file.max_nested_calls.count(),
        depth: file.max_call_depth.count(),
        in_flight: parallel_calls,
    };
    (agent, budget)
}

impl From<file::ApprovalChoice> for ApprovalChoice {
    fn from(choice: file::ApprovalChoice) -> Self {
        match choice {
            file::ApprovalChoice::Return => Self::Return,
            file::ApprovalChoice::Omit => Self::Omit,
            file::ApprovalChoice::Wait => Self::Wait,
        }
    }
}

impl From<file::ResultsAsText> for agent::ResultsAsText {
    fn from(when: file::ResultsAsText) -> Self {
        match when {
            file::ResultsAsText::Auto => Self::Auto,
            file::ResultsAsText::Always => Self::Always,
            file::ResultsAsText::Never => Self::Never,
        }
    }
}

fn runs(file: &file::ToolManager) -> runs::RunSettings {
    let owner_bytes = file.code_mode_max_run_bytes.get().0;
    runs::RunSettings {
        journal: file.code_mode_journal.0,
        bounds: RunBounds {
            expire_after: file.code_mode_run_expire_after.get().0,
            owner_runs: file.code_mode_max_runs.count(),
            owner_bytes,
            total_bytes: owner_bytes.saturating_mul(16),
            lease: file.code_mode_run_lease.get().0,
            approval: file.code_mode_approval_expire_after.get().0,
        },
        cpu_time: file.code_mode_cpu_time.get().0,
        approves_whole_scripts: file.code_mode_approve_whole_scripts,
        clock: file.code_mode_clock,
    }
}

impl From<file::BindingLevel> for BindingLevel {
    fn from(level: file::BindingLevel) -> Self {
        match level {
            file::BindingLevel::Server => Self::Server,
            file::BindingLevel::Tool => Self::Tool,
        }
    }
}

impl From<file::ScriptLanguage> for ScriptLanguage {
    fn from(language: file::ScriptLanguage) -> Self {
        match language {
            file::ScriptLanguage::Starlark => Self::Starlark,
            file::ScriptLanguage::Python => Self::Python,
        }
    }
}

fn kept_results(file: &file::ToolManager) -> results::Settings {
    results::Settings {
        max_inline_bytes: file.max_inline_result.get().bytes(),
        expire_after: file.kept_result_expire_after.get().0,
        total_bytes: file.max_kept_results.get().bytes(),
    }
}

/// One field of the file. Problems are noted under its key.
struct Field<'a> {
    key: KeyPath,
    base: &'a Path,
    env: Env<'a>,
    problems: &'a RefCell<Vec<Problem>>,
}

impl<'a> Field<'a> {
    fn member(&self, name: &str) -> Field<'a> {
        Field { key: self.key.member(name), ..*self }
    }

    fn element(&self, index: usize) -> Field<'a> {
        Field { key: self.key.element(index), ..*self }
    }

    /// Notes a problem.
    fn refuse(&self, message: impl fmt::Display) {
        self.problems
            .borrow_mut()
            .push(Problem { key: self.key.clone(), message: message.to_string() });
    }

    /// Returns the value, or notes the error and returns `None`.
    fn accept<T, E: fmt::Display>(&self, result: Result<T, E>) -> Option<T> {
        result.map_err(|error| self.refuse(error)).ok()
    }

    /// Returns a required value, or notes that it is missing.
    fn required<T>(&self, value: Option<T>) -> Option<T> {
        if value.is_none() {
            self.refuse("is required, but missing");
        }
        value
    }

    /// Returns text as written or from the environment. Notes a problem if it is empty, the variable
    /// is not set, or the text has a reference that is not expanded.
    fn text(&self, text: EnvText) -> Option<Secret> {
        match text {
            EnvText::Written(text) if text.expose().is_empty() => {
                self.refuse("is empty");
                None
            }
            EnvText::Written(text) if has_reference(text.expose()) => {
                self.refuse(NOT_EXPANDED);
                None
            }
            EnvText::Written(text) | EnvText::Literal(text) => Some(text),
            EnvText::Variable(name) => self.variable(&name),
        }
    }

    fn variable(&self, name: &str) -> Option<Secret> {
        let found = (self.env)(name);
        let state = if found.is_some() { "empty" } else { "not set" };
        let value = found.filter(|value| !value.is_empty());
        if value.is_none() {
            self.refuse(format_args!("{VARIABLE}{name} is {state}"));
        }
        value.map(Secret::new)
    }

    /// Notes a problem if a text for a process has a reference that only an editor expands.
    fn refuse_reference_of_editors(&self, text: &str) {
        if has_reference_of_editors(text) {
            self.refuse(NOT_EXPANDED_FOR_PROCESS);
        }
    }

    fn path(&self, path: &Path) -> PathBuf {
        if path.as_os_str().is_empty() {
            self.refuse("is empty");
        }
        self.base.join(path)
    }

    fn whitelist(&self, names: &[String]) -> Whitelist {
        self.accept(Whitelist::parse(names)).unwrap_or_default()
    }

    fn uri_list(&self, entries: &[String]) -> UriList {
        self.accept(UriList::parse(entries)).unwrap_or_default()
    }
}
