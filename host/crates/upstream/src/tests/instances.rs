//! Tests of servers with several instances, which are real processes.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

use super::*;

/// Instances of one server, in a directory in which their calls are held and noted.
struct Instances {
    server: Supervised,
    directory: TempDir,
}

/// A server over HTTP in a process of its own, which is killed with the value.
struct HttpProcess {
    url: String,
    process: Child,
}

impl Instances {
    async fn start(settings: impl FnOnce(&Path) -> Settings) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let settings = settings(directory.path());
        let count = settings.instances().count();
        let instances = Self { server: Supervised::start(settings), directory };
        instances.until_in_phase(&["ready", "held_out"], count).await;
        instances
    }

    /// Starts three processes.
    async fn processes(how: &str) -> Self {
        Self::start(|directory| {
            let directory = directory.display().to_string();
            let process = python(&[include_str!("instances.py"), &directory, how]);
            let mut settings = settings(process);
            settings.others = vec![settings.transport.clone(); 2];
            settings
        })
        .await
    }

    /// Waits until so many instances are in one of these states.
    async fn until_in_phase(&self, phases: &[&str], count: usize) {
        let found = eventually(|| {
            let instances = self
                .instances()
                .into_iter()
                .filter(|one| one["phase"].as_str().is_some_and(|phase| phases.contains(&phase)));
            (instances.count() == count).then_some(())
        });
        let found = found.await;
        found.unwrap_or_else(|| panic!("{:?}", self.server.control.status()));
    }

    fn instances(&self) -> Vec<Value> {
        let status = self.server.control.status();
        status["instances"].as_array().expect("several instances").clone()
    }

    /// Has calls wait from now on.
    fn hold(&self) {
        fs::write(self.directory.path().join("hold"), "").expect("a file");
    }

    fn release(&self) {
        fs::remove_file(self.directory.path().join("hold")).expect("calls are held");
    }

    /// Returns the calls that a process has begun: its number, and that of the call.
    fn begun(&self) -> Vec<(String, usize)> {
        let text = fs::read_to_string(self.directory.path().join("calls")).unwrap_or_default();
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        lines.filter_map(|(pid, n)| Some((pid.to_owned(), n.parse().ok()?))).collect()
    }

    /// Begins calls with these numbers.
    fn call(
        &self,
        numbers: std::ops::Range<usize>,
        deadline: Duration,
    ) -> Vec<JoinHandle<Result<String, CallError>>> {
        let calls = numbers.map(|n| {
            let call = self.server.admit("work", &json!({"n": n}).to_string(), deadline);
            tokio::spawn(async move { call.run().await.map(|output| output.to_text()) })
        });
        calls.collect()
    }

    async fn until_begun(&self, calls: usize) -> Vec<(String, usize)> {
        let begun = eventually(|| Some(self.begun()).filter(|begun| begun.len() >= calls)).await;
        begun.unwrap_or_else(|| panic!("only {:?}", self.begun()))
    }

    async fn stop(self) {
        self.server.stop().await;
    }
}

impl HttpProcess {
    fn start(directory: &Path) -> Self {
        let mut process = Command::new("python3")
            .args(["-c", include_str!("instances.py")])
            .arg(directory)
            .arg("http")
            .stdout(Stdio::piped())
            .spawn()
            .expect("it can be started");
        let mut url = String::new();
        let stdout = process.stdout.take().expect("piped above");
        BufReader::new(stdout).read_line(&mut url).expect("its first line is its URL");
        Self { url: url.trim_end().to_owned(), process }
    }

    fn pid(&self) -> String {
        self.process.id().to_string()
    }

    fn signal(&self, signal: &str) {
        self::signal(&self.pid(), signal);
    }
}

