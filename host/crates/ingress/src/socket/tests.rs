//! Tests of the socket's file, and of the client against servers that misbehave.

use std::{os::unix::net, time::Duration};

use http::{Method, StatusCode};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixSocket,
};

use super::*;

/// Time limit of requests that should be answered at once.
const SOON: Duration = Duration::from_secs(10);

/// Makes a directory, and returns it with the path of a socket in it.
fn place() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("admin.sock");
    (directory, path)
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).expect("it exists").mode() & 0o7777
}

fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("a directory");
    let names =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

async fn refusal(path: &Path) -> io::Error {
    SocketListener::bind(path).await.expect_err("it is refused")
}

#[tokio::test]
async fn a_socket_is_for_its_user_alone_and_ends_with_its_listener() {
    let (directory, path) = place();
    let listener = SocketListener::bind(&path).await.expect("a listener");
    assert_eq!(mode(&path), 0o600);
    assert_eq!(names_in(directory.path()), ["admin.sock", "admin.sock.token"]);
    UnixStream::connect(&path).await.expect("a connection");
    drop(listener);
    assert!(names_in(directory.path()).is_empty());
}

#[test]
fn the_directory_in_which_a_socket_is_made_is_for_its_user_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let made = private_directory(directory.path()).expect("a directory");
    assert_eq!(mode(made.path()), 0o700);
    assert_eq!(made.path().parent(), Some(directory.path()));
}

#[tokio::test]
async fn a_socket_on_which_no_program_listens_is_replaced() {
    let (_directory, path) = place();
    drop(net::UnixListener::bind(&path).expect("a socket"));
    let old = fs::metadata(&path).expect("it stays").ino();
    let _listener = SocketListener::bind(&path).await.expect("a listener");
    assert_ne!(fs::metadata(&path).expect("it exists").ino(), old);
    UnixStream::connect(&path).await.expect("a connection");
}

#[tokio::test]
async fn a_socket_on_which_a_program_listens_stays() {
    let (directory, path) = place();
    let listener = SocketListener::bind(&path).await.expect("a listener");
    let error = refusal(&path).await;
    assert_eq!(error.kind(), ErrorKind::AddrInUse);
    assert_eq!(error.to_string(), format!("another program listens on {}", path.display()));
    assert_eq!(names_in(directory.path()), ["admin.sock", "admin.sock.token"]);
    // The first attempt to find out left a connection, which has ended.
    listener.accept().await.expect("a connection");
    UnixStream::connect(&path).await.expect("it still listens");
}

#[tokio::test]
async fn a_socket_whose_program_accepts_no_connection_stays() {
    let (_directory, path) = place();
    let socket = UnixSocket::new_stream().expect("a socket");
    socket.bind(&path).expect("a free path");
    let _listener = socket.listen(0).expect("a listener");
    let _waiting = UnixStream::connect(&path).await.expect("the only place in its queue");
    assert_eq!(refusal(&path).await.kind(), ErrorKind::AddrInUse);
}

#[tokio::test]
async fn another_kind_of_file_stays() {
    let (directory, path) = place();
    let stale = directory.path().join("stale");
    drop(net::UnixListener::bind(&stale).expect("a socket"));
    fs::write(directory.path().join("file"), "text").expect("a file");
    fs::create_dir(directory.path().join("directory")).expect("a directory");
    for (name, target) in [("link", &stale), ("dangling", &path)] {
        std::os::unix::fs::symlink(target, directory.path().join(name)).expect("a link");
    }
    let mut before = names_in(directory.path());
    for name in ["file", "directory", "link", "dangling"] {
        let path = directory.path().join(name);
        let error = refusal(&path).await;
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{name}");
        let expected = format!("{} exists and is not a socket; it is not replaced", path.display());
        assert_eq!(error.to_string(), expected);
    }
    let mut after = names_in(directory.path());
    before.sort();
    after.sort();
    assert_eq!(after, before);
    let text = fs::read_to_string(directory.path().join("file"));
    assert_eq!(text.expect("it can be read"), "text");
}

