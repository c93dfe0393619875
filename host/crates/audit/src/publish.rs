//! Publication of checkpoints where the operator of the gateway cannot change them: it is what makes a log
//! that is cut or written anew visible.
//!
//! Each place has a thread, so that one that does not respond delays neither the log nor another place. It
//! gets the newest checkpoint only: that one commits to everything that those before it did.

use std::{
    fmt,
    fs::OpenOptions,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use airlock_strings::with_causes;
use parking_lot::{Condvar, Mutex};
use tracing::warn;

use crate::checkpoint::Checkpoint;
use airlock_core::tool::Cause;

/// Time after which a failed publication is tried again, unless there is a newer checkpoint.
const RETRY: Duration = Duration::from_secs(30);
/// Longest wait for the last publication, when the log is closed.
const LAST: Duration = Duration::from_secs(5);

/// Publishes a checkpoint.
type Publish = dyn FnMut(&str) -> Result<(), Cause> + Send;

/// A place that checkpoints are published at, and its name in the gateway's log.
pub struct Publication {
    name: String,
    publish: Box<Publish>,
}

impl fmt::Debug for Publication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Publication").field(&self.name).finish()
    }
}

impl Publication {
    /// Names a place. The name must have no secret, such as the query of a URL. `publish` publishes a checkpoint
    /// there. It may block, and must end: a request has a deadline.
    pub fn new(
        name: impl Into<String>,
        publish: impl FnMut(&str) -> Result<(), Cause> + Send + 'static,
    ) -> Self {
        Self { name: name.into(), publish: Box::new(publish) }
    }

    /// Returns a file that checkpoints are added to. Several logs may have the same one.
    pub fn file(path: PathBuf) -> Self {
        Self::new(path.display().to_string(), move |checkpoint: &str| add(&path, checkpoint))
    }
}

fn add(path: &Path, checkpoint: &str) -> Result<(), Cause> {
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    // One write, so that those of other gateways come before or after it.
    file.write_all(format!("{checkpoint}\n").as_bytes())?;
    Ok(file.sync_data()?)
}

/// The threads of all places.
pub(crate) struct Publishers(Vec<Arc<PublishState>>);

/// The state that a place's thread shares with the log.
#[derive(Default)]
struct PublishState {
    state: Mutex<PublisherState>,
    changed: Condvar,
}

#[derive(Default)]
struct PublisherState {
    /// The checkpoint that is published next.
    newest: Option<String>,
    is_closed: bool,
    has_ended: bool,
}

impl Publishers {
    /// Starts a thread for each place. Fails if the system has no thread left.
    pub(crate) fn start(publications: Vec<Publication>) -> io::Result<Self> {
        // Those that have started end with the value if a later one does not.
        let mut publishers = Self(Vec::new());
        for mut publication in publications {
            let shared = Arc::new(PublishState::default());
            let of_thread = Arc::clone(&shared);
            thread::Builder::new()
                .name("audit-publish".to_owned())
                .spawn(move || publish_each(&mut publication, &of_thread))?;
            publishers.0.push(shared);
        }
        Ok(publishers)
    }

    /// Publishes a checkpoint soon, instead of one that still waits.
    pub(crate) fn publish(&self, checkpoint: &Checkpoint) {
        for place in &self.0 {
            place.state.lock().newest = Some(checkpoint.to_string());
            place.changed.notify_all();
        }
    }
}

impl Drop for Publishers {
    /// Waits until the newest checkpoint was tried everywhere, for a bounded time: a place that hangs cannot be
    /// stopped.
    fn drop(&mut self) {
        let deadline = Instant::now() + LAST;
        for place in &self.0 {
            place.state.lock().is_closed = true;
            place.changed.notify_all();
        }
        for place in &self.0 {
            let mut state = place.state.lock();
            while !state.has_ended {
                if place.changed.wait_until(&mut state, deadline).timed_out() {
                    warn!(
                        "a place for checkpoints does not respond; the last one may be missing there"
                    );
                    break;
                }
            }
        }
    }
}

fn publish_each(publication: &mut Publication, shared: &PublishState) {
    let mut failed = None;
    while let Some(checkpoint) = next(shared, &mut failed) {
        if let Err(error) = (publication.publish)(&checkpoint) {
            let error = with_causes(error.as_ref());
            warn!(target = publication.name, %error, "a checkpoint of the audit log was not published");
            failed = Some(checkpoint);
        }
    }
    shared.state.lock().has_ended = true;
    shared.changed.notify_all();
}

/// Waits for a checkpoint, or until the failed one is due again. `None` when the log is closed.
fn next(shared: &PublishState, failed: &mut Option<String>) -> Option<String> {
    let mut state = shared.state.lock();
    let retry_at = Instant::now() + RETRY;
    loop {
        if let Some(newest) = state.newest.take() {
            *failed = None;
            return Some(newest);
        }
        if state.is_closed {
            return None;
        }
        if failed.is_none() {
            shared.changed.wait(&mut state);
        } else if shared.changed.wait_until(&mut state, retry_at).timed_out() {
            return failed.take();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::{key::SigningKey, tree::Tree};

    /// Returns a checkpoint with this number of lines.
    fn checkpoint(size: u64) -> Checkpoint {
        let (key, _) = SigningKey::generate().expect("random bytes");
        let mut tree = Tree::default();
        (0..size).for_each(|_| tree.push([0; 32]));
        Checkpoint::sign("gateway/one", &tree, &key)
    }

    #[test]
    fn a_file_gets_each_checkpoint_and_the_last_one_before_the_end() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("published");
        let published = [checkpoint(1), checkpoint(2)];
        for checkpoint in &published {
            let file = Publication::file(path.clone());
            Publishers::start(vec![file]).expect("a thread").publish(checkpoint);
        }
        let [first, second] = published;
        let text = std::fs::read_to_string(path).expect("a file");
        assert_eq!(text, format!("{first}\n{second}\n"));
    }

    #[test]
    fn a_place_that_hangs_gets_the_newest_checkpoint_and_delays_nothing() {
        let (seen, checkpoints) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let slow = Publication::new("slow", move |checkpoint: &str| {
            seen.send(checkpoint.to_owned())?;
            released.recv()?;
            Err("refused".into())
        });
        let publishers = Publishers::start(vec![slow]).expect("a thread");
        let first = checkpoint(1);
        publishers.publish(&first);
        assert_eq!(checkpoints.recv(), Ok(first.to_string()));
        let newest = checkpoint(5);
        for size in 2..5 {
            publishers.publish(&checkpoint(size));
        }
        publishers.publish(&newest);
        release.send(()).expect("it waits");
        assert_eq!(checkpoints.recv(), Ok(newest.to_string()));
        release.send(()).expect("it waits");
        drop(publishers);
        assert!(checkpoints.recv().is_err(), "it has ended");
    }
}
