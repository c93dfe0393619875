//! Each way of finding a process, without the others.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

use super::*;
use crate::tests::is_gone;

/// Starts a script with the mark, and returns it with the number that it prints.
fn start(reach: &ProcessReach, script: &str) -> (Child, u32) {
    let mut command = Command::new("sh");
    command.args(["-c", script]).env(crate::VARIABLE, reach.tag.to_string());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a shell");
    let mut line = String::new();
    let stdout = child.stdout.as_mut().expect("a pipe");
    BufReader::new(stdout).read_line(&mut line).expect("a line");
    (child, line.trim().parse().expect("a number"))
}

/// Has the reach of a child kill everything, and the test fail if `stray` survives.
fn kill(reach: ProcessReach, mut child: Child, stray: u32) {
    assert!(proc::start_time(stray).is_some(), "it was never there");
    reach.kill(true);
    assert!(is_gone(stray));
    let _ = child.kill();
    child.wait().expect("it can be reaped");
}

fn without_cgroup() -> ProcessReach {
    ProcessReach { tag: Tag::new(), cgroup: None, leader: None, family: Vec::new() }
}

#[test]
fn a_process_of_another_session_without_a_parent_is_found_by_its_mark() {
    let reach = without_cgroup();
    // The shell between the two ends at once.
    let (child, stray) = start(&reach, "sh -c 'setsid sleep 1000 >&2 & echo $!'; cat");
    kill(reach, child, stray);
}

#[test]
fn a_process_that_does_nothing_but_execute_programs_is_found() {
    // A search meets it in the middle of `execve` once in some hundred times. The kernel may put each
    // address space elsewhere, or all of them at the same addresses.
    for place in ["", "setarch -R"] {
        for _ in 0..50 {
            let reach = without_cgroup();
            let script = format!(
                "X='exec sh -c \"$X\"' setsid {place} sh -c 'echo $$ >&3; eval \"$X\"' 3>&1 >&2 & cat"
            );
            let (child, stray) = start(&reach, &script);
            kill(reach, child, stray);
        }
    }
}

#[test]
fn a_process_without_the_mark_is_found_by_its_living_parent() {
    let mut reach = without_cgroup();
    let (child, stray) = start(&reach, "env -i setsid sleep 1000 >&2 & echo $!; cat");
    reach.watch(proc::pid(child.id()).expect("a number"));
    kill(reach, child, stray);
}

#[test]
fn a_process_that_hides_entirely_is_found_by_its_cgroup() {
    let reach = ProcessReach::new(Tag::new());
    let Some(entrance) = reach.cgroup_entrance() else {
        println!("skipped: no cgroup of version 2 may be created here");
        return;
    };
    let path =
        format!("/proc/{}/fd/{}", std::process::id(), std::os::fd::AsRawFd::as_raw_fd(&entrance));
    let hide = format!("echo 0 > {path}; env -i sh -c 'setsid sleep 1000 >&2 & echo $!'; cat");
    let (child, stray) = start(&reach, &hide);
    // While it executes a program, it may not be read yet.
    assert!(!matches!(proc::mark(stray), Mark::Is(_)));
    kill(reach, child, stray);
}

#[test]
fn processes_with_another_mark_are_left_alone() {
    let reach = without_cgroup();
    let other = without_cgroup();
    let (mut child, stray) = start(&other, "sleep 1000 >&2 & echo $!; cat");
    reach.kill(true);
    assert!(proc::start_time(stray).is_some());
    other.kill(true);
    assert!(is_gone(stray));
    child.wait().expect("it can be reaped");
}