impl Drop for HttpProcess {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn signal(pid: &str, signal: &str) {
    let sent = Command::new("kill").args([signal, pid]).status().expect("it can be started");
    assert!(sent.success());
}

/// Returns the settings of a client of these servers.
fn over_http(servers: &[&HttpProcess]) -> Settings {
    let servers = servers.iter().map(|server| HttpServer {
        transport: HttpTransport::Streamable,
        settings: HttpSettings::new(&server.url),
    });
    let mut servers: Vec<_> = servers.collect();
    let mut settings = settings(servers.remove(0));
    settings.others = servers.into_iter().map(|server| Arc::new(server) as _).collect();
    settings
}

/// Returns the number of calls of each process.
fn counts(begun: &[(String, usize)]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for (pid, _) in begun {
        *counts.entry(pid.as_str()).or_default() += 1;
    }
    counts
}

#[tokio::test]
async fn calls_are_spread_and_the_kill_of_each_process_loses_no_call_that_was_not_sent() {
    let up = Instances::processes("well").await;
    let mut killed = BTreeSet::new();
    for round in 0..3 {
        let first = round * 18;
        up.hold();
        let calls = up.call(first..first + 9, PATIENCE);
        let before = up.begun().len();
        let begun = up.until_begun(before + 9).await.split_off(before);
        let spread = counts(&begun);
        // An instance whose process was killed comes last for a while, because its calls have failed.
        if killed.is_empty() {
            assert_eq!(spread.values().copied().collect::<Vec<_>>(), [3, 3, 3], "{begun:?}");
            assert!(up.instances().iter().all(|one| one["in_flight"] == 3), "{:?}", up.instances());
        }
        let victim = spread.keys().find(|pid| !killed.contains(**pid)).expect("one still lives");
        let victim = (*victim).to_owned();
        signal(&victim, "-KILL");
        // Sent while the death may not be noticed yet.
        let later = up.call(first + 9..first + 18, PATIENCE);
        up.release();
        let mut failed = BTreeSet::new();
        for (n, call) in (first..).zip(calls.into_iter().chain(later)) {
            if let Err(error) = call.await.expect("no panic") {
                assert_eq!(error.code(), HostCode::Unavailable);
                assert!(!error.has_not_begun(), "call {n} was not sent, and is lost: {error:?}");
                failed.insert(n);
            }
        }
        let mut lost = begun.iter().filter(|(pid, _)| *pid == victim);
        assert!(lost.all(|(_, n)| failed.contains(n)), "{failed:?} {begun:?}");
        let all = up.begun();
        let distinct: BTreeSet<_> = all.iter().map(|(_, n)| *n).collect();
        assert_eq!(distinct.len(), all.len(), "a call ran twice: {all:?}");
        killed.insert(victim);
        let restarted =
            eventually(|| (up.server.control.status()["restarts"] == killed.len()).then_some(()));
        restarted.await.expect("it is started again");
        up.until_in_phase(&["ready"], 3).await;
    }
    let restarts: u64 = up.instances().iter().filter_map(|one| one["restarts"].as_u64()).sum();
    assert_eq!((restarts, &up.server.control.status()["restarts"]), (3, &json!(3)));
    up.stop().await;
}

#[tokio::test]
async fn an_instance_with_other_tools_is_held_out_and_its_state_says_so() {
    let up = Instances::processes("odd").await;
    up.until_in_phase(&["held_out"], 1).await;
    let calls = join_all(up.call(0..12, PATIENCE)).await;
    assert!(calls.into_iter().all(|call| call.expect("no panic").is_ok()));
    assert_eq!(counts(&up.begun()).len(), 2, "{:?}", up.begun());
    let client = up.server.client();
    assert_eq!(client.state, SourceState::Connected);
    assert!(client.tools[0].description.contains("works"), "{:?}", client.tools);
    let status = up.server.control.status();
    let held_out = up.instances().into_iter().find(|one| one["phase"] == "held_out");
    let held_out = held_out.expect("one is held out");
    assert_eq!(
        held_out["reason"],
        "it listed other tools than other instances, so it gets no calls"
    );
    let expected =
        format!("2 of 3 instances get calls; instance {} is held_out", held_out["instance"]);
    assert_eq!((&status["phase"], &status["reason"]), (&json!("ready"), &json!(expected)));
    up.stop().await;
}

#[tokio::test]
async fn calls_move_from_a_server_that_hangs_or_is_gone_to_the_other_one() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut first = HttpProcess::start(directory.path());
    let second = HttpProcess::start(directory.path());
    let mut settings = over_http(&[&first, &second]);
    settings.timeouts.heartbeat = None;
    let up = Instances { server: Supervised::start(settings), directory };
    up.until_in_phase(&["ready"], 2).await;
    first.signal("-STOP");
    // One of two calls in turn goes to each.
    let calls = join_all(up.call(0..2, Duration::from_secs(3))).await;
    let failed = calls.into_iter().filter(|call| matches!(call, Ok(Err(_)))).count();
    assert_eq!(failed, 1);
    for n in 2..10 {
        let call = up.call(n..n + 1, PATIENCE).remove(0).await.expect("no panic");
        assert_eq!(call.expect("the other one answers"), second.pid());
    }
    first.signal("-CONT");
    first.process.kill().expect("it runs");
    first.process.wait().expect("it was killed");
    for n in 10..20 {
        let call = up.call(n..n + 1, PATIENCE).remove(0).await.expect("no panic");
        assert_eq!(call.expect("the call is sent to the other one"), second.pid());
    }
    assert_eq!(up.server.client().state, SourceState::Connected);
    up.stop().await;
}

