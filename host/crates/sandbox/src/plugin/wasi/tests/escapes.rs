//! Paths that lead out of a directory, and special files in it.

use std::{
    fs,
    os::unix::{fs::symlink, net::UnixListener},
    sync::atomic::{AtomicBool, Ordering},
};

use super::*;

/// Tries every operation with a path that leads out, and checks that none has an effect outside.
async fn leads_nowhere(host: &Host, path: &str) {
    let mut call = host.call();
    for mode in
        [OpenMode::Read, OpenMode::Write, OpenMode::Create, OpenMode::CreateNew, OpenMode::Truncate]
    {
        assert!(call.open(path, mode).await.is_err(), "{path} was opened");
    }
    assert!(call.create_directory(path).await.is_err(), "{path} was made");
    call.write("own", OpenMode::Create, b"own", Some(0)).await.expect("there is room");
    let to = call.docs();
    if !path.starts_with("link") {
        assert!(call.unlink(path).await.is_err(), "{path} was removed");
        assert!(call.rename("own", to, path).await.is_err(), "something was moved to {path}");
    }
    host.secret_is_untouched();
}

#[tokio::test]
async fn no_path_leads_out() {
    let host = Host::new(ROOM);
    symlink("../secret", host.path("docs/link")).expect("a link");
    symlink("../secret/file", host.path("docs/link_to_file")).expect("a link");
    symlink(host.path("secret/file"), host.path("docs/link_by_full_name")).expect("a link");
    symlink("link", host.path("docs/link_to_link")).expect("a link");
    let full = host.path("secret/file");
    let paths = [
        "../secret/file",
        "../secret/new",
        "..",
        "../",
        "a/../../secret/file",
        "./../secret/file",
        "/etc/passwd",
        "/",
        "//etc/passwd",
        full.to_str().expect("UTF-8"),
        "link/file",
        "link/new",
        "link/../secret/file",
        "link_to_file",
        "link_to_file/",
        "link_by_full_name",
        "link_to_link/file",
        "../docs/../secret/file",
        "",
    ];
    for path in paths {
        leads_nowhere(&host, path).await;
    }
}

#[tokio::test]
async fn unlink_and_rename_act_on_a_symlink_and_not_on_its_target() {
    let host = Host::new(ROOM);
    for name in ["link", "other"] {
        symlink("../secret/file", host.path("docs").join(name)).expect("a link");
    }
    let mut call = host.call();
    call.write("own", OpenMode::Create, b"own", Some(0)).await.expect("there is room");
    call.unlink("link").await.expect("it is there");
    let to = call.docs();
    call.rename("own", to, "other").await.expect("it replaces");
    host.secret_is_untouched();
    assert_eq!(host.counted(), Amount { bytes: 3, files: 1 });
    // A trailing slash does not make the removal act on the target of a symlink.
    symlink("../secret", host.path("docs/link")).expect("a link");
    for path in ["link/", "link/."] {
        assert!(call.unlink(path).await.is_err());
        let directory = call.docs();
        assert!(code(call.view().remove_directory_at(directory, path.into()).await).is_err());
    }
    host.secret_is_untouched();
}

#[tokio::test]
async fn guests_cannot_make_links() {
    let host = Host::new(ROOM);
    let mut call = host.call();
    call.write("own", OpenMode::Create, b"own", Some(0)).await.expect("there is room");
    for target in ["own", "../secret/file", "/etc/passwd"] {
        let directory = call.docs();
        assert_eq!(
            code(call.view().symlink_at(directory, target.into(), "link".into()).await),
            Err(ErrorCode::NotPermitted)
        );
        let from = call.docs();
        let to = call.docs();
        let linked =
            call.view().link_at(from, PathFlags::empty(), target.into(), to, "link".into()).await;
        assert_eq!(code(linked), Err(ErrorCode::NotPermitted));
    }
    assert_eq!(call.names().await, ["own"]);
}

#[tokio::test]
async fn a_read_only_directory_cannot_be_changed() {
    let host = Host::with(&[("docs", Access::ReadOnly, ROOM)], None);
    fs::write(host.path("docs/file"), "text").expect("a file");
    let mut call = host.call();
    assert_eq!(call.read("file").await.expect("it may be read"), b"text");
    for mode in [OpenMode::Write, OpenMode::Create, OpenMode::CreateNew, OpenMode::Truncate] {
        assert_eq!(call.open("file", mode).await.err(), Some(ErrorCode::NotPermitted));
        assert!(call.open("new", mode).await.is_err());
    }
    let file = call.open("file", OpenMode::Read).await.expect("it may be read");
    assert_eq!(
        code(call.view().write(borrowed(&file), b"x".to_vec(), 0).await),
        Err(ErrorCode::NotPermitted)
    );
    assert_eq!(code(call.view().set_size(borrowed(&file), 0).await), Err(ErrorCode::NotPermitted));
    assert_eq!(
        code(call.view().write_via_stream(borrowed(&file), 0)).err(),
        Some(ErrorCode::NotPermitted)
    );
    assert_eq!(
        code(call.view().append_via_stream(borrowed(&file))).err(),
        Some(ErrorCode::NotPermitted)
    );
    assert_eq!(call.unlink("file").await, Err(ErrorCode::NotPermitted));
    assert_eq!(call.create_directory("new").await, Err(ErrorCode::NotPermitted));
    let to = call.docs();
    assert_eq!(call.rename("file", to, "new").await, Err(ErrorCode::NotPermitted));
    assert_eq!(fs::read_to_string(host.path("docs/file")).expect("it is there"), "text");
}

