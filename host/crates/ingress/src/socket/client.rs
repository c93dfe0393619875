//! Client of the management API, through its Unix socket.

use std::{
    convert::Infallible,
    fs,
    future::pending,
    io::{self, ErrorKind},
    os::unix::fs::MetadataExt as _,
    path::Path,
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use tokio::{net::UnixStream, time};

use super::{WRITABLE_BY_ALL, check_length, directory_of, explained, token};

const ROOT: u32 = 0;

/// Sends one request through the Unix socket at `path`, with its token, and returns the status and the body of the
/// response. `body` is sent as JSON.
///
/// Fails if the socket cannot be reached, with an error that tells whether there is none, no
/// program listens on it, or this user may not connect; if the response has more than `max_bytes`;
/// or if all of it takes longer than `timeout`. The request may have been carried out after an
/// error in or after sending it, and if the future is dropped.
pub async fn request(
    path: &Path,
    method: Method,
    path_and_query: &str,
    body: Option<&[u8]>,
    max_bytes: usize,
    timeout: Duration,
) -> io::Result<(StatusCode, Bytes)> {
    let mut request = build(method, path_and_query, body)?;
    check_length(path)?;
    match token::read(path) {
        Ok(token) => drop(request.headers_mut().insert(header::AUTHORIZATION, token)),
        // Without a socket there is no token either: the reason is that of the socket.
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let exchange = exchange(path, request, max_bytes);
    time::timeout(timeout, exchange).await.unwrap_or_else(|_| {
        let path = path.display();
        let message = format!("the gateway on {path} did not respond within {timeout:?}");
        Err(io::Error::new(ErrorKind::TimedOut, message))
    })
}

fn build(
    method: Method,
    path_and_query: &str,
    body: Option<&[u8]>,
) -> io::Result<Request<Full<Bytes>>> {
    let target: Uri = path_and_query.parse().map_err(invalid)?;
    let mut request = Request::new(Full::new(body.map(Bytes::copy_from_slice).unwrap_or_default()));
    *request.method_mut() = method;
    *request.uri_mut() = target;
    let headers = request.headers_mut();
    headers.insert(header::HOST, HeaderValue::from_static("localhost"));
    if body.is_some() {
        let json = HeaderValue::from_static("application/json");
        headers.insert(header::CONTENT_TYPE, json);
    }
    Ok(request)
}

fn invalid(error: http::uri::InvalidUri) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, error)
}

async fn exchange(
    path: &Path,
    request: Request<Full<Bytes>>,
    max_bytes: usize,
) -> io::Result<(StatusCode, Bytes)> {
    let stream = connect(path).await?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    let response = async {
        let response = sender.send_request(request).await.map_err(io::Error::other)?;
        read(response, max_bytes).await
    };
    tokio::select! {
        response = response => response,
        never = drive(connection) => match never {},
    }
}

/// Moves the bytes of a connection. Its errors and its end reach the request by themselves.
async fn drive(connection: impl Future) -> Infallible {
    connection.await;
    pending().await
}

async fn read(response: Response<Incoming>, max_bytes: usize) -> io::Result<(StatusCode, Bytes)> {
    let status = response.status();
    let body = Limited::new(response.into_body(), max_bytes).collect().await;
    let body = body.map_err(|error| {
        if error.is::<LengthLimitError>() {
            let message = format!("the response has more than {max_bytes} bytes");
            io::Error::new(ErrorKind::InvalidData, message)
        } else {
            io::Error::other(error)
        }
    })?;
    Ok((status, body.to_bytes()))
}

/// Connects to the socket at `path`. Fails if it may be another user's in the
/// place of the gateway's.
async fn connect(path: &Path) -> io::Result<UnixStream> {
    check_length(path)?;
    let stream = UnixStream::connect(path).await.map_err(|error| unreachable(&error, path))?;
    let server = stream.peer_cred()?.uid();
    let directory_mode = fs::metadata(directory_of(path))?.mode();
    if may_be_trap(server, rustix::process::geteuid().as_raw(), directory_mode) {
        let path = path.display();
        return Err(io::Error::new(
            ErrorKind::PermissionDenied,
            format!(
                "the program on {path} runs as another user ({server}), and every user may create files in that directory; \
                 nothing was sent"
            ),
        ));
    }
    Ok(stream)
}

/// Returns whether `server` may be a user who put a socket of its own in the place of the gateway's,
/// to read the requests of `own`.
fn may_be_trap(server: u32, own: u32, directory_mode: u32) -> bool {
    server != ROOT && server != own && directory_mode & WRITABLE_BY_ALL != 0
}

/// Returns an error of the same kind that tells why a socket cannot be reached.
fn unreachable(error: &io::Error, path: &Path) -> io::Error {
    let shown = path.display();
    let message = match error.kind() {
        ErrorKind::NotFound => {
            format!("there is no socket at {shown}: the gateway does not run, or has another path")
        }
        ErrorKind::ConnectionRefused => {
            format!("no program listens on {shown}: the gateway does not run")
        }
        ErrorKind::PermissionDenied => {
            format!("permission denied: this user may not connect to {shown}")
        }
        ErrorKind::WouldBlock => {
            format!("too many connections wait on {shown}: the gateway accepts none")
        }
        _ => return explained(error, "cannot connect to", path),
    };
    io::Error::new(error.kind(), message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_users_socket_is_refused_where_every_user_may_create_files() {
        for (server, own, mode, is_refused) in [
            (7, 8, 0o1777, true),
            (7, 8, 0o777, true),
            (7, ROOT, 0o1777, true),
            (7, 8, 0o775, false),
            (7, 7, 0o1777, false),
            (ROOT, 8, 0o1777, false),
        ] {
            assert_eq!(may_be_trap(server, own, mode), is_refused, "{server} {own} {mode:o}");
        }
    }

    #[test]
    fn the_error_tells_why_the_socket_cannot_be_reached() {
        let shown = [
            ErrorKind::NotFound,
            ErrorKind::ConnectionRefused,
            ErrorKind::PermissionDenied,
            ErrorKind::WouldBlock,
            ErrorKind::InvalidInput,
        ]
        .map(|kind| {
            let error = unreachable(&kind.into(), Path::new("/run/a.sock"));
            assert_eq!(error.kind(), kind);
            error.to_string()
        });
        insta::assert_snapshot!(shown.join("\n"), @r"
        there is no socket at /run/a.sock: the gateway does not run, or has another path
        no program listens on /run/a.sock: the gateway does not run
        permission denied: this user may not connect to /run/a.sock
        too many connections wait on /run/a.sock: the gateway accepts none
        cannot connect to /run/a.sock: invalid input parameter
        ");
    }
}
