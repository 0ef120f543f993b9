//! How much a memory store may hold, and how much it holds.
//!
//! Two counters for all shards. Each is changed in one atomic step that never passes its bound,
//! unless the caller says that keeping an answer matters more.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::MemoryStoreOptions;

/// The bounds and what is used of them.
#[derive(Debug)]
pub(super) struct Room {
    bounds: MemoryStoreOptions,
    records: AtomicUsize,
    bytes: AtomicUsize,
}

/// There is not enough room.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoRoom;

impl Room {
    pub(super) fn new(bounds: MemoryStoreOptions) -> Self {
        Self {
            bounds,
            records: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
        }
    }

    pub(super) fn records(&self) -> usize {
        self.records.load(Relaxed)
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// Takes room for one record of this size, if there is.
    pub(super) fn admit(&self, bytes: usize) -> Result<(), NoRoom> {
        take(&self.records, 1, self.bounds.max_records)?;
        take(&self.bytes, bytes, self.bounds.max_bytes).inspect_err(|NoRoom| {
            self.records.fetch_sub(1, Relaxed);
        })
    }

    /// Takes room for one record, whether there is or not.
    pub(super) fn admit_anyway(&self, bytes: usize) {
        self.records.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// Says whether what was let in anyway has room by now.
    pub(super) fn suffices(&self) -> Result<(), NoRoom> {
        let fits =
            self.records() <= self.bounds.max_records && self.bytes() <= self.bounds.max_bytes;
        fits.then_some(()).ok_or(NoRoom)
    }

    /// Counts a record that had `before` bytes with the `after` that it has now.
    pub(super) fn resize(&self, before: usize, after: usize) {
        if before != after {
            // Wraps where the record shrank; the sum is right either way.
            self.bytes.fetch_add(after.wrapping_sub(before), Relaxed);
        }
    }

    /// Gives the room of one record back.
    pub(super) fn leave(&self, bytes: usize) {
        self.records.fetch_sub(1, Relaxed);
        self.bytes.fetch_sub(bytes, Relaxed);
    }

    /// Sets bytes aside, if there are, for a record that is about to grow by them.
    pub(super) fn reserve(&self, bytes: usize) -> Result<Reserved<'_>, NoRoom> {
        take(&self.bytes, bytes, self.bounds.max_bytes)?;
        Ok(Reserved { room: self, bytes })
    }

    /// Sets bytes aside, whether there are or not.
    pub(super) fn reserve_anyway(&self, bytes: usize) -> Reserved<'_> {
        self.bytes.fetch_add(bytes, Relaxed);
        Reserved { room: self, bytes }
    }
}

/// Bytes that nobody else can take. They are given back when this is dropped; by then the record
/// counts for itself, so that the bound holds at every moment in between.
#[derive(Debug)]
pub(super) struct Reserved<'a> {
    room: &'a Room,
    bytes: usize,
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.room.bytes.fetch_sub(self.bytes, Relaxed);
    }
}

/// The counters guard no other memory, so that no ordering is needed: each stays within its bound
/// because it is read and written in one step.
fn take(counter: &AtomicUsize, amount: usize, bound: usize) -> Result<(), NoRoom> {
    let more = |used: usize| used.checked_add(amount).filter(|sum| *sum <= bound);
    match counter.fetch_update(Relaxed, Relaxed, more) {
        Ok(_) => Ok(()),
        Err(_) => Err(NoRoom),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room() -> Room {
        Room::new(
            MemoryStoreOptions::default()
                .with_max_records(2)
                .with_max_bytes(100),
        )
    }

    #[test]
    fn neither_bound_is_passed() {
        let room = room();
        assert_eq!(room.admit(101), Err(NoRoom));
        assert_eq!(room.admit(40), Ok(()));
        assert_eq!(room.admit(61), Err(NoRoom));
        assert_eq!(room.admit(10), Ok(()));
        assert_eq!(room.admit(0), Err(NoRoom));
        assert_eq!((room.records(), room.bytes()), (2, 50));
        assert!(room.reserve(51).is_err());
    }

    #[test]
    fn what_is_given_back_can_be_taken_again() {
        let room = room();
        room.admit_anyway(200);
        room.resize(200, 90);
        assert_eq!((room.records(), room.bytes()), (1, 90));
        let reserved = room.reserve(10).expect("room for ten");
        assert!(room.reserve(1).is_err());
        drop(reserved);
        room.leave(90);
        assert_eq!((room.records(), room.bytes()), (0, 0));
    }
}
