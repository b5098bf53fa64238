//! Several jobs at once, each prepared on the thread that calls.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use super::Failure;

/// Prepares one job after the other, and carries out at most `limit` at once. Returns what came out, in the order of
/// the jobs, and the first failure, after which no other job begins. `prepare` ends the jobs with `None`.
///
/// What is prepared, such as data that has been read, is there for jobs in progress only.
pub(super) fn at_once<J: Send, R: Send>(
    jobs: usize,
    limit: usize,
    mut prepare: impl FnMut(usize) -> Result<Option<J>, Failure>,
    carry_out: impl Fn(J) -> Result<R, Failure> + Sync,
) -> (Vec<R>, Option<Failure>) {
    let has_failed = AtomicBool::new(false);
    let (mut found, mut failure) = (Vec::new(), None);

    thread::scope(|scope| {
        let (sender, freed) = channel();
        let mut running = Vec::new();
        let mut slots = 0;
        for job in 0..jobs {
            while slots >= limit.max(1) && freed.recv().is_ok() {
                slots -= 1;
            }
            if has_failed.load(Ordering::Relaxed) {
                break;
            }
            let prepared = match prepare(job) {
                Ok(Some(prepared)) => prepared,
                Ok(None) => break,
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            };

            slots += 1;
            let (carry_out, has_failed) = (&carry_out, &has_failed);
            let slot = Slot { freed: sender.clone(), has_failed };
            running.push(scope.spawn(move || {
                let _freed_at_the_end = slot;
                let result = carry_out(prepared);
                if result.is_err() {
                    has_failed.store(true, Ordering::Relaxed);
                }
                result
            }));
        }

        let mut first = None;
        for job in running {
            match job.join() {
                Ok(Ok(result)) => found.push(result),
                Ok(Err(error)) => first = first.take().or(Some(error)),
                Err(panic) => resume_unwind(panic),
            }
        }
        if first.is_some() {
            failure = first;
        }
    });
    (found, failure)
}

/// The place of a job in progress, which is free when it is dropped.
struct Slot<'a> {
    freed: Sender<()>,
    has_failed: &'a AtomicBool,
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.has_failed.store(true, Ordering::Relaxed);
        }
        // Nobody waits for a place once all jobs have begun.
        let _ = self.freed.send(());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn no_more_jobs_go_on_at_once_than_the_limit() {
        let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let (found, failure) = at_once(
            20,
            3,
            |job| Ok(Some(job)),
            |job| {
                most.fetch_max(1 + running.fetch_add(1, Ordering::SeqCst), Ordering::SeqCst);
                thread::yield_now();
                running.fetch_sub(1, Ordering::SeqCst);
                Ok(job)
            },
        );
        assert_eq!(found, (0..20).collect::<Vec<usize>>());
        assert!(failure.is_none() && most.into_inner() <= 3);
    }

    #[test]
    fn what_had_ended_before_a_failure_is_kept() {
        let carry_out = |job| match job {
            2 => Err(Failure::usage("two")),
            job => Ok(job),
        };
        let (found, failure) = at_once(20, 1, |job| Ok(Some(job)), carry_out);
        assert_eq!(found, [0, 1]);
        assert_eq!(failure.unwrap().to_string(), "two");
    }

    #[test]
    fn no_job_begins_after_the_last_that_is_prepared() {
        let prepare = |job| Ok((job < 4).then_some(job));
        let (found, failure) = at_once(20, 2, prepare, Ok);
        assert_eq!(found, [0, 1, 2, 3]);
        assert!(failure.is_none());
    }
}
