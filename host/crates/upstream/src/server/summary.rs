//! The state of a server: that of its only instance, or a summary of several, each of which is listed.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{instance::Instance, state::Server};
use crate::status::ServerPhase;

/// Members of an instance that are those of the server too if it has several: of the one in the best state.
const OF_BEST: [&str; 2] = ["since", "protocol"];
/// Members that are added up.
const SUMS: [&str; 2] = ["restarts", "replacements"];

impl Server {
    /// Returns the members of its entry in the administrative API, without those of its calls.
    pub(crate) fn instances_to_json(&self) -> Map<String, Value> {
        let mut members = match self.instances() {
            [only] => only.status().to_json(),
            several => summary(several),
        };
        // Those of all instances, because the accepted definitions are those of the client.
        members.insert("quarantine".to_owned(), self.quarantine().to_vec().into());
        members
    }
}

fn summary(instances: &[Arc<Instance>]) -> Map<String, Value> {
    let states: Vec<_> = instances.iter().map(|instance| instance.status().to_json()).collect();
    let ranks = instances.iter().map(|instance| rank(instance.status().phase()));
    let best = ranks.zip(0..).min().map_or(0, |(_, index)| index);
    let ready = instances.iter().filter(|instance| instance.rank().is_some()).count();
    let mut members = Map::new();
    members.insert("phase".to_owned(), states[best]["phase"].clone());
    members.insert("reason".to_owned(), reason(instances, &states, ready).into());
    for name in OF_BEST {
        members.insert(name.to_owned(), states[best][name].clone());
    }
    for name in SUMS {
        let numbers: Vec<_> = states.iter().filter_map(|state| state.get(name)?.as_u64()).collect();
        if !numbers.is_empty() {
            members.insert(name.to_owned(), numbers.iter().sum::<u64>().into());
        }
    }
    let attempts = states.iter().filter_map(|state| state["attempts"].as_u64());
    members.insert("attempts".to_owned(), attempts.max().unwrap_or_default().into());
    let is_stale = states.iter().all(|state| state["stale"] == true);
    members.insert("stale".to_owned(), is_stale.into());
    for name in ["last_failure", "last_replacement"] {
        let known = states.iter().filter_map(|state| state.get(name));
        if let Some(last) = known.max_by(|one, other| one["at"].as_str().cmp(&other["at"].as_str()))
        {
            members.insert(name.to_owned(), last.clone());
        }
    }
    let listed = instances.iter().zip(states).map(|(instance, mut state)| {
        state.insert("instance".to_owned(), instance.number().into());
        state.insert("in_flight".to_owned(), instance.in_flight().into());
        Value::Object(state)
    });
    members.insert("instances".to_owned(), listed.collect());
    members
}

/// Returns how many instances get calls, and the reasons for which others do not.
fn reason(instances: &[Arc<Instance>], states: &[Map<String, Value>], ready: usize) -> String {
    let away = instances.iter().zip(states).filter(|(instance, _)| instance.rank().is_none());
    let away = away.map(|(instance, state)| {
        let phase = state["phase"].as_str().unwrap_or_default();
        format!("; instance {} is {phase}", instance.number())
    });
    format!("{ready} of {} instances get calls{}", instances.len(), away.collect::<String>())
}

/// Returns the order of the states, the best first.
fn rank(phase: ServerPhase) -> usize {
    let order = [
        ServerPhase::Ready,
        ServerPhase::Degraded,
        ServerPhase::Stopped,
        ServerPhase::Starting,
        ServerPhase::HeldOut,
        ServerPhase::Restarting,
        ServerPhase::Failed,
    ];
    order.iter().position(|known| *known == phase).unwrap_or(order.len())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::runtime::Handle;

    use super::*;
    use crate::server::ServerAccess;
    use airlock_core::tool::ClientName;
    use airlock_mcp_client::{Process, Settings};

    #[tokio::test]
    async fn a_server_is_in_the_best_state_of_its_instances_each_of_which_is_listed() {
        let name = ClientName::parse("up").expect("a good name");
        let mut settings = Settings::new(name, Process::default());
        settings.others = vec![settings.transport.clone(); 2];
        let server = Server::new(&settings, Handle::current(), None, None);
        let [first, second, third] = server.instances() else { panic!("three instances") };
        first.status().enter(ServerPhase::Ready, "it listed 3 tools");
        first.status().enter(ServerPhase::Restarting, "it ended");
        second.status().enter(ServerPhase::Ready, "it listed 3 tools");
        second.set_access(ServerAccess::OnDemand);
        second.set_admitted(true);
        third.status().enter(ServerPhase::HeldOut, "its tools are others");
        let _running = second.occupy();
        let quarantine: Arc<[String]> = ["delete".to_owned()].into();
        server.set_quarantine(quarantine.clone());
        assert!(Arc::ptr_eq(&server.quarantine(), &quarantine), "it is not copied");
        let state = Value::Object(server.instances_to_json());
        assert_eq!(state["quarantine"], json!(["delete"]));
        assert_eq!(
            state["reason"],
            "1 of 3 instances get calls; instance 1 is restarting; instance 3 is held_out"
        );
        assert_eq!((&state["phase"], &state["restarts"]), (&json!("ready"), &json!(1)));
        assert!(state["last_failure"]["stage"].is_string(), "{state}");
        let listed = state["instances"].as_array().expect("a list").iter();
        let listed: Vec<_> = listed
            .map(|one| {
                assert_eq!(one.get("quarantine"), None, "it is that of the client");
                let phase = one["phase"].as_str().expect("a phase");
                format!("{} {phase} {} {}", one["instance"], one["restarts"], one["in_flight"])
            })
            .collect();
        assert_eq!(listed, ["1 restarting 1 0", "2 ready 0 1", "3 held_out 0 0"]);
    }
}
