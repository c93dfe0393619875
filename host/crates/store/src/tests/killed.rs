//! A process that is killed while it writes: what it was told is stored is there, once, and the sums
//! are right.

use std::{
    env,
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

use crate::{
    Database, Settings,
    kv::{Opener, PluginStore},
    tests::{
        home::{TestHome, on_both},
        sums,
    },
};

/// Location of the database of the process that is killed.
const LOCATION: &str = "AIRLOCK_TEST_LOCATION";
/// Keys that the process has written when it is killed, in each round.
const KEYS: usize = 40;

fn store(database: &Database) -> PluginStore {
    database.kv("p", "s", Opener::Own([1; 32]), 1 << 30)
}

on_both! {
    a_killed_process_loses_nothing_that_it_was_told_is_stored,
}

async fn a_killed_process_loses_nothing_that_it_was_told_is_stored(home: TestHome) {
    let database = home.open().await;
    let mut told = Vec::new();
    for _ in 0..3 {
        told.extend(killed(&home.place()));
    }
    sums::check(&database).await;
    let store = store(&database);
    for key in &told {
        assert!(store.get(key).await.expect("read").is_some(), "{key} of {}", told.len());
    }
    store.set("after", vec![], None, None).await.expect("no lock of the dead is left");
}

/// Runs a process that writes, and kills it. Returns the keys that it was told are stored.
fn killed(location: &str) -> Vec<String> {
    let mut process = Command::new(env::current_exe().expect("a path"))
        .args(["--exact", "tests::killed::writes_until_it_is_killed", "--nocapture"])
        .env(LOCATION, location)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let lines = BufReader::new(process.stdout.take().expect("a pipe")).lines();
    let lines = lines
        .map_while(Result::ok)
        .filter_map(|line| Some(line.strip_prefix("stored ")?.to_owned()));
    let mut told: Vec<_> = lines.take(KEYS).collect();
    assert_eq!(told.len(), KEYS, "it writes until it is killed");
    process.kill().expect("it runs");
    process.wait().expect("a child");
    told.dedup();
    told
}

/// Run as a test of its own, it does nothing.
#[tokio::test]
async fn writes_until_it_is_killed() {
    let Ok(location) = env::var(LOCATION) else { return };
    let settings = Settings::at(location.parse().expect("a location"));
    let database = Database::open(settings).await.expect("it is opened");
    let store = store(&database);
    for number in 0_u64.. {
        let key = format!("{}-{number}", std::process::id());
        // Large ones are written in several pages, and every second one is replaced.
        store.set(&key, vec![7; 20_000], None, None).await.expect("written");
        println!("stored {key}");
        store.set("same", vec![7; 1_000], None, None).await.expect("written");
    }
}
