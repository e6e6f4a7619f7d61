//! Whether a file is still what its name stands for.
//!
//! The kernel believes a name for a tenth of a second. A file that is opened, or asked about, on the strength of a name that
//! stands for another one since is refused with `ESTALE`: then the kernel looks the name up again by itself, and whoever
//! opens it gets the new file. Those who have the old one open keep it.

use crate::fs::all::stamp;
use crate::fs::error::FsError;
use crate::fs::mounted::Fs;
use crate::fs::node::{AllItem, Item, Node, Number, PartitionKey, Records};
use crate::units::Offset;

impl Fs {
    /// Whether looking up the name of `node` again could give the same: its segments are those that it was made from, and it
    /// begins with a record that is not deleted.
    ///
    /// # Errors
    /// [`FsError::NotFound`] when the partition is gone, and those of listing.
    pub(super) fn is_current(&self, node: &Node) -> Result<bool, FsError> {
        match node {
            Node::Of(key, Item::Records(records)) => self.begins_at(key, records.generation, records.start),
            Node::Of(key, Item::Timed(timed)) => self.begins_at(key, timed.generation, timed.start),
            Node::Of(key, Item::KeyRecords(of)) => self.begins_at(key, of.generation, of.start),
            Node::Of(key, Item::Dump(dump)) => self.is_current_dump(key, dump),
            Node::OfAll(key, AllItem::Records(records)) => {
                let views = self.views(key)?;
                if stamp(&views)? != records.stamp {
                    return Ok(false);
                }
                for (view, start) in views.iter().zip(records.starts.iter()) {
                    if *start < view.start()? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            _ => Ok(true),
        }
    }

    /// Looks for what a restore has written in place to the segments of `node`.
    ///
    /// # Errors
    /// [`FsError::NotFound`] when the partition is gone, and those of listing.
    pub(super) fn look_over(&self, node: &Node) -> Result<(), FsError> {
        let all = Offset(i64::MIN)..Offset(i64::MAX);
        match node {
            Node::Of(key, item) => {
                let offsets = match item {
                    Item::Record(offset, ..) => *offset..offset.next(),
                    Item::Records(Records { start, end, .. }) => *start..end.unwrap_or(all.end),
                    // That was found when the name was looked up.
                    Item::Number(Number::Exactly(_)) => return Ok(()),
                    _ => all,
                };
                self.view(key)?.partition.look_over(offsets);
            }
            Node::OfAll(key, _) => {
                self.views(key)?.iter().for_each(|view| view.partition.look_over(all.clone()));
            }
            _ => {}
        }
        Ok(())
    }

    fn begins_at(&self, key: &PartitionKey, generation: u64, start: Offset) -> Result<bool, FsError> {
        let view = self.view(key)?;
        Ok(view.generation()? == generation && view.start()? <= start)
    }
}
