//! One worker's examples on disk.

#![allow(
    clippy::disallowed_methods,
    reason = "a thread reads ahead; what it reads is the same whenever it does"
)]

use std::ops::Range;
use std::sync::Arc;
use std::thread;

use super::encoding::Encoded;
use super::spool::{Change, Spool};
use gaia_core::application::ApplicationError;
use gaia_ml::divided::Divided;
use gaia_ml::stored::{Reading, StoredExamples, StoredParts};

/// Some of the examples of a spool.
pub(crate) struct ScratchPart<E> {
    pub(crate) spool: Arc<Spool<E>>,
    pub(crate) places: Range<usize>,
    /// What they weigh in an objective.
    pub(crate) weight: u64,
    /// Examples that a worker may hold at a time.
    pub(crate) window: usize,
}

impl<E: Encoded> StoredExamples<E> for ScratchPart<E> {
    fn len(&self) -> usize {
        self.places.len()
    }

    fn weight(&self) -> u64 {
        self.weight
    }

    fn blocks(&self) -> Vec<Range<usize>> {
        self.spool.blocks_within(&self.places)
    }

    fn window(&self) -> usize {
        self.window
    }

    fn read(&self, places: Range<usize>) -> Result<E, ApplicationError> {
        read(&self.spool, self.places.start, places)
    }

    fn begin_read(&self, places: Range<usize>) -> Reading<E> {
        let (spool, start) = (self.spool.clone(), self.places.start);
        let reading = thread::spawn(move || read(&spool, start, places));
        Box::new(move || match reading.join() {
            Ok(read) => read,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    }
}

fn read<E: Encoded>(
    spool: &Spool<E>,
    start: usize,
    places: Range<usize>,
) -> Result<E, ApplicationError> {
    spool.read(start + places.start..start + places.end).map_err(ApplicationError::new)
}

/// Examples with each of them, and their shape, changed: those in memory now, others when they are read.
pub(crate) fn changed<E: Encoded>(
    mut divided: Divided<E>,
    change: impl Fn(&mut E) + Send + Sync + 'static,
) -> Divided<E> {
    change(&mut divided.train);
    change(&mut divided.test);
    let change: Change<E> = Arc::new(change);
    for parts in divided.stored.iter_mut().flatten() {
        let changed = |inner: &Arc<dyn StoredExamples<E>>| -> Arc<dyn StoredExamples<E>> {
            Arc::new(Changed { inner: inner.clone(), change: change.clone() })
        };
        *parts = StoredParts { train: changed(&parts.train), test: changed(&parts.test) };
    }
    divided
}

/// Examples that are changed when they are read.
struct Changed<E> {
    inner: Arc<dyn StoredExamples<E>>,
    change: Change<E>,
}

impl<E: Encoded> StoredExamples<E> for Changed<E> {
    fn len(&self) -> usize {
        self.inner.len()
    }

    fn weight(&self) -> u64 {
        self.inner.weight()
    }

    fn blocks(&self) -> Vec<Range<usize>> {
        self.inner.blocks()
    }

    fn window(&self) -> usize {
        self.inner.window()
    }

    fn read(&self, places: Range<usize>) -> Result<E, ApplicationError> {
        let mut examples = self.inner.read(places)?;
        (self.change)(&mut examples);
        Ok(examples)
    }

    fn begin_read(&self, places: Range<usize>) -> Reading<E> {
        let (reading, change) = (self.inner.begin_read(places), self.change.clone());
        Box::new(move || {
            let mut examples = reading()?;
            change(&mut examples);
            Ok(examples)
        })
    }
}
