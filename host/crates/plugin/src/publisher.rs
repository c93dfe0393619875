//! Publishers of plugins, and the signatures that they make with `minisign`.

use std::collections::BTreeMap;

use minisign_verify::{Error as MinisignError, PublicKey, Signature};

use airlock_lock::Pin;

/// Maximum size of a signature, in bytes. One of `minisign` has about 300, with its comments. A registry or a server sends
/// it, and it is held before anything of it is checked.
pub const MAX_SIGNATURE_BYTES: u64 = 4 << 10;

/// The publishers whose signatures count, by their names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Publishers {
    keys: BTreeMap<String, PublisherKey>,
    is_required: bool,
}

/// The public key of a publisher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublisherKey(PublicKey);

/// Reason that a text is no public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected a public key of minisign: the second line of `minisign.pub`, such as RWQ…")]
pub struct BadPublisherKey;

/// Reason that a component has no valid signature.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// There is no signature, and one is required.
    #[error(
        "the component is not signed, and `plugins.require_signature` requires a signature of a publisher: {known}"
    )]
    Unsigned {
        /// Names of the publishers.
        known: String,
    },
    /// The signature is of no publisher, and one is required.
    #[error("the component is signed with a key of no publisher in `plugins.publishers`: {known}")]
    OtherKey {
        /// Names of the publishers.
        known: String,
    },
    /// The signature is of a publisher, and not of this component.
    #[error(
        "the signature with the key of {publisher} is not that of this component: one of both was changed"
    )]
    Tampered {
        /// Name of the publisher.
        publisher: String,
    },
    /// The signature cannot be read.
    #[error("the signature is not one of minisign")]
    Malformed,
    /// The signature has a format that is not supported.
    #[error("the signature has the legacy format of minisign: sign without `-l`")]
    Legacy,
    /// The lock file names no publisher that counts.
    #[error(
        "`plugins.require_signature` requires a publisher of `plugins.publishers`, and `airlock.lock` names {found} for it; install or accept it again, with its signature"
    )]
    NotPinned {
        /// The publisher in the lock file, or `none`.
        found: String,
    },
    /// The component is in the store, which has no signatures.
    #[error(
        "`plugins.require_signature` requires a signature, and a component that is uploaded has none: install it with `airlock plugin install`"
    )]
    Uploaded,
}

impl PublisherKey {
    /// Parses a public key, the second line of the file that `minisign -G` writes.
    pub fn parse(text: &str) -> Result<Self, BadPublisherKey> {
        PublicKey::from_base64(text.trim()).map(Self).map_err(|_| BadPublisherKey)
    }
}

impl Publishers {
    /// Creates the publishers of a gateway. With `is_required`, only their components are accepted and
    /// loaded.
    pub fn new(keys: BTreeMap<String, PublisherKey>, is_required: bool) -> Self {
        Self { keys, is_required }
    }

    /// Returns the publisher who signed a component; `None` if it is not signed, or with a key of none of
    /// them. Fails if a signature is required and there is none of a publisher, and always if a signature of
    /// one is not valid.
    pub fn publisher(
        &self,
        component: &[u8],
        signature: Option<&str>,
    ) -> Result<Option<&str>, SignatureError> {
        let Some(text) = signature else {
            return self.without_publisher(SignatureError::Unsigned { known: self.known() });
        };
        let signature = Signature::decode(text).map_err(|_| SignatureError::Malformed)?;
        for (name, PublisherKey(key)) in &self.keys {
            match key.verify(component, &signature, false) {
                Ok(()) => return Ok(Some(name.as_str())),
                Err(MinisignError::UnexpectedKeyId) => {}
                Err(MinisignError::UnexpectedAlgorithm) => return Err(SignatureError::Legacy),
                Err(_) => return Err(SignatureError::Tampered { publisher: name.clone() }),
            }
        }
        self.without_publisher(SignatureError::OtherKey { known: self.known() })
    }

    /// Fails if a signature is required and an accepted plugin has none of a publisher. Its digest was
    /// checked when it was accepted.
    pub fn check_pin(&self, pin: Option<&Pin>) -> Result<(), SignatureError> {
        let publisher = pin.and_then(|pin| pin.publisher.as_ref());
        if !self.is_required || publisher.is_some_and(|name| self.keys.contains_key(name)) {
            return Ok(());
        }
        let found = publisher.cloned().unwrap_or_else(|| "none".to_owned());
        Err(SignatureError::NotPinned { found })
    }

    /// Fails if a signature is required: a component of the store has none.
    pub fn check_uploaded(&self) -> Result<(), SignatureError> {
        if self.is_required { Err(SignatureError::Uploaded) } else { Ok(()) }
    }

    fn without_publisher(&self, error: SignatureError) -> Result<Option<&str>, SignatureError> {
        if self.is_required { Err(error) } else { Ok(None) }
    }

