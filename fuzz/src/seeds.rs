//! The corpora in `fuzz/corpus/`, made from the test data.
//!
//! Seeds are small: the first entries of segments, the front of indexes, whole small files, partition directories cut to a
//! few kilobytes. Of each kind only some are taken, chosen by a hash, so that the choice is the same everywhere.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use topicfs::format::batch::{Batch, Codec, Decoder, Limits};

use crate::archive::Archive;
use crate::oracle;

/// Seeds of one target at most.
const MOST: usize = 150;
/// The longest seed of a format.
const MAX_LEN: usize = 2048;
/// Bytes of each log in a seed of the directory target.
const MAX_LOG: usize = 1500;
/// Bytes of such a seed.
const MAX_DIRECTORY: usize = 8192;
/// What is read of a file of the test data.
const MAX_FILE: u64 = 1 << 20;

/// Seeds by target, and in each by the hash of their bytes.
pub type Corpora = BTreeMap<&'static str, BTreeMap<u32, Vec<u8>>>;

/// Writes the seeds of all targets to `fuzz/corpus/`.
pub fn make() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (target, seeds) in all() {
        let directory = root.join("corpus").join(target);
        fs::create_dir_all(&directory).expect("directory can be made");
        println!("{target}: {} seeds", seeds.len());
        for (hash, seed) in seeds {
            fs::write(directory.join(format!("seed-{hash:08x}")), seed).expect("seed can be written");
        }
    }
}

