//! The `airlock` binary: arguments in, exit code out.

/// Returns freed memory to the system within seconds. Every program that embeds the gateway chooses its
/// own allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    airlock::cli::main(std::env::args_os())
}