    /// Returns the names of the publishers, for a message.
    fn known(&self) -> String {
        let names: Vec<_> =
            self.keys.keys().take(airlock_strings::MAX_NAMED).map(String::as_str).collect();
        if names.is_empty() { "none is configured".to_owned() } else { names.join(", ") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPONENT: &[u8] = b"wasm";
    const ANN: &str = "RWRLp0qAmXAiFOHePhm8QeNW43riADgFksLThhuAg4Lo2QLkNZh/rQ7d";
    const BOB: &str = "RWT/ojpKM7WpFPnXHYUWyAU2SFQRB28Gw1Ws2xpyv7UzTY5/mRZcmBJM";
    /// Signature of the component with the key of Ann.
    const SIGNATURE: &str = "untrusted comment: signature from minisign secret key\n\
        RURLp0qAmXAiFNk+gqQ1HHO+yXJnjhCM37ylP4xZ0s9EwGzun3y9o7mQ2HuOcR1WzL2C7vlYgpDbAzhV/XQqY8vADRw9eal69Qs=\n\
        trusted comment: trusted\n\
        Q3F8IEipZ73U0FeurTjvsd+SmhpgSNNipsEMZDpmgk+blGI+TsrO2bExBmx7phVZJFiRZSMrQ/+a9S2XFJCQBA==\n";

    fn publishers(keys: &[(&str, &str)], is_required: bool) -> Publishers {
        let keys = keys.iter().map(|(name, key)| {
            ((*name).to_owned(), PublisherKey::parse(key).expect("a public key"))
        });
        Publishers::new(keys.collect(), is_required)
    }

    #[test]
    fn a_signature_names_the_publisher_whose_key_made_it() {
        let both = publishers(&[("ann", ANN), ("bob", BOB)], true);
        assert_eq!(both.publisher(COMPONENT, Some(SIGNATURE)), Ok(Some("ann")));
        let lines = SIGNATURE.replace('\n', "\r\n");
        assert_eq!(both.publisher(COMPONENT, Some(&lines)), Ok(Some("ann")));
    }

    #[test]
    fn without_a_requirement_an_unsigned_component_and_another_key_have_no_publisher() {
        let bob = publishers(&[("bob", BOB)], false);
        assert_eq!(bob.publisher(COMPONENT, None), Ok(None));
        assert_eq!(bob.publisher(COMPONENT, Some(SIGNATURE)), Ok(None));
        assert_eq!(Publishers::default().publisher(COMPONENT, Some(SIGNATURE)), Ok(None));
        assert!(bob.check_pin(None).is_ok() && bob.check_uploaded().is_ok());
    }

    #[test]
    fn a_required_signature_must_be_of_a_publisher() {
        let bob = publishers(&[("bob", BOB)], true);
        insta::assert_snapshot!(bob.publisher(COMPONENT, None).expect_err("refused"), @"the component is not signed, and `plugins.require_signature` requires a signature of a publisher: bob");
        insta::assert_snapshot!(bob.publisher(COMPONENT, Some(SIGNATURE)).expect_err("refused"), @"the component is signed with a key of no publisher in `plugins.publishers`: bob");
        assert_eq!(bob.check_uploaded(), Err(SignatureError::Uploaded));
    }

    #[test]
    fn a_changed_component_and_a_changed_signature_are_refused_also_without_a_requirement() {
        let ann = publishers(&[("ann", ANN)], false);
        let tampered = Err(SignatureError::Tampered { publisher: "ann".to_owned() });
        assert_eq!(ann.publisher(b"mask", Some(SIGNATURE)), tampered);
        let comment = SIGNATURE.replace("trusted comment: trusted", "trusted comment: other");
        assert_eq!(ann.publisher(COMPONENT, Some(&comment)), tampered);
        for text in ["", "untrusted comment: x\nAAAA\n", &SIGNATURE[..100]] {
            let refused = ann.publisher(COMPONENT, Some(text));
            assert_eq!(refused, Err(SignatureError::Malformed), "{text}");
        }
    }

    #[test]
    fn an_accepted_plugin_of_a_publisher_that_was_removed_is_refused() {
        let client = airlock_core::tool::ClientName::parse("guest").expect("a name");
        let metadata = crate::Metadata::new(COMPONENT, Vec::new(), None, Vec::new());
        let pin = Pin { publisher: Some("ann".to_owned()), ..metadata.pin(&client) };
        assert_eq!(publishers(&[("ann", ANN)], true).check_pin(Some(&pin)), Ok(()));
        let bob = publishers(&[("bob", BOB)], true);
        let refused = SignatureError::NotPinned { found: "ann".to_owned() };
        assert_eq!(bob.check_pin(Some(&pin)), Err(refused));
        let refused = SignatureError::NotPinned { found: "none".to_owned() };
        assert_eq!(bob.check_pin(Some(&metadata.pin(&client))), Err(refused.clone()));
        assert_eq!(bob.check_pin(None), Err(refused));
    }

    #[test]
    fn a_text_that_is_no_public_key_is_refused() {
        for text in ["", "RWQ", &ANN[..20], "untrusted comment: minisign public key"] {
            assert_eq!(PublisherKey::parse(text), Err(BadPublisherKey), "{text}");
        }
    }
}
