//! The version of HTTP that a client speaks, by the first bytes of its connection.
//!
//! The server of that version reads them again, together with the bytes after them. If it got them alone, as
//! hyper-util's server of both versions gets them, hyper would make room for a second read beside the first one,
//! which doubles the buffer of each connection.

use std::{
    io::{self, IoSlice},
    ops::Range,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};

/// First bytes of a client of HTTP/2 (RFC 9113, section 3.4).
const PREFACE: [u8; 24] = *b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A version of HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HttpVersion {
    /// Version 1.0 or 1.1, or anything but version 2.
    Http1,
    Http2,
}

/// A connection whose first bytes are read again.
#[derive(Debug)]
pub(crate) struct BegunStream<S> {
    stream: S,
    first: [u8; PREFACE.len()],
    /// The bytes of `first` that are not read again yet.
    unread: Range<usize>,
}

/// Reads the first bytes of a connection, up to the first that no client of HTTP/2 sends. Fails as reading
/// does. Dropping the future loses what was read.
pub(crate) async fn read_version<S: AsyncRead + Unpin>(
    mut stream: S,
) -> io::Result<(HttpVersion, BegunStream<S>)> {
    let mut first = [0; PREFACE.len()];
    let mut length = 0;
    let version = loop {
        let read = stream.read(&mut first[length..]).await?;
        length += read;
        if read == 0 || first[..length] != PREFACE[..length] {
            break HttpVersion::Http1;
        }
        if length == PREFACE.len() {
            break HttpVersion::Http2;
        }
    };
    Ok((version, BegunStream { stream, first, unread: 0..length }))
}

impl<S: AsyncRead + Unpin> AsyncRead for BegunStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.unread.is_empty() {
            return Pin::new(&mut this.stream).poll_read(context, buffer);
        }
        let end = this.unread.end.min(this.unread.start + buffer.remaining());
        buffer.put_slice(&this.first[this.unread.start..end]);
        this.unread.start = end;
        if buffer.remaining() > 0 {
            // Nothing more may have arrived yet. An error ends the connection at the next read.
            let _ = Pin::new(&mut this.stream).poll_read(context, buffer);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for BegunStream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncWriteExt as _, duplex};

    use super::*;

    #[tokio::test]
    async fn the_preface_of_http_2_is_found_in_any_pieces_and_no_byte_is_lost() {
        for (bytes, expected) in [
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nand more".as_slice(), HttpVersion::Http2),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", HttpVersion::Http2),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r", HttpVersion::Http1),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r ", HttpVersion::Http1),
            (b"PUT / HTTP/1.1\r\nhost: example\r\n\r\n", HttpVersion::Http1),
            (b"P", HttpVersion::Http1),
            (b"", HttpVersion::Http1),
        ] {
            for cut in 0..=bytes.len() {
                let (first, rest) = bytes.split_at(cut);
                let (version, mut stream) = read_version(first.chain(rest)).await.expect("bytes");
                assert_eq!(version, expected, "{bytes:?} at {cut}");
                let mut again = Vec::new();
                let mut part = [0; 7];
                loop {
                    let length = stream.read(&mut part).await.expect("bytes");
                    if length == 0 {
                        break;
                    }
                    again.extend_from_slice(&part[..length]);
                }
                assert_eq!(again, bytes, "at {cut}");
            }
        }
    }

    #[tokio::test]
    async fn the_first_bytes_are_read_again_with_those_that_have_arrived_after_them() {
        let head = b"GET /health HTTP/1.1\r\nhost: example\r\n\r\n";
        let (mut client, server) = duplex(1 << 10);
        client.write_all(head).await.expect("there is room");
        let (_, mut stream) = read_version(server).await.expect("bytes");
        let mut buffer = [0; 1 << 10];
        let length = stream.read(&mut buffer).await.expect("bytes");
        assert_eq!(&buffer[..length], head);
        client.write_all(b"more").await.expect("there is room");
        let length = stream.read(&mut buffer).await.expect("bytes");
        assert_eq!(&buffer[..length], b"more");
    }

    #[tokio::test]
    async fn the_first_bytes_are_read_again_before_others_arrive() {
        let (mut client, server) = duplex(1 << 10);
        client.write_all(b"GET").await.expect("there is room");
        let (version, mut stream) = read_version(server).await.expect("bytes");
        assert_eq!(version, HttpVersion::Http1);
        let mut buffer = [0; 1 << 10];
        let length = stream.read(&mut buffer).await.expect("bytes");
        assert_eq!(&buffer[..length], b"GET");
    }
}
