//! All benchmarks, and the checks that run as long as one: a program, because a release links the gateway into each
//! program for minutes.
//!
//! `--part NAME` runs one of [`PARTS`], which has the documentation of its own page in this directory; without it, all run one
//! after the other, as `cargo test` does to see that they work. Targets of `make` name the parts.

mod chaos;
mod chat;
mod code_mode;
mod hostile;
mod lab;
mod limits;
mod mcp;
mod overhead;
mod runner;
mod store;
mod tokens;
mod upstream;

use std::process::ExitCode;

use airlock_tests::bench::{self, server};

/// Runs a part: measures, prints its report, and fails if something that must hold does not.
type Part = fn() -> ExitCode;

const PARTS: [(&str, Part); 12] = [
    ("overhead", overhead::main),
    ("code_mode", code_mode::main),
    ("runner", runner::main),
    ("chat", chat::main),
    ("mcp", mcp::main),
    ("upstream", upstream::main),
    ("store", store::main),
    ("limits", limits::main),
    ("tokens", tokens::main),
    ("hostile", hostile::main),
    ("lab", lab::main),
    ("chaos", chaos::main),
];

fn main() -> ExitCode {
    if is_child() {
        return ExitCode::SUCCESS;
    }
    let Some(name) = bench::option("--part") else { return all() };
    if let Some((_, part)) = PARTS.iter().find(|(part, _)| *part == name) {
        return part();
    }
    let names: Vec<_> = PARTS.iter().map(|(part, _)| *part).collect();
    eprintln!("`--part {name}`: there is no such part; there are {}", names.join(", "));
    ExitCode::FAILURE
}

/// Runs every part. Fails if one does, after the others.
fn all() -> ExitCode {
    let mut ended = ExitCode::SUCCESS;
    for (name, part) in PARTS {
        eprintln!("=== {name}");
        if part() != ExitCode::SUCCESS {
            ended = ExitCode::FAILURE;
        }
    }
    ended
}

/// Serves until its end if a part has started this program as the server or the proxy that it measures; returns false if
/// none has.
fn is_child() -> bool {
    if let Some(tools) = server::requested() {
        bench::runtime_of_one_thread().block_on(server::serve(tools));
        return true;
    }
    chat::is_proxy() || upstream::is_server()
}
