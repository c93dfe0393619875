//! The `airlock` binary: arguments in, exit code out.

fn main() -> std::process::ExitCode {
    airlock::cli::main(std::env::args_os())
}
