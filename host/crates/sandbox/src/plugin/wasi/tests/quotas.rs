//! Quotas: what counts towards them, at the limit and beyond it.

use std::{fs, time::Duration};

use super::*;

/// Longer than a measurement is trusted.
const LONG: Duration = Duration::from_secs(61);

fn quota(bytes: u64, files: u64) -> Host {
    Host::new(Quota { bytes, files })
}

#[tokio::test]
async fn a_file_may_be_as_large_as_its_quota_and_no_larger() {
    for position in [Some(0), None] {
        let host = quota(10, 5);
        let mut call = host.call();
        call.write("file", OpenMode::Create, b"0123456789", position).await.expect("at the edge");
        assert_eq!(call.write("file", OpenMode::Write, b"x", None).await, Err(ErrorCode::Quota));
        assert_eq!(
            call.write("file", OpenMode::Write, b"x", Some(10)).await,
            Err(ErrorCode::Quota)
        );
        assert_eq!(
            call.write("other", OpenMode::Create, b"x", Some(0)).await,
            Err(ErrorCode::Quota)
        );
        call.write("file", OpenMode::Write, b"9876543210", Some(0)).await.expect("it adds nothing");
        assert_eq!(fs::read(host.path("docs/file")).expect("a file"), b"9876543210");
        assert_eq!(host.counted(), Amount { bytes: 10, files: 2 });
    }
}

#[tokio::test]
async fn every_way_of_making_a_file_longer_is_counted() {
    let host = quota(100, 5);
    let mut call = host.call();
    let file = call.open("file", OpenMode::Create).await.expect("there is room");
    assert_eq!(code(call.view().write(borrowed(&file), vec![1; 10], 80).await), Ok(10));
    assert_eq!(host.counted().bytes, 90, "a hole counts");
    assert_eq!(
        code(call.view().write(borrowed(&file), vec![1; 10], 91).await),
        Err(ErrorCode::Quota)
    );
    assert_eq!(code(call.view().set_size(borrowed(&file), 101).await), Err(ErrorCode::Quota));
    assert_eq!(code(call.view().set_size(borrowed(&file), u64::MAX).await), Err(ErrorCode::Quota));
    assert_eq!(
        code(call.view().write(borrowed(&file), vec![1; 10], u64::MAX).await),
        Err(ErrorCode::Quota)
    );
    code(call.view().set_size(borrowed(&file), 100).await).expect("at the edge");
    assert_eq!(call.write_to(&file, b"x", None).await, Err(ErrorCode::Quota));
    code(call.view().set_size(borrowed(&file), 7).await).expect("it gets shorter");
    assert_eq!(host.counted(), Amount { bytes: 7, files: 1 });
}

#[tokio::test]
async fn every_file_and_directory_counts_as_one_entry() {
    let host = quota(100, 3);
    let mut call = host.call();
    call.create_directory("a").await.expect("there is room");
    call.create_directory("a/b").await.expect("there is room");
    call.write("a/b/c", OpenMode::CreateNew, b"", Some(0)).await.expect("at the edge");
    assert_eq!(call.create_directory("d").await, Err(ErrorCode::Quota));
    for mode in [OpenMode::Create, OpenMode::CreateNew, OpenMode::Truncate] {
        assert_eq!(call.open("d", mode).await.err(), Some(ErrorCode::Quota));
    }
    for mode in [OpenMode::Create, OpenMode::Truncate, OpenMode::Write, OpenMode::Read] {
        let there = call.open("a/b/c", mode).await.expect("it is there already");
        call.close(there);
    }
    assert_eq!(call.create_directory("a").await, Err(ErrorCode::Quota), "before it is looked at");
    assert_eq!(host.counted(), Amount { bytes: 0, files: 3 });
}

#[tokio::test]
async fn a_failed_operation_is_not_counted() {
    let host = quota(100, 3);
    let mut call = host.call();
    assert_eq!(call.create_directory("no/such/place").await, Err(ErrorCode::NoEntry));
    assert_eq!(call.open("no/such/place", OpenMode::Create).await.err(), Some(ErrorCode::NoEntry));
    call.create_directory("a").await.expect("there is room");
    assert_eq!(call.create_directory("a").await, Err(ErrorCode::Exist));
    assert_eq!(call.open("a", OpenMode::CreateNew).await.err(), Some(ErrorCode::Exist));
    let reading = call.open("a", OpenMode::Read).await.expect("it is there");
    assert_eq!(code(call.view().set_size(reading, 50).await), Err(ErrorCode::BadDescriptor));
    assert_eq!(host.counted(), Amount { bytes: 0, files: 1 });
}

