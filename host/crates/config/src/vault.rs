//! Secrets from vaults of the embedding program, to which values of a configuration refer as
//! `vault.NAME/REFERENCE`.
//!
//! Settings are made without waiting, and a vault may have to be waited for. So an attempt to make them notes the
//! secrets that it lacks, those are read at the same time, and the next attempt has them:
//!
//! ```text
//! attempt ─ lacks none ───────────────────────────► settings
//!   ▲  └ lacks some ─► read, for VAULT_DEADLINE ─┐
//!   └────────────────────────────────────────────┘
//! ```
//!
//! Secrets that were read are kept in memory. The last valid content of a file is made from them, so that a vault that
//! is away does not keep the entries of the store from having effect.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    panic::AssertUnwindSafe,
    sync::Arc,
    time::Duration,
};

use futures_util::{
    FutureExt as _,
    future::{BoxFuture, join_all},
};
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    time::{Instant, timeout_at},
};

use airlock_config_file::vault_reference::{VaultReference, is_name};
use airlock_core::{
    secret::{MAX_BYTES, Secret},
    tool::Cause,
};
use airlock_strings::{MAX_MESSAGE_BYTES, cut, visible_line, with_causes};

/// Time for all vaults to return the secrets of one configuration. It is shorter than a reading of a file is waited
/// for, [`READING_PATIENCE`](airlock_lock::READING_PATIENCE), so that a reload names the vault.
pub const VAULT_DEADLINE: Duration = Duration::from_secs(3);

/// A source of secrets of the embedding program.
///
/// ```
/// # mod airlock {
/// #     pub use airlock_config as config;
/// #     pub use airlock_core::secret::Secret;
/// # }
/// use airlock::{
///     Secret,
///     config::{Vault, VaultFailure},
/// };
/// use futures_util::future::BoxFuture;
///
/// struct Keyring;
///
/// impl Vault for Keyring {
///     fn secret<'a>(
///         &'a self,
///         reference: &'a str,
///     ) -> BoxFuture<'a, Result<Secret, VaultFailure>> {
///         Box::pin(async move {
///             match reference {
///                 "openai/key" => Ok(Secret::new("sk-0123456789abcdef")),
///                 _ => Err(VaultFailure::NotFound),
///             }
///         })
///     }
/// }
/// ```
pub trait Vault: Send + Sync + 'static {
    /// Returns the secret of a reference: the text after `vault.NAME/` in the configuration. Asked at the start, and
    /// again at each reload, for all references at the same time. The future is dropped after [`VAULT_DEADLINE`] and
    /// must not block. A panic is a failure. An operator who may change the configuration chooses the references.
    fn secret<'a>(&'a self, reference: &'a str) -> BoxFuture<'a, Result<Secret, VaultFailure>>;
}

/// Reason that a [`Vault`] returns no secret. Operators see it with its causes, so it must hold no secret.
#[derive(Debug, thiserror::Error)]
pub enum VaultFailure {
    /// The vault has no secret of this reference, or refuses it to this program.
    #[error("there is no such secret")]
    NotFound,
    /// The vault cannot be reached, or has failed.
    #[error(transparent)]
    Unavailable(Cause),
}

/// Reason that a vault is not registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadVault {
    /// The name cannot be written in a configuration.
    #[error(
        "{0:?} is not a valid name of a vault: use a letter or `_`, then letters, digits or `_`"
    )]
    Name(String),
    /// Another vault has the name.
    #[error("a vault named {0:?} is already registered")]
    Taken(String),
}

/// Vaults of the embedding program, by name, with the secrets that were read. Cheap to clone; clones share what was
/// read. A configuration that is loaded has what it reads for itself.
#[derive(Clone, Default)]
pub struct Vaults {
    named: BTreeMap<String, Arc<dyn Vault>>,
    kept: Arc<Mutex<BTreeMap<VaultReference, Secret>>>,
}

/// Secrets that a configuration is made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VaultReads {
    /// All are read again.
    All,
    /// Those are read that were never read.
    Unknown,
    /// None is read: those that were are used.
    Nothing,
}

impl Vaults {
    /// Creates an empty set, of which a configuration can name none.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a vault, whose secrets are written `vault.NAME/REFERENCE`. Fails if the name is not valid or taken.
    pub fn with(mut self, name: &str, vault: Arc<dyn Vault>) -> Result<Self, BadVault> {
        if !is_name(name) {
            return Err(BadVault::Name(name.to_owned()));
        }
        if self.named.contains_key(name) {
            return Err(BadVault::Taken(name.to_owned()));
        }
        self.named.insert(name.to_owned(), vault);
        Ok(self)
    }

    /// Returns the same vaults without what was read. What one configuration names no more, another may.
    pub(super) fn unread(&self) -> Self {
        Self { named: self.named.clone(), kept: Arc::default() }
    }

