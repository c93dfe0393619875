//! Handshakes with clients of which nothing is known yet. The caller bounds the time, by dropping the
//! future.

use std::{io, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::CallerChain;
use crate::ingress::ShownCertificate;

/// Maximum bytes of a connection that are encrypted and not sent yet. They are charged to no request any
/// more; rustls itself would keep four times as many.
const UNSENT_BYTES: usize = 16 << 10;
/// Time in which the request of a client that does not speak TLS is read and thrown away, so that the
/// connection is not reset before the client has read the response.
const GOODBYE: Duration = Duration::from_millis(100);

/// Error of a certificate whose validity or number cannot be read from it.
const UNREADABLE: &str =
    "the validity or the serial number of a certificate of the caller cannot be read";

/// Body of the response to plain HTTP.
const NO_TLS: &str = r#"{"error":{"message":"this port speaks TLS: use https://","type":"invalid_request_error","param":null,"code":"tls_required"}}"#;

/// A connection after its handshake.
pub(crate) struct Handshake {
    pub(crate) stream: TlsStream<TcpStream>,
    /// Certificate that the client has shown, which an authority of the operator has signed.
    pub(crate) certificate: Option<ShownCertificate>,
    pub(crate) chain: CallerChain,
}

/// Makes the handshake of a connection. A client that speaks plain HTTP gets a response that says
/// so. Fails if there is no handshake.
pub(crate) async fn accept(acceptor: TlsAcceptor, mut stream: TcpStream) -> io::Result<Handshake> {
    if speaks_http(&stream).await? {
        refuse(&mut stream).await?;
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the client speaks plain HTTP"));
    }
    let handshake = acceptor.accept_with(stream, |connection| {
        connection.set_buffer_limit(Some(UNSENT_BYTES));
    });
    let stream = handshake.await?;
    let shown = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let chain = CallerChain::read(shown).ok_or_else(unreadable)?;
    let certificate = shown.first().map(|der| ShownCertificate::new(der).ok_or_else(unreadable));
    let certificate = certificate.transpose()?;
    Ok(Handshake { stream, certificate, chain })
}

fn unreadable() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, UNREADABLE)
}

/// Returns whether the first byte is that of a method of HTTP, and not that of a handshake. Waits for it.
async fn speaks_http(stream: &TcpStream) -> io::Result<bool> {
    let mut first = [0];
    Ok(stream.peek(&mut first).await? == 1 && first[0].is_ascii_uppercase())
}

/// Sends the response to plain HTTP, and ends the connection.
async fn refuse(stream: &mut TcpStream) -> io::Result<()> {
    let length = NO_TLS.len();
    let response = format!(
        "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{NO_TLS}"
    );
    stream.write_all(response.as_bytes()).await?;
    stream.shutdown().await?;
    let mut rest = [0; 1 << 10];
    let reading = async { while stream.read(&mut rest).await.is_ok_and(|bytes| bytes > 0) {} };
    let _ = timeout(GOODBYE, reading).await;
    Ok(())
}