#[tokio::test]
async fn a_restart_succeeds_while_an_instance_serves_and_names_the_one_that_is_down() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut first = HttpProcess::start(directory.path());
    let mut second = HttpProcess::start(directory.path());
    let mut settings = over_http(&[&first, &second]);
    settings.timeouts.heartbeat = None;
    let up = Instances { server: Supervised::start(settings), directory };
    up.until_in_phase(&["ready"], 2).await;
    first.process.kill().expect("it runs");
    first.process.wait().expect("it was killed");
    let failures = up.server.control.reconnect(None).await.expect("the second one is connected");
    assert!(failures.len() == 1 && failures[0].starts_with("instance 1: "), "{failures:?}");
    let reason = up.server.control.status()["reason"].to_string();
    assert!(reason.contains("1 of 2 instances get calls; instance 1 is "), "{reason}");
    second.process.kill().expect("it runs");
    second.process.wait().expect("it was killed");
    let error = up.server.control.reconnect(None).await.expect_err("none is connected");
    let error = error.to_string();
    assert!(error.contains("instance 1: ") && error.contains("instance 2: "), "{error}");
    up.stop().await;
}

#[tokio::test]
async fn a_call_that_starts_an_instance_in_vain_goes_to_another_one() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().display().to_string();
    let breakable = "import os, sys\nif os.path.exists(sys.argv[1] + '/broken'): sys.exit(1)\n";
    let breakable = format!("{breakable}{}", include_str!("instances.py"));
    let well = settings(python(&[include_str!("instances.py"), &path, "well"]));
    let mut settings = settings(python(&[&breakable, &path, "well"]));
    settings.others = vec![well.transport];
    settings.lifecycle = Lifecycle::Idle(Duration::from_millis(20));
    let up = Instances { server: Supervised::start(settings), directory };
    let idle = eventually(|| {
        let instances = up.instances();
        instances.iter().all(|one| one["reason"] == "no call needs it").then_some(())
    });
    idle.await.expect("both are stopped");
    fs::write(up.directory.path().join("broken"), "").expect("a file");
    for n in 0..2 {
        let call = up.call(n..n + 1, PATIENCE).remove(0).await.expect("no panic");
        call.expect("the other one answers");
    }
    up.stop().await;
}

#[tokio::test]
async fn one_instance_or_all_are_reconnected_and_others_are_not_known() {
    let up = Instances::processes("well").await;
    let first = join_all(up.call(0..6, PATIENCE)).await.len();
    let before: BTreeSet<_> = up.begun().into_iter().map(|(pid, _)| pid).collect();
    assert_eq!((first, before.len()), (6, 3));
    up.server.control.reconnect(Some(2)).await.expect("it connects");
    join_all(up.call(6..12, PATIENCE)).await;
    let after: BTreeSet<_> = up.begun().into_iter().skip(6).map(|(pid, _)| pid).collect();
    assert_eq!(after.intersection(&before).count(), 2);
    up.server.control.reconnect(None).await.expect("all connect");
    join_all(up.call(12..18, PATIENCE)).await;
    let last: BTreeSet<_> = up.begun().into_iter().skip(12).map(|(pid, _)| pid).collect();
    assert!(last.is_disjoint(&after) && last.len() == 3, "{last:?} {after:?}");
    let unknown = up.server.control.reconnect(Some(4)).await;
    assert_eq!(unknown, Err(ControlError::NoInstance { instance: 4, count: 3 }));
    up.stop().await;
}
