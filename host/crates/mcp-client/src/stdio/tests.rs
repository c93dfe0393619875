use futures_util::{
    FutureExt,
    future::{BoxFuture, join_all},
};
use tokio::io::{AsyncBufReadExt as _, BufReader, DuplexStream, ReadHalf, duplex, split};

use super::*;
use crate::{inbox::Unsolicited, transport::RequestHead};

type Pipe = Stdio<ReadHalf<DuplexStream>>;

/// Returns a transport over a pipe of `bytes`, and the end of the pipe that the server reads.
fn transport(bytes: usize) -> (Pipe, DuplexStream, Unsolicited) {
    let (inbox, unsolicited) = Inbox::new(Arc::default());
    let (ours, theirs) = duplex(bytes);
    let (read, write) = split(ours);
    (Stdio::new(read, write, inbox, false), theirs, unsolicited)
}

fn request(id: i64) -> Outgoing {
    let head = RequestHead { id, method: "m", name: None, headers: Vec::new() };
    Outgoing { text: format!(r#"{{"id":{id}}}"#), kind: OutgoingKind::Request(head) }
}

fn cancellation() -> Outgoing {
    Outgoing { text: "{}".into(), kind: OutgoingKind::Notification("notifications/cancelled") }
}

type Sending = BoxFuture<'static, Result<(), SendError>>;

/// Sends until no message fits any more. Returns the messages that are in flight.
async fn fill(pipe: &Pipe, message: impl Fn(i64) -> Outgoing) -> Vec<Sending> {
    let mut sending: Vec<Sending> = Vec::new();
    loop {
        let mut next = pipe.send(message(i64::try_from(sending.len()).expect("few")));
        tokio::task::yield_now().await;
        match (&mut next).now_or_never() {
            Some(Err(SendError::Full)) => return sending,
            Some(other) => panic!("{other:?}"),
            None => sending.push(next),
        }
    }
}

#[tokio::test]
async fn requests_and_control_messages_have_queues_of_their_own_and_fail_as_closed() {
    let (pipe, _server, _unsolicited) = transport(1);
    let requests = fill(&pipe, request).await;
    // One is being written.
    assert_eq!(requests.len(), MAX_REQUESTS_IN_FLIGHT + 1);
    let control = fill(&pipe, |_| cancellation()).await;
    assert_eq!(control.len(), MAX_ABANDONED + MAX_UNANSWERED);
    pipe.close().await;
    let sent = join_all(requests.into_iter().chain(control)).await;
    assert!(sent.iter().all(|sent| matches!(sent, Err(SendError::Closed))));
    assert!(matches!(pipe.send(request(1)).await, Err(SendError::Closed)));
}

#[tokio::test]
async fn an_abandoned_request_is_left_out_and_a_begun_one_is_written_to_its_end() {
    let (pipe, server, _unsolicited) = transport(4);
    let begun = pipe.send(request(1));
    let abandoned = pipe.send(request(2));
    tokio::task::yield_now().await;
    drop((begun, abandoned));
    let kept = pipe.send(request(3));
    let mut lines = BufReader::new(server).lines();
    let read = async { [lines.next_line().await, lines.next_line().await] };
    let (read, kept) = tokio::join!(read, kept);
    let read = read.map(|line| line.expect("readable").expect("a line"));
    assert_eq!(read, [r#"{"id":1}"#, r#"{"id":3}"#]);
    assert!(kept.is_ok());
}

#[tokio::test]
async fn a_broken_pipe_fails_messages() {
    let (pipe, server, _unsolicited) = transport(4);
    drop(server);
    assert!(matches!(pipe.send(request(1)).await, Err(SendError::Failed(_))));
    assert!(matches!(pipe.receive().await, ReceiveError::Closed));
}