/// The seeds of all targets.
pub fn all() -> Corpora {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut corpora = Corpora::new();
    let mut directories: BTreeMap<PathBuf, Archive> = BTreeMap::new();
    let mut archives: Vec<_> = entries(&root.join("../tests/data"));
    archives.retain(|path| path.to_string_lossy().ends_with(".tar.zst"));
    for path in archives {
        for (path, bytes) in files(&path) {
            add_file(&mut corpora, &path, &bytes);
            add_to_directory(&mut directories, &path, &bytes);
        }
    }
    for archive in directories.into_values().filter(|archive| !archive.files.is_empty()) {
        add(&mut corpora, "directory", archive.encode(), MAX_DIRECTORY);
    }
    add_texts(&mut corpora, root);
    for seeds in corpora.values_mut() {
        if let Some(first_left_out) = seeds.keys().nth(MOST).copied() {
            seeds.split_off(&first_left_out);
        }
    }
    corpora
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let list = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut paths: Vec<_> = list.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

/// The files in an archive of the test data, but what Kafka said of them; inner archives unpacked too.
fn files(archive: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let open = File::open(archive).expect("archive can be opened");
    let mut archive = tar::Archive::new(zstd::Decoder::new(open).expect("it is zstd"));
    let mut files = Vec::new();
    for entry in archive.entries().expect("it is a tar") {
        let mut entry = entry.expect("an entry");
        let path = entry.path().expect("a path").into_owned();
        if !entry.header().entry_type().is_file() || path.iter().any(|part| part == "expect") {
            continue;
        }
        let mut bytes = Vec::new();
        entry.by_ref().take(MAX_FILE).read_to_end(&mut bytes).expect("it can be read");
        files.push((path, bytes));
    }
    files
}

fn add(corpora: &mut Corpora, target: &'static str, seed: Vec<u8>, most: usize) {
    if seed.len() <= most {
        corpora.entry(target).or_default().insert(oracle::crc32c(&seed), seed);
    }
}

fn add_file(corpora: &mut Corpora, path: &Path, bytes: &[u8]) {
    let name = path.file_name().and_then(|name| name.to_str()).expect("a name in UTF-8");
    let front = |entry: usize| [&[0; 6], &bytes[..bytes.len().min(16 * entry + 5)]].concat();
    for part in path.iter().filter_map(|part| part.to_str()) {
        add(corpora, "disk_names", part.as_bytes().to_vec(), MAX_LEN);
    }
    if path.iter().any(|part| part == "__cluster_metadata-0" || part == "@metadata-0") {
        add_metadata(corpora, bytes);
    }
    match name {
        _ if name.contains(".log") => add_log(corpora, bytes),
        _ if name.contains(".index") => add(corpora, "offset_index", front(8), MAX_LEN),
        _ if name.contains(".timeindex") => add(corpora, "time_index", front(12), MAX_LEN),
        _ if name.contains(".txnindex") => add(corpora, "txn_index", bytes.to_vec(), MAX_LEN),
        _ if name.contains(".snapshot") => add(corpora, "snapshot", bytes.to_vec(), MAX_LEN),
        "leader-epoch-checkpoint" => add(corpora, "leader_epochs", bytes.to_vec(), MAX_LEN),
        _ if name.ends_with("-checkpoint") => add(corpora, "offset_checkpoint", bytes.to_vec(), MAX_LEN),
        _ if name.ends_with(".properties") => add(corpora, "properties", bytes.to_vec(), MAX_LEN),
        "partition.metadata" => {
            add(corpora, "topic_id", bytes.to_vec(), MAX_LEN);
            let id = bytes.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
            add(corpora, "uuid", id.trim_ascii().to_vec(), MAX_LEN);
        }
        _ => {}
    }
}

/// The entries of a log: whole, their compressed payloads, and their control records.
fn add_log(corpora: &mut Corpora, mut log: &[u8]) {
    let mut decoder = Decoder::default();
    for _ in 0..20 {
        let Ok(batch) = Batch::parse(log) else { return };
        log = &log[batch.bytes.len()..];
        let is_new = batch.header.magic == 2;
        let target = if is_new { "batch" } else { "message_set" };
        add(corpora, target, batch.bytes.to_vec(), MAX_LEN);
        let payload = if is_new {
            Some(batch.bytes[61..].to_vec())
        } else {
            oracle::message(batch.bytes).and_then(|message| message.value)
        };
        let frames = match batch.header.codec {
            Codec::None => None,
            Codec::Gzip => Some("gzip"),
            Codec::Snappy => Some("snappy"),
            Codec::Lz4 => Some("lz4"),
            Codec::Zstd => Some("zstd"),
        };
        if let (Some(target), Some(payload)) = (frames, payload) {
            if !is_new
                && let Ok(set) =
                    decoder.decode(batch.header.codec, batch.header.magic, &payload, &Limits::default())
            {
                let wrapping = [batch.bytes[17], batch.header.magic, 4];
                add(corpora, "message_set", [&wrapping, set].concat(), MAX_LEN);
            }
            add(corpora, target, payload, MAX_LEN);
        }
        if batch.header.is_control {
            for record in batch.records(&mut decoder, &Limits::default()).into_iter().flatten().flatten() {
                for part in [record.key, record.value].into_iter().flatten() {
                    add(corpora, "control", part.to_vec(), 64);
                }
            }
        }
    }
}

/// The values of the records in a log or a snapshot of the cluster's metadata; none of other files.
fn add_metadata(corpora: &mut Corpora, mut log: &[u8]) {
    let (mut decoder, limits) = (Decoder::default(), Limits::default());
    while let Ok(batch) = Batch::parse(log) {
        log = &log[batch.bytes.len()..];
        for record in batch.records(&mut decoder, &limits).into_iter().flatten().flatten() {
            add(corpora, "metadata_record", record.value.unwrap_or_default().to_vec(), 128);
        }
    }
}

/// Adds a file to the seed of its partition, cut to what a seed may have, or of the partitions beside it.
fn add_to_directory(directories: &mut BTreeMap<PathBuf, Archive>, path: &Path, bytes: &[u8]) {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return;
    };
    let partition = parent.file_name().and_then(|name| name.to_str()).and_then(|name| name.rsplit_once('-'));
    if partition.is_none_or(|(_, number)| number.parse::<u32>().is_err()) {
        return;
    }
    let archive = directories.entry(parent.to_owned()).or_default();
    let logs = archive.files.iter().filter(|(name, _)| name.contains(".log")).count();
    let bytes = match name {
        _ if name.contains(".log") && logs < 4 => whole_entries(bytes),
        _ if name.contains("index") => bytes[..bytes.len().min(48)].to_vec(),
        _ if name.contains(".snapshot") || !name.starts_with('0') => bytes.to_vec(),
        _ => return,
    };
    archive.settings = [(bytes.len() % 16) as u8, bytes.len() as u8, logs as u8, 0];
    archive.add(name, bytes);
    let is_first_log = logs == 0 && name.ends_with(".log");
    if is_first_log && let Some(base) = name.get(..20).and_then(|digits| digits.parse::<i64>().ok()) {
        archive.add("^log-start-offset-checkpoint", format!("0\n1\nt 0 {}\n", base + 1).into_bytes());
        archive.add("^replication-offset-checkpoint", format!("0\n1\nt 0 {}\n", base + 20).into_bytes());
    }
}

/// Some entries from the start of a log; what follows the last one too, where it is damaged.
fn whole_entries(log: &[u8]) -> Vec<u8> {
    let mut end = 0;
    while let Some(len) = oracle::entry_len(&log[end..]).filter(|len| end + len <= MAX_LOG) {
        end += len;
    }
    let is_damaged = oracle::sound_entry(&log[end..]).is_none();
    let end = if is_damaged || end == 0 { log.len().min(end + 100) } else { end };
    log[..end].to_vec()
}

