//! The real Kafka 4.4: its jars, from Maven into `target/tmp`, and one JVM that does what `tests/brokers/Driver.java` lists.
//!
//! Without `java` and `mvn`, or where Maven can't fetch, tests say why and pass; with `CI=true` they fail instead.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;
use tempfile::TempDir;

use super::mounted::{has, skip};

/// The version that the fixtures of `tests/data` are of.
const VERSION: &str = "4.4.0";

/// A JVM with Kafka in it; ended when dropped.
#[derive(Debug)]
pub struct Kafka {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    scratch: TempDir,
}

impl Kafka {
    /// Starts it; `None` where that can't be done.
    pub fn start() -> Option<Self> {
        let jars = if has("java") && has("mvn") { jars() } else { None }?;
        let scratch = tempfile::tempdir().expect("temporary directory");
        let log = fs::File::create(scratch.path().join("log")).expect("a log can be made");
        let make = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/make/log4j2.xml");
        let mut child = Command::new("java")
            // Started once for a few seconds: no time to optimise.
            .args(["-Xmx768m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8"])
            .arg(format!("-Dlog4j2.configurationFile={}", make.display()))
            .arg("-cp")
            .arg(format!("{}/*", jars.display()))
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/brokers/Driver.java"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("java can be started");
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().expect("its output"));
        Some(Self { child, stdin, stdout, scratch })
    }

    /// Runs one command of the driver; panics when that failed.
    pub fn run(&mut self, words: &[&str]) -> Value {
        let answer = self.try_run(words);
        assert!(answer.get("thrown").is_none(), "{words:?}: {}\n{}", answer["thrown"], self.log());
        answer
    }

    /// The same, where `{"thrown": ..}` is an answer too.
    pub fn try_run(&mut self, words: &[&str]) -> Value {
        let stdin = self.stdin.as_mut().expect("it runs");
        writeln!(stdin, "{}", words.join("\t")).expect("it listens");
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("it answers");
        serde_json::from_str(&line)
            .unwrap_or_else(|error| panic!("{words:?}: {error}: {line}\n{}", self.log()))
    }

    /// What it says when it runs a command that may end it, as a broker that can't start does.
    pub fn last_words(mut self, words: &[&str]) -> String {
        let stdin = self.stdin.as_mut().expect("it runs");
        writeln!(stdin, "{}", words.join("\t")).expect("it listens");
        let mut line = String::new();
        let _ = self.stdout.read_line(&mut line);
        line + &self.log()
    }

    /// Ends it as a crash does.
    pub fn kill(mut self) {
        self.stdin = None;
        self.child.kill().expect("it can be killed");
    }

    fn log(&self) -> String {
        fs::read_to_string(self.scratch.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        // Its input ends, and so does it.
        self.stdin = None;
        if std::thread::panicking() {
            eprintln!("what Kafka said:\n{}", self.log());
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// A broker that is its own controller, with one data directory.
#[derive(Debug)]
pub struct Broker {
    scratch: TempDir,
    /// Where it listens.
    pub boot: String,
}

impl Broker {
    /// Formats its data directory.
    pub fn new(kafka: &mut Kafka) -> Self {
        Self::with(kafka, "")
    }

    /// The same, with more lines for its properties.
    pub fn with(kafka: &mut Kafka, more: &str) -> Self {
        let scratch = tempfile::tempdir().expect("temporary directory");
        let [controller, port] = free_ports();
        let broker = Self { scratch, boot: format!("127.0.0.1:{port}") };
        let listener = format!("PLAINTEXT://127.0.0.1:{port}");
        let properties = format!(
            "process.roles=broker,controller\nnode.id=1\nlisteners={listener},CONTROLLER://127.0.0.1:{controller}\n\
             advertised.listeners={listener}\ncontroller.listener.names=CONTROLLER\n\
             controller.quorum.voters=1@127.0.0.1:{controller}\nlog.dirs={}\nauto.create.topics.enable=false\n\
             log.cleaner.dedupe.buffer.size=4194304\n{more}",
            broker.data().display()
        );
        fs::write(broker.properties(), properties).expect("a file can be written");
        let properties = broker.properties();
        let formatted = kafka.run(&["format", &properties.to_string_lossy(), "topicfsTopicfsTopicfsQ"]);
        assert_eq!(formatted["code"], 0, "{formatted}");
        broker
    }

    /// Its data directory.
    pub fn data(&self) -> PathBuf {
        self.scratch.path().join("data")
    }

    /// Its own file.
    pub fn properties(&self) -> PathBuf {
        self.scratch.path().join("server.properties")
    }

    pub fn start(&self, kafka: &mut Kafka) {
        kafka.run(&["start", "1", &self.properties().to_string_lossy()]);
    }

    pub fn stop(&self, kafka: &mut Kafka) {
        kafka.run(&["stop", "1"]);
    }
}

/// A directory with Kafka's jars, fetched once: Maven keeps what it fetches in one place, and two of it at a time spoil that.
fn jars() -> Option<PathBuf> {
    static JARS: OnceLock<Option<PathBuf>> = OnceLock::new();
    JARS.get_or_init(fetched_jars).clone()
}

fn fetched_jars() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let jars = target.join(format!("kafka-{VERSION}"));
    if jars.is_dir() {
        return Some(jars);
    }
    let part = tempfile::tempdir_in(target).expect("temporary directory");
    let output = Command::new("mvn")
        .args(["-B", "-q", "dependency:copy-dependencies"])
        .arg(format!("-Dkv={VERSION}"))
        .arg(format!("-DoutputDirectory={}", part.path().display()))
        .arg("-f")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/make/pom.xml"))
        .output()
        .expect("mvn can be started");
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stdout);
        skip(&format!("Kafka {VERSION} can't be fetched: {}", text.lines().next().unwrap_or_default()));
        return None;
    }
    // Another test may have been faster.
    match fs::rename(part.path(), &jars) {
        Ok(()) => drop(part.keep()),
        Err(error) => assert!(jars.is_dir(), "{}: {error}", jars.display()),
    }
    Some(jars)
}

