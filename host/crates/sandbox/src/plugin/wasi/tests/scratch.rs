//! The scratch directory of a call.

use super::*;

fn host() -> Host {
    Host::with(&[("docs", Access::ReadWrite, ROOM)], Some(Quota { bytes: 10, files: 2 }))
}

/// Returns the paths of a plugin's scratch directories on the host.
fn scratch_directories(host: &Host) -> Vec<PathBuf> {
    let base = host.mounts.scratch.as_ref().expect("it is granted").path();
    std::fs::read_dir(base)
        .expect("it is there")
        .map(|entry| entry.expect("an entry").path())
        .collect()
}

async fn all_gone(host: &Host) {
    while !scratch_directories(host).is_empty() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn every_call_has_a_new_directory_with_a_quota_that_is_removed_with_the_call() {
    let host = host();
    let mut one = host.call();
    let mut other = host.call();
    for call in [&mut one, &mut other] {
        let tmp = call.directory("/tmp");
        let file = call.open_in(tmp, "file", OpenMode::CreateNew).await.expect("it is empty");
        call.write_to(&file, b"0123456789", Some(0)).await.expect("at the edge");
        assert_eq!(call.write_to(&file, b"x", None).await, Err(ErrorCode::Quota));
        let tmp = call.directory("/tmp");
        code(call.view().create_directory_at(tmp, "a".into()).await).expect("at the edge");
        let tmp = call.directory("/tmp");
        assert_eq!(
            code(call.view().create_directory_at(tmp, "b".into()).await),
            Err(ErrorCode::Quota)
        );
    }
    assert_eq!(scratch_directories(&host).len(), 2);
    drop(one);
    while scratch_directories(&host).len() > 1 {
        tokio::task::yield_now().await;
    }
    drop(other);
    all_gone(&host).await;
}

#[tokio::test]
async fn the_directory_is_made_once_and_only_when_the_guest_lists_its_directories() {
    let host = host();
    let wasi = host.granted(None);
    assert!(scratch_directories(&host).is_empty());
    drop(wasi);
    let mut call = host.call();
    let again = call.view().get_directories().expect("directories");
    assert_eq!(again.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>(), ["/docs", "/tmp"]);
    assert_eq!(scratch_directories(&host).len(), 1);
}

#[tokio::test]
async fn a_call_that_is_cancelled_or_panics_leaves_nothing_behind() {
    let host = Arc::new(host());
    for panics in [false, true] {
        let call = host.clone();
        let (ready, begun) = tokio::sync::oneshot::channel();
        let task = tokio::spawn(async move {
            let mut call = call.call();
            let tmp = call.directory("/tmp");
            let file = call.open_in(tmp, "file", OpenMode::CreateNew).await.expect("it is empty");
            let _stream = code(call.view().append_via_stream(file)).expect("a stream");
            ready.send(()).expect("the test waits");
            assert!(!panics, "as the test wants it");
            std::future::pending::<()>().await;
        });
        begun.await.expect("it begins");
        task.abort();
        assert!(task.await.is_err());
        all_gone(&host).await;
    }
}

#[tokio::test]
async fn without_the_grant_there_is_no_scratch_directory() {
    let call = Host::new(ROOM).call();
    assert_eq!(
        call.directories.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
        ["/docs"]
    );
}
