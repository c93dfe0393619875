use std::time::UNIX_EPOCH;

use futures_util::FutureExt as _;

use super::*;
use crate::tool::Exclusions;

const NEW: &str = "sk-bf-the-new-credential";
const OLD: &str = "sk-bf-the-old-credential";

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

fn key(credential: &str) -> VirtualKey {
    VirtualKey::new("ann", credential, BTreeMap::new())
}

fn rotated() -> VirtualKey {
    key(NEW).with_previous(credential_digest(OLD), at(100))
}

#[test]
fn an_expired_key_is_refused_from_its_time_on_and_still_has_its_name() {
    let keys = Keys::new([rotated().with_expiry(Some(at(50)))]);
    for credential in [NEW, OLD] {
        assert!(keys.find(credential, None, at(49)).is_some(), "{credential}");
        assert!(keys.find(credential, None, at(50)).is_none(), "{credential}");
    }
    assert!(keys.named("ann").is_some_and(|key| key.has_expired(at(50))));
    assert!(!key(NEW).has_expired(at(u64::from(u32::MAX))));
}

#[test]
fn a_rotated_key_has_one_tenant_and_its_previous_credential_is_valid_until_its_time() {
    let keys = Keys::new([rotated()]);
    let new = keys.find(NEW, None, at(99)).expect("the new credential");
    let old = keys.find(OLD, None, at(99)).expect("the old credential");
    assert_eq!(new.tenant(), old.tenant());
    assert!(keys.find(OLD, None, at(100)).is_none());
    assert!(keys.find(NEW, None, at(100)).is_some());
    assert_eq!(keys.iter().count(), 1);
}

#[test]
fn a_digest_makes_the_same_key_as_its_credential_and_an_identifier_another_tenant() {
    let by_digest = VirtualKey::from_digest("ann", credential_digest(NEW), Grants::default());
    assert_eq!(by_digest, key(NEW));
    let tenant = key(NEW).with_id("7").tenant().clone();
    assert_ne!(tenant, *key(NEW).tenant());
    assert_eq!(tenant, *key(OLD).with_id("7").tenant());
    assert_ne!(tenant, *key(NEW).with_id("8").tenant());
    // The tag keeps identifiers apart from credentials.
    assert_ne!(key(NEW).with_id(OLD).tenant(), key(OLD).tenant());
}

#[test]
fn replaced_keys_are_seen_by_every_clone_and_a_snapshot_keeps_its_own() {
    let live = LiveKeys::new(Keys::new([key(OLD)]));
    let clone = live.clone();
    let before = live.snapshot();
    clone.replace(Keys::new([key(NEW)]));
    assert!(live.find(OLD, None, at(0)).is_none() && live.find(NEW, None, at(0)).is_some());
    assert!(live.named("ann").is_some_and(|found| *found == key(NEW)));
    assert!(before.find(OLD, None, at(0)).is_some());
}

#[test]
fn the_rights_of_a_request_last_until_its_key_is_removed_expires_or_has_others() {
    let own = key(NEW);
    let never = Duration::MAX;
    let other = VirtualKey::from_digest("ann", credential_digest(NEW), grants("read", &[], "x:1"));
    let bound = key(NEW).with_certificates([CertificateDigest::from_der(b"own")].into());
    for (now, left) in [
        (vec![own.clone()], never),
        (vec![], Duration::ZERO),
        (vec![other], Duration::ZERO),
        (vec![bound], Duration::ZERO),
        (vec![own.clone().with_id("7")], Duration::ZERO),
        (vec![own.clone().with_expiry(Some(at(50)))], Duration::from_secs(40)),
        (vec![own.clone().with_expiry(Some(at(10)))], Duration::ZERO),
    ] {
        assert_eq!(Keys::new(now.clone()).time_left(&own, at(10)), left, "{now:?}");
    }
    // The credential before a rotation, and a key that expires earlier than it does now.
    let keys = Keys::new([rotated().with_id("7")]);
    let before = key(OLD).with_id("7");
    assert_eq!(keys.time_left(&before, at(10)), Duration::from_secs(90));
    assert_eq!(keys.time_left(&before, at(100)), Duration::ZERO);
    // The same credential, of a request after the rotation.
    let after = keys.find(OLD, None, at(10)).expect("it is still valid");
    assert_eq!(keys.time_left(&after, at(10)), Duration::from_secs(90));
    let current = keys.find(NEW, None, at(10)).expect("the key");
    assert_eq!(keys.time_left(&current, at(10)), never);
    let token =
        key(NEW).with_id("7").with_expiry(Some(at(70))).expiring_by(at(20)).expiring_by(at(60));
    assert_eq!(keys.time_left(&token, at(10)), Duration::from_secs(10));
}

#[test]
fn a_request_finds_its_key_again_with_the_grants_of_now_unless_it_was_taken_away() {
    let own = key(NEW);
    let narrowed =
        VirtualKey::from_digest("ann", credential_digest(NEW), grants("read", &[], "x:1"));
    let bound = key(NEW).with_certificates([CertificateDigest::from_der(b"own")].into());
    for (now, expected) in [
        (Some(own.clone()), Some(own.clone())),
        (Some(narrowed.clone()), Some(narrowed)),
        (Some(bound), None),
        (Some(own.clone().with_id("7")), None),
        (Some(own.clone().with_expiry(Some(at(1)))), None),
        (None, None),
    ] {
        let found = LiveKeys::new(Keys::new(now)).current(&own);
        assert_eq!(found.as_deref(), expected.as_ref());
    }
    let user = User { issuer: "i".to_owned(), subject: "s".to_owned() };
    let keys = Keys::default().with_roles(role("x:1"));
    let of_user = keys.view("roles:a").expect("it exists").on_behalf_of(user);
    assert!(LiveKeys::new(keys).current(&of_user).is_some());
    assert!(LiveKeys::default().current(&of_user).is_none());
}

