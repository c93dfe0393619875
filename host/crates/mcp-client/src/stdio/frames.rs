//! Reads messages from a stream.

use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

use super::super::{
    flood::Flood,
    inbox::Inbox,
    limits::{BYTES_PER_TOKEN, MAX_MESSAGE_BYTES},
};
use airlock_wire::frames::{Frame, FrameDecoder};

/// Reads messages of at most [`MAX_MESSAGE_BYTES`].
pub(super) struct Frames<R> {
    read: BufReader<R>,
    inbox: Arc<Inbox>,
    decoder: FrameDecoder,
    /// Bytes of headers that are not charged yet.
    owed_bytes: usize,
}

impl<R: AsyncRead + Unpin> Frames<R> {
    pub(super) fn new(read: R, inbox: Arc<Inbox>) -> Self {
        let decoder = FrameDecoder::new(MAX_MESSAGE_BYTES);
        Self { read: BufReader::new(read), inbox, decoder, owed_bytes: 0 }
    }

    /// Returns the message without its line end.
    pub(super) fn text(&self) -> &[u8] {
        self.decoder.text()
    }

    /// Forgets the message.
    pub(super) fn clear(&mut self) {
        self.decoder.clear();
    }

    /// Reads until the next message or dropped part; `None` at the end of the stream. Text after the
    /// last line end is not a message. Headers are charged here, the rest by the caller. Fails if the
    /// server floods the gateway. Dropping the future keeps the part of a message that was read.
    pub(super) async fn next(&mut self) -> Result<Option<Frame>, Flood> {
        loop {
            // Headers can go on for ever without a message.
            self.inbox.ready().await?;
            let found = self.read.fill_buf().await.unwrap_or_default();
            if found.is_empty() {
                return Ok(None);
            }
            self.inbox.touch();
            let mut rest = found;
            let frame = self.decoder.next(&mut rest);
            let used = found.len() - rest.len();
            self.read.consume(used);
            self.charge();
            if frame.is_some() {
                return Ok(frame);
            }
        }
    }

    fn charge(&mut self) {
        self.owed_bytes += self.decoder.take_dropped();
        // The header of a message is not worth a token.
        if self.owed_bytes >= BYTES_PER_TOKEN {
            self.inbox.charge(std::mem::take(&mut self.owed_bytes));
        }
    }
}
