//! A list that is read page by page, up to so many rows.

use holdfast_core::inspect::Page;

use crate::failure::Failure;
use crate::notes::Notes;

/// Members of a home that one call reads.
const PAGE: usize = 256;

/// The rows so far, and what they leave out.
#[derive(Debug)]
pub(crate) struct Listing<T> {
    /// What is shown.
    pub(crate) rows: Vec<T>,
    limit: usize,
    unreadable: usize,
    is_cut: bool,
}

impl<T> Listing<T> {
    /// Nothing yet, of at most so many.
    pub(crate) fn new(limit: usize) -> Self {
        Self { rows: Vec::new(), limit, unreadable: 0, is_cut: false }
    }

    /// Adds one home, read from an offset and at most so many at once.
    pub(crate) async fn add<R>(
        &mut self,
        read: impl AsyncFn(usize, usize) -> Result<Page<R>, Failure>,
        show: impl Fn(&R) -> T,
    ) -> Result<(), Failure> {
        let mut offset = 0;
        loop {
            let room = PAGE.min(self.limit.saturating_sub(self.rows.len()));
            if room == 0 {
                self.is_cut = true;
                return Ok(());
            }
            let page = read(offset, room).await?;
            self.unreadable += page.unreadable;
            self.rows.extend(page.rows.iter().map(&show));
            offset += room;
            if !page.more {
                return Ok(());
            }
        }
    }

    /// Tells what the rows leave out.
    pub(crate) fn tell_rest(&self, notes: &Notes) {
        let Self { limit, unreadable, .. } = self;
        if *unreadable > 0 {
            let told = "members are not laid out as this version writes them";
            notes.say(format!("holdfastctl: {unreadable} {told}"));
        }
        if self.is_cut {
            let told = "there may be more; --limit shows more than these";
            notes.say(format!("holdfastctl: {told} {limit}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A home of so many members, of which each hundredth can't be read.
    fn home(size: usize) -> impl AsyncFn(usize, usize) -> Result<Page<usize>, Failure> {
        async move |offset, limit| {
            let members: Vec<usize> = (offset..size.min(offset + limit)).collect();
            let rows: Vec<usize> = members.iter().copied().filter(|at| at % 100 != 0).collect();
            let (unreadable, more) = (members.len() - rows.len(), members.len() == limit);
            Ok(Page { rows, unreadable, more })
        }
    }

    #[tokio::test]
    async fn a_home_is_read_to_its_end_page_by_page() {
        let mut listing = Listing::new(10_000);
        listing.add(home(1_000), |at| *at).await.unwrap();
        listing.add(home(3), |at| *at).await.unwrap();
        assert_eq!((listing.rows.len(), listing.unreadable, listing.is_cut), (992, 11, false));
        assert_eq!(listing.rows[989..], [999, 1, 2]);
    }

    #[tokio::test]
    async fn a_list_that_is_cut_says_so() {
        let mut listing = Listing::new(300);
        listing.add(home(1_000), |at| *at).await.unwrap();
        assert_eq!((listing.rows.len(), listing.is_cut), (300, true));
        let mut listing = Listing::new(3);
        listing.add(home(3), |at| *at).await.unwrap();
        assert!(!listing.is_cut, "0 can't be read, 1 and 2 are there");
    }
}