/// Ports of the loopback that nobody uses.
pub fn free_ports<const N: usize>() -> [u16; N] {
    let listeners = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port"));
    listeners.map(|listener| listener.local_addr().expect("its address").port())
}

/// Kafka loads a copy of a partition after an orderly stop, and after another: nothing is cut, all is served.
pub fn is_taken(
    kafka: &mut Kafka,
    partition: &Path,
    start: i64,
    end: i64,
    interval: u64,
) -> Result<(), String> {
    let load = |kafka: &mut Kafka, clean: &str| {
        let scratch = super::salvaged::scratch();
        let copy = scratch.path().join(partition.file_name().expect("a name"));
        super::fixtures::copy_into(partition, &copy);
        kafka.try_run(&[
            "load",
            copy.to_str().expect("UTF-8"),
            &start.to_string(),
            clean,
            &interval.to_string(),
        ])
    };
    let (clean, unclean) = (load(kafka, "true"), load(kafka, "false"));
    let segments = super::recovering::logs(partition).into_iter();
    let base_of = |name: &str| name[..20].parse::<i64>().expect("a base offset");
    let segments = segments.map(|(name, bytes)| serde_json::json!([base_of(&name), bytes.len()]));
    let segments = Value::Array(segments.collect());
    let is_read = |answer: &Value| answer.get("thrown").is_none();
    match is_read(&clean) && is_read(&unclean) {
        true if clean != unclean => Err(format!("clean {clean}, unclean {unclean}")),
        true if clean["segments"] != segments => Err(format!("{}, not {segments}", clean["segments"])),
        true if clean["logEnd"] != end => Err(format!("end {}, not {end}", clean["logEnd"])),
        true => Ok(()),
        false => Err(format!("clean {clean}, unclean {unclean}")),
    }
}

/// What kafka-dump-log says of all files of a partition.
pub fn dump(kafka: &mut Kafka, partition: &Path) -> String {
    let kinds = [".log", "index", ".snapshot"];
    let files = super::salvaged::files(partition)
        .into_iter()
        .filter(|(name, _)| kinds.iter().any(|kind| name.ends_with(kind)));
    let files: Vec<_> = files.map(|(_, path)| path.to_str().expect("as asked for").to_owned()).collect();
    kafka.run(&["dump", &files.join(",")])["text"].as_str().expect("as asked for").to_owned()
}

/// The lines in which kafka-dump-log complains. 4.4 says "Non-consecutive offsets" also of gaps that are real, as those of
/// compaction and of what was lost, and of logs that don't begin at 0.
pub fn faults(dump: &str) -> Vec<&str> {
    let words = ["Mismatch", "mismatch", "out of order", "thrown", "orrupt", "rror", "isvalid: false"];
    dump.lines().filter(|line| words.iter().any(|word| line.contains(word))).collect()
}
