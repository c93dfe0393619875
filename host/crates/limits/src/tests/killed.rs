//! A process that is killed while it makes calls: the next one makes those that are left, and no more.

use std::{
    env,
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use airlock_store::Settings;

use super::{
    calls::begin,
    home::{TestHome, limiter, location, on_both},
    limit,
};
use crate::limit::{Limit, Measure, Window};

/// Location of the store of the process that makes calls.
const LOCATION: &str = "AIRLOCK_TEST_LIMITED_LOCATION";
/// Calls of all processes together.
const MOST: u64 = 100;
/// Calls that the first process has made when it is killed.
const KILLED_AFTER: usize = 40;

fn prepaid() -> Limit {
    limit("l", Measure::ToolCalls, MOST, Window::Never)
}

on_both! {
    threads: after_a_kill_as_many_calls_are_made_as_are_left,
}

async fn after_a_kill_as_many_calls_are_made_as_are_left(home: TestHome) {
    let place = home.place.clone();
    let made = tokio::task::spawn_blocking(move || {
        let killed = made(caller(&place), Some(KILLED_AFTER));
        let rest = made(caller(&place), None);
        assert!(killed >= KILLED_AFTER && rest > 0, "{killed} and {rest}");
        killed + rest
    });
    let made = u64::try_from(made.await.expect("no panic")).expect("few");
    // The process may have been killed between the count of a call and the call.
    assert!((MOST - 1..=MOST).contains(&made), "{made}");
}

/// Starts a process that makes calls until one is refused.
fn caller(place: &str) -> Child {
    Command::new(env::current_exe().expect("a path"))
        .args(["--exact", "tests::killed::makes_calls_until_one_is_refused", "--nocapture"])
        .env(LOCATION, place)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts")
}

/// Returns the number of calls that a process has made at its end. Kills it after a number of calls.
fn made(mut process: Child, killed_after: Option<usize>) -> usize {
    let lines = BufReader::new(process.stdout.take().expect("a pipe")).lines();
    let mut made = 0;
    for line in lines.map_while(Result::ok) {
        made += usize::from(line.ends_with("made"));
        if killed_after == Some(made) {
            process.kill().expect("it runs");
        }
    }
    process.wait().expect("a child");
    made
}

/// Run as a test of its own, it does nothing.
#[tokio::test]
async fn makes_calls_until_one_is_refused() {
    let Ok(place) = env::var(LOCATION) else { return };
    let limiter = limiter(Settings::at(location(&place)), &[prepaid()]);
    while begin(&limiter, "read").await.is_ok() {
        println!("made");
    }
}