/// Seeds of the grammars.
fn add_texts(corpora: &mut Corpora, root: &Path) {
    for name in [
        "12",
        "00000000000000000012",
        "12.key",
        "12.txt",
        "12.jsonl",
        "12.tsv",
        "12.json",
        "12.log",
        "last-1",
        "-7.jsonl",
        "100..200",
        "100..",
        "..200",
        "100..+50",
        "100..200.jsonl",
        "100...txt",
        "last-10...tsv",
        "..200.log",
        "last-9..last-3.tsv",
        "9223372036854775807",
    ] {
        add(corpora, "by_offset", name.as_bytes().to_vec(), MAX_LEN);
        for directory in [3, 4] {
            add(corpora, "paths", [&[directory], name.as_bytes()].concat(), MAX_LEN);
        }
    }
    for name in
        ["order-4711", "a%2Fb", "%", "%2Ehidden", "report.json", "100%", "k%~0123456789abcdef", "%2E..jsonl"]
    {
        add(corpora, "by_key", name.as_bytes().to_vec(), MAX_LEN);
        add(corpora, "paths", [&[8], name.as_bytes()].concat(), MAX_LEN);
    }
    for (directory, path) in [
        (0, "t/0/log"),
        (0, "*/*/log.jsonl"),
        (0, "README.txt"),
        (0, "t/0@committed/info.json"),
        (1, "0/tail.tsv"),
        (2, "by-segment/00000000000000000008.jsonl"),
        (2, "problems"),
        (2, "{log,tail}.*"),
        (2, "by-offset/3..6/4"),
        (5, "00000000000000000000"),
        (5, "*.tsv"),
        (6, "00000000000000000000.log"),
        (6, "*.index"),
        (7, "config.yaml"),
    ] {
        add(corpora, "paths", [&[directory], path.as_bytes()].concat(), MAX_LEN);
    }
    for path in entries(&root.join("../mount-configs")) {
        add(corpora, "config_yaml", fs::read(path).expect("it can be read"), 4096);
    }
    let defaults = topicfs::config::Config::default().to_yaml();
    for line in defaults.lines().filter(|line| line.contains(": ")) {
        add(corpora, "config_yaml", format!("{line}\n").into_bytes(), MAX_LEN);
        let word = line.replacen(": ", "=", 1);
        add(corpora, "config_words", format!("\0{word}\nro,defaults").into_bytes(), MAX_LEN);
    }
    add(corpora, "config_yaml", defaults.into_bytes(), 4096);
    for words in [
        "\0isolation=read_committed,tail_records=10",
        "\x01rw,nofail,x-systemd.automount",
        "\x02unknown,allow_other",
        "\0formats_listed=txt:tsv,log_file=a\\,b",
        "\0max_read_rate=50MiB,measure_wait=500ms",
        "\0tail_record=1",
        "\0value=base64,key=hex,timezone=Europe/Berlin",
    ] {
        add(corpora, "config_words", words.as_bytes().to_vec(), MAX_LEN);
    }
    for lines in [
        "\0\x02one\ntwo\n\nthree",
        "\x01\x09{\"topic\":\"t\",\"partition\":0,\"offset\":1,\"timestamp\":1700000000000,\"key\":\"k\",\"value\":\"v\",\"headers\":[[\"h\",\"x\"],[\"h\",null]]}\n",
        "\x01\x20{\"key_json\":[1],\"value_json\":{\"a\": \"\\u00e9\"}}\n{\"value\":{\"base64\":\"AP8=\"},\"key\":{\"hex\":\"00ff\"}}\n",
        "\x02\x05k\tv\n5\t1700000000000\t\\N\ta\\tb\\x41\\101\\\\\n\\N\t\\N\n",
        "\x03\x04with\nnewline\0and without",
        "\x04\x03blob",
    ] {
        add(corpora, "append_lines", lines.as_bytes().to_vec(), MAX_LEN);
    }
    for template in [
        "%t/%p %o %T %K:%k %S:%s%R [%h]%%\\n",
        "%{T:iso}\\t%s\\r\\n",
        "\\x41\\x0ff\\65\\012\\0x43\\\\\\%s",
        "\\xff",
        "%x",
        "100%",
    ] {
        add(corpora, "template", template.as_bytes().to_vec(), MAX_LEN);
        let yaml = format!(
            "formats:\n  own: '{template}'\ntopics:\n  'a*': {{value: hex, formats_listed: [own]}}\n"
        );
        add(corpora, "config_yaml", yaml.into_bytes(), MAX_LEN);
    }
}
