//! A streamed response, as a caller receives it.

use super::*;
use airlock_conversation::chat::ReplyReader;
use airlock_model::ChatForm;

/// A stream, as a caller of chat completions receives it.
pub(super) struct ReceivedStream {
    form: ChatForm,
    reader: ReplyReader,
    reply: Reply,
    airlock: Option<Object>,
}

impl ReceivedStream {
    pub(super) fn new(request: &Request) -> Self {
        let includes_usage = request.prompt.body.get("stream_options").is_some();
        Self {
            form: ChatForm::new(includes_usage),
            reader: ReplyReader::default(),
            reply: Reply::default(),
            airlock: None,
        }
    }

    /// Returns the chunks that an event becomes.
    pub(super) fn chunks(&mut self, event: &mut Event) -> Vec<Object> {
        let lines = match event {
            Event::Chunk(chunk) => self.form.lines(std::mem::take(chunk)),
            Event::Done(completion) => self.form.finish(completion.airlock.clone()),
            _ => Vec::new(),
        };
        let parsed = lines.iter().map(|line| serde_json::from_str(line).expect("a chunk"));
        parsed.collect()
    }

    /// Adds an event.
    pub(super) fn add(&mut self, event: &mut Event) {
        for mut chunk in self.chunks(event) {
            let airlock = chunk.shift_remove(EXTENSION);
            self.airlock = airlock.map(object).or(self.airlock.take());
            self.reply.extend(self.reader.chunk(chunk).expect("a chunk"));
        }
    }

    /// Returns the response that the chunks are pieces of.
    pub(super) fn finish(mut self) -> Value {
        self.reply.extend(self.reader.finish().expect("an end"));
        ChatForm::whole(self.reply, self.airlock).into()
    }
}
