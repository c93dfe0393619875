use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

fn flow(tenant: u8, guest: u64) -> Flow {
    Flow { tenant: Tenant::of_key([tenant; 32], tenant.to_string()), guest: GuestId(guest) }
}

/// Adds calls of one flow. Returns how many of them run, wait and are refused.
fn come(schedule: &mut Schedule<u32>, flow: &Flow, calls: u32) -> [u32; 3] {
    let mut came = [0; 3];
    for call in 0..calls {
        let outcome = if schedule.try_start(flow) {
            0
        } else {
            1 + usize::from(schedule.wait(flow, call).is_none())
        };
        came[outcome] += 1;
    }
    came
}

#[test]
fn a_tenant_gets_three_quarters_of_a_guests_share_and_seven_eighths_of_all() {
    for (slots, of_one, of_all) in
        [(1, 1, 1), (2, 2, 2), (3, 3, 3), (4, 3, 4), (8, 5, 7), (64, 36, 56)]
    {
        let mut schedule = Schedule::new(slots, 1_000);
        assert_eq!(come(&mut schedule, &flow(0, 0), 100)[0], of_one, "of {slots}");
        let others: u32 = (1..9).map(|guest| come(&mut schedule, &flow(0, guest), 100)[0]).sum();
        assert_eq!(of_one + others, of_all, "of {slots}");
    }
}

#[test]
fn a_guest_gets_three_quarters_however_many_tenants_call_it() {
    for (slots, share) in [(1, 1), (2, 2), (3, 3), (4, 3), (8, 6), (64, 48)] {
        let mut schedule = Schedule::new(slots, 10_000);
        let running: u32 =
            (0..100).map(|tenant| come(&mut schedule, &flow(tenant, 0), 60)[0]).sum();
        assert_eq!(running, share, "of {slots}");
    }
}

#[test]
fn another_tenant_runs_at_once_beside_one_that_takes_all_it_can_get() {
    let mut schedule = Schedule::new(64, 1_000);
    assert_eq!(come(&mut schedule, &flow(0, 0), 64), [36, 28, 0]);
    assert_eq!(come(&mut schedule, &flow(1, 0), 1), [1, 0, 0], "of the same guest");
    assert_eq!(come(&mut schedule, &flow(1, 1), 1), [1, 0, 0], "of another");
    assert_eq!(come(&mut schedule, &flow(0, 1), 1), [1, 0, 0], "and the first of another");
}

#[test]
fn the_waiting_tenant_with_the_fewest_slots_runs_next() {
    let mut schedule = Schedule::new(1, 1_000);
    assert_eq!(come(&mut schedule, &flow(0, 0), 100), [1, 99, 0]);
    assert_eq!(come(&mut schedule, &flow(1, 0), 1), [0, 1, 0]);
    let next: Vec<_> = schedule.leave(&flow(0, 0)).into_iter().map(|(flow, _)| flow).collect();
    assert_eq!(next, [flow(0, 0)], "its turn is older");
    let next: Vec<_> = schedule.leave(&flow(0, 0)).into_iter().map(|(flow, _)| flow).collect();
    assert_eq!(next, [flow(1, 0)], "and 97 calls that came before wait on");
    let mut wide = Schedule::new(4, 1_000);
    assert_eq!(come(&mut wide, &flow(0, 0), 9), [3, 6, 0]);
    assert_eq!(come(&mut wide, &flow(1, 0), 1), [0, 1, 0], "the guest's share is taken");
    let next: Vec<_> = wide.leave(&flow(0, 0)).into_iter().map(|(flow, _)| flow).collect();
    assert_eq!(next, [flow(1, 0)]);
}

#[test]
fn calls_of_one_flow_run_in_the_order_in_which_they_came() {
    let mut schedule = Schedule::new(1, 10);
    assert!(schedule.try_start(&flow(0, 0)));
    let tickets: Vec<_> =
        (0..5).map(|call| schedule.wait(&flow(0, 0), call).expect("there is room").0).collect();
    assert_eq!(schedule.abandon(&flow(0, 0), tickets[2]), Some(2));
    assert_eq!(schedule.abandon(&flow(0, 0), tickets[2]), None, "once");
    let order: Vec<_> =
        (0..5).flat_map(|_| schedule.leave(&flow(0, 0))).map(|(_, call)| call).collect();
    assert_eq!(order, [0, 1, 3, 4]);
}

