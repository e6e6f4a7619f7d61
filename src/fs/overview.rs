//! `topics.tsv` at the root, and `info` of a topic.

use std::sync::Arc;

use crate::fs::error::FsError;
use crate::fs::mounted::Fs;
use crate::fs::node::Node;
use crate::log::partition::Partition;
use crate::view::overview::{self, PartitionRow};
use crate::view::partition_view::{CHEAP_BYTES, PartitionView};
use crate::view::selection::Effort;

/// A glance at so many partitions is cheap; a `stat` looks at no more.
const CHEAP_PARTITIONS: usize = 64;

impl Fs {
    /// The content of `topics.tsv` or of a topic's `info`.
    ///
    /// # Errors
    /// [`FsError::NotFound`] when the topic is gone.
    pub(super) fn overview(&self, node: &Node) -> Result<Vec<u8>, FsError> {
        let tree = self.source().tree();
        let Node::TopicInfo(topic, form) = node else {
            let mut out = String::new();
            for (topic, partitions) in &tree.topics {
                for partition in partitions {
                    PartitionRow::of(partition, self.of_topic(topic).scope()).push_line(topic, &mut out);
                }
            }
            return Ok(out.into_bytes());
        };
        let partitions = tree.topics.get(&**topic).ok_or(FsError::NotFound)?;
        let rows: Vec<_> = partitions.iter().map(|partition| self.row(topic, partition)).collect();
        let partitions: Vec<&Partition> = partitions.iter().map(|partition| &**partition).collect();
        let configs = self.configs_of(topic);
        let details = configs.details();
        Ok(match form {
            OverviewForm::Text => overview::topic_text(topic, &details, &partitions, &rows).into_bytes(),
            OverviewForm::Json => overview::topic_json(topic, &details, &partitions, &rows),
        })
    }

    /// A partition in its topic's `info`. Records that `read_committed` hides are not known without a scan.
    fn row(&self, topic: &Arc<str>, partition: &Arc<Partition>) -> PartitionRow {
        let of_topic = self.of_topic(topic);
        let scope = of_topic.scope();
        if self.is_committed(topic) {
            return PartitionRow::of(partition, scope);
        }
        // One that nobody has looked at is none of those whose problems are told.
        let known = self.known_view(topic, partition);
        let view = known.unwrap_or_else(|| {
            let (partition, rendering) = (partition.clone(), of_topic.rendering());
            Arc::new(PartitionView::new(partition, scope, rendering, self.shared()))
        });
        PartitionRow::counted(&view)
    }

    /// The content if making it is within `effort`.
    ///
    /// # Errors
    /// Those of [`Self::overview`].
    pub(super) fn overview_within(&self, node: &Node, effort: Effort) -> Result<Option<Vec<u8>>, FsError> {
        let tree = self.source().tree();
        let count = match node {
            Node::TopicInfo(topic, _) => tree.topics.get(&**topic).map_or(0, Vec::len),
            _ => tree.topics.values().map(Vec::len).sum(),
        };
        let is_near = !matches!(node, Node::TopicInfo(..)) || self.cluster().is_near(CHEAP_BYTES);
        let is_cheap = count <= CHEAP_PARTITIONS && is_near || !matches!(effort, Effort::Bytes(_));
        is_cheap.then(|| self.overview(node)).transpose()
    }
}

/// How a topic's `info` is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OverviewForm {
    /// Lines for people.
    Text,
    /// `info.json`.
    Json,
}
