use std::future::poll_fn;

use futures_util::stream;
use http::{HeaderValue, header};

use super::*;
use crate::Api;
use airlock_core::memory::MemoryBudget;

#[tokio::test]
async fn a_stream_does_not_keep_the_buffer_that_its_head_came_in() {
    let service = Service::new(Api::OpenAi, "http://127.0.0.1:1/v1");
    let bounds = ServiceBounds::new(&service);
    let client = HttpClient::new("up", &service, bounds).expect("a good address");
    let buffer = Bytes::from(b"text/event-stream".to_vec());
    let value = HeaderValue::from_maybe_shared(buffer.clone()).expect("text");
    let response = ServiceResponse::of_pieces(stream::pending());
    let response = response.with_header(header::CONTENT_TYPE, value);
    assert!(!buffer.is_unique());
    let events = ServiceEvents::new(&client, response, MemoryBudget::unlimited().charge());
    assert!(buffer.is_unique());
    drop(events);
}

#[tokio::test]
async fn a_stream_that_is_always_ready_yields_whatever_it_sends() {
    let service = Service::new(Api::Anthropic, "http://127.0.0.1:1");
    let client = HttpClient::new("up", &service, ServiceBounds::new(&service)).expect("an address");
    for sent in ["data:{}\n\n", "id:1\n\n", ":\n"] {
        let part = Bytes::from(sent.repeat(8_192));
        let response = ServiceResponse::of_pieces(stream::iter(vec![part; 32]));
        let held = MemoryBudget::unlimited().charge();
        let mut events = ServiceEvents::new(&client, response, held);
        let mut reading =
            pin!(async { while events.next().await.expect("no event is too long").is_some() {} });
        let mut polls = 0;
        poll_fn(|context| {
            polls += 1;
            reading.as_mut().poll(context)
        })
        .await;
        assert!(polls > 3, "{polls} for {sent:?}");
    }
}
