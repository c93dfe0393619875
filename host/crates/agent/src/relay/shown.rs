//! Divides the deltas of a chunk into those that are shown and those that are held back.

use std::mem;

use super::{
    BETWEEN_ROUNDS, Relay, RelayContext,
    deltas::{LOGPROBS, in_pieces, is_text},
};
use crate::{Failure, names::CallableNames};
use airlock_conversation::{Begin, Delta};

/// Member with pieces of calls that have begun.
const TOOL_CALLS: &str = "tool_calls";

/// The deltas of a chunk that are shown.
#[derive(Default)]
pub(super) struct ShownDeltas {
    /// Those that are shown before, each group as a chunk: texts that were held back.
    pub(super) earlier: Vec<Vec<Delta>>,
    pub(super) deltas: Vec<Delta>,
    /// Unknown members of the beginning, which follow the pieces.
    pub(super) of_begin: Vec<Delta>,
    /// True if a piece is held back.
    pub(super) is_held: bool,
    /// True if they are not those that came.
    pub(super) is_changed: bool,
}

impl Relay {
    /// Shows a delta, or holds it back.
    pub(super) fn show_delta(
        &mut self,
        delta: Delta,
        context: &RelayContext<'_>,
        shown: &mut ShownDeltas,
    ) -> Result<(), Failure> {
        let RelayContext { names, allowance, .. } = *context;
        match delta {
            Delta::Begin(begin) => self.show_begin(begin, names, shown),
            Delta::End { choice, reason } => self.round.ends.push((choice, reason)),
            Delta::Usage(usage) => self.round.usage = Some(Box::new(usage)),
            Delta::ItemEnd { .. } if self.style.is_one_text => shown.is_changed = true,
            Delta::Call { .. } | Delta::Arguments { .. } => self.show_call(delta, names, shown),
            Delta::Member { choice, wire, name, value } if name == TOOL_CALLS => {
                let (value, is_changed) = self.round.place_members(choice, value);
                shown.is_changed |= is_changed;
                if let Some(value) = value {
                    shown.deltas.push(Delta::Member { choice, wire, name, value });
                }
            }
            Delta::ChunkMember { .. } => self.show_member(delta, names, shown),
            Delta::Member { name, value, .. }
                if name != LOGPROBS && names.is_call_member(&name, &value) =>
            {
                shown.is_changed = true;
            }
            delta if self.style.holds_text && is_text(&delta) => {
                shown.is_changed = true;
                shown.is_held = true;
                let delta = self.joined(delta, context);
                self.round.hold_text(delta, &allowance.held)?;
            }
            delta => {
                let delta = self.joined(delta, context);
                self.round.note_text(&delta);
                shown.deltas.push(delta);
            }
        }
        Ok(())
    }

    /// Shows the beginning of the reply; of a later round, its unknown members alone.
    fn show_begin(&mut self, mut begin: Begin, names: &CallableNames, shown: &mut ShownDeltas) {
        let is_later = mem::replace(&mut self.has_begun, true);
        if is_later {
            shown.is_changed = true;
            names.remove_calls(&mut begin.extra);
            let members = begin.extra.into_iter().filter(|_| self.style.is_chat);
            let members =
                members.map(|(name, value)| Delta::ChunkMember { choice: None, name, value });
            shown.of_begin.extend(members);
        } else {
            shown.is_changed |= names.remove_calls(&mut begin.extra);
            shown.deltas.push(Delta::Begin(begin));
        }
    }

    /// Shows a piece of a call, or holds it back.
    fn show_call(&mut self, delta: Delta, names: &CallableNames, shown: &mut ShownDeltas) {
        // It may have begun in an earlier chunk, and texts before it may be shown now.
        shown.is_changed = true;
        let Some(delta) = self.round.place(delta, names, self.style.keeps_order) else {
            shown.is_held = true;
            return;
        };
        let begins = matches!(delta, Delta::Call { .. });
        if begins {
            // The caller's own call ends the loop, so the text before it is shown.
            let texts = self.round.take_texts();
            if !texts.is_empty() {
                let before = mem::take(&mut shown.deltas);
                shown.earlier.extend(Some(before).filter(|before| !before.is_empty()));
                shown.earlier.extend(in_pieces(texts));
            }
        }
        shown.deltas.push(delta);
        if begins {
            shown.deltas.extend(self.round.take_members());
        }
    }

    /// Shows an unknown member of a chunk, or holds it back with the end of its choice.
    fn show_member(&mut self, delta: Delta, names: &CallableNames, shown: &mut ShownDeltas) {
        let Delta::ChunkMember { choice, name, value } = &delta else { return };
        if !self.style.is_chat || names.is_call_member(name, value) {
            shown.is_changed = true;
        } else if let Some(choice) = choice.filter(|choice| self.round.has_just_ended(*choice)) {
            self.round.end_members.entry(choice).or_default().push(delta);
        } else {
            shown.deltas.push(delta);
        }
    }

    /// Makes the first text of a later round a part of the text before it.
    fn joined(&mut self, mut delta: Delta, context: &RelayContext<'_>) -> Delta {
        if let Delta::Text { choice, text } = &mut delta
            && context.is_later()
            && self.style.is_one_text
            && !text.is_empty()
            && self.spoken.remove(choice)
        {
            text.insert_str(0, BETWEEN_ROUNDS);
        }
        delta
    }
}