#[test]
fn the_rights_of_a_user_last_as_long_as_those_of_the_view() {
    let user = User { issuer: "i".to_owned(), subject: "s".to_owned() };
    let keys = Keys::default().with_roles(role("x:1"));
    let of_user = keys.view("roles:a").expect("it exists").on_behalf_of(user);
    assert_eq!(keys.time_left(&of_user, at(0)), Duration::MAX);
    let narrowed = keys.with_roles(role("x:2"));
    assert_eq!(narrowed.time_left(&of_user, at(0)), Duration::ZERO);
}

fn role(resource: &str) -> BTreeMap<String, Grants> {
    [("a".to_owned(), grants("read", &[], resource))].into()
}

#[tokio::test]
async fn the_end_of_a_key_is_noticed_when_the_keys_are_replaced() {
    let live = LiveKeys::new(Keys::new([key(NEW)]));
    let own = key(NEW);
    let mut ended = Box::pin(live.ended(&own));
    assert!((&mut ended).now_or_never().is_none());
    live.replace(Keys::new([key(NEW), key(OLD)]));
    assert!((&mut ended).now_or_never().is_none(), "it is still there");
    live.replace(Keys::new([key(OLD)]));
    ended.await;
    live.ended(&own).await;
}

#[test]
fn keys_are_printed_without_their_digests() {
    let printed = format!("{:?}", Keys::new([rotated()]));
    assert_eq!(printed, r#"[VirtualKey { name: "ann", rows: {}, .. }]"#);
}

fn client(name: &str) -> ClientName {
    ClientName::parse(name).expect("a name")
}

fn grants(tool: &str, excluded: &[&str], resource: &str) -> Grants {
    let row = Allowlist::parse(&[tool]).expect("a good list");
    let resources = UriList::parse(&[resource]).expect("a good list");
    let relayed = RelayRow { resources, ..RelayRow::default() };
    Grants {
        rows: [(client("fs"), row)].into(),
        excluded: [(client("fs"), Exclusions::parse(excluded).expect("a good list"))].into(),
        relayed: [(client("fs"), relayed)].into(),
        ..Grants::default()
    }
}

#[test]
fn a_view_of_roles_has_the_rows_of_all_of_them_and_an_exclusion_of_one_counts_for_all() {
    let roles = [("a", grants("read", &["drop"], "x:1")), ("b", grants("*", &[], "x:2"))];
    let roles = roles.map(|(name, grants)| (name.to_owned(), grants));
    let keys = Keys::new([key(NEW)]).with_roles(BTreeMap::from(roles));
    let both = keys.view(&roles_view(&["a".to_owned(), "b".to_owned()])).expect("both exist");
    assert_eq!(both.name, "roles:a,b");
    assert_eq!(both.grants.rows[&client("fs")], Allowlist::All);
    assert!(both.grants.excluded[&client("fs")].covers_name("drop"));
    let resources = &both.grants.relayed[&client("fs")].resources;
    assert!(resources.allows("x:1") && resources.allows("x:2") && !resources.allows("x:3"));
    let one = keys.view("roles:a").expect("it exists");
    assert!(one.grants.rows[&client("fs")].allows("read"));
    assert!(!one.grants.rows[&client("fs")].allows("write"));
    let keys = keys.with_views(["roles:a", "roles:a,c", "ann"]);
    let made = keys.view("roles:a").expect("it exists");
    assert!(made == one && Arc::ptr_eq(&made, &keys.view("roles:a").expect("it is kept")));
    assert_eq!(keys.view("roles:a,b"), Some(both), "another view");
    for gone in ["roles:a,c", "roles:", "a", "roles:ann"] {
        assert!(keys.view(gone).is_none(), "{gone}");
    }
    assert_eq!(keys.view("ann"), keys.named("ann").cloned());
    assert!(keys.find("roles:a", None, at(0)).is_none() && keys.named("roles:a").is_none());
}

#[test]
fn a_key_with_certificates_is_found_with_one_of_them_alone() {
    let [own, renewed, other] =
        [b"own", b"new", b"any"].map(|der| CertificateDigest::from_der(der));
    let bound = rotated().with_certificates([own, renewed].into());
    let free = VirtualKey::new("bob", "sk-bf-bob", BTreeMap::new());
    let keys = Keys::new([bound, free]);
    for credential in [NEW, OLD] {
        for (shown, is_found) in
            [(Some(own), true), (Some(renewed), true), (Some(other), false), (None, false)]
        {
            assert_eq!(keys.find(credential, shown, at(0)).is_some(), is_found, "{shown:?}");
        }
    }
    for shown in [Some(own), None] {
        assert!(keys.find("sk-bf-bob", shown, at(0)).is_some(), "{shown:?}");
    }
    let user = User { issuer: "i".to_owned(), subject: "s".to_owned() };
    assert!(!keys.named("ann").is_some_and(|key| key.on_behalf_of(user).permits(None)));
}
