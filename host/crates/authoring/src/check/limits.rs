//! Compares the requested limits with the ceilings of the profiles.

use crate::{Check, CheckOutcome, Finding};
use airlock_core::{
    limit::{GuestLimit, GuestLimitSet},
    profile::Profile,
};

const CHECK: &str = "every profile grants the limits that it requests";

/// Warns of a limit that only a trusted plugin gets, and fails for one that no plugin gets.
pub(super) fn check(requested: &GuestLimitSet) -> Check {
    let is_impossible = beyond(requested, Profile::Trusted).next().is_some();
    let outcome = if is_impossible { CheckOutcome::Fail } else { CheckOutcome::Warn };
    let findings =
        beyond(requested, Profile::Untrusted).map(|(limit, amount)| finding(limit, amount));
    Check::unless(CHECK, outcome, findings)
}

fn beyond(requested: &GuestLimitSet, profile: Profile) -> impl Iterator<Item = (GuestLimit, u64)> {
    requested.amounts().filter(move |(limit, amount)| *amount > profile.maximum(*limit))
}

fn finding(limit: GuestLimit, amount: u64) -> Finding {
    let untrusted = limit.show(Profile::Untrusted.maximum(limit));
    let trusted = limit.show(Profile::Trusted.maximum(limit));
    let requested = limit.show(amount);
    let most = format!(
        "the profile \"untrusted\" grants at most {untrusted}, and \"trusted\" at most {trusted}"
    );
    let (found, write) = if amount > Profile::Trusted.maximum(limit) {
        (
            format!("requests {requested}, which no configuration grants; {most}"),
            format!("at most {trusted}"),
        )
    } else {
        (
            format!("requests {requested}; {most}"),
            format!("at most {untrusted}, if the plugin is to work without \"trusted\""),
        )
    };
    Finding::from(found).of_key(format!("request.limits.{}", limit.key())).write(write)
}

#[cfg(test)]
mod tests {
    use airlock_manifest::FILE;

    use super::*;

    fn checked(limits: &[(GuestLimit, u64)]) -> (CheckOutcome, String) {
        let set = limits
            .iter()
            .fold(GuestLimitSet::default(), |set, (limit, amount)| set.with(*limit, *amount));
        let Check { outcome, details, .. } = check(&set);
        let lines = details.iter().flat_map(Finding::lines);
        (outcome, lines.collect::<Vec<_>>().join("\n"))
    }

    #[test]
    fn a_limit_within_every_profile_passes_up_to_its_edge() {
        assert_eq!(checked(&[]), (CheckOutcome::Pass, String::new()));
        for limit in GuestLimit::ALL {
            assert_eq!(
                checked(&[(limit, limit.default_amount())]).0,
                CheckOutcome::Pass,
                "{limit:?}"
            );
            let more = checked(&[(limit, limit.default_amount() + 1)]).0;
            assert_ne!(more, CheckOutcome::Pass, "{limit:?}");
            let most = checked(&[(limit, limit.trusted_maximum())]).0;
            assert_ne!(most, CheckOutcome::Fail, "{limit:?}");
            let beyond = checked(&[(limit, limit.trusted_maximum() + 1)]).0;
            assert_eq!(beyond, CheckOutcome::Fail, "{limit:?}");
        }
    }

    #[test]
    fn each_limit_beyond_a_profile_is_found_with_what_the_profiles_grant() {
        let minutes = 60 * 1_000_000_000;
        let (outcome, text) =
            checked(&[(GuestLimit::HttpTimeout, 5 * minutes), (GuestLimit::Memory, 1)]);
        assert_eq!(outcome, CheckOutcome::Warn);
        insta::assert_snapshot!(text, @r#"
        plugin.toml: request.limits.http_timeout: requests 5m; the profile "untrusted" grants at most 30s, and "trusted" at most 1h
          write: at most 30s, if the plugin is to work without "trusted"
        "#);
        let (outcome, text) = checked(&[
            (GuestLimit::HttpTimeout, 9 * 60 * minutes),
            (GuestLimit::Memory, 4 << 30),
            (GuestLimit::Fuel, 2_000_000_000),
        ]);
        assert_eq!(outcome, CheckOutcome::Fail);
        insta::assert_snapshot!(text, @r#"
        plugin.toml: request.limits.fuel: requests 2000000000; the profile "untrusted" grants at most 1000000000, and "trusted" at most 1000000000000
          write: at most 1000000000, if the plugin is to work without "trusted"
        plugin.toml: request.limits.memory: requests 4GiB, which no configuration grants; the profile "untrusted" grants at most 64MiB, and "trusted" at most 1GiB
          write: at most 1GiB
        plugin.toml: request.limits.http_timeout: requests 9h, which no configuration grants; the profile "untrusted" grants at most 30s, and "trusted" at most 1h
          write: at most 1h
        "#);
    }

    #[test]
    fn a_limit_is_found_at_its_line() {
        let home = tempfile::tempdir().expect("a directory");
        let text = "id = 'p'\n\n[request.limits]\nmemory = '4GiB'\n";
        std::fs::write(home.path().join(FILE), text).expect("a file");
        let source = airlock_manifest::read(home.path()).expect("it is TOML").expect("a file");
        let mut found = finding(GuestLimit::Memory, 4 << 30);
        found.locate(&source);
        assert!(
            found.to_string().starts_with("plugin.toml:4:1: request.limits.memory: "),
            "{found}"
        );
    }
}
