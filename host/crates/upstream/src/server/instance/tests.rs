use futures_util::FutureExt as _;

use super::*;
use airlock_mcp_client::{Inbox, Stdio};
use airlock_wire::error::RpcError;

const MOMENT: Duration = Duration::from_millis(1);

/// Begins to wait for a call that has much time.
fn awaited(instance: &Arc<Instance>) -> Awaited {
    instance.awaited(Instant::now() + Duration::from_hours(1), None)
}

#[tokio::test(start_paused = true)]
async fn a_call_without_an_answer_has_a_silent_server_checked() {
    let instance = Instance::new(1, Some(Duration::from_secs(30)));
    let (link, _server) = link();
    instance.set_access(ServerAccess::Up(UsedLink::new(link.clone())));
    awaited(&instance).end();
    drop(awaited(&instance));
    assert!(!is_checked(&link), "it has just sent something");
    tokio::time::advance(Duration::from_secs(30)).await;
    awaited(&instance).end();
    assert!(!is_checked(&link), "the call has ended");
    drop(awaited(&instance));
    assert!(is_checked(&link));
    link.inbox().touch();
    drop(awaited(&instance));
    assert!(!is_checked(&link));
}

#[tokio::test(start_paused = true)]
async fn an_instance_whose_call_hangs_comes_last_until_a_call_has_a_response() {
    let instance = Instance::new(1, None);
    let (link, _server) = link();
    instance.set_access(ServerAccess::Up(UsedLink::new(link.clone())));
    assert_eq!(instance.rank(), None, "its tools are not known yet");
    instance.set_admitted(true);
    let fresh = instance.rank().expect("it is connected");
    let occupied = instance.occupy();
    let busy = instance.rank().expect("it is connected");
    drop(occupied);
    let hanging = awaited(&instance);
    tokio::time::advance(CALL_PATIENCE).await;
    drop(hanging);
    let suspected = instance.rank().expect("it is connected");
    assert!(fresh < busy && busy < suspected, "{fresh:?} {busy:?} {suspected:?}");
    link.inbox().touch();
    assert_eq!(instance.rank(), Some(suspected), "it answers checks");
    instance.record(&Ok(()));
    assert_eq!(instance.rank(), Some(fresh));
    instance.set_access(ServerAccess::Down);
    assert_eq!(instance.rank(), None);
}

#[tokio::test(start_paused = true)]
async fn a_suspicion_needs_a_deadline_or_5_seconds_and_no_parked_call() {
    let instance = Instance::new(1, None);
    let early = awaited(&instance);
    tokio::time::advance(CALL_PATIENCE.saturating_sub(MOMENT)).await;
    drop(early);
    assert!(!instance.is_suspected(), "its caller has left early");
    let is_parked = Arc::new(AtomicBool::new(true));
    let late = instance.awaited(Instant::now() + MOMENT, None);
    let parked = instance.awaited(Instant::now() + MOMENT, Some(is_parked.clone()));
    let answered = instance.awaited(Instant::now() + MOMENT, Some(is_parked.clone()));
    tokio::time::advance(MOMENT).await;
    drop(parked);
    assert!(!instance.is_suspected(), "its caller has not answered");
    is_parked.store(false, Ordering::SeqCst);
    drop(answered);
    assert!(instance.is_suspected(), "it hangs after the answers");
    instance.record(&Err::<(), _>(AskError::Refused(RpcError::new(-1, "no"))));
    assert!(!instance.is_suspected(), "a refusal is a response");
    drop(late);
    assert!(instance.is_suspected(), "its deadline has passed");
}

#[tokio::test(start_paused = true)]
async fn a_transport_error_has_an_instance_suspected_for_10_seconds_and_then_for_longer() {
    let instance = Instance::new(1, None);
    for seconds in [10, 20, 40, 60, 60] {
        instance.record(&Err::<(), _>(AskError::Lost));
        // A further one counts as the same.
        instance.record(&Err::<(), _>(AskError::Send(SendError::Closed)));
        let period = Duration::from_secs(seconds);
        tokio::time::advance(period.saturating_sub(MOMENT)).await;
        assert!(instance.is_suspected(), "{seconds}");
        tokio::time::advance(MOMENT).await;
        assert!(!instance.is_suspected(), "{seconds}");
    }
    instance.record(&Ok(()));
    instance.suspect();
    tokio::time::advance(*INSTANCE_COOL_DOWN.start()).await;
    assert!(!instance.is_suspected());
}

#[tokio::test(start_paused = true)]
async fn the_next_connection_of_an_instance_that_is_held_out_gets_no_repeated_call() {
    let instance = Instance::new(1, None);
    let (old, _server) = link();
    let (new, _other_server) = link();
    instance.set_access(ServerAccess::Up(UsedLink::new(new)));
    assert!(instance.replacement(&old).await.is_none());
    instance.set_admitted(true);
    assert!(instance.replacement(&old).await.is_some());
}

fn is_checked(link: &Link) -> bool {
    link.check_requested().now_or_never().is_some()
}

#[tokio::test]
async fn a_server_is_not_stopped_as_idle_while_it_has_a_call_or_owes_one_its_link() {
    let instance = Instance::new(1, None);
    let (link, _server) = link();
    let used = UsedLink::new(link);
    let parked = used.clone();
    instance.set_access(ServerAccess::Up(used));
    assert!(!instance.retire(), "it is held out");
    instance.set_admitted(true);
    let occupied = instance.occupy();
    assert!(!instance.retire());
    drop(occupied);
    assert!(!instance.retire(), "a call is parked");
    assert!(matches!(instance.access().await, ServerAccess::Up(_)));
    drop(parked);
    assert!(instance.retire());
    assert!(matches!(&*instance.access.borrow(), ServerAccess::OnDemand));
    assert!(instance.is_idle());
}

/// Returns a link, and the other end, which must live as long.
pub(in super::super) fn link() -> (Arc<Link>, impl Send) {
    let (ours, theirs) = tokio::io::duplex(64);
    let (read, write) = tokio::io::split(ours);
    let (inbox, unsolicited) = Inbox::new(Arc::default());
    let stdio = Arc::new(Stdio::new(read, write, inbox.clone(), false));
    let (link, abandoned, receiver) = Link::open(stdio, inbox);
    (link, (theirs, unsolicited, abandoned, receiver))
}
