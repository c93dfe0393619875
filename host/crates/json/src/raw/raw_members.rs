//! Members of an object, and their reader.

use std::{mem, ops::Range, sync::Arc};

use super::{MAX_MEMBERS, unquoted};
use crate::{Error, TokenSink};

/// Members of an object, without its text.
#[derive(Debug, Clone, Default)]
pub(super) struct RawMembers {
    pub(super) list: Vec<(Box<str>, RawMember)>,
    /// The first name that was read twice.
    pub(super) repeated: Option<Box<str>>,
}

/// Value of a member.
#[derive(Debug, Clone)]
pub(super) enum RawMember {
    /// Range of the object's text.
    Read(Range<usize>),
    /// Text that was set.
    Set(Arc<str>),
}

/// Reads the members of the object that a whole text is, in the pass that checks the text.
#[derive(Default)]
pub(super) struct MemberReader {
    members: RawMembers,
    /// True if the text is an object.
    is_object: bool,
    /// Number of members, a repeated name counted each time. Those beyond [`MAX_MEMBERS`] are not kept.
    count: usize,
    /// Number of open arrays and objects.
    depth: usize,
    /// Name of the member that is being read.
    name: Box<str>,
    /// Offset of its value, if that is an array or object.
    start: usize,
}

impl RawMembers {
    pub(super) fn get(&self, name: &str) -> Option<&RawMember> {
        self.list.iter().find(|(own, _)| **own == *name).map(|(_, raw)| raw)
    }

    fn get_mut(&mut self, name: &str) -> Option<&mut RawMember> {
        self.list.iter_mut().find(|(own, _)| **own == *name).map(|(_, raw)| raw)
    }

    /// Sets a member, at its place if it exists and else at the end.
    pub(super) fn set(&mut self, name: &str, raw: RawMember) {
        match self.get_mut(name) {
            Some(old) => *old = raw,
            None => self.list.push((name.into(), raw)),
        }
    }

    /// Adds a member that was read, with the range of its value.
    pub(super) fn add(&mut self, name: Box<str>, value: Range<usize>) {
        let raw = RawMember::Read(value);
        if let Some(old) = self.get_mut(&name) {
            *old = raw;
            self.repeated = self.repeated.take().or(Some(name));
        } else {
            self.list.push((name, raw));
        }
    }
}

impl MemberReader {
    /// Returns the members; `None` if the text is no object. Fails if there are more than [`MAX_MEMBERS`].
    pub(super) fn into_members(self) -> Option<Result<RawMembers, Error>> {
        let fits = self.count <= MAX_MEMBERS;
        let members =
            if fits { Ok(self.members) } else { Err(Error::TooManyMembers { limit: MAX_MEMBERS }) };
        self.is_object.then_some(members)
    }

    /// Keeps a member, with the range of its value.
    fn keep(&mut self, value: Range<usize>) {
        if self.depth == 1 && self.is_object {
            self.count += 1;
            if self.count <= MAX_MEMBERS {
                self.members.add(mem::take(&mut self.name), value);
            }
        }
    }
}

impl TokenSink for MemberReader {
    fn key(&mut self, key: &[u8], has_escapes: bool) {
        if self.depth == 1 {
            // Valid: the scanner has checked it.
            let key = str::from_utf8(key).unwrap_or_default();
            self.name =
                if has_escapes { unquoted(&format!("\"{key}\"")).into() } else { key.into() };
        }
    }

    fn scalar(&mut self, text: &[u8], _has_escapes: bool, at: usize) {
        self.keep(at..at + text.len());
    }

    fn open(&mut self, is_object: bool, at: usize) {
        match self.depth {
            0 => self.is_object = is_object,
            1 => self.start = at,
            _ => {}
        }
        self.depth += 1;
    }

    fn close(&mut self, end: usize) {
        self.depth -= 1;
        self.keep(self.start..end);
    }
}
