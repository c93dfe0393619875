//! Tests of screening with a lock file and a store on disk.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use serde_json::json;

use super::{definition::DIGESTS, *};
use airlock_lock::{FILE_NAME as LOCK_FILE, Lock, LockError};
use airlock_mcp_client::Process;

struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Returns the pins of a gateway that has just started.
    fn pins(&self, pin: Pinning) -> Arc<ClientPins> {
        self.pins_with_store(pin, &self.path("airlock.db"))
    }

    fn pins_with_store(&self, pin: Pinning, store: &Path) -> Arc<ClientPins> {
        let name = ClientName::parse("up").expect("a name");
        let settings = Settings { pin, ..Settings::new(name, Process::default()) };
        let store = airlock_store::Settings::new(store);
        Pins::new(Some(self.path(LOCK_FILE)), store.into()).add(&settings)
    }

    fn accept(&self, pins: &ClientPins, tools: &[&str]) {
        let path = self.path(LOCK_FILE);
        let tools: BTreeSet<String> = tools.iter().map(|&tool| tool.to_owned()).collect();
        let review = pins.review().expect("a list");
        let accepted = review.accept((!tools.is_empty()).then_some(&tools)).expect("changes");
        let mut lock = Lock::load(&path).expect("read").unwrap_or_default();
        lock.accept_upstream(&pins.client, accepted);
        lock.save(&path).expect("written");
    }
}

fn list(tools: &[(&str, &str)]) -> Vec<ToolDefinition> {
    let tools = tools.iter().map(|(name, description)| {
        let tool = json!({"name": name, "description": description, "inputSchema": {}});
        serde_json::from_value(tool).expect("a definition")
    });
    tools.collect()
}

