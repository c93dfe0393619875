//! The end of a relayed stream: the texts and calls that were held back, the ends of the choices and the usage.

use std::mem;

use super::{BETWEEN_ROUNDS, Relay, deltas::last_deltas, round::HeldChunk};
use crate::{
    event::{Emitter, Event},
    round::PendingCall,
};
use airlock_conversation::{CallInput, Delta, FinishReason, ToolCall, Usage};

/// Maximum number of deltas of a chunk that is made at the end, so that what was held back is not written at once.
const MAX_LAST_DELTAS: usize = 64;

/// The end of a stream.
pub(crate) struct StreamEnd<'e> {
    pub(crate) pending: &'e [PendingCall],
    /// True if calls were run and others are pending.
    pub(crate) is_mixed: bool,
    /// Text of the gateway itself.
    pub(crate) own_text: Option<String>,
    /// Usage of all rounds; `None` if that of the last response is sent.
    pub(crate) usage: Option<Usage>,
    /// True if the reply has a description of its calls.
    pub(crate) is_described: bool,
}

impl Relay {
    /// Ends the stream with the pending calls, the ends of the choices and the usage.
    pub(crate) async fn finish(mut self, end: StreamEnd<'_>, emitter: &Emitter) {
        if !self.style.holds && self.has_ended {
            return;
        }
        let StreamEnd { pending, is_mixed, own_text, usage, is_described } = end;
        let own_text = own_text.filter(|_| self.style.is_one_text || !is_mixed);
        let last = self.last(own_text, pending);
        let is_changed = !last.is_empty() || is_mixed || is_described || usage.is_some();
        let is_exact = !is_changed && self.round.has_exact_tail();
        let mut ends = self.ends(pending, is_mixed, usage);
        let tail = mem::take(&mut self.round.tail);
        if !is_exact {
            let mut all = last_deltas(tail, last, ends).into_iter().peekable();
            while all.peek().is_some() {
                let deltas: Vec<_> = all.by_ref().take(MAX_LAST_DELTAS).collect();
                emitter.emit(Event::Chunk(deltas.into())).await;
            }
            return;
        }
        for HeldChunk { mut chunk, .. } in tail {
            // They are in the exact forms.
            chunk.extend(mem::take(&mut ends));
            emitter.emit(Event::Chunk(chunk)).await;
        }
    }

    /// Returns what is shown before the ends: the texts that are held back, the gateway's own text, and the
    /// pending calls.
    fn last(&mut self, own_text: Option<String>, pending: &[PendingCall]) -> Vec<Delta> {
        let mut last = self.round.take_texts();
        last.extend(own_text.map(|text| self.last_text(text)));
        self.add_pending(pending, &mut last);
        last.extend(self.round.take_members());
        last
    }

    /// Returns the gateway's own text after that of the model.
    fn last_text(&self, last: String) -> Delta {
        let has_text = self.round.speaking.contains(&0) || self.spoken.contains(&0);
        let text = if has_text { format!("{BETWEEN_ROUNDS}{last}") } else { last };
        Delta::Text { choice: 0, text }
    }

    /// Appends the pending calls that were held back.
    fn add_pending(&mut self, pending: &[PendingCall], out: &mut Vec<Delta>) {
        let shown = mem::take(&mut self.round.shown);
        for pending in pending.iter().filter(|pending| !shown.contains(&pending.call.id)) {
            let choice = pending.call.choice;
            let index = self.round.next_place(choice);
            let call = pending.call.item.clone();
            let (is_custom, text) = match call.input {
                CallInput::Arguments(text) => (false, text),
                CallInput::Text(text) => (true, text),
            };
            let ToolCall { id, name, extra, .. } = call;
            out.push(Delta::Call { choice, index, id, name, is_custom, extra });
            if !text.is_empty() {
                out.push(Delta::Arguments { choice, index, text });
            }
        }
    }

    /// Returns the ends of the choices, and the usage: `sum` in the place of that of the last response. A
    /// stream without an end gets one.
    fn ends(&mut self, pending: &[PendingCall], is_mixed: bool, sum: Option<Usage>) -> Vec<Delta> {
        let mut ends = mem::take(&mut self.round.ends);
        if ends.is_empty() {
            let reason =
                if pending.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
            ends.push((0, reason));
        }
        let mut members = mem::take(&mut self.round.end_members);
        let ends = ends.into_iter().flat_map(|(choice, reason)| {
            let reason = if is_mixed { FinishReason::ToolCalls } else { reason };
            let members = members.remove(&choice).unwrap_or_default();
            [Delta::End { choice, reason }].into_iter().chain(members)
        });
        let usage = self.round.usage.take().map(|usage| match sum {
            Some(sum) => Delta::Usage(Usage { chunk: usage.chunk, ..sum }),
            None => Delta::Usage(*usage),
        });
        ends.chain(usage).collect()
    }
}
