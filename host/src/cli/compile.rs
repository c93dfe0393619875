//! The hidden command that compiles one component in a process of its own.

use airlock_compile::{CompileForm, CompileJob, compile_component};
use airlock_terminal::outcome::CommandOutcome;

/// Arguments of the command.
#[derive(Debug, clap::Args)]
pub(super) struct CompileArgs {
    form: CompileForm,
    settings: String,
    cpu_seconds: u64,
    memory_bytes: u64,
}

/// Reads a component from standard input and writes native code to standard output.
pub(super) fn run(args: &CompileArgs) -> CommandOutcome {
    let CompileArgs { form, settings, cpu_seconds, memory_bytes } = args;
    let job = CompileJob {
        form: *form,
        settings: settings.clone(),
        cpu_seconds: *cpu_seconds,
        memory_bytes: *memory_bytes,
    };
    compile_component(&job).into()
}
