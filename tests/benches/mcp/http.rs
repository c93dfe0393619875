//! The benchmark's own client over HTTP: hyper, on connections that are kept open.

use std::{
    cell::{Cell, RefCell},
    net::SocketAddr,
    time::{Duration, Instant},
};

use airlock_tests::bench::{
    message::{self, Era, INITIALIZED, Response, Work},
    process::Process,
    run::{Meter, Run},
};
use bytes::Bytes;
use futures_util::future::join_all;
use http_body_util::{BodyExt as _, Full};
use hyper::{
    Method, Request, Response as HttpResponse, StatusCode,
    body::Incoming,
    client::conn::http1::{self, SendRequest},
    header::{ACCEPT, CONTENT_TYPE, HOST, HeaderName, HeaderValue},
};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const MCP_METHOD: HeaderName = HeaderName::from_static("mcp-method");
const MCP_NAME: HeaderName = HeaderName::from_static("mcp-name");

/// The endpoint `/mcp` of a gateway, and the connections to it.
pub(crate) struct Http {
    endpoint: Endpoint,
    process: Process,
    era: Era,
    session: Option<HeaderValue>,
    lanes: Vec<Connection>,
    next_id: Cell<u64>,
}

impl Http {
    /// Connects to a gateway, and opens a session with it in the legacy era.
    pub(crate) async fn connect(address: SocketAddr, process: Process, era: Era) -> Self {
        let endpoint = Endpoint::new(address);
        let mut lane = endpoint.connect().await;
        let session = match era {
            Era::Legacy => Some(endpoint.open_session(&mut lane).await),
            Era::Modern => None,
        };
        Self { endpoint, process, era, session, lanes: vec![lane], next_id: Cell::new(1) }
    }

    /// Sends one request. Returns its response.
    pub(crate) async fn one(&mut self, work: Work) -> Vec<u8> {
        let request = self.request(work);
        self.lanes[0].exchange(request).await.1.to_vec()
    }

    /// Sends requests for some time on `in_flight` connections, on each one after the other.
    pub(crate) async fn run(&mut self, work: Work, in_flight: usize, over: Duration) -> Run {
        while self.lanes.len() < in_flight {
            self.lanes.push(self.endpoint.connect().await);
        }
        let mut lanes = std::mem::take(&mut self.lanes);
        let cpu = self.process.cpu();
        let meter = RefCell::new(Meter::start(over));
        let client = &*self;
        let meter_of_all = &meter;
        join_all(lanes.iter_mut().take(in_flight).map(async |lane| {
            loop {
                let sent = Instant::now();
                let (_, body) = lane.exchange(client.request(work)).await;
                let mut meter = meter_of_all.borrow_mut();
                if Response::read(&body).is_some_and(|response| response.is_success) {
                    meter.success(sent);
                } else {
                    meter.failure(|| String::from_utf8_lossy(&body).into_owned());
                }
                if !meter.goes_on() {
                    return;
                }
            }
        }))
        .await;
        self.lanes = lanes;
        meter.into_inner().end(|| self.process.cpu().saturating_sub(cpu))
    }

    fn request(&self, work: Work) -> Request<Full<Bytes>> {
        let id = self.next_id.replace(self.next_id.get() + 1);
        self.endpoint.work(work, self.era, self.session.as_ref(), id)
    }
}

/// The endpoint `/mcp` of a gateway.
pub(crate) struct Endpoint {
    address: SocketAddr,
    host: HeaderValue,
}

impl Endpoint {
    pub(crate) fn new(address: SocketAddr) -> Self {
        let host = HeaderValue::try_from(address.to_string()).expect("an address is header text");
        Self { address, host }
    }

