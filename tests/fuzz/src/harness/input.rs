//! The parts of an input: a stream, and the places where it is cut.

/// Separates the stream from the lengths of its pieces: a byte that no UTF-8 has, so a recorded
/// stream is an input as it is.
const SEPARATOR: u8 = 0xff;
/// Limit of an event if the input has none.
const LIMIT_BYTES: usize = 1 << 20;

/// One input.
pub(super) struct Input<'a> {
    pub(super) stream: &'a [u8],
    /// Limit of an event, in bytes.
    pub(super) limit_bytes: usize,
    /// Lengths of the pieces, over and over.
    lengths: &'a [u8],
}

impl<'a> From<&'a [u8]> for Input<'a> {
    /// Splits an input at its last separator. The byte after it selects the limit of an event, and
    /// the others are lengths.
    fn from(input: &'a [u8]) -> Self {
        let at = input.iter().rposition(|byte| *byte == SEPARATOR);
        let (stream, rest) =
            at.map_or((input, [].as_slice()), |at| (&input[..at], &input[at + 1..]));
        let (limit_bytes, lengths) = match rest.split_first() {
            Some((limit, lengths)) if *limit < 64 => (usize::from(*limit), lengths),
            Some((_, lengths)) => (LIMIT_BYTES, lengths),
            None => (LIMIT_BYTES, rest),
        };
        Self { stream, limit_bytes, lengths }
    }
}

impl<'a> Input<'a> {
    /// Iterates over the pieces: of one byte if the input has no lengths. Pieces may be empty.
    pub(super) fn pieces(&self) -> impl Iterator<Item = &'a [u8]> {
        let lengths =
            if self.lengths.iter().all(|length| *length == 0) { &[1] } else { self.lengths };
        let mut lengths = lengths.iter().cycle();
        let mut rest = self.stream;
        std::iter::from_fn(move || {
            let length = usize::from(*lengths.next()?);
            let (piece, after) = rest.split_at_checked(length).unwrap_or((rest, &[]));
            let is_end = rest.is_empty();
            rest = after;
            (!is_end).then_some(piece)
        })
    }
}
