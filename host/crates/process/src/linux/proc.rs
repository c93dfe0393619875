//! Reads processes from `/proc`. Everything in it may change between two looks.

use std::{
    collections::{HashMap, HashSet},
    fs::{self, File},
    io::{self, Read as _, Seek as _},
    os::unix::fs::MetadataExt as _,
    time::Duration,
};

use rustix::process::Pid;

use crate::{
    tag::{Tag, VARIABLE},
    usage::ProcessUsage,
};

/// Maximum bytes of an environment that is searched: as many as the kernel permits with the usual
/// limit of the stack, of which arguments and environment take a quarter (`execve(2)`).
const MAX_ENVIRONMENT_BYTES: u64 = 2 << 20;

/// Returns the number of this process's namespace of process numbers; 0 if it is not known.
pub(crate) fn pid_namespace() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.ino())
}

/// Returns the time at which a process started, in ticks after the start of the system; `None` if
/// there is no such process.
pub(crate) fn start_time(pid: u32) -> Option<u64> {
    Stat::read(pid).map(|stat| stat.started)
}

/// The fields of `/proc/PID/stat` that are used.
struct Stat {
    parent: u32,
    group: u32,
    started: u64,
    /// Size of the address space; 0 for threads of the kernel and for zombies.
    memory_bytes: u64,
    resident_pages: u64,
    /// CPU time of its threads, and of its children that have ended, in ticks.
    cpu_ticks: u64,
    is_zombie: bool,
    /// Address of the program's code; 0 until `execve` has loaded it.
    code_start: u64,
    /// Addresses between which the environment is; 0 if there is none yet, or they are not told.
    environment: (u64, u64),
}

impl Stat {
    fn read(pid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        // The name of the program, in parentheses, may itself contain any character.
        let fields: Vec<&str> = text[text.rfind(')')? + 1..].split_ascii_whitespace().collect();
        Some(Self {
            parent: number(&fields, 4)?.try_into().ok()?,
            group: number(&fields, 5)?.try_into().ok()?,
            started: number(&fields, 22)?,
            memory_bytes: number(&fields, 23)?,
            resident_pages: number(&fields, 24)?,
            cpu_ticks: (14..=17).filter_map(|nth| number(&fields, nth)).sum(),
            is_zombie: matches!(fields.first(), Some(&("Z" | "X"))),
            code_start: number(&fields, 26)?,
            // Since Linux 3.5.
            environment: number(&fields, 50).zip(number(&fields, 51)).unwrap_or_default(),
        })
    }

    /// Returns whether a process of which an empty environment was read may have another one: it has an
    /// address space, which has no environment yet, or has one now. While `execve` counts the variables, the
    /// addresses are equal, as those of an environment without any are; the code has no address then.
    fn may_have_environment(&self) -> bool {
        let (start, end) = self.environment;
        self.memory_bytes > 0 && (self.code_start == 0 || end == 0 || start < end)
    }
}

/// Returns the field with a number, counted from 1 in the whole line. The first of `fields` is the
/// third of the line.
fn number(fields: &[&str], nth: usize) -> Option<u64> {
    fields.get(nth - 3)?.parse().ok()
}

/// Returns the numbers of all processes, except for the calling one.
pub(super) fn others() -> Vec<u32> {
    let own = std::process::id();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != own)
        .collect()
}

/// The mark of a process.
pub(super) enum Mark {
    Is(Tag),
    /// It has none, or may not be looked at.
    Absent,
    /// It is in the middle of `execve`, or was while it was read.
    NotYet,
}

/// Reads the mark of a process. `execve` replaces the address space, loads the program and then copies
/// the environment: meanwhile there is none, and one that was opened before ends early. So an environment
/// without a mark is read twice: one that can be read again was whole.
pub(super) fn mark(pid: u32) -> Mark {
    let Ok(environment) = File::open(format!("/proc/{pid}/environ")) else { return Mark::Absent };
    for _ in 0..2 {
        let environment = read_from_start(&environment).unwrap_or_default();
        if let Some(tag) = tag_in(&environment) {
            return Mark::Is(tag);
        }
        // Nor could it be read if it was replaced meanwhile.
        if environment.is_empty() {
            let is_open = Stat::read(pid).is_some_and(|stat| stat.may_have_environment());
            return if is_open { Mark::NotYet } else { Mark::Absent };
        }
    }
    Mark::Absent
}

fn read_from_start(mut file: &File) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    file.rewind()?;
    file.take(MAX_ENVIRONMENT_BYTES).read_to_end(&mut text)?;
    Ok(text)
}

fn tag_in(environment: &[u8]) -> Option<Tag> {
    environment.split(|byte| *byte == 0).find_map(|entry| {
        let value = entry.strip_prefix(VARIABLE.as_bytes())?.strip_prefix(b"=")?;
        Tag::parse(std::str::from_utf8(value).ok()?)
    })
}

