//! `topicfs mount` and `topicfs umount`, and `mount.topicfs` as mount(8) calls it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, anyhow};

use super::COULD_NOT_RUN;
use super::args::{HelperArgs, MountArgs, UmountArgs};
use super::logging::{self, Level, Syslog, To, open_file};
use super::own;
use crate::config::{Caller, Config, MountOptions};
use crate::fs::Fs;
use crate::fs::follow::is_follow;
use crate::fuse::{Adapter, forget, touch};
use crate::mount::MountError;
use crate::mount::background::{self, Process, Reporter};
use crate::mount::checks::{self, Wishes};
use crate::mount::ready;
use crate::mount::session::{self, Mounted, Plan};
use crate::mount::signals::Signals;
use crate::mount::sys::{self, ClosedPipe};
use crate::mount::unmount::{self, How};

/// A mount that has passed the checks.
struct Job {
    /// The SOURCE, with absolute paths: a mount in the background leaves the working directory.
    source: String,
    mountpoint: PathBuf,
    config: Config,
    log: Log,
}

/// Where the messages of a mount go.
struct Log {
    file: Option<std::fs::File>,
    level: Option<Level>,
}

/// `topicfs mount`
///
/// # Errors
/// Whatever keeps the mount from serving.
pub fn run(args: &MountArgs, level: Option<Level>) -> anyhow::Result<ExitCode> {
    let mut config = args.options.load(Caller::Person)?;
    config.mount.append |= args.rw;
    let log = Log { file: log_file(args.log_file.as_deref(), &config)?, level };
    let job = prepare(&args.source, &args.mountpoint, config, log)?;
    if args.foreground { serve(job, Reporter::Foreground) } else { in_background(job) }
}

/// `mount.topicfs`, as mount(8) and mount.fuse(8) call it. It never asks anything.
///
/// # Errors
/// Whatever keeps the mount from serving.
pub fn help_mount(args: &HelperArgs) -> anyhow::Result<ExitCode> {
    let caller = if args.sloppy { Caller::SloppyMountHelper } else { Caller::MountHelper };
    let config = Config::load(None, &args.options, caller)?;
    let log = Log { file: log_file(None, &config)?, level: None };
    let job = prepare(&args.source, &args.mountpoint, config, log)?;
    if args.verbose {
        println!("topicfs: {} on {}", job.source, job.mountpoint.display());
    }
    if args.fake { Ok(ExitCode::SUCCESS) } else { in_background(job) }
}

/// `topicfs umount`
///
/// # Errors
/// When it stays mounted.
pub fn unmount(args: &UmountArgs) -> anyhow::Result<ExitCode> {
    let how = if args.lazy { How::Detach } else { How::IfUnused };
    let mount = unmount::unmount(&args.mountpoint, how, is_follow)?;
    if mount.is_writable && how == How::IfUnused {
        own::wait_until_closed(&mount.source);
    }
    Ok(ExitCode::SUCCESS)
}

/// Opens what a SOURCE names, with the file system over it; mounts and everything without a mount begin here.
///
/// # Errors
/// When there is nothing to show.
pub fn open(source: &str, config: &Config) -> anyhow::Result<Arc<Fs>> {
    let mut options = config.options.clone();
    options.cache_dir = options.cache_dir.or_else(default_cache_dir);
    Ok(Arc::new(Fs::open(source, options, config.to_yaml())?))
}

/// The user's own cache directory; the system's as root.
pub(super) fn default_cache_dir() -> Option<PathBuf> {
    if sys::effective_uid() == 0 {
        return Some(PathBuf::from("/var/cache/topicfs"));
    }
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let parent = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))?;
    Some(parent.join("topicfs"))
}

fn log_file(named: Option<&Path>, config: &Config) -> anyhow::Result<Option<std::fs::File>> {
    named.or(config.mount.log_file.as_deref()).map(open_file).transpose()
}

fn prepare(source: &str, mountpoint: &Path, config: Config, log: Log) -> anyhow::Result<Job> {
    let wishes = Wishes { allow_other: config.mount.allow_other, nonempty: config.mount.nonempty };
    let mountpoint = checks::mountpoint(mountpoint, wishes)?;
    if let Some(dead) = &mountpoint.cleared {
        eprintln!("topicfs: took away the dead mount of {} from {}", dead.source, dead.point.display());
    }
    Ok(Job { source: absolute(source)?, mountpoint: mountpoint.path, config, log })
}

/// A SOURCE with its paths made absolute. A path with a comma in it is a path if it exists.
fn absolute(source: &str) -> anyhow::Result<String> {
    let one = |path: &str| {
        let path = std::path::absolute(path).with_context(|| format!("source {source:?}"))?;
        path.into_os_string().into_string().map_err(|path| anyhow!("source {}: not UTF-8", path.display()))
    };
    if Path::new(source).exists() {
        return one(source);
    }
    let paths: anyhow::Result<Vec<String>> = source.split(',').map(str::trim).map(one).collect();
    Ok(paths?.join(","))
}

