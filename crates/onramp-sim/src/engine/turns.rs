//! Cells that take turns: each runs alone for a window that nothing from outside can
//! reach into, then what crossed is handed over (conservative synchronisation, as in
//! Chandy and Misra).
//!
//! Who runs which cell never matters, so the result is the same for every number of
//! threads.

use super::barrier::Barrier;
use onramp_config::units::Ps;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Runs windows until `plan` has none: it hands over what crossed between the cells and
/// tells which cells are next, and where their window ends. `work` runs one cell to there.
pub fn run<C: Send>(
    cells: &mut Vec<Box<C>>,
    threads: usize,
    mut plan: impl FnMut(&mut [Box<C>]) -> Option<(Range<usize>, Ps)>,
    work: impl Fn(&mut C, Ps) + Sync,
) {
    let threads = threads.min(cells.len());
    if threads < 2 {
        while let Some((next, end)) = plan(cells) {
            cells[next].iter_mut().for_each(|cell| work(cell, end));
        }
        return;
    }
    let pool = Pool { to_do: Mutex::default(), done: Mutex::default(), barrier: Barrier::new(threads) };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|| {
                let _guard = pool.barrier.guard();
                loop {
                    pool.barrier.wait();
                    if !pool.help(&work) {
                        return;
                    }
                    pool.barrier.wait();
                }
            });
        }
        let _guard = pool.barrier.guard();
        while let Some((next, end)) = plan(cells) {
            let first = next.start;
            // The last is taken first.
            let work_left = cells.drain(next).enumerate().rev().collect();
            *lock(&pool.to_do) = Some((end, work_left));
            pool.barrier.wait();
            pool.help(&work);
            pool.barrier.wait();
            let mut done = lock(&pool.done);
            done.sort_unstable_by_key(|(number, _)| *number);
            cells.splice(first..first, done.drain(..).map(|(_, cell)| cell));
        }
        *lock(&pool.to_do) = None;
        pool.barrier.wait();
    });
}

/// Cells by their numbers.
type Numbered<C> = Vec<(usize, Box<C>)>;

/// The cells of a window, passed from hand to hand.
struct Pool<C> {
    /// End of the window and who waits for it; `None` at the end of the run.
    to_do: Mutex<Option<(Ps, Numbered<C>)>>,
    done: Mutex<Numbered<C>>,
    barrier: Barrier,
}

impl<C> Pool<C> {
    /// Runs cells as long as there are any; false at the end of the run.
    fn help(&self, work: &impl Fn(&mut C, Ps)) -> bool {
        loop {
            let taken = match lock(&self.to_do).as_mut() {
                None => return false,
                Some((end, cells)) => cells.pop().map(|cell| (*end, cell)),
            };
            let Some((end, (number, mut cell))) = taken else { return true };
            work(&mut cell, end);
            lock(&self.done).push((number, cell));
        }
    }
}

fn lock<V>(mutex: &Mutex<V>) -> MutexGuard<'_, V> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cells that add what their neighbour had a window before; every other window is
    /// for some of them.
    fn sums(threads: usize) -> Vec<u64> {
        let mut cells: Vec<Box<(u64, u64)>> = (0..7).map(|i| Box::new((i, 0))).collect();
        let mut windows = 0;
        let plan = |cells: &mut [Box<(u64, u64)>]| {
            let values: Vec<u64> = cells.iter().map(|c| c.0).collect();
            for (i, cell) in cells.iter_mut().enumerate() {
                cell.1 = values[(i + 1) % values.len()];
            }
            windows += 1;
            let next = if windows % 2 == 0 { 2..6 } else { 0..7 };
            (windows <= 40).then_some((next, windows))
        };
        run(&mut cells, threads, plan, |cell, end| cell.0 = (cell.0 * 3 + cell.1 + end) % 1_000_003);
        cells.iter().map(|c| c.0).collect()
    }

    #[test]
    fn threads_change_nothing() {
        let alone = sums(1);
        for threads in [2, 3, 7, 20] {
            assert_eq!(sums(threads), alone, "{threads} threads");
        }
    }

    #[test]
    fn a_panic_in_one_thread_ends_all() {
        let end = std::panic::catch_unwind(|| {
            let mut cells: Vec<Box<u64>> = (0..4).map(Box::new).collect();
            let mut windows = 0;
            let plan = |_: &mut [Box<u64>]| {
                windows += 1;
                (windows < 100).then_some((0..4, windows))
            };
            run(&mut cells, 3, plan, |cell, end| assert!(*cell != 2 || end < 5, "as intended"));
        });
        assert!(end.is_err());
    }
}
