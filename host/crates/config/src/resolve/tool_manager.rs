//! `mcp.tool_manager_config`: one function for each module that takes a part of it.

use super::same_variants::{SameVariants as _, same_variants};
use airlock_agent::{self as agent, results};
use airlock_config_file::file;
use airlock_core::door::{ApprovalChoice, Budget, ScriptLanguage, ToolMode};
use airlock_scripts::{BindingLevel, runs};
use airlock_store::runs::RunBounds;

pub(super) fn agent(file: &file::ToolManager) -> agent::Settings {
    agent::Settings {
        // Zero means the default, for compatibility.
        max_depth: file.max_agent_depth.nonzero().unwrap_or_default().count(),
        parallel_calls: file.max_parallel_tool_calls.count() as usize,
        calls_per_answer: file.max_tool_calls_per_answer.count() as usize,
        max_tool_bytes: file.max_tool_results.get().bytes(),
        timeout: file.agent_timeout.get().0,
        disable_auto_tool_inject: file.disable_auto_tool_inject,
        results_as_text: file.results_as_text.same(),
        approval: file.approval.same(),
        approval_wait: file.approval_wait.get().0,
        tool_mode: tool_mode(file.tool_mode),
    }
}

fn tool_mode(mode: file::ToolMode) -> Option<ToolMode> {
    Some(match mode {
        file::ToolMode::Configured => return None,
        file::ToolMode::Direct => ToolMode::Direct,
        file::ToolMode::Search => ToolMode::Search,
        file::ToolMode::Code => ToolMode::Code,
        file::ToolMode::Auto => ToolMode::Auto,
    })
}

pub(super) fn budget(file: &file::ToolManager) -> Budget {
    Budget {
        deadline: file.tool_execution_timeout.nonzero().unwrap_or_default().get().0.0,
        script: file.code_mode_timeout.get().0,
        nested_calls: file.max_nested_calls.count(),
        depth: file.max_call_depth.count(),
        in_flight: file.max_parallel_tool_calls.count() as usize,
    }
}

pub(super) fn results(file: &file::ToolManager) -> results::Settings {
    results::Settings {
        max_inline_bytes: file.max_inline_result.get().bytes(),
        expire_after: file.kept_result_expire_after.get().0,
        total_bytes: file.max_kept_results.get().bytes(),
    }
}

pub(super) fn runs(file: &file::ToolManager) -> runs::RunSettings {
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
        approval: file.code_mode_approval.same(),
    }
}

same_variants!(file::ApprovalChoice => ApprovalChoice { Return, Omit, Wait });
same_variants!(file::ScriptApproval => runs::ScriptApproval { Calls, Manifest });
same_variants!(file::ResultsAsText => agent::ResultsAsText { Auto, Always, Never });
same_variants!(file::BindingLevel => BindingLevel { Server, Tool });
same_variants!(file::ScriptLanguage => ScriptLanguage { Starlark, Python });