/// Returns the descendants of a process that are connected to it by living parents, and the other
/// processes of its group.
pub(super) fn family(leader: u32) -> Vec<u32> {
    members(leader).into_iter().map(|(pid, _)| pid).filter(|pid| *pid != leader).collect()
}

/// Returns what each of these processes uses with its family, in their order; `None` for one that has ended.
/// Reads `/proc` once.
pub(crate) fn usage(leaders: &[u32]) -> Vec<Option<ProcessUsage>> {
    let all = living();
    let usage = leaders.iter().map(|leader| {
        all.get(leader)?;
        let members = numbers(&all, *leader);
        Some(total(members.iter().filter_map(|pid| all.get(pid))))
    });
    usage.collect()
}

/// Returns what this process uses, without its children.
pub(crate) fn own_usage() -> Option<ProcessUsage> {
    Stat::read(std::process::id()).map(|own| total([&own]))
}

fn total<'s>(processes: impl IntoIterator<Item = &'s Stat>) -> ProcessUsage {
    let mut pages = 0_u64;
    let mut ticks = 0_u64;
    for stat in processes {
        pages = pages.saturating_add(stat.resident_pages);
        ticks = ticks.saturating_add(stat.cpu_ticks);
    }
    let ticks_per_second = rustix::param::clock_ticks_per_second().max(1);
    ProcessUsage {
        memory_bytes: pages.saturating_mul(rustix::param::page_size() as u64),
        cpu: Duration::from_millis(ticks.saturating_mul(1_000) / ticks_per_second),
    }
}

fn members(leader: u32) -> Vec<(u32, Stat)> {
    let all = living();
    let found = numbers(&all, leader);
    all.into_iter().filter(|(pid, _)| found.contains(pid)).collect()
}

/// Returns all processes except for the calling one, without zombies.
fn living() -> HashMap<u32, Stat> {
    others()
        .into_iter()
        .filter_map(|pid| Some((pid, Stat::read(pid)?)))
        .filter(|(_, stat)| !stat.is_zombie)
        .collect()
}

/// Returns the numbers of a process and of its family.
fn numbers(all: &HashMap<u32, Stat>, leader: u32) -> HashSet<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for (pid, stat) in all {
        children.entry(stat.parent).or_default().push(*pid);
    }
    let mut found = HashSet::new();
    let in_group = all.iter().filter(|(_, stat)| stat.group == leader).map(|(pid, _)| *pid);
    let mut unread: Vec<u32> = in_group.chain([leader]).collect();
    while let Some(pid) = unread.pop() {
        if found.insert(pid) {
            unread.extend(children.get(&pid).into_iter().flatten());
        }
    }
    found
}

/// Returns the number as the type of system calls.
pub(super) fn pid(number: u32) -> Option<Pid> {
    Pid::from_raw(number.try_into().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_program_cannot_forge_other_fields() {
        let line = "7 (a) R 9 (b) S 1 5 5 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 77 1000 12 0 \
                    1 1 0 0 0 0 0 0 0 0 0 0 17 3 0 0 0 0 0 91 92 93 94 95 96 97 0";
        let stat = Stat::parse(line).expect("a line");
        assert_eq!((stat.parent, stat.group, stat.started), (1, 5, 77));
        assert_eq!((stat.memory_bytes, stat.resident_pages), (1000, 12));
        assert_eq!((stat.environment, stat.is_zombie), ((96, 97), false));
        assert_eq!(stat.cpu_ticks, 5 + 6 + 7 + 8);
        for bad in ["", "7 (a", "7 (a) R", "7 (a) R x 5 5"] {
            assert!(Stat::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn an_empty_environment_is_the_last_one_only_without_an_address_space_or_with_equal_addresses()
    {
        let loading = Stat { code_start: 0, ..stat(1000, (96, 96)) };
        assert!(loading.may_have_environment(), "in the middle of `execve`");
        assert!(stat(1000, (0, 0)).may_have_environment(), "before that");
        assert!(stat(1000, (96, 97)).may_have_environment(), "after it");
        assert!(!stat(1000, (96, 96)).may_have_environment());
        assert!(!stat(0, (0, 0)).may_have_environment(), "ended, or a thread of the kernel");
    }

    fn stat(memory_bytes: u64, environment: (u64, u64)) -> Stat {
        Stat {
            parent: 1,
            group: 5,
            started: 77,
            memory_bytes,
            resident_pages: 1,
            cpu_ticks: 0,
            is_zombie: false,
            code_start: 50,
            environment,
        }
    }

    #[test]
    fn the_calling_process_has_a_start_time_and_a_namespace() {
        assert!(start_time(std::process::id()).is_some());
        assert_ne!(pid_namespace(), 0);
        assert_eq!(start_time(u32::MAX), None);
    }
}