    /// Attempts to make settings until they lack no secret that can be read.
    pub(super) async fn resolve<T>(
        &self,
        reads: VaultReads,
        attempt: impl Fn(&VaultSecrets<'_>) -> T,
    ) -> T {
        let deadline = Instant::now() + VAULT_DEADLINE;
        let mut secrets = VaultSecrets::new(self, reads);
        loop {
            let made = attempt(&secrets);
            let lacking = secrets.take_lacking();
            if lacking.is_empty() {
                self.keep(secrets, reads);
                return made;
            }
            drop(made);
            secrets.read(lacking, deadline).await;
        }
    }

    /// Does the same on a blocking thread of a runtime. Outside a runtime, nothing is read.
    pub(super) fn resolve_blocking<T>(
        &self,
        reads: VaultReads,
        attempt: impl Fn(&VaultSecrets<'_>) -> T,
    ) -> T {
        match Handle::try_current() {
            Ok(runtime) if reads != VaultReads::Nothing && !self.named.is_empty() => {
                runtime.block_on(self.resolve(reads, attempt))
            }
            Ok(_) | Err(_) => attempt(&VaultSecrets::new(self, VaultReads::Nothing)),
        }
    }

    /// Keeps the secrets that were read. Those that no configuration names any more are forgotten once all others
    /// were read again.
    fn keep(&self, secrets: VaultSecrets<'_>, reads: VaultReads) {
        let is_whole = reads == VaultReads::All && secrets.known.values().all(Result::is_ok);
        let mut kept = self.kept.lock();
        if is_whole {
            kept.clear();
        }
        let read = secrets.known.into_iter();
        kept.extend(read.filter_map(|(reference, found)| Some((reference, found.ok()?))));
    }

    /// Reads one secret. The error is a message for the operator.
    async fn ask(&self, reference: &VaultReference, deadline: Instant) -> Result<Secret, String> {
        let VaultReference { vault: name, secret } = reference;
        let Some(vault) = self.named.get(name) else { return Err(self.unregistered(name)) };
        // A panic would end the task that watches the configuration, and no change had an effect any more.
        let asking = AssertUnwindSafe(async { vault.secret(secret).await }).catch_unwind();
        let asked = timeout_at(deadline, asking).await;
        let asked = asked.map(|asked| {
            asked.unwrap_or_else(|_| Err(VaultFailure::Unavailable("it panicked".into())))
        });
        match asked {
            Err(_) => Err(format!(
                "the vault {name} did not return the secret {secret:?} within {VAULT_DEADLINE:?}"
            )),
            Ok(Err(failure)) => Err(format!(
                "the vault {name} did not return the secret {secret:?}: {}",
                cut(visible_line(&with_causes(&failure)), MAX_MESSAGE_BYTES)
            )),
            Ok(Ok(found)) if found.expose().is_empty() => {
                Err(format!("the secret {secret:?} of the vault {name} is empty"))
            }
            Ok(Ok(found)) if found.expose().len() > MAX_BYTES => Err(format!(
                "the secret {secret:?} of the vault {name} has more than {MAX_BYTES} bytes"
            )),
            Ok(Ok(found)) => Ok(found),
        }
    }

    fn unregistered(&self, name: &str) -> String {
        let known: Vec<_> = self.named.keys().map(String::as_str).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        format!(
            "no vault is named {name:?}; the program that runs the gateway has registered {known}"
        )
    }
}

impl fmt::Debug for Vaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.named.keys()).finish()
    }
}

/// The secrets of one attempt to make settings.
pub(super) struct VaultSecrets<'v> {
    vaults: &'v Vaults,
    known: BTreeMap<VaultReference, Result<Secret, String>>,
    /// References that were looked up and are not known.
    lacking: Mutex<BTreeSet<VaultReference>>,
}

impl<'v> VaultSecrets<'v> {
    fn new(vaults: &'v Vaults, reads: VaultReads) -> Self {
        let known = match reads {
            VaultReads::All => BTreeMap::new(),
            VaultReads::Unknown | VaultReads::Nothing => {
                let kept = vaults.kept.lock();
                kept.iter().map(|(known, secret)| (known.clone(), Ok(secret.clone()))).collect()
            }
        };
        Self { vaults, known, lacking: Mutex::default() }
    }

    /// Returns the vaults.
    pub(super) fn vaults(&self) -> &'v Vaults {
        self.vaults
    }

    /// Finds a secret. The error is a message for the operator.
    pub(super) fn find(&self, reference: &VaultReference) -> Result<Secret, String> {
        if !self.vaults.named.contains_key(&reference.vault) {
            return Err(self.vaults.unregistered(&reference.vault));
        }
        self.known.get(reference).cloned().unwrap_or_else(|| {
            self.lacking.lock().insert(reference.clone());
            let VaultReference { vault, secret } = reference;
            Err(format!("the secret {secret:?} of the vault {vault} was not read"))
        })
    }

    fn take_lacking(&mut self) -> BTreeSet<VaultReference> {
        std::mem::take(self.lacking.get_mut())
    }

    async fn read(&mut self, references: BTreeSet<VaultReference>, deadline: Instant) {
        let vaults = self.vaults;
        let reading = references.into_iter().map(|reference| async move {
            let found = vaults.ask(&reference, deadline).await;
            (reference, found)
        });
        let read = join_all(reading).await;
        self.known.extend(read);
    }
}
