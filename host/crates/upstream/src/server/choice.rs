//! Chooses the instance that a call goes to: among those that can take it, the one with the least calls in
//! flight; in turn, if several have as few.

use std::sync::Arc;

use tokio::time::timeout;

use super::{
    access::{ServerAccess, UsedLink},
    instance::{Instance, Occupied},
    permits::Shared,
};
use crate::limits::CALL_PATIENCE;

/// The instance that a call goes to, and its access.
pub(super) struct ChosenInstance {
    pub(super) occupied: Occupied,
    pub(super) access: ServerAccess,
}

/// The instance that has asked a caller something, to which the answers go. A process that is replaced
/// meanwhile lives until this is dropped.
pub(crate) struct Asker {
    pub(super) instance: Arc<Instance>,
    /// The connection over which it has asked; `None` if that has ended with the call.
    pub(super) used: Option<UsedLink>,
}

/// Result of work with an instance.
pub(crate) struct Linked<T> {
    pub(crate) worked: T,
    pub(crate) asker: Asker,
}

impl Shared {
    /// Chooses the instance for a call: the one that it has to go `to`, or one of those whose numbers are not in
    /// `tried`. Waits for one that is started on demand; it is down if it is held out then, or if it does not
    /// start soon and another one runs. `None` if there is none.
    pub(super) async fn way(&self, to: Option<&Asker>, tried: &[usize]) -> Option<ChosenInstance> {
        let Some(asker) = to else {
            let occupied = self.choose(tried)?;
            let access = self.chosen_access(occupied.instance(), tried).await;
            return Some(ChosenInstance { occupied, access });
        };
        let instance = &asker.instance;
        if !instance.is_admitted() || tried.contains(&instance.number()) {
            return None;
        }
        let occupied = instance.occupy();
        let open = asker.used.as_ref().filter(|used| !used.link.inbox().is_disconnected());
        let access = match open {
            Some(used) => ServerAccess::Up(used.clone()),
            None => admitted_access(instance).await,
        };
        Some(ChosenInstance { occupied, access })
    }

    /// Returns whether a call can go to an instance whose number is not in `tried`.
    pub(super) fn has_choice(&self, tried: &[usize]) -> bool {
        let mut others = self.instances.iter().filter(|other| !tried.contains(&other.number()));
        others.any(|instance| instance.rank().is_some())
    }

    /// Returns the access to a chosen instance. One that hangs when it is started may have two minutes for that, in
    /// which most calls reach their deadlines.
    async fn chosen_access(&self, instance: &Instance, tried: &[usize]) -> ServerAccess {
        let number = instance.number();
        let mut others = self.instances.iter();
        let has_other = others.any(|other| {
            other.number() != number && !tried.contains(&other.number()) && other.is_running()
        });
        if !has_other {
            return admitted_access(instance).await;
        }
        timeout(CALL_PATIENCE, admitted_access(instance)).await.unwrap_or(ServerAccess::Down)
    }

    fn choose(&self, tried: &[usize]) -> Option<Occupied> {
        // Held until the call counts, so that two calls at a time see each other.
        let mut turn = self.turn.lock();
        let count = self.instances.len();
        let in_turn = (0..count).map(|step| (*turn + step) % count);
        let ranked = in_turn.filter_map(|index| {
            let instance = &self.instances[index];
            let rank = instance.rank().filter(|_| !tried.contains(&instance.number()))?;
            Some((rank, index))
        });
        // Of equal ones, the first is returned.
        let (_, index) = ranked.min_by_key(|(rank, _)| *rank)?;
        *turn = (index + 1) % count;
        Some(self.instances[index].occupy())
    }
}