#[tokio::test]
async fn pipes_and_sockets_are_refused_without_waiting() {
    for access in [Access::ReadOnly, Access::ReadWrite] {
        let host = Host::with(&[("docs", access, ROOM)], None);
        create_with(&host.path("docs/pipe"), "mkfifo");
        let _socket = UnixListener::bind(host.path("docs/socket")).expect("a socket");
        symlink("pipe", host.path("docs/link_to_pipe")).expect("a link");
        let mut call = host.call();
        for name in ["pipe", "socket", "link_to_pipe"] {
            for mode in [OpenMode::Read, OpenMode::Write, OpenMode::Truncate] {
                let opened =
                    tokio::time::timeout(std::time::Duration::from_secs(20), call.open(name, mode))
                        .await;
                let error = opened.expect("nobody waits").err();
                assert!(
                    matches!(error, Some(ErrorCode::NoSuchDevice | ErrorCode::NotPermitted)),
                    "{name}: {error:?}"
                );
            }
        }
        assert_eq!(call.names().await, ["link_to_pipe", "pipe", "socket"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_swapped_for_a_symlink_during_a_call_does_not_lead_out() {
    let host = Host::new(ROOM);
    fs::create_dir(host.path("docs/real")).expect("a directory");
    fs::write(host.path("docs/real/file"), "granted").expect("a file");
    symlink("../secret", host.path("docs/fake")).expect("a link");
    let going = Arc::new(AtomicBool::new(true));
    let door = host.path("docs/door");
    let real = host.path("docs/real");
    let fake = host.path("docs/fake");
    let swap = {
        let going = going.clone();
        move || {
            while going.load(Ordering::Relaxed) {
                for shown in [&real, &fake] {
                    fs::rename(shown, &door).expect("it moves");
                    fs::rename(&door, shown).expect("it moves back");
                }
            }
        }
    };
    let swapping = std::thread::spawn(swap);
    let mut came_through = 0;
    let mut call = host.call();
    for _ in 0..2_000 {
        if let Ok(text) = call.read("door/file").await {
            assert_eq!(text, b"granted");
            came_through += 1;
        }
        for path in ["door/file", "door/new"] {
            if call.write(path, OpenMode::Truncate, b"granted", Some(0)).await.is_ok() {
                came_through += 1;
            }
        }
        let _ = call.unlink("door/new").await;
    }
    going.store(false, Ordering::Relaxed);
    swapping.join().expect("it swaps to the end");
    host.secret_is_untouched();
    assert!(came_through > 0, "the door was never open");
}

#[tokio::test]
async fn a_tool_that_only_reads_files_changes_nothing_and_one_without_files_sees_no_directory() {
    let mut host = Host::new(ROOM);
    std::fs::write(host.path("docs/file"), "text").expect("a file");
    let whole = Arc::new(host.grants.clone());
    host.grants = whole.narrowed(&[Effect::ReadFiles].into_iter().collect());
    let mut call = host.call();
    assert_eq!(call.read("file").await.expect("it may read"), b"text");
    assert!(!call.wasi.denied_a_change());
    for mode in [OpenMode::Write, OpenMode::Create, OpenMode::Truncate] {
        let mut call = host.call();
        assert!(call.open("file", mode).await.is_err());
        assert!(call.wasi.denied_a_change());
    }
    let mut call = host.call();
    assert_eq!(call.unlink("file").await, Err(ErrorCode::NotPermitted));
    assert!(call.create_directory("new").await.is_err() && call.wasi.denied_a_change());
    assert_eq!(std::fs::read(host.path("docs/file")).expect("it is there"), b"text");

    host.grants = whole.narrowed(&[Effect::Http].into_iter().collect());
    assert!(host.call().directories.is_empty());
    host.grants = whole.narrowed(&[Effect::WriteFiles].into_iter().collect());
    let mut call = host.call();
    call.write("file", OpenMode::Truncate, b"new", Some(0)).await.expect("it may write");
    assert_eq!(call.read("file").await.expect("it may read too"), b"new");
    assert_eq!(host.counted(), Amount { bytes: 3, files: 1 }, "the tools share one quota");
}

#[tokio::test]
async fn a_tool_with_effects_on_some_directories_sees_those_alone_with_their_own_quotas() {
    let mut host = Host::with(&[grant("docs"), grant("in"), grant("out")], None);
    std::fs::write(host.path("in/file"), "text").expect("a file");
    let declared = ["read_files.in", "write_files.out"];
    let declared = declared.map(|text| text.parse::<DeclaredEffect>().expect("an effect"));
    host.grants = Arc::new(host.grants.clone()).narrowed(&declared.into_iter().collect());
    let mut call = host.call();
    let names: Vec<_> = call.directories.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["/in", "/out"]);
    let input = call.directory("/in");
    let output = call.directory("/out");
    call.open_in(call.directory("/in"), "file", OpenMode::Read).await.expect("it may read");
    assert!(call.open_in(input, "file", OpenMode::Write).await.is_err());
    let file = call.open_in(output, "file", OpenMode::Create).await.expect("it may write");
    call.write_to(&file, b"new", Some(0)).await.expect("it may write");
    call.close(file);
    assert_eq!(host.mounts.directories["out"].counted(), Some(Amount { bytes: 3, files: 1 }));
    assert_eq!(host.mounts.directories["in"].counted(), None, "nothing was written there");
}

fn grant(name: &str) -> (&str, Access, Quota) {
    (name, Access::ReadWrite, ROOM)
}

#[test]
fn a_call_draws_real_numbers_and_a_guest_that_describes_its_tools_fixed_ones() {
    assert!(Host::new(ROOM).call().wasi.random.is_none());
    assert!(Wasi::denied().random.is_some());
}
