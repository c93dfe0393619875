//! A streamed response, as its client reads it.

use reqwest::{RequestBuilder, StatusCode};
use serde_json::Value;

/// Server-sent events of one response. Dropping it closes the connection.
pub struct EventStream {
    response: reqwest::Response,
    received: Vec<u8>,
}

impl EventStream {
    /// Sends a request and waits for the head of the response. Panics unless it is an event stream.
    pub async fn open(request: RequestBuilder) -> Self {
        Self::from(request.send().await.expect("the gateway answers")).await
    }

    /// Reads a response whose head has come. Panics unless it is an event stream.
    pub async fn from(response: reqwest::Response) -> Self {
        let status = response.status();
        if status == StatusCode::OK {
            assert_eq!(response.headers()["content-type"], "text/event-stream");
            Self { response, received: Vec::new() }
        } else {
            panic!("{status}: {}", response.text().await.unwrap_or_default())
        }
    }

    /// Returns the next event or comment, as it was sent; `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.received.windows(2).position(|bytes| bytes == b"\n\n") {
                let event = self.received.drain(..end + 2).collect();
                return Some(String::from_utf8(event).expect("UTF-8").trim_end().to_owned());
            }
            let Some(bytes) = self.response.chunk().await.expect("the stream is whole") else {
                assert!(self.received.is_empty(), "it ends within an event");
                return None;
            };
            self.received.extend_from_slice(&bytes);
        }
    }

    /// Returns the data of all events without a type that are left.
    pub async fn data(mut self) -> Vec<String> {
        let mut data = Vec::new();
        while let Some(event) = self.next().await {
            data.extend(event.strip_prefix("data: ").map(str::to_owned));
        }
        data
    }

    /// Reads until an event's data fulfils a condition. Panics if the stream ends before.
    pub async fn until(&mut self, holds: impl Fn(&Value) -> bool) -> Value {
        loop {
            let event = self.next().await.expect("the event that a test waits for");
            let data = event.strip_prefix("data: ").unwrap_or_default();
            match serde_json::from_str(data) {
                Ok(value) if holds(&value) => return value,
                _ => {}
            }
        }
    }
}
