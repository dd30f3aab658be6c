//! Running the units of a launch on host threads.

use super::env::Env;
use super::launch::LaunchReport;
use super::run::Turn;
use super::unit::Unit;
use crate::check::fault::{Fault, Report};
use crate::count::Counts;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Passes over idle units without any progress after which a launch counts as deadlocked.
const IDLE_PASSES: u32 = 8;

struct Shared {
    next: AtomicU32,
    units: u32,
    /// Units that may start before others have finished.
    resident: usize,
    active: AtomicUsize,
    /// Host threads that have something to do other than idle units.
    working: AtomicUsize,
    outcome: Mutex<Outcome>,
    progress: AtomicU64,
    failed: AtomicBool,
}

#[derive(Default)]
struct Outcome {
    counts: Counts,
    trace: u64,
    printed: Vec<(u32, String)>,
    reports: Vec<Report>,
}

/// Runs all units.
pub(crate) fn run(env: &Env<'_>, units: u64, resident: usize) -> Result<LaunchReport, Fault> {
    // Blocks that see each other through global memory run in one order, so that a seed means one trace.
    let threads = if env.settings.checks && env.program.communicates { 1 } else { env.settings.host_threads };
    let threads = threads.min(units as usize).max(1);
    let shared = Shared {
        next: AtomicU32::new(0),
        units: units as u32,
        resident,
        active: AtomicUsize::new(0),
        working: AtomicUsize::new(threads),
        outcome: Mutex::new(Outcome::default()),
        progress: AtomicU64::new(0),
        failed: AtomicBool::new(false),
    };
    if threads == 1 {
        worker(env, &shared);
    } else {
        std::thread::scope(|s| {
            for _ in 0..threads {
                s.spawn(|| worker(env, &shared));
            }
        });
    }
    let mut o = shared.outcome.into_inner().unwrap_or_else(|e| e.into_inner());
    if !o.reports.is_empty() {
        o.reports.sort_by_key(|r| (r.kind, r.place.ptx_line));
        // The same finding in many blocks is one finding.
        o.reports.dedup_by_key(|r| (r.kind, r.place.ptx_line));
        o.reports.truncate(Fault::MAX_REPORTS);
        return Err(Fault { reports: o.reports });
    }
    o.printed.sort_by_key(|p| p.0);
    Ok(LaunchReport {
        counts: o.counts,
        trace: o.trace,
        printed: o.printed.into_iter().map(|p| p.1).collect(),
        launched_dependents: env.launched_dependents.load(Ordering::Relaxed),
    })
}

fn worker(env: &Env<'_>, shared: &Shared) {
    let mut idle: VecDeque<Unit<'_>> = VecDeque::new();
    let mut spare: Vec<Unit<'_>> = Vec::new();
    let mut passes = 0;
    let mut in_pass = 0;
    let mut last = u64::MAX;
    let mut counted_as_working = true;
    loop {
        if env.stop.load(Ordering::Relaxed) {
            break;
        }
        let may_start = shared.active.load(Ordering::Relaxed) < shared.resident;
        let fresh = if may_start || idle.is_empty() { take(shared) } else { None };
        let mut unit = match fresh {
            Some(id) => {
                let mut u = spare.pop().unwrap_or_else(|| Unit::new(env));
                u.start(id);
                shared.active.fetch_add(1, Ordering::Relaxed);
                passes = 0;
                u
            }
            None => match idle.pop_front() {
                Some(u) => {
                    in_pass += 1;
                    u
                }
                None => break,
            },
        };
        let before = unit.progress;
        let turn = unit.run();
        if unit.progress != before {
            shared.progress.fetch_add(unit.progress - before, Ordering::Relaxed);
        }
        match turn {
            Ok(Turn::Done) => {
                shared.active.fetch_sub(1, Ordering::Relaxed);
                collect(&mut unit, shared, true);
                spare.push(unit);
                passes = 0;
            }
            Ok(Turn::Running) => {
                idle.push_back(unit);
                passes = 0;
                in_pass = 0;
            }
            Ok(Turn::Idle) => {
                idle.push_back(unit);
                if in_pass >= idle.len() {
                    in_pass = 0;
                    let now = shared.progress.load(Ordering::Relaxed);
                    passes = if now == last { passes + 1 } else { 0 };
                    last = now;
                    if passes == 1 && counted_as_working {
                        counted_as_working = false;
                        shared.working.fetch_sub(1, Ordering::Relaxed);
                    } else if passes == 0 && !counted_as_working {
                        counted_as_working = true;
                        shared.working.fetch_add(1, Ordering::Relaxed);
                    }
                    if passes > IDLE_PASSES && shared.working.load(Ordering::Relaxed) == 0 {
                        if let Some(u) = idle.front_mut() {
                            u.report_idle();
                        }
                        shared.failed.store(true, Ordering::Relaxed);
                        env.stop.store(true, Ordering::Relaxed);
                    }
                }
            }
            Err(()) => {
                env.stop.store(true, Ordering::Relaxed);
                idle.push_back(unit);
            }
        }
    }
    if counted_as_working {
        shared.working.fetch_sub(1, Ordering::Relaxed);
    }
    for mut u in idle {
        collect(&mut u, shared, false);
    }
}

fn take(shared: &Shared) -> Option<u32> {
    let id = shared.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n < shared.units).then_some(n + 1));
    id.ok()
}

fn collect(u: &mut Unit<'_>, shared: &Shared, done: bool) {
    let mut o = shared.outcome.lock().unwrap_or_else(|e| e.into_inner());
    o.counts.add(&std::mem::take(&mut u.counts));
    if done {
        o.trace = o.trace.wrapping_add(u.trace);
    }
    if !u.printed.is_empty() {
        o.printed.push((u.id, std::mem::take(&mut u.printed)));
    }
    let room = (4 * Fault::MAX_REPORTS).saturating_sub(o.reports.len());
    o.reports.extend(u.reports.drain(..).take(room));
}
