//! Finds the ends of lines in bytes.

/// Number of bytes that are searched together: the compiler vectorises the search.
const GROUP_BYTES: usize = 32;

/// Returns the offset of the first LF or CR; `None` if there is none.
pub fn line_end(bytes: &[u8]) -> Option<usize> {
    let groups = bytes.as_chunks::<GROUP_BYTES>().0;
    let searched = groups.iter().take_while(|group| !has_line_end(group)).count() * GROUP_BYTES;
    // Less than a group is left: most texts have no end there, which the last whole group tells.
    if bytes.len() - searched < GROUP_BYTES
        && bytes.last_chunk::<GROUP_BYTES>().is_some_and(|last| !has_line_end(last))
    {
        return None;
    }
    let found = bytes[searched..].iter().position(|byte| ends_line(*byte))?;
    Some(searched + found)
}

/// Returns whether a group has the end of a line. All bytes are compared, also those after the first end: that takes less
/// time than a branch for each byte.
fn has_line_end(group: &[u8; GROUP_BYTES]) -> bool {
    group.iter().fold(0, |found, byte| found | u8::from(ends_line(*byte))) != 0
}

fn ends_line(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_end_of_a_line_is_found_at_every_place() {
        for length in 0..3 * GROUP_BYTES {
            let mut text = vec![b'x'; length];
            assert_eq!(line_end(&text), None);
            for end in [b'\n', b'\r'] {
                for at in (0..length).rev() {
                    text[at] = end;
                    assert_eq!(line_end(&text), Some(at), "{length}");
                }
                text.fill(b'\x0b');
                assert_eq!(line_end(&text), None);
            }
        }
    }
}