#[tokio::test]
async fn removing_an_entry_frees_its_quota() {
    let host = quota(10, 2);
    let mut call = host.call();
    call.create_directory("a").await.expect("there is room");
    call.write("a/file", OpenMode::Create, b"0123456789", Some(0)).await.expect("there is room");
    call.unlink("a/file").await.expect("it is there");
    let directory = call.docs();
    code(call.view().remove_directory_at(directory, "a".into()).await).expect("it is empty");
    assert_eq!(host.counted(), Amount::default());
    call.write("other", OpenMode::Create, b"0123456789", Some(0))
        .await
        .expect("there is room again");
    call.write("other", OpenMode::Truncate, b"01234", Some(0)).await.expect("it was emptied first");
    assert_eq!(host.counted(), Amount { bytes: 5, files: 1 });
    assert_eq!(call.unlink("gone").await, Err(ErrorCode::NoEntry));
    assert_eq!(host.counted(), Amount { bytes: 5, files: 1 });
}

#[tokio::test]
async fn a_rename_frees_only_the_quota_of_the_entry_it_replaces() {
    let host = quota(100, 5);
    let mut call = host.call();
    call.write("one", OpenMode::Create, b"12345", Some(0)).await.expect("there is room");
    call.write("other", OpenMode::Create, b"1234567", Some(0)).await.expect("there is room");
    let to = call.docs();
    call.rename("one", to, "other").await.expect("it replaces");
    assert_eq!(host.counted(), Amount { bytes: 5, files: 1 });
    let to = call.docs();
    call.rename("other", to, "other").await.expect("nothing happens");
    assert_eq!(host.counted(), Amount { bytes: 5, files: 1 });
    // Two names of one file, made from outside: the rename leaves both unchanged.
    fs::hard_link(host.path("docs/other"), host.path("docs/name")).expect("a link");
    host.mount().measured_before(LONG, Duration::ZERO);
    call.create_directory("a").await.expect("there is room");
    assert_eq!(host.counted(), Amount { bytes: 10, files: 3 });
    let to = call.docs();
    call.rename("other", to, "name").await.expect("nothing happens");
    assert_eq!(host.counted(), Amount { bytes: 10, files: 3 });
    call.unlink("name").await.expect("it is there");
    assert_eq!(host.counted(), Amount { bytes: 5, files: 2 });
}

#[tokio::test]
async fn an_unlinked_file_counts_until_it_is_closed() {
    let host = quota(10, 5);
    let mut call = host.call();
    let file = call.open("file", OpenMode::Create).await.expect("there is room");
    call.write_to(&file, b"0123456789", Some(0)).await.expect("there is room");
    // Afterwards only a stream holds the file open.
    let reading = call.open("file", OpenMode::Read).await.expect("it is there");
    let stream = code(call.view().read_via_stream(Resource::new_borrow(reading.rep()), 0))
        .expect("a stream");
    call.close(reading);
    call.unlink("file").await.expect("it is there");
    assert_eq!(call.write("other", OpenMode::Create, b"x", Some(0)).await, Err(ErrorCode::Quota));
    call.close(file);
    host.mount().measured_before(LONG, Duration::ZERO);
    assert_eq!(
        call.write("other", OpenMode::Create, b"x", Some(0)).await,
        Err(ErrorCode::Quota),
        "measuring does not see it"
    );
    drop(call.table.delete(stream).expect("it is open"));
    call.write("other", OpenMode::Create, b"0123456789", Some(0)).await.expect("it is gone");
    assert_eq!(host.counted(), Amount { bytes: 10, files: 1 });
}

#[tokio::test]
async fn the_end_of_a_call_frees_the_quota_of_its_unlinked_files() {
    let host = quota(10, 5);
    let mut call = host.call();
    let file = call.open("file", OpenMode::Create).await.expect("there is room");
    call.write_to(&file, b"0123456789", Some(0)).await.expect("there is room");
    call.unlink("file").await.expect("it is there");
    drop(call);
    host.call()
        .write("other", OpenMode::Create, b"0123456789", Some(0))
        .await
        .expect("there is room again");
    assert_eq!(host.counted(), Amount { bytes: 10, files: 1 });
}

