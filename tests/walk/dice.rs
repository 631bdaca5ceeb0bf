//! A small generator of numbers: the same seed draws the same walk for ever, whatever library comes and goes.

pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is above 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub(crate) fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    pub(crate) fn of<T: Clone>(&mut self, things: &[T]) -> T {
        things[self.below(things.len())].clone()
    }

    /// One of them, if there are any.
    pub(crate) fn any<T: Clone>(&mut self, things: &[T]) -> Option<T> {
        (!things.is_empty()).then(|| self.of(things))
    }

    /// One of these, as often as its weight says.
    pub(crate) fn weighed<T: Clone>(&mut self, things: &[(usize, T)]) -> T {
        let total = things.iter().map(|(weight, _)| weight).sum();
        let mut left = self.below(total);
        for (weight, thing) in things {
            if left < *weight {
                return thing.clone();
            }
            left -= weight;
        }
        things[0].1.clone()
    }
}