/// Screens a list. Returns `name=description`, with `?` after tools that need an approval.
async fn screened(pins: &ClientPins, tools: &[(&str, &str)]) -> String {
    let screened = pins.screen(list(tools)).await;
    let told = screened.tools.iter().map(|tool| {
        let mark = if screened.unaccepted.contains(&tool.name) { "?" } else { "" };
        format!("{}={}{mark}", tool.name, tool.description)
    });
    told.collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn no_digest_of_a_list_is_computed_on_a_thread_of_the_servers() {
    let home = Home::new();
    for pins in [home.pins(Pinning::TrustOnFirstUse), home.pins(Pinning::TrustOnFirstUse)] {
        for list in [&[("a", "1"), ("b", "2")][..], &[("a", "9"), ("c", "2"), ("d", "3")]] {
            let before = DIGESTS.get();
            assert!(!screened(&pins, list).await.is_empty());
            assert_eq!(DIGESTS.get() - before, 0, "{list:?}");
        }
        home.accept(&pins, &[]);
    }
    let before = DIGESTS.get();
    Definition::new(&list(&[("a", "1")])[0]).expect("not deep");
    assert_eq!(DIGESTS.get() - before, 1, "they are counted");
}

#[tokio::test]
async fn the_first_list_is_used_across_restarts_until_a_change_is_accepted() {
    let home = Home::new();
    let first = home.pins(Pinning::TrustOnFirstUse);
    assert_eq!(screened(&first, &[]).await, "", "an empty list is not pinned");
    assert_eq!(screened(&first, &[("a", "1")]).await, "a=1");
    let restarted = home.pins(Pinning::TrustOnFirstUse);
    assert_eq!(screened(&restarted, &[("a", "2"), ("b", "1")]).await, "a=1 b=1?");
    assert_eq!(screened(&restarted, &[("a", "3"), ("b", "2")]).await, "a=1 b=1?");
    let quarantine = serde_json::to_value(restarted.quarantine()).expect("JSON");
    assert_eq!(quarantine[0]["kind"], "changed");
    assert_eq!(quarantine[1]["accepted_digest"], json!(null), "{quarantine:#}");
    home.accept(&restarted, &["a"]);
    assert_eq!(screened(&restarted, &[("a", "3"), ("b", "2")]).await, "a=3 b=1?");
    home.accept(&restarted, &[]);
    assert_eq!(screened(&restarted, &[("a", "3"), ("b", "2")]).await, "a=3 b=2");
    assert!(restarted.quarantine().is_empty());
}

#[tokio::test]
async fn a_later_tool_that_leaves_the_list_is_forgotten_and_an_accepted_one_is_not() {
    let home = Home::new();
    let pins = home.pins(Pinning::TrustOnFirstUse);
    screened(&pins, &[("a", "1")]).await;
    assert_eq!(screened(&pins, &[("a", "1"), ("b", "1")]).await, "a=1 b=1?");
    assert_eq!(screened(&pins, &[("b", "1")]).await, "b=1?");
    assert_eq!(screened(&pins, &[("a", "2")]).await, "a=1");
    assert_eq!(screened(&pins, &[("a", "1"), ("b", "2")]).await, "a=1 b=2?");
}

#[tokio::test]
async fn strict_pins_need_no_store_and_publish_accepted_definitions_only() {
    let home = Home::new();
    let pins = home.pins(Pinning::Strict);
    assert_eq!(screened(&pins, &[("a", "1"), ("b", "1")]).await, "");
    home.accept(&pins, &["a"]);
    assert_eq!(screened(&pins, &[("a", "2"), ("b", "1"), ("c", "1")]).await, "a=1");
    assert!(!home.path("airlock.db").exists());
}

#[tokio::test]
async fn nothing_is_compared_if_pins_are_off() {
    let home = Home::new();
    let pins = home.pins(Pinning::Off);
    screened(&pins, &[("a", "1")]).await;
    assert_eq!(screened(&pins, &[("a", "2"), ("b", "1")]).await, "a=2 b=1");
    assert!(pins.review().is_none() && pins.quarantine().is_empty());
    assert!(!home.path("airlock.db").exists());
}

#[tokio::test]
async fn a_lock_file_that_is_damaged_edited_or_gone_opens_nothing() {
    let home = Home::new();
    let pins = home.pins(Pinning::TrustOnFirstUse);
    screened(&pins, &[("a", "1")]).await;
    home.accept(&pins, &[]);
    assert_eq!(screened(&pins, &[("a", "2")]).await, "a=1");
    let good = fs::read_to_string(home.path(LOCK_FILE)).expect("read");
    let edited = good.replace("\\\"description\\\":\\\"1\\\"", "\\\"description\\\":\\\"2\\\"");
    let edited = edited.replace("\"description\":\"1\"", "\"description\":\"2\"");
    assert_ne!(edited, good);
    for text in [Some("version = 2"), Some(edited.as_str()), None] {
        match text {
            Some(text) => fs::write(home.path(LOCK_FILE), text).expect("written"),
            None => fs::remove_file(home.path(LOCK_FILE)).expect("removed"),
        }
        let running = screened(&pins, &[("a", "2")]).await;
        assert_eq!(running, "a=1", "a running gateway keeps what it knows: {text:?}");
        assert!(pins.review().expect("a list").problem.is_some());
        if text.is_some() {
            let started = home.pins(Pinning::TrustOnFirstUse);
            assert_eq!(screened(&started, &[("a", "2")]).await, "", "{text:?}");
        }
    }
    fs::write(home.path(LOCK_FILE), good).expect("written");
    assert_eq!(screened(&pins, &[("a", "1")]).await, "a=1");
    assert!(pins.review().expect("a list").problem.is_none());
}

#[tokio::test]
async fn a_damaged_store_opens_nothing_and_one_that_cannot_be_made_is_replaced_by_memory() {
    let home = Home::new();
    fs::write(home.path("airlock.db"), "this is no database, and long enough to say so".repeat(99))
        .expect("written");
    let pins = home.pins(Pinning::TrustOnFirstUse);
    assert_eq!(screened(&pins, &[("a", "1")]).await, "");
    assert!(pins.review().expect("a list").problem.is_some());
    // No user can make a directory in this file system.
    let nowhere = Path::new("/proc/no-such-directory/airlock.db");
    let pins = home.pins_with_store(Pinning::TrustOnFirstUse, nowhere);
    assert_eq!(screened(&pins, &[("a", "1")]).await, "a=1");
    assert_eq!(screened(&pins, &[("a", "2"), ("b", "1")]).await, "a=1 b=1?");
    assert_eq!(screened(&pins, &[("a", "1"), ("b", "2")]).await, "a=1 b=1?");
}

#[tokio::test]
async fn tools_beyond_the_bound_are_withheld() {
    let home = Home::new();
    let pins = home.pins(Pinning::TrustOnFirstUse);
    pins.screen(tools(1)).await;
    let full = pins.screen(tools(MAX_TOOLS_PER_CLIENT)).await;
    assert_eq!(
        (full.tools.len(), full.unaccepted.len()),
        (MAX_TOOLS_PER_CLIENT, MAX_TOOLS_PER_CLIENT - 1)
    );
    let more = pins.screen(tools(MAX_TOOLS_PER_CLIENT + 1)).await;
    assert_eq!(more.tools.len(), MAX_TOOLS_PER_CLIENT);
}

fn tools(count: usize) -> Vec<ToolDefinition> {
    let tools = (0..count).map(|n| json!({"name": format!("t{n}"), "inputSchema": {}}));
    tools.map(|tool| serde_json::from_value(tool).expect("a definition")).collect()
}

#[tokio::test]
async fn the_store_and_the_lock_are_readable_as_documented() {
    let home = Home::new();
    let pins = home.pins(Pinning::TrustOnFirstUse);
    screened(&pins, &[("a", "1")]).await;
    home.accept(&pins, &[]);
    for (name, mode) in [("airlock.db", 0o600), (LOCK_FILE, 0o644)] {
        let metadata = fs::metadata(home.path(name)).expect("a file");
        assert_eq!(metadata.permissions().mode() & 0o777, mode, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_lock_file_asks_for_one_list() {
    let home = Home::new();
    let pins = home.pins(Pinning::Strict);
    screened(&pins, &[("a", "1")]).await;
    let (send, mut lists) = tokio::sync::mpsc::unbounded_channel();
    let following = pins.clone();
    let task = tokio::spawn(async move {
        following.follow(move || send.send(()).expect("the test receives it")).await;
    });
    home.accept(&pins, &[]);
    lists.recv().await.expect("a list is asked for");
    assert_eq!(screened(&pins, &[("a", "1")]).await, "a=1");
    tokio::time::sleep(WATCH_PERIOD * 10).await;
    assert!(lists.try_recv().is_err(), "nothing has changed since");
    task.abort();
}

#[tokio::test]
async fn the_changes_of_instances_that_are_held_out_are_bounded_and_not_masked() {
    let home = Home::new();
    let pins = home.pins(Pinning::TrustOnFirstUse);
    screened(&pins, &[("a", "1"), ("b", "1")]).await;
    screened(&pins, &[("a", "1")]).await;
    let changed = list(&[("a", "2"), ("b", "2")]);
    let lists = vec![tools(MAX_TOOLS_PER_CLIENT + 7), changed, tools(9)];
    let compared = compared(&pins, lists).await;
    let compared: Vec<_> = compared.iter().map(Vec::as_slice).collect();
    pins.set_held_out(&compared);
    let shown = pins.quarantine();
    assert_eq!(shown.len(), MAX_TOOLS_PER_CLIENT);
    assert_eq!(pins.state().more_held_out, 9);
    let kinds: Vec<_> = shown[..2].iter().map(|one| (one.tool.as_str(), one.kind)).collect();
    assert_eq!(kinds, [("a", ChangeKind::Changed), ("b", ChangeKind::Changed)]);
    pins.set_held_out(&[]);
    let kinds: Vec<_> = pins.quarantine().iter().map(|one| one.kind).collect();
    assert_eq!(kinds, [ChangeKind::Removed]);
}

/// Compares lists of instances with the accepted definitions.
async fn compared(pins: &ClientPins, lists: Vec<Vec<ToolDefinition>>) -> Vec<Vec<Change>> {
    let mut listings = Vec::new();
    for list in lists {
        listings.push(Arc::new(Listing::new(list).await));
    }
    pins.compare(listings).await
}

#[tokio::test]
async fn instances_that_cannot_be_compared_with_the_lock_file_have_the_problem_in_their_review() {
    let home = Home::new();
    let pins = home.pins(Pinning::TrustOnFirstUse);
    screened(&pins, &[("a", "1")]).await;
    home.accept(&pins, &[]);
    let good = fs::read_to_string(home.path(LOCK_FILE)).expect("read");
    let digest = good.find("sha256:").expect("a digest") + "sha256:".len();
    let mut edited = good.clone();
    // Of another length, so that the next version of the file is another one in any case.
    edited.replace_range(digest..digest + 4, "0");
    let started = home.pins(Pinning::TrustOnFirstUse);
    for (text, has_problem) in [(edited, true), (good, false)] {
        fs::write(home.path(LOCK_FILE), text).expect("written");
        let lists = vec![list(&[("a", "2")]), list(&[("a", "3")])];
        let compared = compared(&started, lists).await;
        assert!(compared.iter().all(|changes| changes.len() == 1), "{compared:?}");
        let compared: Vec<_> = compared.iter().map(Vec::as_slice).collect();
        started.set_held_out(&compared);
        // `airlock upstream accept` refuses a review with a problem.
        assert_eq!(started.review().expect("a list").problem.is_some(), has_problem);
    }
}

#[tokio::test]
async fn the_digest_of_a_review_changes_with_any_definition() {
    let home = Home::new();
    let pins = home.pins(Pinning::TrustOnFirstUse);
    let mut seen = BTreeSet::new();
    for tools in [&[("a", "1")][..], &[("a", "2")], &[("a", "3")], &[("b", "1")], &[]] {
        screened(&pins, tools).await;
        assert!(seen.insert(pins.review().expect("a list").digest()), "{tools:?}");
    }
    assert!(pins.review().expect("a list").accept(Some(&["x".to_owned()].into())).is_err());
}

#[tokio::test]
async fn an_acceptance_is_written_only_if_all_is_as_it_was_shown() {
    let home = Home::new();
    let pins = home.pins(Pinning::TrustOnFirstUse);
    screened(&pins, &[("a", "1"), ("b", "1")]).await;
    screened(&pins, &[("a", "2"), ("b", "2")]).await;
    let review = pins.review().expect("a list").digest();
    let one = Acceptance { review: review.clone(), tools: Some(["a".to_owned()].into()) };
    let unrecorded = pins.accept(&one, async { false }).await;
    assert!(matches!(unrecorded, Err(AcceptError::NotRecorded)), "{unrecorded:?}");
    let unknown = Acceptance { tools: Some(["x".to_owned()].into()), ..one.clone() };
    let unknown = pins.accept(&unknown, async { true }).await;
    assert!(matches!(unknown, Err(AcceptError::NoSuchChange(_))), "{unknown:?}");
    let other = Acceptance { review: "sha256:00".to_owned(), tools: None };
    let other = pins.accept(&other, async { true }).await;
    assert!(matches!(other, Err(AcceptError::Changed)), "{other:?}");
    assert!(!home.path(LOCK_FILE).exists(), "nothing was written");

    assert_eq!(pins.accept(&one, async { true }).await.expect("accepted"), ["a"]);
    let again = pins.accept(&one, async { true }).await;
    assert!(matches!(again, Err(AcceptError::Changed)), "the file is newer: {again:?}");
    assert_eq!(screened(&pins, &[("a", "2"), ("b", "2")]).await, "a=2 b=1");
    let review = pins.review().expect("a list").digest();
    let all = Acceptance { review, tools: None };
    screened(&pins, &[("a", "2"), ("b", "3")]).await;
    let changed = pins.accept(&all, async { true }).await;
    assert!(matches!(changed, Err(AcceptError::Changed)), "{changed:?}");
    let review = pins.review().expect("a list").digest();
    let all = Acceptance { review, tools: None };
    assert_eq!(pins.accept(&all, async { true }).await.expect("accepted"), ["b"]);
    assert_eq!(screened(&pins, &[("a", "2"), ("b", "3")]).await, "a=2 b=3");
    fs::remove_file(home.path(LOCK_FILE)).expect("it is there");
    let review = pins.review().expect("a list").digest();
    let gone = pins.accept(&Acceptance { review, tools: None }, async { true }).await;
    assert!(matches!(gone, Err(AcceptError::Lock(LockError::Gone { .. }))), "{gone:?}");
    assert!(!home.path(LOCK_FILE).exists());
}

#[tokio::test]
async fn a_change_is_described_with_both_definitions_as_they_were_sent() {
    let home = Home::new();
    let pins = home.pins(Pinning::TrustOnFirstUse);
    screened(&pins, &[("a", "1")]).await;
    screened(&pins, &[("a", "2")]).await;
    let review = pins.review().expect("a list");
    let changes = documents(review.changes.iter());
    let changes: Vec<serde_json::Value> = serde_json::from_str(&changes).expect("JSON");
    let [change] = changes.as_slice() else { panic!("{changes:?}") };
    assert_eq!((&change["tool"], &change["kind"]), (&json!("a"), &json!("changed")), "{change}");
    assert_eq!(change["accepted"]["description"], "1", "{change}");
    assert_eq!(change["pending"]["description"], "2", "{change}");
    assert_eq!(change["diff"], json!(["/description", "  - 1", "  + 2"]), "{change}");
    assert_eq!((&change["hidden"], &change["offered"]), (&json!(0), &json!(true)), "{change}");
}

#[test]
fn a_removed_server_has_no_pins_and_one_in_its_place_has_new_ones() {
    let home = Home::new();
    let store = airlock_store::Settings::new(home.path("airlock.db"));
    let pins = Pins::new(None, store.into());
    let name = ClientName::parse("up").expect("a name");
    let settings = Settings { pin: Pinning::Off, ..Settings::new(name, Process::default()) };
    assert!(pins.client("up").is_none());
    pins.add(&settings);
    assert_eq!(pins.clone().client("up").expect("it is there").pinning(), Pinning::Off);
    pins.add(&Settings { pin: Pinning::Strict, ..settings });
    assert_eq!(pins.client("up").expect("it is there").pinning(), Pinning::Strict);
    pins.remove("up");
    assert!(pins.client("up").is_none());
}