/// What a SOURCE names, as far as it is there, without links.
fn places(source: &str) -> Vec<PathBuf> {
    std::iter::once(source)
        .chain(source.split(','))
        .filter_map(|path| Path::new(path).canonicalize().ok())
        .collect()
}

fn in_background(job: Job) -> anyhow::Result<ExitCode> {
    match background::split().context("going to the background")? {
        Process::Parent(waiter) => match waiter.wait() {
            Ok(()) => Ok(ExitCode::SUCCESS),
            Err(text) => Err(anyhow!(text)),
        },
        Process::Child(reporter) => serve(job, reporter),
    }
}

/// Mounts, says so, and serves to the end.
fn serve(job: Job, reporter: Reporter) -> anyhow::Result<ExitCode> {
    sys::on_closed_pipe(ClosedPipe::Fails);
    match start(job, &reporter) {
        Ok((mounted, fs)) => {
            let ended = until_unmounted(mounted, reporter);
            if let Err(error) = fs.stop_writing() {
                tracing::error!(%error, "the logs could not be closed; the next mount recovers them");
                return Ok(ExitCode::from(COULD_NOT_RUN));
            }
            ended
        }
        Err(error) if reporter.failed(&format!("{error:#}")) => Ok(ExitCode::from(COULD_NOT_RUN)),
        Err(error) => Err(error),
    }
}

fn until_unmounted(mounted: Mounted, reporter: Reporter) -> anyhow::Result<ExitCode> {
    if let Err(error) = reporter.serves() {
        // Whoever started it was interrupted: nobody waits for this mount.
        let _ = mounted.unmounter().unmount();
        return Err(error.into());
    }
    ready::notify();
    if let Err(error) = mounted.wait() {
        tracing::error!("{error}");
        return Ok(ExitCode::from(COULD_NOT_RUN));
    }
    tracing::info!("unmounted");
    Ok(ExitCode::SUCCESS)
}

fn start(job: Job, reporter: &Reporter) -> anyhow::Result<(Mounted, Arc<Fs>)> {
    let Job { source, mountpoint, config, log } = job;
    let logs = start_logging(log, reporter)?;
    let signals = Signals::take(|| ())?;
    let owned = if config.mount.append { own::own(&source, &config)? } else { Vec::new() };
    for directory in &owned {
        own::tell_of_cluster(directory);
    }
    let fs = match open(&source, &config) {
        Ok(fs) => fs,
        Err(error) => {
            // A mount of ours holds no partition directories: that it is one is the better explanation.
            checks::apart(&mountpoint, &places(&source))?;
            return Err(error);
        }
    };
    checks::apart(&mountpoint, &fs.source().directories())?;
    if config.mount.append {
        fs.write_to(owned);
    }
    let MountOptions { allow_other, append: is_writable, .. } = config.mount;
    let plan = Plan { path: mountpoint, source_name: source, allow_other, is_writable };
    let mounted = signals.around(|| mount(fs.clone(), &plan))?;
    tracing::info!("{} is mounted on {}", plan.source_name, plan.path.display());
    if !logs {
        eprintln!("topicfs: no syslog here, so messages of the mount are lost; --log-file keeps them");
    }
    Ok((mounted, fs))
}

/// Mounts a file system; whoever watches its growing files is told of growth where that can be had.
///
/// # Errors
/// Those of mounting.
pub(super) fn mount(fs: Arc<Fs>, plan: &Plan) -> Result<Mounted, MountError> {
    let ending = fs.clone();
    let mut mounted = session::mount(Adapter::new(fs.clone()), plan, move || ending.end_follows())?;
    forget::begin(&fs, mounted.notifier());
    if let Some(root) = mounted.take_writable() {
        touch::begin(fs, root);
    }
    Ok(mounted)
}

/// Returns whether there is a place for messages.
fn start_logging(log: Log, reporter: &Reporter) -> anyhow::Result<bool> {
    let to = match (log.file, reporter) {
        (Some(file), _) => Some(To::File(file)),
        (None, Reporter::Foreground) => Some(To::Stderr),
        (None, Reporter::Background(_)) => Syslog::connect().ok().map(To::Syslog),
    };
    logging::catch_panics();
    match to {
        Some(to) => logging::start(to, log.level, Level::Info).map(|()| true),
        None => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_become_absolute_one_by_one() {
        let here = std::env::current_dir().unwrap();
        let here = here.display();
        assert_eq!(absolute("/a, b").unwrap(), format!("/a,{here}/b"));
        let directory = tempfile::tempdir().unwrap();
        let comma = directory.path().join("x,y");
        std::fs::create_dir(&comma).unwrap();
        assert_eq!(absolute(comma.to_str().unwrap()).unwrap(), comma.to_str().unwrap());
        assert!(absolute("").is_err());
    }
}
