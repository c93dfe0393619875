//! Limits on open files and listings of one call, and on names.

use super::{
    super::files::{MAX_LISTED_BYTES, MAX_OPEN},
    *,
};

#[tokio::test]
async fn open_files_beyond_the_limit_are_refused() {
    let host = Host::new(ROOM);
    let mut call = host.call();
    let mut open = Vec::new();
    for _ in 0..MAX_OPEN {
        open.push(call.open("file", OpenMode::Create).await.expect("within the bound"));
    }
    assert_eq!(call.open("file", OpenMode::Read).await.err(), Some(ErrorCode::InsufficientMemory));
    let borrow = Resource::new_borrow(open[0].rep());
    assert_eq!(
        code(call.view().append_via_stream(borrow)).err(),
        Some(ErrorCode::InsufficientMemory)
    );
    // A stream keeps its file open, even after the descriptor is closed.
    call.close(open.pop().expect("many"));
    let borrow = Resource::new_borrow(open[0].rep());
    let _stream = code(call.view().append_via_stream(borrow)).expect("within the bound");
    call.close(open.remove(0));
    let again = call.open("file", OpenMode::Read).await.expect("within the bound");
    assert_eq!(call.open("file", OpenMode::Read).await.err(), Some(ErrorCode::InsufficientMemory));
    call.close(again);
    // Another call has its own limit.
    host.call().open("file", OpenMode::Read).await.expect("within the bound");
}

#[tokio::test]
async fn listings_beyond_their_memory_limit_are_refused() {
    let host = Host::new(Quota { bytes: 0, files: 10_000 });
    for number in 0..1_000 {
        std::fs::write(host.path("docs").join(format!("{number:0>255}")), "").expect("a file");
    }
    let mut call = host.call();
    let fit = MAX_LISTED_BYTES / (1_000 * (255 + 64));
    let mut listings = Vec::new();
    for _ in 0..fit {
        listings.push(call.list().await.expect("within the bound"));
    }
    assert_eq!(call.list().await.err(), Some(ErrorCode::InsufficientMemory));
    HostDirectoryEntryStream::drop(&mut call.view(), listings.pop().expect("many"))
        .expect("it is open");
    assert_eq!(call.names().await.len(), 1_000);
}

#[tokio::test]
async fn listings_count_as_guest_memory_until_they_are_closed() {
    let mut host = Host::new(ROOM);
    for name in ["a", "b"] {
        std::fs::write(host.path("docs").join(name), "").expect("a file");
    }
    // One tenant gets at most half: two listings of two entries, 65 bytes each.
    host.memory = Pool::new(2 * 2 * 130, 1);
    let mut call = host.call();
    let listings =
        [call.list().await.expect("there is room"), call.list().await.expect("there is room")];
    assert_eq!(call.list().await.err(), Some(ErrorCode::InsufficientMemory));
    let mut other = host.call();
    assert_eq!(
        other.list().await.err(),
        Some(ErrorCode::InsufficientMemory),
        "another call of the same tenant"
    );
    for listing in listings {
        HostDirectoryEntryStream::drop(&mut call.view(), listing).expect("it is open");
    }
    assert_eq!(other.names().await, ["a", "b"]);
}

#[tokio::test]
async fn a_listing_is_sorted_and_leaves_out_names_that_are_not_utf8() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};
    let host = Host::new(ROOM);
    for name in ["b", "c", "a"] {
        std::fs::write(host.path("docs").join(name), "").expect("a file");
    }
    std::fs::write(host.path("docs").join(OsStr::from_bytes(b"\xff\xfe")), "").expect("a file");
    assert_eq!(host.call().names().await, ["a", "b", "c"]);
}

#[tokio::test]
async fn names_longer_than_the_file_system_allows_are_refused() {
    let host = Host::new(ROOM);
    let mut call = host.call();
    let longest = "x".repeat(255);
    let longer = "x".repeat(256);
    call.write(&longest, OpenMode::Create, b"text", Some(0)).await.expect("at the edge");
    assert_eq!(call.read(&longest).await.expect("it is there"), b"text");
    assert_eq!(call.open(&longer, OpenMode::Create).await.err(), Some(ErrorCode::NameTooLong));
    assert_eq!(call.create_directory(&longer).await, Err(ErrorCode::NameTooLong));
    let to = call.docs();
    assert_eq!(call.rename(&longest, to, &longer).await, Err(ErrorCode::NameTooLong));
    assert_eq!(
        call.open(&"a/".repeat(5_000), OpenMode::Read).await.err(),
        Some(ErrorCode::NameTooLong)
    );
    assert_eq!(host.counted(), Amount { bytes: 4, files: 1 });
}

#[tokio::test]
async fn a_directory_nested_too_deeply_to_measure_counts_as_full() {
    let host = Host::new(Quota { bytes: 1 << 20, files: 1_000 });
    let mut call = host.call();
    let name = "d".repeat(250);
    let mut directory = call.docs();
    for _ in 0..20 {
        let parent = directory.rep();
        let child = name.clone();
        code(call.view().create_directory_at(Resource::new_borrow(parent), child).await)
            .expect("there is room");
        directory = call
            .open_in(Resource::new_borrow(parent), &name, OpenMode::Read)
            .await
            .expect("it was made");
    }
    host.mount().measured_before(std::time::Duration::from_secs(61), std::time::Duration::ZERO);
    assert_eq!(call.open("file", OpenMode::Create).await.err(), Some(ErrorCode::Quota));
}
