//! Where the metadata of a source's cluster may lie, and what its broker's own files say.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use crate::format::names::{self, METADATA_TOPIC, METADATA_TOPIC_2_8, PartitionDir};
use crate::format::properties::{MetaProperties, Properties};
use crate::log::cluster::metadata::Configs;
use crate::log::cluster::synonyms;
use crate::log::files;
use crate::log::problem::{Kind, Problem};
use crate::log::source::roots::{MAX_PROPERTIES_BYTES, data_directories_of, properties_of, split_spec};

/// What a source names.
#[derive(Debug, Default)]
pub struct Places {
    /// Data directories, and `metadata.log.dir`.
    directories: Vec<PathBuf>,
    /// The configs of a `server.properties` that are defaults for topics.
    pub server: Configs,
    /// Whether there is one.
    pub has_server: bool,
    /// What can't be read.
    pub problems: Vec<Problem>,
}

impl Places {
    /// The places that `spec` names.
    pub fn of(spec: &str) -> Self {
        let mut places = Self::default();
        for part in split_spec(spec) {
            match properties_of(&part) {
                Some(Ok(properties)) => places.add_broker(&properties),
                Some(Err(error)) => places.problems.push(Problem::of_file(
                    Path::new(&part),
                    Kind::Metadata,
                    error.to_string(),
                )),
                None => places.directories.push(around(PathBuf::from(part))),
            }
        }
        places
    }

    fn add_broker(&mut self, properties: &Properties) {
        self.has_server = true;
        self.directories.extend(properties.get("metadata.log.dir").map(|path| path.trim().into()));
        self.directories.extend(data_directories_of(properties));
        for (name, value) in properties.iter().filter(|(name, _)| synonyms::is_default_of_topics(name)) {
            self.server.entry(name.to_owned()).or_insert_with(|| value.to_owned());
        }
    }

    /// The metadata partitions that are there now; links only where they are followed.
    pub fn metadata_partitions(&self, follows_links: bool) -> BTreeSet<PathBuf> {
        let is_one = |path: &PathBuf| path.is_dir() && (follows_links || !path.is_symlink());
        let partition = |directory: &PathBuf| {
            [METADATA_TOPIC, METADATA_TOPIC_2_8].map(|topic| directory.join(format!("{topic}-0")))
        };
        self.directories.iter().flat_map(partition).filter(is_one).collect()
    }

    /// The id of the broker, if the directories agree on it.
    pub fn node_id(&self) -> Option<String> {
        let id = |directory: &PathBuf| {
            let bytes =
                files::read_small(&directory.join(names::META_PROPERTIES), MAX_PROPERTIES_BYTES).ok()?;
            MetaProperties::parse(&bytes).ok()?.node_id
        };
        let mut ids = self.directories.iter().filter_map(id).collect::<HashSet<_>>().into_iter();
        let id = ids.next()?;
        ids.next().is_none().then(|| id.to_string())
    }
}

/// The data directory that a partition or a segment lies in; another path itself.
fn around(path: PathBuf) -> PathBuf {
    let Ok(real) = std::fs::canonicalize(&path) else { return path };
    let directory = if real.is_file() { real.parent().unwrap_or(&real) } else { &real };
    let is_partition = directory.file_name().and_then(|name| PartitionDir::parse(name.to_str()?)).is_some();
    match directory.parent() {
        Some(parent) if is_partition => parent.to_owned(),
        _ => path,
    }
}
