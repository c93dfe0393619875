//! Limits of one call: the granted amount, else the requested one, else the default, and never more
//! than the profile permits.

use std::time::Duration;

use super::Intersection;
use airlock_core::limit::{GuestLimit, saturating_u32, saturating_usize};
use airlock_egress::Bounds;
use airlock_sandbox::Limits;

impl Intersection<'_> {
    pub(super) fn limits(&mut self) -> Limits {
        Limits {
            fuel: self.amount(GuestLimit::Fuel),
            cpu: Duration::from_nanos(self.amount(GuestLimit::CpuTime)),
            deadline: Duration::from_nanos(self.amount(GuestLimit::Deadline)),
            memory_bytes: saturating_usize(self.amount(GuestLimit::Memory)),
            table_elements: saturating_usize(self.amount(GuestLimit::TableElements)),
            handles: saturating_usize(self.amount(GuestLimit::Handles)),
            copied_bytes: saturating_usize(self.amount(GuestLimit::Copied)),
            host_calls: saturating_u32(self.amount(GuestLimit::HostCalls)),
            result_bytes: saturating_usize(self.amount(GuestLimit::Result)),
            log_lines: saturating_u32(self.amount(GuestLimit::LogLines)),
            log_line_bytes: saturating_usize(self.amount(GuestLimit::LogLine)),
        }
    }

    pub(super) fn bounds(&mut self) -> Bounds {
        Bounds {
            requests: saturating_u32(self.amount(GuestLimit::HttpRequests)),
            in_flight: Bounds::PLUGIN.in_flight,
            request_bytes: saturating_usize(self.amount(GuestLimit::HttpRequest)),
            response_bytes: saturating_usize(self.amount(GuestLimit::HttpResponse)),
            response_header_bytes: Bounds::PLUGIN.response_header_bytes,
            timeout: Duration::from_nanos(self.amount(GuestLimit::HttpTimeout)),
            redirects: saturating_u32(self.amount(GuestLimit::HttpRedirects)),
        }
    }

    /// Computes one limit. The result is never above the requested amount or the maximum of the
    /// profile.
    fn amount(&mut self, limit: GuestLimit) -> u64 {
        let key = limit.key();
        let profile = self.profile();
        let maximum = profile.maximum(limit);
        let granted = self.grant.limits.get(limit);
        let requested = self.requests.and_then(|requests| requests.limits.get(limit));
        if let Some(excess) = granted.filter(|granted| *granted > maximum) {
            let excess = limit.show(excess);
            let maximum = limit.show(maximum);
            let profile = profile.name();
            let problem =
                format!("found {excess}, the profile {profile:?} allows at most {maximum}");
            self.refuse(format!("limits.{key}"), problem);
        }
        let amount = granted.or(requested).unwrap_or(limit.default_amount()).min(maximum);
        match requested {
            Some(requested) if requested > amount => {
                let amount = limit.show(amount);
                let requested = limit.show(requested);
                self.notes
                    .push(format!("limits.{key} is {amount}; the plugin requests {requested}"));
            }
            _ => {}
        }
        requested.map_or(amount, |requested| requested.min(amount))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Grant;
    use airlock_compile::MAX_MEMORY_BYTES;
    use airlock_core::{limit::GuestLimitSet, profile::Profile};

    /// Returns the limits and bounds of a trusted plugin without a manifest.
    fn granted(limits: GuestLimitSet) -> (Limits, Bounds) {
        let grant = Grant { profile: Profile::Trusted, limits, ..Grant::default() };
        let mut sides =
            Intersection { requests: None, grant: &grant, refusals: Vec::new(), notes: Vec::new() };
        let both = (sides.limits(), sides.bounds());
        assert!(sides.refusals.is_empty() && sides.notes.is_empty());
        both
    }

    #[test]
    fn the_default_of_every_limit_is_that_of_the_sandbox_and_of_egress() {
        let (limits, bounds) = granted(GuestLimitSet::default());
        // The deadline of the caller applies too, and is shorter.
        let deadline = Duration::from_nanos(GuestLimit::Deadline.default_amount());
        assert_eq!(limits, Limits { deadline, ..Limits::PLUGIN });
        assert_eq!(bounds, Bounds::PLUGIN);
    }

    #[test]
    fn every_limit_of_the_table_reaches_the_sandbox_or_egress() {
        let default = granted(GuestLimitSet::default());
        let mut seen = vec![default];
        for limit in GuestLimit::ALL {
            let with = granted(GuestLimitSet::default().with(limit, limit.minimum()));
            assert!(!seen.contains(&with), "{limit:?} has no effect of its own");
            seen.push(with);
        }
    }

    #[test]
    fn a_trusted_plugin_may_use_all_memory_that_the_engine_can_provide() {
        assert_eq!(Profile::Trusted.maximum(GuestLimit::Memory), MAX_MEMORY_BYTES as u64);
    }
}
