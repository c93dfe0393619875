//! The record of the directories that a call uses.

use super::*;
use crate::{Use, UseRecorder};

/// Host with the directories `docs` for writing and `shared` for reading, both with the file `old`,
/// and a scratch directory.
fn host() -> Host {
    let directories = [("docs", Access::ReadWrite, ROOM), ("shared", Access::ReadOnly, ROOM)];
    let host = Host::with(&directories, Some(ROOM));
    for directory in ["docs", "shared"] {
        std::fs::write(host.path(directory).join("old"), "text").expect("a file");
    }
    host
}

/// Returns the uses of a call that runs `body`.
async fn uses(host: &Host, body: impl AsyncFnOnce(&mut Call)) -> Vec<Use> {
    let client = ClientName::parse("test").expect("a name");
    let recorder = UseRecorder::default();
    let mut call = host.recorded_call(Some(&recorder.of_call(&client, "run")));
    body(&mut call).await;
    recorder.uses(&client).remove("run").unwrap_or_default().into_iter().collect()
}

fn reads(name: &str) -> Use {
    Use::ReadFiles(name.to_owned())
}

fn writes(name: &str) -> Use {
    Use::WriteFiles(name.to_owned())
}

#[tokio::test]
async fn a_directory_is_used_when_something_in_it_is_opened_looked_up_or_listed() {
    let host = host();
    assert_eq!(uses(&host, async |_| ()).await, [], "to be offered a directory is no use of it");
    let used = uses(&host, async |call: &mut Call| {
        call.read("old").await.expect("it is there");
    });
    assert_eq!(used.await, [reads("docs")]);
    let used = uses(&host, async |call: &mut Call| {
        call.read("absent").await.expect_err("it is not there");
    });
    assert_eq!(used.await, [reads("docs")]);
    let used = uses(&host, async |call: &mut Call| drop(call.names().await));
    assert_eq!(used.await, [reads("docs")]);
    let used = uses(&host, async |call: &mut Call| {
        let shared = call.directory("/shared");
        let stat = call.view().stat_at(shared, PathFlags::empty(), "old".to_owned()).await;
        code(stat).expect("it is there");
    });
    assert_eq!(used.await, [reads("shared")]);
    let used = uses(&host, async |call: &mut Call| {
        let shared = call.directory("/shared");
        code(call.view().get_flags(shared).await).expect("flags");
    });
    assert_eq!(used.await, [], "runtimes do it when they start");
}

#[tokio::test]
async fn a_change_is_a_use_for_writing_and_a_refused_one_is_none() {
    let host = host();
    for mode in [OpenMode::Write, OpenMode::Create, OpenMode::Truncate] {
        let used = uses(&host, async |call: &mut Call| {
            call.open("old", mode).await.expect("it may be written to");
        });
        assert_eq!(used.await, [writes("docs")]);
    }
    let used = uses(&host, async |call: &mut Call| {
        call.create_directory("inner").await.expect("there is room");
    });
    assert_eq!(used.await, [writes("docs")]);
    let used = uses(&host, async |call: &mut Call| {
        let docs = call.docs();
        call.rename("old", docs, "new").await.expect("it is there");
    });
    assert_eq!(used.await, [writes("docs")]);
    let used = uses(&host, async |call: &mut Call| call.unlink("new").await.expect("it is there"));
    assert_eq!(used.await, [writes("docs")]);
    let used = uses(&host, async |call: &mut Call| {
        let shared = call.directory("/shared");
        call.open_in(shared, "old", OpenMode::Write).await.expect_err("it is read-only");
        let shared = call.directory("/shared");
        let created = call.view().create_directory_at(shared, "inner".to_owned()).await;
        code(created).expect_err("it is read-only");
        call.open("../secret/file", OpenMode::Read).await.expect_err("it is outside");
    });
    assert_eq!(used.await, []);
}

#[tokio::test]
async fn a_directory_below_a_granted_one_counts_as_the_granted_one() {
    let mut host = host();
    host.grants.directories[0].request = "*".to_owned();
    std::fs::create_dir(host.path("docs/inner")).expect("a directory");
    let used = uses(&host, async |call: &mut Call| {
        let docs = call.docs();
        let open = OpenFlags::DIRECTORY;
        let flags = DescriptorFlags::READ;
        let path = "inner".to_owned();
        let opened = call.view().open_at(docs, PathFlags::empty(), path, open, flags).await;
        let inner = code(opened).expect("it is there");
        let created = call.view().create_directory_at(inner, "innermost".to_owned()).await;
        code(created).expect("there is room");
    });
    assert_eq!(used.await, [reads("*"), writes("*")]);
}

#[tokio::test]
async fn every_operation_in_the_scratch_directory_is_a_use_of_it() {
    let host = host();
    for mode in [OpenMode::Read, OpenMode::Create] {
        let used = uses(&host, async |call: &mut Call| {
            let tmp = call.directory("/tmp");
            drop(call.open_in(tmp, "file", mode).await);
        });
        assert_eq!(used.await, [Use::Scratch]);
    }
}
