//! An input of the directory target: a partition directory in a few kilobytes.
//!
//! | bytes | what |
//! |---|---|
//! | 4 | settings, see [`Settings`](crate::targets::directory::Settings) |
//! | 1 + n | for each file: the length of its name, and the name; a leading `^` puts it beside the partition |
//! | 2 + n | its length (little-endian) and its bytes |
//!
//! Every input is an archive: a length that reaches beyond the end ends there.

/// The most files that are written.
const MAX_FILES: usize = 16;
/// The longest name that a file system takes.
const MAX_NAME: usize = 200;

/// A partition directory, and settings for reading it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Archive {
    pub settings: [u8; 4],
    pub files: Vec<(String, Vec<u8>)>,
}

impl Archive {
    /// Reads an input.
    pub fn decode(data: &[u8]) -> Self {
        let (settings, mut rest) = data.split_first_chunk().map_or(([0; 4], &[][..]), |(s, rest)| (*s, rest));
        let mut archive = Self { settings, files: Vec::new() };
        while let Some((len, after)) = rest.split_first()
            && archive.files.len() < MAX_FILES
        {
            let (name, after) = after.split_at(usize::from(*len).min(after.len()));
            let (len, after) = match after.split_first_chunk() {
                Some((len, after)) => (usize::from(u16::from_le_bytes(*len)), after),
                None => (0, &[][..]),
            };
            let (bytes, after) = after.split_at(len.min(after.len()));
            archive.add(&String::from_utf8_lossy(name), bytes.to_vec());
            rest = after;
        }
        archive
    }

    /// Adds a file, unless no file system could have it or it is there.
    pub fn add(&mut self, name: &str, bytes: Vec<u8>) {
        let plain = name.strip_prefix('^').unwrap_or(name);
        let is_possible = !plain.contains(['/', '\0']) && plain.len() <= MAX_NAME;
        let is_known = self.files.iter().any(|(known, _)| known == name);
        if is_possible && !is_known && !matches!(plain, "" | "." | ".." | "t-0") {
            self.files.push((name.to_owned(), bytes));
        }
    }

    /// Writes it as an input.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.settings.to_vec();
        for (name, bytes) in &self.files {
            let len = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
            out.push(name.len() as u8);
            out.extend_from_slice(name.as_bytes());
            out.extend(len.to_le_bytes());
            out.extend_from_slice(&bytes[..usize::from(len)]);
        }
        out
    }

    /// The files of the partition itself.
    pub fn partition(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let own = self.files.iter().filter(|(name, _)| !name.starts_with('^'));
        own.map(|(name, bytes)| (name.as_str(), bytes.as_slice()))
    }
}