/// Returns a path of `length` bytes in a new directory below `directory`, with a name of one byte.
fn path_of(directory: &Path, length: usize) -> PathBuf {
    let rest = length - directory.as_os_str().len() - "/".len() - "/s".len();
    let parent = directory.join("x".repeat(rest));
    fs::create_dir(&parent).expect("a directory");
    parent.join("s")
}

#[tokio::test]
async fn a_path_may_have_107_bytes() {
    let directory = tempfile::tempdir().expect("a directory");
    let longest = path_of(directory.path(), MAX_PATH_BYTES);
    let listener = SocketListener::bind(&longest).await.expect("a listener");
    UnixStream::connect(&longest).await.expect("a connection");
    assert_eq!(names_in(directory_of(&longest)), ["s", "s.token"]);
    drop(listener);
    assert!(names_in(directory_of(&longest)).is_empty());
    let longer = path_of(directory.path(), MAX_PATH_BYTES + 1);
    let expected = format!(
        "the path {} has 108 bytes; the path of a Unix socket may have at most 107",
        longer.display()
    );
    assert_eq!(refusal(&longer).await.to_string(), expected);
    let asked = request(&longer, Method::GET, "/health", None, 1, SOON).await;
    assert_eq!(asked.expect_err("it is refused").to_string(), expected);
}

#[tokio::test]
async fn a_directory_in_which_every_user_may_rename_files_is_refused() {
    let (directory, path) = place();
    for (mode, is_accepted) in [(0o777, false), (0o702, false), (0o1777, true), (0o775, true)] {
        fs::set_permissions(directory.path(), Permissions::from_mode(mode)).expect("a mode");
        let bound = SocketListener::bind(&path).await;
        assert_eq!(bound.is_ok(), is_accepted, "{mode:o}");
        if let Err(error) = bound {
            assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        }
    }
}

#[tokio::test]
async fn a_missing_directory_is_an_error_that_names_it() {
    let (directory, _) = place();
    let error = refusal(&directory.path().join("missing/admin.sock")).await;
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("missing: "), "{error}");
}

#[tokio::test]
async fn a_file_that_has_taken_the_path_of_a_socket_stays() {
    let (directory, path) = place();
    let first = SocketListener::bind(&path).await.expect("a listener");
    fs::remove_file(&path).expect("it exists");
    let second = SocketListener::bind(&path).await.expect("a listener");
    drop(first);
    UnixStream::connect(&path).await.expect("the second is still there");
    fs::remove_file(&path).expect("it exists");
    fs::write(&path, "text").expect("a file");
    drop(second);
    assert_eq!(names_in(directory.path()), ["admin.sock"]);
}

/// Accepts one connection, reads until `end` has come, and sends `response`. Returns what it read,
/// with the connection.
async fn answer(listener: &SocketListener, end: &str, response: &str) -> (String, UnixStream) {
    let mut stream = listener.accept().await.expect("a connection");
    let mut read = Vec::new();
    while !read.ends_with(end.as_bytes()) {
        assert_ne!(stream.read_buf(&mut read).await.expect("a request"), 0, "it is not the end");
    }
    stream.write_all(response.as_bytes()).await.expect("it is read");
    (String::from_utf8_lossy(&read).into_owned(), stream)
}

/// Returns the head of a request without the token of the socket, which it must have.
fn without_token(head: &str, socket: &Path) -> String {
    let token = fs::read_to_string(token_path(socket)).expect("a token");
    let line = format!("authorization: Bearer {token}\n");
    let head = head.replace('\r', "");
    assert!(head.contains(&line), "{head}");
    head.replace(&line, "")
}