#[test]
fn tenants_take_turns_even_if_one_has_many_calls() {
    let mut schedule = Schedule::new(1, 1_000);
    assert!(schedule.try_start(&flow(0, 0)));
    for (tenant, calls) in [(0, 30), (1, 3), (2, 3)] {
        assert_eq!(come(&mut schedule, &flow(tenant, 0), calls), [0, calls, 0]);
    }
    let mut running = flow(0, 0);
    let mut order = Vec::new();
    for _ in 0..12 {
        let [(next, _)] = &schedule.leave(&running)[..] else { panic!("one slot, one call") };
        order.extend((0..3).filter(|tenant| flow(*tenant, 0) == *next));
        running = next.clone();
    }
    assert_eq!(order, [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 0, 0]);
}

#[test]
fn a_full_queue_evicts_calls_of_the_tenant_with_the_most() {
    let mut schedule = Schedule::new(1, 8);
    assert_eq!(
        come(&mut schedule, &flow(0, 0), 20),
        [1, 6, 13],
        "three quarters of the queue for one flow"
    );
    assert_eq!(
        come(&mut schedule, &flow(0, 1), 20),
        [0, 2, 18],
        "the rest for another guest of the same tenant"
    );
    let mut evicted = Vec::new();
    // One tenant has nine calls and the other none; then eight and one, …, and at five and four no
    // call is evicted.
    let has_place = (0..6).map(|_| {
        let waits = schedule.wait(&flow(1, 0), 100);
        evicted.extend(waits.as_ref().and_then(|(_, out)| *out));
        waits.is_some()
    });
    let has_place: Vec<_> = has_place.collect();
    assert_eq!(has_place, [true, true, true, true, false, false]);
    assert_eq!(evicted, [1, 0, 6, 5], "the newest first: those of the second guest came last");
    assert_eq!(schedule.queue.len(), 8);
}

#[test]
fn without_a_queue_no_call_waits() {
    let mut schedule = Schedule::new(1, 0);
    assert_eq!(come(&mut schedule, &flow(0, 0), 3), [1, 0, 2]);
    assert_eq!(
        come(&mut Schedule::new(0, 4), &flow(0, 0), 4),
        [0, 3, 1],
        "without slots no call runs"
    );
}

#[test]
fn a_wait_is_unfair_to_a_tenant_below_its_part_beside_one_above() {
    let mut schedule = Schedule::new(4, 10);
    assert_eq!(come(&mut schedule, &flow(0, 0), 3)[0], 3);
    assert!(schedule.is_unfair_to(&flow(1, 0)) && schedule.is_unfair_to(&flow(1, 1)));
    assert!(!schedule.is_unfair_to(&flow(0, 0)), "the first has more itself");
    schedule.leave(&flow(0, 0));
    assert!(
        !schedule.is_unfair_to(&flow(1, 0)),
        "two of four, and two of a share of three, are a part"
    );
}

#[derive(Debug, Clone)]
enum Step {
    Arrive(u8, u64),
    /// Ends the running call with this number, modulo the number of running calls.
    End(usize),
    /// Drops the waiting call with this number, modulo the number of waiting calls.
    Abandon(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..4_u8, 0..3_u64).prop_map(|(tenant, guest)| Step::Arrive(tenant, guest)),
        2 => any::<usize>().prop_map(Step::End),
        1 => any::<usize>().prop_map(Step::Abandon),
    ];
    proptest::collection::vec(step, 0..300)
}

/// Outcome of each call, recorded independently of the schedule's own counts.
#[derive(Default)]
struct Seen {
    running: Vec<(Flow, u32)>,
    waiting: Vec<(Flow, u32, Ticket)>,
}

impl Seen {
    fn run(&mut self, flow: Flow, call: u32) {
        self.waiting.retain(|(_, waiting, _)| *waiting != call);
        self.running.push((flow, call));
    }

