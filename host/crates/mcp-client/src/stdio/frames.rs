//! Reads messages from a stream.

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

use super::super::limits::MAX_MESSAGE_BYTES;
use airlock_wire::frames::{Decoder, Frame};

/// Reads messages of at most [`MAX_MESSAGE_BYTES`].
pub(super) struct Frames<R> {
    read: BufReader<R>,
    decoder: Decoder,
    /// Called for each part of the stream that is read.
    touch: Box<dyn Fn() + Send>,
}

impl<R: AsyncRead + Unpin> Frames<R> {
    pub(super) fn new(read: R, touch: impl Fn() + Send + 'static) -> Self {
        let decoder = Decoder::new(MAX_MESSAGE_BYTES);
        Self { read: BufReader::new(read), decoder, touch: Box::new(touch) }
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
    /// last line end is not a message. Dropping the future keeps the part of a message that was read.
    pub(super) async fn next(&mut self) -> Option<Frame> {
        loop {
            let found = self.read.fill_buf().await.ok().filter(|found| !found.is_empty())?;
            (self.touch)();
            let mut rest = found;
            let frame = self.decoder.next(&mut rest);
            let used = found.len() - rest.len();
            self.read.consume(used);
            if frame.is_some() {
                return frame;
            }
        }
    }
}
