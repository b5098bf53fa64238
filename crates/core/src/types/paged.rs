//! Long vectors of numbers, most of which may be 0.

use std::ops::Range;

use super::state::{Content, Persist, Restorer, Saved, Saver, StateError};

/// A vector of `f32` of a fixed length that holds memory only for the pages that have been written to.
///
/// A server has one vector of the length of its shard for each link that it sends updates on. A data center changes few
/// rows of a large sparse model, so that most of these vectors are 0 nearly everywhere. Once half of its pages exist, a
/// vector becomes a plain one, which is as fast as any.
#[derive(Clone, Debug)]
pub struct Paged {
    length: usize,
    form: Form,
}

#[derive(Clone, Debug)]
enum Form {
    /// For each page its place among those that exist, from 1 on, or 0; and the numbers of those that exist.
    Pages(Vec<u32>, Vec<f32>),
    Plain(Vec<f32>),
}

/// Numbers to read, in either form.
#[derive(Clone, Copy, Debug)]
pub enum Numbers<'a> {
    /// A plain vector.
    Plain(&'a [f32]),
    /// A vector of pages.
    Paged(&'a Paged),
}

impl Paged {
    /// Zeros.
    pub fn zeros(length: usize) -> Self {
        Self { length, form: Form::Pages(vec![0; length.div_ceil(PAGE)], Vec::new()) }
    }

    /// How many numbers it has.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it has no numbers.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The number of which it holds memory.
    pub fn held(&self) -> usize {
        match &self.form {
            Form::Pages(_, numbers) | Form::Plain(numbers) => numbers.len(),
        }
    }

    /// One number.
    ///
    /// # Panics
    /// If it has no such number.
    #[inline]
    pub fn get(&self, at: usize) -> f32 {
        match &self.form {
            Form::Plain(numbers) => numbers[at],
            Form::Pages(places, numbers) => match places[at / PAGE] {
                0 => 0.0,
                place => numbers[(place as usize - 1) * PAGE + at % PAGE],
            },
        }
    }

    /// Replaces one number.
    ///
    /// # Panics
    /// If it has no such number.
    #[inline]
    pub fn set(&mut self, at: usize, number: f32) {
        if let Form::Pages(places, _) = &self.form
            && places[at / PAGE] == 0
        {
            if number.to_bits() == 0 {
                return;
            }
            self.add_page(at / PAGE);
        }
        match &mut self.form {
            Form::Plain(numbers) => numbers[at] = number,
            Form::Pages(places, numbers) => {
                numbers[(places[at / PAGE] as usize - 1) * PAGE + at % PAGE] = number;
            }
        }
    }

    /// All numbers, once it is a plain vector.
    pub(crate) fn plain(&self) -> Option<&[f32]> {
        match &self.form {
            Form::Plain(numbers) => Some(numbers),
            Form::Pages(..) => None,
        }
    }

    /// As [`Self::plain`].
    pub(crate) fn plain_mut(&mut self) -> Option<&mut [f32]> {
        match &mut self.form {
            Form::Plain(numbers) => Some(numbers),
            Form::Pages(..) => None,
        }
    }

    /// Where a number lies. `None` if it has no such number, or holds no memory for it.
    #[inline]
    pub(crate) fn find(&self, at: usize) -> Option<&f32> {
        match &self.form {
            Form::Plain(numbers) => numbers.get(at),
            Form::Pages(places, numbers) => {
                let place = places.get(at / PAGE)?.checked_sub(1)?;
                numbers.get(place as usize * PAGE + at % PAGE)
            }
        }
    }

    /// The numbers of a range. Those of a vector of pages are written to `memory`.
    ///
    /// # Panics
    /// If it has no such range.
    pub fn range<'a>(&'a self, range: Range<usize>, memory: &'a mut Vec<f32>) -> &'a [f32] {
        match &self.form {
            Form::Plain(numbers) => &numbers[range],
            Form::Pages(places, numbers) => {
                assert!(range.end <= self.length, "a vector of {} numbers", self.length);
                memory.clear();
                append(places, numbers, range, memory);
                memory
            }
        }
    }

    /// All numbers.
    pub fn to_vec(&self) -> Vec<f32> {
        match &self.form {
            Form::Plain(numbers) => numbers.clone(),
            Form::Pages(places, numbers) => {
                let mut all = Vec::with_capacity(self.length);
                append(places, numbers, 0..self.length, &mut all);
                all
            }
        }
    }

    #[cold]
    fn add_page(&mut self, page: usize) {
        let Form::Pages(places, numbers) = &mut self.form else { return };
        if 2 * (numbers.len() / PAGE + 1) > places.len() {
            self.form = Form::Plain(self.to_vec());
            return;
        }
        // There are many such vectors, so that doubling would cost more than it saves.
        if numbers.capacity() - numbers.len() < PAGE {
            numbers.reserve_exact((numbers.len() / 8).max(4 * PAGE));
        }
        numbers.resize(numbers.len() + PAGE, 0.0);
        places[page] = (numbers.len() / PAGE) as u32;
    }
}

/// Appends a range of a vector of pages.
fn append(places: &[u32], numbers: &[f32], range: Range<usize>, to: &mut Vec<f32>) {
    let mut at = range.start;
    while at < range.end {
        let end = range.end.min((at / PAGE + 1) * PAGE);
        match places[at / PAGE] {
            0 => to.resize(to.len() + end - at, 0.0),
            place => {
                let first = (place as usize - 1) * PAGE + at % PAGE;
                to.extend_from_slice(&numbers[first..first + end - at]);
            }
        }
        at = end;
    }
}

impl From<Vec<f32>> for Paged {
    fn from(numbers: Vec<f32>) -> Self {
        let exists = |page: &[f32]| page.iter().any(|number| number.to_bits() != 0);
        let pages = numbers.len().div_ceil(PAGE);
        if 2 * numbers.chunks(PAGE).filter(|page| exists(page)).count() > pages {
            return Self { length: numbers.len(), form: Form::Plain(numbers) };
        }
        let mut paged = Self::zeros(numbers.len());
        for (at, number) in numbers.into_iter().enumerate() {
            paged.set(at, number);
        }
        paged
    }
}

/// Under a name, as a tensor of all its numbers. Implemented by hand, because it is not kept in that form.
impl Persist<(&str, Content)> for Paged {
    fn save(&self, walk: &mut Saver<'_>, (name, content): (&str, Content)) -> Saved {
        walk.tensor(name, content, &self.to_vec())
    }

    fn restore(
        &mut self,
        walk: &mut Restorer<'_>,
        (name, content): (&str, Content),
    ) -> Result<(), StateError> {
        let mut numbers = vec![0.0; self.length];
        walk.tensor(name, content, &mut numbers)?;
        *self = numbers.into();
        Ok(())
    }
}

impl<'a> Numbers<'a> {
    /// How many there are.
    pub fn len(self) -> usize {
        match self {
            Self::Plain(numbers) => numbers.len(),
            Self::Paged(numbers) => numbers.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// As [`Paged::range`].
    ///
    /// # Panics
    /// If there is no such range.
    #[inline]
    pub fn range<'b>(self, range: Range<usize>, memory: &'b mut Vec<f32>) -> &'b [f32]
    where
        'a: 'b,
    {
        match self {
            Self::Plain(numbers) => &numbers[range],
            Self::Paged(numbers) => numbers.range(range, memory),
        }
    }
}

/// The numbers in a page: some rows of a table. The places of pages take 4 bytes for each 256 of numbers.
const PAGE: usize = 64;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn same(paged: &Paged, plain: &[f32]) -> Result<(), TestCaseError> {
        let bits = |numbers: &[f32]| numbers.iter().map(|one| one.to_bits()).collect::<Vec<_>>();
        prop_assert_eq!(bits(&paged.to_vec()), bits(plain));
        let got: Vec<f32> = (0..plain.len()).map(|at| paged.get(at)).collect();
        prop_assert_eq!(bits(&got), bits(plain));
        let mut memory = vec![7.0; 3];
        for (start, end) in [(0, plain.len() / 3), (plain.len() / 2, plain.len())] {
            prop_assert_eq!(bits(paged.range(start..end, &mut memory)), bits(&plain[start..end]));
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn it_holds_what_was_written_in_every_form(
            length in 1_usize..700,
            writes in prop::collection::vec((0_usize..700, prop_oneof![Just(0.0_f32), Just(-0.0), -9.0_f32..9.0]), 0..60),
        ) {
            let (mut paged, mut plain) = (Paged::zeros(length), vec![0.0; length]);
            for (at, number) in writes {
                paged.set(at % length, number);
                plain[at % length] = number;
                same(&paged, &plain)?;
            }
            same(&Paged::from(plain.clone()), &plain)?;
        }
    }

    #[test]
    fn few_rows_of_a_large_vector_take_little_memory_and_many_no_more_than_a_plain_one() {
        let mut paged = Paged::zeros(100_000);
        paged.set(5, 0.0);
        assert_eq!(paged.held(), 0);
        (0..50).for_each(|row| paged.set(row * 1999, 1.0));
        assert_eq!(paged.held(), 50 * PAGE);
        assert_eq!(Paged::from(paged.to_vec()).held(), 50 * PAGE);
        (0..100_000).for_each(|at| paged.set(at, 1.0));
        assert_eq!(paged.held(), 100_000);
    }
}