/// Returns the way to an instance. It is down if the instance was held out while the call waited.
async fn admitted_access(instance: &Instance) -> ServerAccess {
    let access = instance.access().await;
    if instance.is_admitted() { access } else { ServerAccess::Down }
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Handle;

    use super::{
        super::{Server, instance::tests::link},
        *,
    };
    use airlock_core::tool::ClientName;
    use airlock_mcp_client::{Process, Settings};

    /// Returns a server with three instances, which calls can start.
    fn server() -> Arc<Server> {
        let name = ClientName::parse("up").expect("a good name");
        let mut settings = Settings::new(name, Process::default());
        settings.others = vec![settings.transport.clone(); 2];
        let server = Server::new(&settings, Handle::current(), None, None);
        for instance in server.instances() {
            instance.set_access(ServerAccess::OnDemand);
            instance.set_admitted(true);
        }
        server
    }

    /// Returns the number of the instance that a call goes to, and the call.
    fn chosen(server: &Server, tried: &[usize]) -> Option<(usize, Occupied)> {
        let occupied = server.shared.choose(tried)?;
        Some((occupied.instance().number(), occupied))
    }

    #[tokio::test]
    async fn calls_go_to_the_instance_with_least_of_them_and_in_turn_to_equal_ones() {
        let server = server();
        let mut running: Vec<_> = (0..9).filter_map(|_| chosen(&server, &[])).collect();
        let numbers: Vec<_> = running.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [1, 2, 3, 1, 2, 3, 1, 2, 3]);
        assert!(server.instances().iter().all(|instance| instance.in_flight() == 3));
        running.retain(|(number, _)| *number != 2);
        for _ in 0..3 {
            let next = chosen(&server, &[]).expect("an instance");
            assert_eq!(next.0, 2);
            running.push(next);
        }
        assert!(server.instances().iter().all(|instance| instance.in_flight() == 3));
        drop(running);
        assert!(server.instances().iter().all(|instance| instance.is_idle()));
    }

    #[tokio::test]
    async fn instances_that_are_away_held_out_or_tried_already_are_not_chosen() {
        let server = server();
        let [first, second, third] = server.instances() else { panic!("three instances") };
        first.set_access(ServerAccess::Down);
        second.set_admitted(false);
        assert_eq!(chosen(&server, &[]).map(|(number, _)| number), Some(3));
        assert_eq!(chosen(&server, &[]).map(|(number, _)| number), Some(3));
        assert!(chosen(&server, &[3]).is_none());
        third.set_access(ServerAccess::Down);
        assert!(chosen(&server, &[]).is_none());
    }

    #[tokio::test]
    async fn a_call_that_has_started_an_instance_does_not_reach_it_if_it_is_held_out_then() {
        let server = server();
        let instance = &server.instances()[0];
        let asker = Asker { instance: instance.clone(), used: None };
        for to in [None, Some(&asker)] {
            for is_admitted in [false, true] {
                instance.set_access(ServerAccess::OnDemand);
                instance.set_admitted(true);
                let (link, _peer) = link();
                let starting = async {
                    instance.demanded().await;
                    instance.set_admitted(is_admitted);
                    instance.set_access(ServerAccess::Up(UsedLink::new(link)));
                };
                let (way, ()) = tokio::join!(server.shared.way(to, &[2, 3]), starting);
                let way = way.expect("its instance");
                assert_eq!(matches!(way.access, ServerAccess::Up(_)), is_admitted);
                assert_eq!(matches!(way.access, ServerAccess::Down), !is_admitted);
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_does_not_wait_for_an_instance_that_hangs_at_its_start_while_another_one_runs() {
        let server = server();
        let [first, second, third] = server.instances() else { panic!("three instances") };
        third.set_admitted(false);
        let waiting = timeout(10 * CALL_PATIENCE, server.shared.way(None, &[2]));
        assert!(waiting.await.is_err(), "there is no other");
        let (link, _peer) = link();
        second.set_access(ServerAccess::Up(UsedLink::new(link)));
        let _running = second.occupy();
        let way = server.shared.way(None, &[]).await.expect("the first, which has no call");
        assert_eq!(way.occupied.instance().number(), first.number());
        assert!(matches!(way.access, ServerAccess::Down));
        let way = server.shared.way(None, &[1]).await.expect("the second");
        assert!(matches!(way.access, ServerAccess::Up(_)));
    }

    #[tokio::test]
    async fn the_answers_of_a_caller_go_to_the_instance_that_has_asked_and_to_no_other() {
        let server = server();
        let instance = server.instances()[1].clone();
        let asker = Asker { instance: instance.clone(), used: None };
        instance.set_access(ServerAccess::Down);
        let way = server.shared.way(Some(&asker), &[]).await.expect("its instance");
        assert_eq!(way.occupied.instance().number(), 2);
        assert!(matches!(way.access, ServerAccess::Down));
        assert!(server.shared.way(Some(&asker), &[2]).await.is_none());
        instance.set_admitted(false);
        assert!(server.shared.way(Some(&asker), &[]).await.is_none());
    }
}