#[tokio::test]
async fn deletions_from_outside_are_seen_at_the_next_measurement() {
    let host = quota(10, 5);
    let mut call = host.call();
    call.write("file", OpenMode::Create, b"0123456789", Some(0)).await.expect("there is room");
    fs::remove_file(host.path("docs/file")).expect("it is there");
    host.mount().measured_before(Duration::ZERO, LONG);
    assert_eq!(
        call.write("other", OpenMode::Create, b"x", Some(0)).await,
        Err(ErrorCode::Quota),
        "too soon"
    );
    host.mount().measured_before(Duration::ZERO, Duration::ZERO);
    call.write("other", OpenMode::Create, b"0123456789", Some(0)).await.expect("it is seen now");
    assert_eq!(host.counted(), Amount { bytes: 10, files: 1 });
}

#[tokio::test]
async fn files_added_from_outside_are_seen_within_a_minute() {
    let host = quota(10, 5);
    let mut call = host.call();
    call.write("file", OpenMode::Create, b"0", Some(0)).await.expect("there is room");
    fs::write(host.path("docs/other"), "012345678").expect("a file");
    call.write("file", OpenMode::Write, b"1", None).await.expect("nobody knows yet");
    host.mount().measured_before(LONG, Duration::ZERO);
    assert_eq!(call.write("file", OpenMode::Write, b"2", None).await, Err(ErrorCode::Quota));
}

#[tokio::test]
async fn a_directory_beyond_its_quota_cannot_grow() {
    let host = quota(10, 2);
    for name in ["a", "b", "c"] {
        fs::write(host.path("docs").join(name), "0123456789").expect("a file");
    }
    let mut call = host.call();
    assert_eq!(call.write("a", OpenMode::Write, b"x", None).await, Err(ErrorCode::Quota));
    call.write("a", OpenMode::Write, b"x", Some(0)).await.expect("it adds nothing");
    call.write("a", OpenMode::Truncate, b"", Some(0)).await.expect("it takes away");
    call.unlink("b").await.expect("it takes away");
    host.mount().measured_before(Duration::ZERO, Duration::ZERO);
    assert_eq!(call.write("a", OpenMode::Write, b"x", Some(0)).await, Err(ErrorCode::Quota));
    call.unlink("c").await.expect("it takes away");
    host.mount().measured_before(Duration::ZERO, Duration::ZERO);
    call.write("a", OpenMode::Write, b"0123456789", Some(0)).await.expect("there is room");
    assert_eq!(host.counted(), Amount { bytes: 10, files: 1 });
}

#[tokio::test]
async fn two_mounts_have_a_quota_each_and_nothing_moves_between_them() {
    let ten = Quota { bytes: 10, files: 2 };
    let host = Host::with(
        &[
            ("docs", Access::ReadWrite, ten),
            ("more", Access::ReadWrite, ten),
            ("read", Access::ReadOnly, ten),
        ],
        None,
    );
    let mut call = host.call();
    call.write("file", OpenMode::Create, b"0123456789", Some(0)).await.expect("there is room");
    let more = call.directory("/more");
    let other = call.open_in(more, "file", OpenMode::Create).await.expect("there is room");
    call.write_to(&other, b"0123456789", Some(0)).await.expect("a quota of its own");
    let more = call.directory("/more");
    assert_eq!(call.rename("file", more, "moved").await, Err(ErrorCode::CrossDevice));
    let read = call.directory("/read");
    assert_eq!(call.rename("file", read, "moved").await, Err(ErrorCode::NotPermitted));
    assert!(host.path("docs/file").exists() && !host.path("more/moved").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_calls_share_one_quota() {
    let host = Arc::new(quota(1_000, 200));
    let calls = (0..16).map(|number| {
        let host = host.clone();
        tokio::spawn(async move {
            let mut call = host.call();
            let mut written = 0;
            for _ in 0..20 {
                let name = format!("file{}", number % 4);
                match call.write(&name, OpenMode::Create, b"0123456", None).await {
                    Ok(()) => written += 7,
                    Err(error) => assert_eq!(error, ErrorCode::Quota),
                }
                // Shortens the file while other calls write to it.
                if number % 5 == 0 {
                    let file = call.open(&name, OpenMode::Write).await.expect("it is there");
                    code(call.view().set_size(Resource::new_borrow(file.rep()), 3).await)
                        .expect("it gets shorter or stays");
                    call.close(file);
                }
            }
            written
        })
    });
    let mut written = 0;
    for call in calls.collect::<Vec<_>>() {
        written += call.await.expect("it ends");
    }
    assert!(written >= 994, "{written} bytes were written");
    let counted = host.counted();
    assert!(counted.bytes <= 1_000 && counted.files == 4, "{counted:?}");
}