#[tokio::test]
async fn the_client_sends_its_request_and_returns_the_response() {
    let (_directory, path) = place();
    let listener = SocketListener::bind(&path).await.expect("a listener");
    let (asked, (head, _)) = tokio::join!(
        request(&path, Method::PUT, "/api/x?y=%20z", Some(b"{\"a\":1}"), 9, SOON),
        answer(&listener, "}", "HTTP/1.1 409 Conflict\r\ncontent-length: 2\r\n\r\n{}"),
    );
    let (status, body) = asked.expect("a response");
    assert_eq!((status, &body[..]), (StatusCode::CONFLICT, &b"{}"[..]));
    insta::assert_snapshot!(without_token(&head, &path), @r#"
    PUT /api/x?y=%20z HTTP/1.1
    host: localhost
    content-type: application/json
    content-length: 7

    {"a":1}
    "#);
    let (asked, (head, _)) = tokio::join!(
        request(&path, Method::GET, "/health", None, 9, SOON),
        answer(&listener, "\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"),
    );
    asked.expect("a response");
    insta::assert_snapshot!(without_token(&head, &path), @"
    GET /health HTTP/1.1
    host: localhost
    ");
}

#[tokio::test]
async fn the_client_reads_a_response_only_to_its_limit() {
    let (_directory, path) = place();
    let listener = SocketListener::bind(&path).await.expect("a listener");
    for (response, length) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc", 3),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", 3),
        // Not even the end of these chunks is needed for the error.
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n", 5),
    ] {
        for max_bytes in [3, 2] {
            let (asked, _) = tokio::join!(
                request(&path, Method::GET, "/health", None, max_bytes, SOON),
                answer(&listener, "\r\n\r\n", response),
            );
            if length <= max_bytes {
                assert_eq!(&asked.expect("it fits").1[..], b"abc");
                continue;
            }
            let error = asked.expect_err("it is too large");
            assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
            let expected = format!("the response has more than {max_bytes} bytes");
            assert_eq!(error.to_string(), expected);
        }
    }
}

#[tokio::test]
async fn the_client_reports_a_response_that_is_cut_off() {
    let (_directory, path) = place();
    let listener = SocketListener::bind(&path).await.expect("a listener");
    for response in ["", "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nab"] {
        let (asked, ()) =
            tokio::join!(request(&path, Method::GET, "/health", None, 9, SOON), async {
                drop(answer(&listener, "\r\n\r\n", response).await);
            });
        let error = asked.expect_err("it is cut off");
        assert_eq!(error.kind(), ErrorKind::Other, "{error}");
    }
}

#[tokio::test]
async fn the_client_waits_only_for_its_time_limit() {
    let (_directory, path) = place();
    let listener = SocketListener::bind(&path).await.expect("a listener");
    let limit = Duration::from_millis(500);
    for response in ["", "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nab"] {
        let asked = request(&path, Method::GET, "/health", None, 9, limit);
        let (asked, _stream) = tokio::join!(
            tokio::time::timeout(SOON, asked),
            answer(&listener, "\r\n\r\n", response),
        );
        let asked = asked.expect("it ends soon");
        let error = asked.expect_err("it is late");
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
        let expected = format!("the gateway on {} did not respond within 500ms", path.display());
        assert_eq!(error.to_string(), expected);
    }
}

#[tokio::test]
async fn the_client_tells_apart_a_missing_socket_and_one_on_which_no_program_listens() {
    let (_directory, path) = place();
    let missing = request(&path, Method::GET, "/health", None, 9, SOON).await;
    assert_eq!(missing.expect_err("there is none").kind(), ErrorKind::NotFound);
    drop(net::UnixListener::bind(&path).expect("a socket"));
    let stale = request(&path, Method::GET, "/health", None, 9, SOON).await;
    assert_eq!(stale.expect_err("it is dead").kind(), ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn the_client_refuses_a_target_that_is_none() {
    let (_directory, path) = place();
    let refused = request(&path, Method::GET, "/a b", None, 9, SOON).await;
    assert_eq!(refused.expect_err("it is refused").kind(), ErrorKind::InvalidInput);
}