    fn step(&mut self, schedule: &mut Schedule<u32>, step: &Step, call: u32) {
        match *step {
            Step::Arrive(tenant, guest) => {
                let flow = flow(tenant, guest);
                if schedule.try_start(&flow) {
                    self.run(flow, call);
                } else if let Some((ticket, evicted)) = schedule.wait(&flow, call) {
                    self.waiting.retain(|(_, waiting, _)| Some(*waiting) != evicted);
                    self.waiting.push((flow, call, ticket));
                }
            }
            Step::End(number) if !self.running.is_empty() => {
                let (flow, _) = self.running.swap_remove(number % self.running.len());
                for (flow, call) in schedule.leave(&flow) {
                    self.run(flow, call);
                }
            }
            Step::Abandon(number) if !self.waiting.is_empty() => {
                let (flow, call, ticket) = self.waiting.swap_remove(number % self.waiting.len());
                assert_eq!(schedule.abandon(&flow, ticket), Some(call));
            }
            Step::End(_) | Step::Abandon(_) => {}
        }
    }

    fn calls_of(&self, tenant: &Tenant) -> usize {
        let running = self.running.iter().filter(|(flow, _)| flow.tenant == *tenant).count();
        running + self.waiting.iter().filter(|(flow, ..)| flow.tenant == *tenant).count()
    }
}

proptest! {
    #[test]
    fn no_call_is_lost_and_none_waits_within_its_limits(slots in 1..12_usize, queue in 0..20_usize, steps in steps()) {
        let mut schedule = Schedule::new(slots, queue);
        let mut seen = Seen::default();
        for (call, step) in (0..).zip(&steps) {
            seen.step(&mut schedule, step, call);
            prop_assert_eq!(schedule.slots.taken(), seen.running.len());
            prop_assert_eq!(schedule.queue.len(), seen.waiting.len());
            prop_assert!(seen.running.len() <= slots && seen.waiting.len() <= queue);
            for (flow, ..) in &seen.waiting {
                prop_assert!(!schedule.admits(flow), "{:?} could run", flow);
                prop_assert!(schedule.queue.len_of(flow) <= queue - queue / 4);
            }
            let mut of_guests: HashMap<GuestId, usize> = HashMap::new();
            for (flow, _) in &seen.running {
                *of_guests.entry(flow.guest).or_default() += 1;
            }
            prop_assert!(of_guests.values().all(|taken| *taken <= slots - slots / 4));
            prop_assert_eq!(schedule.guests.len(), of_guests.len(), "nothing is kept of a guest without calls");
        }
        // Once every running call has ended, every waiting call has run.
        while !seen.running.is_empty() {
            seen.step(&mut schedule, &Step::End(0), u32::MAX);
        }
        prop_assert!(seen.waiting.is_empty());
        prop_assert_eq!((schedule.slots.taken(), schedule.queue.len(), schedule.guests.len()), (0, 0, 0));
        prop_assert_eq!(schedule.queue.tenants().count(), 0);
    }

    #[test]
    fn no_call_is_refused_while_another_tenant_has_two_more(slots in 1..12_usize, queue in 4..20_usize, steps in steps()) {
        let mut schedule = Schedule::new(slots, queue);
        let mut seen = Seen::default();
        for (call, step) in (0..).zip(&steps) {
            seen.step(&mut schedule, step, call);
            let newcomer = flow(9, 0);
            if !schedule.admits(&newcomer) {
                let most = schedule.queue.tenants().map(|tenant| seen.calls_of(tenant)).max().unwrap_or(0);
                let has_place = schedule.queue.len() < queue || most >= 2;
                let arrived = schedule.wait(&newcomer, u32::MAX);
                prop_assert_eq!(arrived.is_some(), has_place);
                // Removes the new call again. A call that it evicted stays out.
                if let Some((ticket, evicted)) = arrived {
                    schedule.abandon(&newcomer, ticket);
                    seen.waiting.retain(|(_, waiting, _)| Some(*waiting) != evicted);
                }
            }
        }
    }
}
