//! Responses: their bodies, whole or part by part, which are charged until they are sent.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use futures_util::Stream;
use http::Response;
use http_body_util::{Either, Full};
use hyper::body::Frame;

use super::{
    activity::{RunningRequest, SendingResponse},
    connections::Seat,
};
use airlock_core::{request_memory::RequestCharge, wake::WakeUps};

/// Maximum size of a part of a stream that the base charge of its request covers, in bytes.
const FREE_PART_BYTES: usize = 4 << 10;
/// Body of a response.
pub enum Payload {
    /// The whole body.
    Whole(Bytes),
    /// Parts that arrive over time.
    Stream(Parts),
}

/// Parts of a streamed body. Dropping them cancels the work behind them.
pub type Parts = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

/// Response to a request, and the memory charge that is held until the response is sent.
pub type ChargedReply = (Response<Payload>, Option<RequestCharge>);

/// Hands a response to hyper. Dropping the bytes marks the response as sent: HTTP/1 and HTTP/2 do
/// not report the last write, and `h2` buffers a whole response before its client has granted any
/// window.
pub fn send(
    answer: ChargedReply,
    mut running: RunningRequest,
    seat: Option<Seat>,
) -> Response<ResponseBody> {
    let (reply, charge) = answer;
    reply.map(|payload| match payload {
        Payload::Whole(bytes) => {
            let sending = running.answer();
            let unsent = UnsentBytes { bytes, _charge: charge, _sending: sending };
            Either::Left(Full::new(Bytes::from_owner(unsent)))
        }
        Payload::Stream(parts) => {
            running.begin_answer();
            let waiting = Some(running.send_part());
            let wakes = WakeUps::default();
            Either::Right(Streaming { parts, wakes, running, waiting, charge, _seat: seat })
        }
    })
}

/// Body of a response.
pub type ResponseBody = Either<Full<Bytes>, Streaming>;

/// Body that is sent part by part. Each part must be read within the write timeout. hyper polls for
/// the next part when there is room for it. That must happen within the write timeout too, because
/// an HTTP/2 client may grant no window at all.
pub struct Streaming {
    parts: Parts,
    /// hyper polls the parts again after each flush: without a wake-up, that would be a poll of the whole request.
    wakes: WakeUps,
    running: RunningRequest,
    /// Present while there is no room for the next part.
    waiting: Option<SendingResponse>,
    charge: Option<RequestCharge>,
    /// Counts the request for its tenant until the end of the stream; `None` for a request that another server
    /// passes on.
    _seat: Option<Seat>,
}

impl hyper::body::Body for Streaming {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.waiting = None;
        let Self { parts, wakes, .. } = &mut *self;
        let polled = wakes.poll_if_woken(context, |context| parts.as_mut().poll_next(context));
        let part = ready!(polled);
        Poll::Ready(part.map(|bytes| {
            // hyper keeps up to two parts that are not sent. A large part is charged until it is
            // sent.
            let part = self.charge.as_ref().filter(|_| bytes.len() > FREE_PART_BYTES);
            let charge = part.map(|charge| charge.beside(bytes.len()));
            let [sending, waiting] = self.running.send_part_before_next();
            let unsent = UnsentBytes { bytes, _charge: charge, _sending: sending };
            self.waiting = Some(waiting);
            Ok(Frame::data(Bytes::from_owner(unsent)))
        }))
    }
}

/// Bytes that are not sent yet, with their charge. hyper drops them when they are sent.
struct UnsentBytes {
    bytes: Bytes,
    _charge: Option<RequestCharge>,
    _sending: SendingResponse,
}

impl AsRef<[u8]> for UnsentBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use futures_util::{StreamExt as _, stream};
    use hyper::body::Body as _;

    use super::*;
    use crate::{Connections, Peer};
    use airlock_core::{
        request_memory::{Memory, REQUEST_BYTES},
        tenant::Tenant,
    };

    #[tokio::test]
    async fn a_large_part_of_a_stream_is_charged_until_it_is_sent() {
        for (length, is_charged) in [(FREE_PART_BYTES, false), (FREE_PART_BYTES + 1, true)] {
            let memory = Memory::new(8 * REQUEST_BYTES);
            let charge = memory.open(Tenant::ANONYMOUS, 0).expect("there is room");
            let room = 3 * REQUEST_BYTES;
            let parts = stream::iter([Bytes::from(vec![b'x'; length])]).boxed();
            let slot = Connections::new(1, 1).admit(Peer::new(None)).expect("there is room");
            let running = slot.activity.begin();
            let seat = Some(slot.seats().seat());
            let mut body = Box::pin(Streaming {
                parts,
                wakes: WakeUps::default(),
                running,
                waiting: None,
                charge: Some(charge.clone()),
                _seat: seat,
            });
            let part = poll_fn(|context| body.as_mut().poll_frame(context)).await;
            assert_eq!(charge.grow(room).is_err(), is_charged, "{length}");
            drop(part);
            assert_eq!(charge.grow(room).is_ok(), is_charged, "{length}");
        }
    }
}
