use std::sync::atomic::{AtomicUsize, Ordering};

use airlock_test_http::{Server, ok, says};

use super::*;

fn image() -> Image {
    Image {
        name: "tools".into(),
        pull: false,
        main: vec!["sleep".into(), "9".into()],
        network: "none".into(),
        memory_bytes: 512 << 20,
        nano_cpus: None,
        pids: 256,
        read_only: true,
        mounts: vec![],
        keep: false,
    }
}

fn digest(image: &Image, id: &str) -> String {
    let client = ClientName::parse("c").expect("a good name");
    label(&body(image, &client, id), CONFIG_LABEL).to_owned()
}

#[test]
fn the_digest_depends_on_the_image_and_all_that_creates_the_container() {
    let first = digest(&image(), "sha256:1");
    assert_eq!(first.len(), 64);
    assert_eq!(first, digest(&image(), "sha256:1"));
    assert_eq!(first, digest(&Image { keep: true, ..image() }, "sha256:1"));
    for other in [
        Image { network: "bridge".into(), ..image() },
        Image { pids: 255, ..image() },
        Image { read_only: false, ..image() },
        Image { nano_cpus: Some(1), ..image() },
    ] {
        assert_ne!(first, digest(&other, "sha256:1"));
    }
    assert_ne!(first, digest(&image(), "sha256:2"));
}

#[test]
fn an_image_without_a_tag_is_pulled_as_latest_alone() {
    assert_eq!(with_tag("a/b"), "a/b:latest");
    assert_eq!(with_tag("localhost:5000/b"), "localhost:5000/b:latest");
    for whole in ["a:1", "localhost:5000/b:1", "a@sha256:00"] {
        assert_eq!(with_tag(whole), whole);
    }
}

/// Starts a daemon that refuses to create a container, whose name is taken, and describes it from the
/// request `described` on.
async fn busy_daemon(described: usize) -> (Server, Engine) {
    let inspected = AtomicUsize::new(0);
    let server = Server::start_by_request(move |request| {
        if request.contains("/version") {
            return ok(r#"{"ApiVersion": "1.41"}"#);
        }
        if request.starts_with("POST") {
            return says("409 Conflict", "", r#"{"message": "the name is in use"}"#);
        }
        if inspected.fetch_add(1, Ordering::Relaxed) < described {
            return says("404 Not Found", "", r#"{"message": "no such container"}"#);
        }
        ok(r#"{"Id": "17"}"#)
    })
    .await;
    let host = format!("tcp://{}", server.address);
    let engine = Engine::connect(&host).await.expect("the daemon agrees on a version");
    (server, engine)
}

#[tokio::test]
async fn a_container_that_another_session_is_creating_is_waited_for() {
    let (_server, engine) = busy_daemon(3).await;
    let creating = create(&engine, "airlock-c-1", ContainerCreateBody::default());
    let created = Box::pin(creating).await;
    assert_eq!(created.expect("it is there in the end").id.as_deref(), Some("17"));
}

#[tokio::test]
async fn a_container_that_is_never_there_is_not_waited_for_without_an_end() {
    let (_server, engine) = busy_daemon(usize::MAX).await;
    let failed = created(&engine, "airlock-c-1", 2 * CREATE_POLL).await;
    assert!(matches!(failed, Err(DockerError::NoContainer { .. })), "{failed:?}");
}
