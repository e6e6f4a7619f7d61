//! What is given up when nobody uses it, so that what a broker deletes keeps neither disk space nor memory.

use std::sync::Arc;
use std::time::Duration;

use lru::LruCache;

use crate::fs::mounted::{Fs, PartitionName};
use crate::fs::node::Node;
use crate::log::source::Tree;
use crate::view::partition_view::PartitionView;

/// What is not used for so long is given up.
const IDLE: Duration = Duration::from_secs(2);

impl Fs {
    /// Begins a thread that closes descriptors nobody used, and forgets partitions that are gone. It ends with the file system.
    pub fn close_idle_files(self: &Arc<Self>) {
        let fs = Arc::downgrade(self);
        let work = move || {
            let mut known = Arc::default();
            while let Some(fs) = fs.upgrade() {
                fs.source().close_idle(IDLE);
                fs.dump_pool().expire(IDLE);
                fs.handles().expire_readers(IDLE);
                fs.shared().give_up_idle();
                let tree = fs.source().tree();
                if !Arc::ptr_eq(&tree, &known) {
                    fs.forget_gone(&tree);
                    known = tree;
                }
                drop(fs);
                std::thread::sleep(IDLE);
            }
        };
        if let Err(error) = std::thread::Builder::new().name("idle-files".into()).spawn(work) {
            tracing::warn!(%error, "idle files stay open");
        }
    }

    /// Forgets what is kept of partitions that are there no more. What is open keeps what it needs.
    fn forget_gone(&self, tree: &Tree) {
        let mut views = self.views_known();
        let is_here = |(topic, label): &PartitionName, view: &mut Arc<PartitionView>| {
            tree.partition(topic, label).is_some_and(|partition| Arc::ptr_eq(partition, &view.partition))
        };
        let gone: Vec<PartitionName> =
            views.extract_if(|name, view| !is_here(name, view)).map(|(name, _)| name).collect();
        drop(views);
        if gone.is_empty() {
            return;
        }
        self.forget_names(&gone, tree);
        self.topics_known().retain(|topic, _| tree.topics.contains_key(&**topic));
        self.tails().retain(|topic, label| match label {
            Some(label) => tree.partition(topic, label).is_some(),
            None => tree.topics.contains_key(topic),
        });
        let is_gone = |node: &Node| match node {
            Node::Of(key, _) => tree.partition(&key.topic, &key.label).is_none(),
            _ => false,
        };
        forget(&mut self.selections(), is_gone);
        forget(&mut self.filtered_kept(), is_gone);
        forget(&mut self.dumps(), is_gone);
        forget(&mut self.histories(), is_gone);
        forget(&mut self.records(), is_gone);
        forget(&mut self.kept_merged(), |(key, _)| !tree.topics.contains_key(&*key.topic));
    }
}

fn forget<K: Clone + Eq + std::hash::Hash, V>(kept: &mut LruCache<K, V>, is_gone: impl Fn(&K) -> bool) {
    let gone: Vec<K> = kept.iter().map(|(key, _)| key).filter(|key| is_gone(key)).cloned().collect();
    for key in gone {
        kept.pop(&key);
    }
}
