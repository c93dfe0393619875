//! Tests of connecting: its limits.

use super::*;

fn limits(url: &str) -> (Duration, Duration, Duration) {
    let config = with_limits(url.parse().expect("a URL"));
    (
        *config.get_connect_timeout().expect("a limit"),
        *config.get_tcp_user_timeout().expect("a limit"),
        config.get_keepalives_idle(),
    )
}

#[test]
fn a_name_that_is_still_being_resolved_at_the_deadline_delays_nothing_after_it() {
    let runtime = runtime::Builder::new_current_thread().enable_all().build().expect("built");
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let resolving = async {
        let thread = tokio::task::spawn_blocking(move || wait.recv().is_err());
        thread.await.expect("it does not panic");
        Ok(())
    };
    let deadline = Instant::now() + Duration::from_millis(10);
    // Would wait for the thread, which waits for `go`.
    assert!(run_until(deadline, runtime, resolving).is_err());
    drop(go);
}

#[test]
fn hosts_share_the_time_to_connect_and_the_url_may_have_other_limits() {
    let expected = (CONNECT, UNCONFIRMED, PROBED_AFTER);
    assert_eq!(limits("postgres://u@a/d"), expected);
    assert_eq!(limits("postgres://u@a,b/d"), (CONNECT / 2, UNCONFIRMED, PROBED_AFTER));
    let own = "postgres://u@a/d?connect_timeout=3&tcp_user_timeout=4&keepalives_idle=5";
    let expected = (Duration::from_secs(3), Duration::from_secs(4), Duration::from_secs(5));
    assert_eq!(limits(own), expected);
}
