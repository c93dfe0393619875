//! The sources of untrusted content that the author of calls has read.
//!
//! ```text
//! request: a model, a client of a session   ◄── results of its calls, which it reads when its turn ends
//!    └─ call that runs: a script, a plugin  ◄── results of its calls, which it reads at once
//!          └─ call that runs …
//! ```
//!
//! A call is compared with the sources that its author had read when it was made. A source counts as read when
//! the call of its tool begins: parts of a result may come before its end, and a call may be dropped.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::tool::SourceSet;

/// Sources whose results the client of a session has received, in all requests of the session. Cheap to clone;
/// clones share them.
#[derive(Debug, Clone, Default)]
pub struct SessionSources(Arc<Mutex<SourceSet>>);

impl SessionSources {
    /// Returns the sources so far.
    pub fn sources(&self) -> SourceSet {
        self.0.lock().clone()
    }

    /// Adds sources whose content the client receives.
    pub fn receive(&self, sources: &SourceSet) {
        self.0.lock().extend(sources);
    }
}

/// Author of calls: of a request, or of the calls that are made in a running one.
pub(super) struct Author {
    /// Sources that the author had read at its beginning.
    before: SourceSet,
    /// Sources that it has read since.
    read: Mutex<SourceSet>,
    /// Sources of results that it reads when its turn ends.
    arriving: Mutex<SourceSet>,
    /// The author of the call in which this one makes calls; `None` of a request.
    outer: Option<Arc<Self>>,
    /// The session of the request.
    session: Option<SessionSources>,
}

impl Author {
    /// Creates the author of the calls of a request, in a session if there is one.
    pub(super) fn of_request(before: SourceSet, session: Option<SessionSources>) -> Arc<Self> {
        Arc::new(Self {
            before,
            read: Mutex::default(),
            arriving: Mutex::default(),
            outer: None,
            session,
        })
    }

    /// Creates the author of the calls that are made in a call of `outer`, whose context is `before`.
    pub(super) fn of_call(before: SourceSet, outer: Arc<Self>) -> Arc<Self> {
        Arc::new(Self {
            before,
            read: Mutex::default(),
            arriving: Mutex::default(),
            outer: Some(outer),
            session: None,
        })
    }

    /// Returns the sources that the author has read.
    pub(super) fn sources(&self) -> SourceSet {
        let mut sources = self.before.clone();
        sources.extend(&self.read.lock());
        sources
    }

    /// Returns the sources that the author has read, and those of its session by now, in all requests.
    pub(super) fn latest(&self) -> SourceSet {
        let mut sources = self.sources();
        if let Some(session) = &self.session {
            sources.extend(&session.sources());
        }
        sources
    }

    /// Sources that the author had read at its beginning.
    pub(super) fn before(&self) -> &SourceSet {
        &self.before
    }

    /// Returns the sources that it has read since.
    pub(super) fn read(&self) -> SourceSet {
        self.read.lock().clone()
    }

    /// Returns whether it is the author of a request.
    pub(super) fn is_of_request(&self) -> bool {
        self.outer.is_none()
    }

    /// Adds sources that the author has read.
    pub(super) fn has_read(&self, sources: &SourceSet) {
        self.read.lock().extend(sources);
    }

    /// Adds sources of a result for the author of a running call, and for all authors that it runs for.
    pub(super) fn receive(&self, sources: &SourceSet) {
        let mut author = self;
        while let Some(outer) = &author.outer {
            author.has_read(sources);
            author = outer;
        }
        author.arriving.lock().extend(sources);
        if let Some(session) = &author.session {
            session.receive(sources);
        }
    }

    /// Ends a turn of the author of a request: it has read the results of its calls so far.
    pub(super) fn end_turn(&self) {
        let arrived = std::mem::take(&mut *self.arriving.lock());
        self.has_read(&arrived);
    }
}