    pub(crate) async fn connect(&self) -> Connection {
        let stream = TcpStream::connect(self.address).await.expect("the gateway listens");
        stream.set_nodelay(true).expect("a socket has the option");
        let (sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.expect("no bytes are sent yet");
        // It ends with the sender. An error is one of the exchange, too.
        tokio::spawn(async { drop(connection.await) });
        Connection(sender)
    }

    /// Opens a session. Returns its identifier.
    pub(crate) async fn open_session(&self, lane: &mut Connection) -> HeaderValue {
        let request = self.post(message::initialize(), None);
        let (head, body) = lane.exchange(request).await;
        let session = head.headers().get(SESSION).cloned();
        let session = session
            .unwrap_or_else(|| panic!("no session was opened: {}", String::from_utf8_lossy(&body)));
        let (head, _) = lane.exchange(self.post(INITIALIZED.to_owned(), Some(&session))).await;
        assert_eq!(head.status(), StatusCode::ACCEPTED, "the gateway takes a notification");
        session
    }

    /// Sends one request in a session. Panics unless it succeeds.
    pub(crate) async fn in_session(
        &self,
        lane: &mut Connection,
        session: &HeaderValue,
        work: Work,
    ) -> Bytes {
        let (_, body) = lane.exchange(self.work(work, Era::Legacy, Some(session), 1)).await;
        let is_success = Response::read(&body).is_some_and(|response| response.is_success);
        assert!(is_success, "{work:?}: {}", String::from_utf8_lossy(&body));
        body
    }

    /// Ends a session.
    pub(crate) async fn close_session(&self, lane: &mut Connection, session: &HeaderValue) {
        let request = self.bare(Method::DELETE, session);
        let (head, _) = lane.exchange(request).await;
        assert!(head.status().is_success(), "{}", head.status());
    }

    /// Opens the stream of a session for notifications, and leaves it open.
    pub(crate) async fn open_stream(
        &self,
        mut lane: Connection,
        session: &HeaderValue,
    ) -> (Connection, HttpResponse<Incoming>) {
        let mut response = lane.send(self.bare(Method::GET, session)).await;
        assert_eq!(response.status(), StatusCode::OK, "a stream is opened");
        response.body_mut().frame().await.expect("it begins").expect("with an event");
        (lane, response)
    }

    /// Builds a request that is sent again and again.
    fn work(
        &self,
        work: Work,
        era: Era,
        session: Option<&HeaderValue>,
        id: u64,
    ) -> Request<Full<Bytes>> {
        let mut request = self.post(work.request(era, id), session);
        let headers = request.headers_mut();
        headers.insert(VERSION, HeaderValue::from_static(era.version()));
        if era == Era::Modern {
            headers.insert(MCP_METHOD, HeaderValue::from_static(work.method()));
            if let Work::Call(tool) = work {
                headers.insert(MCP_NAME, HeaderValue::from_static(tool));
            }
        }
        request
    }

    fn post(&self, body: String, session: Option<&HeaderValue>) -> Request<Full<Bytes>> {
        let mut request = self.empty(Method::POST, "application/json, text/event-stream");
        *request.body_mut() = Full::new(body.into());
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(session) = session {
            headers.insert(SESSION, session.clone());
        }
        request
    }

    fn bare(&self, method: Method, session: &HeaderValue) -> Request<Full<Bytes>> {
        let mut request = self.empty(method, "text/event-stream");
        request.headers_mut().insert(SESSION, session.clone());
        request.headers_mut().insert(VERSION, HeaderValue::from_static(Era::Legacy.version()));
        request
    }

    fn empty(&self, method: Method, accept: &'static str) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::default());
        *request.method_mut() = method;
        *request.uri_mut() = hyper::Uri::from_static("/mcp");
        request.headers_mut().insert(HOST, self.host.clone());
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static(accept));
        request
    }
}

/// A connection that carries one request at a time.
pub(crate) struct Connection(SendRequest<Full<Bytes>>);

impl Connection {
    /// Sends a request and receives the whole response.
    async fn exchange(&mut self, request: Request<Full<Bytes>>) -> (HttpResponse<()>, Bytes) {
        let (head, body) = self.send(request).await.into_parts();
        let body = body.collect().await.expect("the response is whole").to_bytes();
        (HttpResponse::from_parts(head, ()), body)
    }

    async fn send(&mut self, request: Request<Full<Bytes>>) -> HttpResponse<Incoming> {
        self.0.ready().await.expect("the gateway keeps the connection open");
        self.0.send_request(request).await.expect("the gateway responds")
    }
}
