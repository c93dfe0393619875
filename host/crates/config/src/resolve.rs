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
    ops::RangeInclusive,
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
    units::{Size, Span},
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
    let (agent, budget, binding_level) =
        tool_manager(&mcp.member("tool_manager_config"), &file.mcp.tool_manager_config);
    let runs = runs(&mcp.member("tool_manager_config"), &file.mcp.tool_manager_config);
    let script_language = match file.mcp.tool_manager_config.code_mode_language {
        None | Some(file::ScriptLanguage::Starlark) => ScriptLanguage::Starlark,
        Some(file::ScriptLanguage::Python) => ScriptLanguage::Python,
    };
    let results = kept_results(&mcp.member("tool_manager_config"), &file.mcp.tool_manager_config);
    let search_above =
        search_above(&mcp.member("tool_manager_config"), &file.mcp.tool_manager_config);
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

fn tool_manager(
    field: &Field<'_>,
    file: &file::ToolManager,
) -> (agent::Settings, Budget, BindingLevel) {
    // Zero means the default, for compatibility.
    let timeout = file
        .tool_execution_timeout
        .map(|timeout| timeout.0)
        .filter(|timeout| *timeout != Span::secs(0));
    let parallel_calls =
        field.member("max_parallel_tool_calls").count(file.max_parallel_tool_calls, 8, 1..=64)
            as usize;
    let agent = agent::Settings {
        max_depth: field.member("max_agent_depth").count(
            file.max_agent_depth.filter(|depth| *depth != 0),
            10,
            1..=100,
        ),
        parallel_calls,
        calls_per_answer: field.member("max_tool_calls_per_answer").count(
            file.max_tool_calls_per_answer,
            128,
            1..=agent::MAX_CALLS_READ,
        ) as usize,
        max_tool_bytes: field
            .member("max_tool_results")
            .within(file.max_tool_results, Size::mib(8), Size::kib(64)..=Size::mib(64))
            .bytes(),
        timeout: field
            .member("agent_timeout")
            .within(
                file.agent_timeout,
                Span::secs(30 * 60),
                Span::millis(1)..=Span::secs(24 * 60 * 60),
            )
            .0,
        disable_auto_tool_inject: file.disable_auto_tool_inject,
        results_as_text: file.results_as_text.map(agent::ResultsAsText::from).unwrap_or_default(),
        approval: file.approval.map(ApprovalChoice::from).unwrap_or_default(),
        approval_wait: field
            .member("approval_wait")
            .within(
                file.approval_wait,
                Span::secs(10 * 60),
                Span::secs(1)..=Span::secs(24 * 60 * 60),
            )
            .0,
    };
    let longest = Span::secs(60 * 60);
    let budget = Budget {
        deadline: field
            .member("tool_execution_timeout")
            .within(timeout, Span::secs(30), Span::millis(1)..=longest)
            .0,
        script: field
            .member("code_mode_timeout")
            .within(file.code_mode_timeout, Span::secs(300), Span::millis(1)..=longest)
            .0,
        nested_calls: field.member("max_nested_calls").count(file.max_nested_calls, 64, 0..=10_000),
        depth: field.member("max_call_depth").count(file.max_call_depth, 4, 1..=16),
        in_flight: parallel_calls,
    };
    let binding_level =
        file.code_mode_binding_level.map_or(BindingLevel::Server, BindingLevel::from);
    (agent, budget, binding_level)
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

fn runs(field: &Field<'_>, file: &file::ToolManager) -> runs::Settings {
    let second = Span::secs(1);
    let day = Span::secs(24 * 60 * 60);
    let owner_bytes = field
        .member("code_mode_max_run_bytes")
        .within(file.code_mode_max_run_bytes, Size::mib(64), Size::mib(1)..=Size::mib(1 << 16))
        .0;
    runs::Settings {
        journal: file.code_mode_journal.unwrap_or(true),
        bounds: RunBounds {
            expire_after: field
                .member("code_mode_run_expire_after")
                .within(
                    file.code_mode_run_expire_after,
                    Span::secs(7 * 24 * 60 * 60),
                    second..=Span::secs(366 * 24 * 60 * 60),
                )
                .0,
            owner_runs: field.member("code_mode_max_runs").count(
                file.code_mode_max_runs,
                200,
                1..=100_000,
            ),
            owner_bytes,
            total_bytes: owner_bytes.saturating_mul(16),
            lease: field
                .member("code_mode_run_lease")
                .within(
                    file.code_mode_run_lease,
                    Span::secs(10),
                    Span::millis(100)..=Span::secs(600),
                )
                .0,
            approval: field
                .member("code_mode_approval_expire_after")
                .within(
                    file.code_mode_approval_expire_after,
                    Span::secs(60 * 60),
                    second..=Span::secs(7 * 24 * 60 * 60),
                )
                .0,
        },
        cpu_time: field
            .member("code_mode_cpu_time")
            .within(file.code_mode_cpu_time, Span::secs(30), Span::millis(1)..=day)
            .0,
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

/// Returns the number of tools for scripts above which a view has the search.
fn search_above(field: &Field<'_>, file: &file::ToolManager) -> usize {
    let field = field.member("code_mode_search_threshold");
    field.count(file.code_mode_search_threshold, 60, 0..=100_000) as usize
}

fn kept_results(field: &Field<'_>, file: &file::ToolManager) -> results::Settings {
    results::Settings {
        max_inline_bytes: field
            .member("max_inline_result")
            .within(file.max_inline_result, Size::kib(32), Size::kib(4)..=Size::mib(1))
            .bytes(),
        expire_after: field
            .member("kept_result_expire_after")
            .within(
                file.kept_result_expire_after,
                Span::secs(15 * 60),
                Span::secs(1)..=Span::secs(24 * 60 * 60),
            )
            .0,
        total_bytes: field
            .member("max_kept_results")
            .within(file.max_kept_results, Size::mib(64), Size::mib(8)..=Size::gib(4))
            .bytes(),
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

    /// Returns a value or its default. Notes a problem if the value is outside the range.
    fn within<T: Copy + PartialOrd + fmt::Display>(
        &self,
        value: Option<T>,
        default: T,
        range: RangeInclusive<T>,
    ) -> T {
        let value = value.unwrap_or(default);
        if !range.contains(&value) {
            self.refuse(format_args!(
                "must be from {} to {}, found {value}",
                range.start(),
                range.end()
            ));
        }
        value
    }

    /// Returns a number or its default. Notes a problem if the value is outside the range.
    fn count(&self, value: Option<u64>, default: u32, range: RangeInclusive<u32>) -> u32 {
        let value =
            self.within(value, default.into(), (*range.start()).into()..=(*range.end()).into());
        u32::try_from(value).unwrap_or(default)
    }
}
